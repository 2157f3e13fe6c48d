"""Ratios of what was measured to its peer or floor: kept as JSON, compared with those that were committed.

    python tests/benchmarks/ratios.py

writes the page of the site about speed from the committed ones.

Seconds say as much of the machine as of the program; a ratio of two that took turns says less of it, but vectors of
another length move it by a factor of two. So `ratios.json` has a record for each kind of processor that was at hand.
What is 1.5 times worse than in the record of this processor fails; on one that has none, than in the most lenient
record. `make bench-short` writes the records with its own in the place of this processor's to build/ratios.json; copy
that here when a ratio has changed for a reason.
"""

import json
import os
import platform
import resource
import subprocess
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np

__all__ = [
    "COMMITTED",
    "PAGE",
    "WORSE",
    "Ratios",
    "lenient",
    "machine",
    "page",
    "processor_seconds",
    "seconds_of_commands",
]

COMMITTED = Path(__file__).with_name("ratios.json")
WRITTEN = Path(__file__).parents[2] / "build" / "ratios.json"
PAGE = Path(__file__).parents[2] / "docs" / "results" / "speed.md"
COMPETENT = Path(__file__).parent / "competent" / "table.md"
WORSE = 1.5
Ratio = dict[str, Any]
Record = dict[str, Any]
_LIBRARIES = ("numpy", "scipy", "numba", "mpmath", "python-flint")
_HEAD = """# Speed

How fast are the kernels and the verbs? Seconds say as much of the machine as of the program. Here is the processor time
of each task over that of its peer or its floor, measured in turns in one run: a plain compiled trapezoid for the
denoiser, exponentials for what is made of exponentials, products of matrices for an iteration of message passing, the
start of Python and of the libraries for a command.

"""
_TAIL = """
Measured on:

{machines}
- `make bench-short` measures these ratios (half a minute), and fails where one of them is {worse:g} times worse than
  here, on a processor that is not here than the most lenient of these; it is part of what every change must pass. It
  writes what it found to build/ratios.json: when a ratio has changed for a reason, copy that file to
  tests/benchmarks/ratios.json and write this page again: `python tests/benchmarks/ratios.py`.
- `make bench` measures longer ones, too, of which none is committed, with tables of accuracy against time.

The longest of the curves: 48 alphas of three layers from 0.05 to 1.6, to 0.01 (panel (a) of
[Figure 3](../../papers/troiani2025/README.md)), take 110 s on two cores that do nothing else, 196 s of
processor time: less than a tenth for the 29 points up to 0.973, of which the last layer alone is learned at most, and
three quarters for the eleven with both hidden layers, up to 26 s each.

## Links, beside the script of a competent user

What does a physicist get who writes a script for one link? Each script of tests/benchmarks/competent has 25 to 50
lines of NumPy (that for two tokens 120): the symmetries of its link, the fibre of its output by hand, trapezoidal rules
whose sums are matrix products, orthant probabilities or Bessel functions, and plain iteration with extrapolation. Its
error is the difference of two resolutions; iteration may leave 1e-12 more. Beside it is
`al.evolve(al.Link(..), alpha)` with its defaults and its own error. The scripts share nothing with the package: they
are also the second route of its tests.

{competent}
- Seconds of the processor in a process of its own with one thread. Ours are those of a second call, with kernels
  compiled; the script's are of both resolutions, at its coarsest pair with an error of at most ours, the second time.
  What a new process with empty caches needs before is in the last two columns.
- script / ours above 1: ours is faster for the same error; below 1: the script is. "> ": the script's finest pair does
  not reach our error. No ratio where ours is not converged.
- Ours is slower for `h[1]**2+h[2]**2`, which is a Bessel function to the script, for `h[1]+h[2]*h[3]`, where the
  script integrates out a Gaussian index in closed form, and for the noisy product, where it knows the axes in which h
  and omega factorise; it is as fast or faster for the others.
- What `al.evolve` finds beside the overlap (errors of prediction, growth of what is not learned, its own error) is in
  our seconds, a third of them for the signs.
- All differences are within both errors.
- Nobody's time to write a script is counted, and a script serves one link.
- `h[1,1]*h[1,2]` at alpha = 1 is at the threshold of perfect recovery. An iteration takes
  V = 1 - q to V - V^2 (log(1/V)/8 + 0.42502 + ..) near recovery, and to less than V at every V in (0, 1): q = 1 is the
  only stable fixed point, which iteration approaches as slowly as 1 - q = 1/(n (log(n)/8 + 0.425 + ..)) after n steps.
- `make bench-links` (`python -m tests.benchmarks.competent --page`) takes the numbers again and writes this page.
"""


class Ratios:
    """What this run has measured, beside what was committed."""

    def __init__(self, committed: Path = COMMITTED) -> None:
        self.records: list[Record] = (
            json.loads(committed.read_text(encoding="utf-8"))["records"] if committed.exists() else []
        )
        own = next((one for one in self.records if one["machine"] == machine()), None)
        self.beside = machine() if own else "the most lenient of " + "; ".join(one["machine"] for one in self.records)
        self.kept: dict[str, Ratio] = own["ratios"] if own else lenient([one["ratios"] for one in self.records])
        self.found: dict[str, Ratio] = {}

    def __call__(self, name: str, value: float, *, better: Literal["more", "less"]) -> None:
        """Take a ratio; fail where it is much worse than the committed one of that name."""
        self.found[name] = {"value": float(f"{value:.4g}"), "better": better}
        worse = self.worse(name)
        assert worse is None or worse <= WORSE, (
            f"{name}: {value:.3g}, {worse:.2f} times worse than the {self.kept[name]['value']:.3g} of {COMMITTED.name}"
        )

    def worse(self, name: str) -> float | None:
        """By what factor a ratio is worse than the committed one, None where there is none."""
        if name not in self.kept:
            return None
        change = self.found[name]["value"] / self.kept[name]["value"]
        return change if self.found[name]["better"] == "less" else 1 / change

    def lines(self) -> list[str]:
        """Table of what was measured."""
        width = max(map(len, self.found))
        lines = [f"{'ratio'.ljust(width)}  {'here':>9}  {'committed':>9}  {'times worse':>11}   ({self.beside})"]
        for name, ratio in self.found.items():
            worse, kept = self.worse(name), self.kept.get(name, {}).get("value")
            beside = "        -            -" if worse is None else f"{kept:9.4g}  {worse:11.2f}"
            flag = "  WORSE" if worse is not None and worse > WORSE else ""
            lines.append(f"{name.ljust(width)}  {ratio['value']:9.4g}  {beside}{flag}")
        return lines

    def write(self, path: Path = WRITTEN) -> None:
        """Write the records, with what was measured in the place of this machine's, beside what it had of the rest."""
        path.parent.mkdir(exist_ok=True)
        others = [one for one in self.records if one["machine"] != machine()]
        own = {} if len(others) == len(self.records) else self.kept
        record = {
            "machine": machine(),
            "load": round(os.getloadavg()[0], 1),
            "versions": {"python": platform.python_version()} | {name: version(name) for name in _LIBRARIES},
            "ratios": dict(sorted((own | self.found).items())),
        }
        records = sorted([*others, record], key=lambda one: str(one["machine"]))
        path.write_text(json.dumps({"records": records}, indent=1) + "\n", encoding="utf-8")


def lenient(records: Sequence[dict[str, Ratio]]) -> dict[str, Ratio]:
    """The worst of each ratio in these records."""
    found: dict[str, Ratio] = {}
    for record in records:
        for name, one in record.items():
            worst = max if one["better"] == "less" else min
            value = worst(one["value"], found.get(name, one)["value"])
            found[name] = {"value": value, "better": one["better"]}
    return found


def machine() -> str:
    """Kind of the processor, and how many cores there are."""
    return f"{_processor()}, {os.cpu_count()} cores"


def _processor() -> str:
    """Name of the processor, with its family and model: virtual machines leave these out of the name."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
    if "model name" not in fields:
        return platform.machine()
    return f"{fields['model name']} (family {fields.get('cpu family')}, model {fields.get('model')})"


def processor_seconds(calls: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Least processor seconds of each call, which take turns; the first round is for what is loaded only once."""
    best = [np.inf] * len(calls)
    for turn in range(rounds + 1):
        for k, call in enumerate(calls):
            start = time.process_time()
            call()
            spent = time.process_time() - start
            best[k] = min(best[k], spent) if turn else best[k]
    return best


def seconds_of_commands(commands: Sequence[Sequence[str]], rounds: int) -> list[float]:
    """`processor_seconds` of processes."""
    best = [np.inf] * len(commands)
    # Of a checkout that was never run, as Python's compiled sources would be of an installation.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for turn in range(rounds + 1):
        for k, command in enumerate(commands):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            best[k] = min(best[k], spent) if turn else best[k]
    return best


def page() -> str:
    """Text of the page of the site about the committed ratios."""
    records = json.loads(COMMITTED.read_text(encoding="utf-8"))["records"]
    columns = [f"({number})" for number in range(1, len(records) + 1)] if len(records) > 1 else ["ratio"]
    rows = [["task", *columns, "better"], ["---"] * (len(columns) + 2)]
    for name, one in lenient([record["ratios"] for record in records]).items():
        values = [record["ratios"].get(name) for record in records]
        rows.append([name.removeprefix("short: "), *(f"{v['value']:.4g}" if v else "" for v in values), one["better"]])
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    machines = "".join(
        f"{number}. {record['machine']}, load {record['load']:g}; "
        f"{', '.join(f'{name} {which}' for name, which in record['versions'].items())}.\n"
        for number, record in enumerate(records, 1)
    )
    return _HEAD + table + _TAIL.format(machines=machines, worse=WORSE, competent=COMPETENT.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
