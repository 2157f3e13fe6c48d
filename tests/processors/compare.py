"""Fits and commands on emulated processors: the same decisions, and numbers within the errors that they state.

python tests/processors/compare.py [WORD ..]      runs the cases whose names contain one of the words, by default all
python tests/processors/compare.py --record NAME  prints a line of JSON for each case of `fits` or `calls`, as this
                                                  processor computes it

A table has lines for each case that differs, and the seconds of each processor; the exit status is 1 if any differs.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

from emulated import PROCESSORS, emulation, lacking

__all__ = ["differences", "main"]

_HERE = Path(__file__).resolve().parent
_MODULES = ("calls", "fits")
#: Processors that are compared.
COMPARED = ("prescott", "sandybridge", "haswell", "skylake-avx512", "zen")
Record = dict[str, Any]


def record(module: str, words: Sequence[str]) -> Iterator[Record]:
    """Run the cases of a module, each with its name and the seconds of processor time that it took."""
    source = importlib.import_module(module)
    for name in source.cases():
        if not words or any(word in name for word in words):
            began = time.process_time()
            found = source.run(name)
            yield {"name": name, **found, "seconds": round(time.process_time() - began, 2)}


def differences(first: Record, second: Record) -> list[str]:
    """Sentences on what two records of one case do not have in common: empty where they agree.

    Parameters
    ----------
    first, second : dict
        With a `decision`, and `numbers`: pairs of a value and its error by their names.
    """
    if first["decision"] != second["decision"]:
        ours, theirs = (one["decision"].split("; ") for one in (first, second))
        apart = [f"{a!r} and {b!r}" for a, b in zip(ours, theirs, strict=False) if a != b]
        return ["decisions: " + ("; ".join(apart) or f"{len(ours)} and {len(theirs)} of them")]
    if set(first["numbers"]) != set(second["numbers"]):
        return [f"numbers: {sorted(set(first['numbers']) ^ set(second['numbers']))} of one alone"]
    return [
        f"{name}: {a[0]} +- {a[1]} and {b[0]} +- {b[1]}"
        for name, a in first["numbers"].items()
        if not _within(a, b := second["numbers"][name])
    ]


def _within(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether two values are equal, or no further apart than both errors."""
    if str(first[0]) == str(second[0]):
        return True
    try:
        values = [Fraction(str(one[0])) for one in (first, second)]
        errors = [Fraction(str(one[1])) for one in (first, second)]
    except ValueError:  # infinite, or none
        return False
    return abs(values[0] - values[1]) <= sum(errors)


def computed(processor: str, module: str, words: Sequence[str]) -> list[Record]:
    """Records of a module on one processor, in a process of its own, on one thread."""
    variables = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    environment = {**os.environ, **variables, **emulation(PROCESSORS[processor], os.environ)}
    command = [sys.executable, str(_HERE / "compare.py"), "--record", module, *words]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def compare(words: Sequence[str], modules: Sequence[str], jobs: int) -> int:
    """Run what is asked for, print the table, and return how many cases differ."""
    able = [name for name in COMPARED if not lacking(PROCESSORS[name])]
    for name in COMPARED:
        if name not in able:
            print(lacking(PROCESSORS[name]))
    with ThreadPoolExecutor(jobs) as pool:
        tasks = {(one, name): pool.submit(computed, name, one, words) for one in modules for name in able}
        found = {key: task.result() for key, task in tasks.items()}
    wrong = 0
    for module in modules:
        seconds = {name: sum(one["seconds"] for one in found[module, name]) for name in able}
        count = len(found[module, able[0]])
        print(f"\n{module}: {count} cases, processor seconds " + ", ".join(f"{k} {v:.0f}" for k, v in seconds.items()))
        for records in zip(*(found[module, name] for name in able), strict=True):
            said = [
                f"    {able[i]} and {able[j]}: {sentence}"
                for i in range(len(able))
                for j in range(i)
                for sentence in differences(records[j], records[i])
            ]
            wrong += bool(said)
            if said:
                print("\n".join([f"  differs  {records[0]['name']}", *said]))
        print(f"  {count} cases on {len(able)} processors")
    print(f"\n{wrong} differ" if wrong else "\nall decisions are equal, all numbers within their errors")
    return wrong


def main(arguments: Sequence[str]) -> int:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("words", nargs="*", help="parts of the names of cases")
    parser.add_argument("--record", choices=_MODULES, help="print what this processor computes")
    parser.add_argument("--only", choices=_MODULES, help="compare the cases of one module")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processors at a time")
    asked = parser.parse_args(arguments)
    if asked.record:
        for one in record(asked.record, asked.words):
            print(json.dumps(one), flush=True)
        return 0
    return int(compare(asked.words, [asked.only] if asked.only else _MODULES, asked.jobs) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
