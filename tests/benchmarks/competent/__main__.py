"""The links of this folder by the script of a competent user and by `al.evolve`, in one run: values, errors, seconds.

    python -m tests.benchmarks.competent [--page]

prints two tables; `--page` keeps them in table.md, and writes the page of the site about speed with them. Each side of
each link runs in a process of its own with one thread, and with empty caches: what it takes first of all (derivation,
compilation) and what it takes again in the same process are told apart. Seconds are of the processor, those of
derivations, which have processes of their own, of a clock.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import attnlimits as al

from ..ratios import PAGE, machine, page
from .links import CASES, Case

TABLE = Path(__file__).with_name("table.md")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
# Error at which finer resolutions of a script show nothing.
_ENOUGH = 1e-12
Record = dict[str, Any]


def ours(case: Case) -> Record:
    """What `al.evolve` finds, for the first time and again."""
    begin = time.perf_counter()  # links are derived in another process
    link = al.Link(case.text, noise=case.noise)
    assert link.kernel is not None and (not case.noise or link.noiseless is not None)
    seconds = [time.perf_counter() - begin]
    for _ in range(2):
        begin = time.process_time()
        found = al.evolve(link, case.alpha, workers=1)
        seconds.append(time.process_time() - begin)
    return {
        "overlap": found.overlap.tolist(),
        "error": found.overlap_error.tolist(),
        "converged": bool(found.converged),
        "derived": seconds[0],
        "first": seconds[1],
        "again": seconds[2],
    }


def script(case: Case) -> Record:
    """What the script finds at each of its resolutions, and what it compiles first."""
    first = case.script.solve(case.alpha, 1)[2]
    levels = []
    for level in range(1, len(case.script.nodes)):
        overlap, error, seconds = case.script.solve(case.alpha, level)
        levels.append({"overlap": overlap.tolist(), "error": error.tolist(), "seconds": seconds})
        if error.max() < _ENOUGH:
            break
    return {"levels": levels, "compiled": max(first - levels[0]["seconds"], 0.0)}


def measured(side: str, number: int) -> Record:
    """One side of a link in a process of its own, with empty caches and one thread."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {"ATTNLIMITS_CACHE": f"{folder}/own", "NUMBA_CACHE_DIR": f"{folder}/numba"}
        environment = os.environ | caches | dict.fromkeys(_THREADS, "1")
        command = [sys.executable, "-m", __spec__.parent, f"--{side}", str(number)]
        done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout))


def shown(case: Case) -> str:
    """Name of a case in a page."""
    link, _, rest = case.name.partition(" at ")
    return f"`{link}` at {rest}"


def values(case: Case, own: Record, levels: list[Record]) -> list[list[str]]:
    """Rows of the table of overlaps: the entries that differ from each other."""
    finest = levels[-1]
    matrix = np.array(finest["overlap"])
    rows, seen = [], set[float]()
    for i, j in zip(*np.triu_indices(len(matrix)), strict=True):
        mine, yours = own["overlap"][i][j], matrix[i, j]
        if round(yours, 12) in seen or (i != j and yours == mine == 0):
            continue
        seen |= {round(yours, 12), 0.0}
        errors = own["error"][i][j], finest["error"][i][j]
        state = "" if own["converged"] else ", not converged"
        rows.append(
            [
                shown(case) if not rows else "",
                f"q_{i + 1}{j + 1}",
                f"{yours:.12f} +- {errors[1]:.1e}",
                f"{mine:.12f} +- {errors[0]:.1e}{state}",
                f"{abs(mine - yours):.1e}",
            ]
        )
    return rows


def times(case: Case, own: Record, found: Record) -> list[str]:
    """Row of the table of seconds."""
    levels, error = found["levels"], float(np.max(own["error"]))
    reached = [one for one in levels if np.max(one["error"]) <= error]
    same = reached[0] if reached else levels[-1]
    ratio = same["seconds"] / own["again"]
    return [
        shown(case),
        f"{error:.1e}",
        f"{own['again']:.2f}",
        f"{np.max(same['error']):.1e}",
        f"{same['seconds']:.2f}",
        "-" if not own["converged"] else f"{'' if reached else '> '}{ratio:.2g}",
        f"{own['derived']:.1f} + {max(own['first'] - own['again'], 0.0):.1f}",
        f"{found['compiled']:.1f}",
    ]


def table(head: list[str], rows: list[list[str]]) -> str:
    """Rows as they are in a page."""
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, ["---"] * len(head), *rows])


def tables() -> str:
    """Both tables, of a run now."""
    overlaps, seconds = [], []
    for number, case in enumerate(CASES):
        own, found = measured("ours", number), measured("script", number)
        overlaps += values(case, own, found["levels"])
        seconds.append(times(case, own, found))
        print(f"{number + 1} of {len(CASES)}: {' | '.join(seconds[-1])}", file=sys.stderr, flush=True)
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "numba"))
    return (
        table(["link at alpha", "entry", "script", "attnlimits", "difference"], overlaps)
        + "\n"
        + table(
            [
                *("link at alpha", "our error", "our seconds", "script's error", "script's seconds"),
                *("script / ours", "ours first: derivation + compilation", "script first: compilation"),
            ],
            seconds,
        )
        + f"\nOne core of {machine()}, load {os.getloadavg()[0]:.1f}; {versions}.\n"
    )


def main() -> None:
    """Print the tables, or one record for the process that asks for it."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.competent")
    parser.add_argument("--page", action="store_true", help="keep the tables, and write the page of the site with them")
    parser.add_argument("--ours", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--script", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    for side, number in ((ours, asked.ours), (script, asked.script)):
        if number is not None:
            print(json.dumps(side(CASES[number])))
            return
    text = tables()
    print(text)
    if asked.page:
        TABLE.write_text(text, encoding="utf-8")
        PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
