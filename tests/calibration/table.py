"""Run every route on all its cases and write their table: `python tests/calibration/table.py [WORD ..]`.

With words, only the routes whose names contain one of them; the other lines stay as they are. The page is written after
each route, so an interrupted run keeps what it has.
"""

import importlib
import sys
import time
from pathlib import Path

from harness import Route, calibrate

PAGE = Path(__file__).resolve().parents[2] / "papers" / "calibration.md"
HEAD = """# Calibration: are the stated errors true?

Each line is one route: a verb and a method behind it. Its stated errors are compared with a finer or independent
computation, on seeded cases over the whole range, its corners and the neighbourhood of its transitions. *Inside* and
*within 3* are the shares of cases whose difference is at most one and three stated errors (plus the error of the
truth); the worst ratio is the largest difference over error. *Flagged* cases are those that the code itself marks as
not converged, or refuses; they are counted apart. Required: rigorous, all inside; estimated, 95 % inside and none above
2; monte-carlo, 99 % within 3 and an rms of difference over error between 0.7 and 1.3 (from 0.5 on where what the last
step may miss is added to the noise).

Written by `python tests/calibration/table.py`; `make test-all` asserts the bounds, `make test` on a sample of the
cases.

| route | how | cases | inside the error | within 3 | worst ratio | rms z | flagged | against |
|---|---|---|---|---|---|---|---|---|
"""


def routes() -> list[Route]:
    """Routes of all families, in the order of the files."""
    found = []
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        found += getattr(importlib.import_module(path.stem), "ROUTES", ())
    return found


def rows() -> dict[str, str]:
    """Lines of the page by the name of their route."""
    if not PAGE.is_file():
        return {}
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return {line.split(" | ")[0].removeprefix("| "): line for line in lines[1:]}


def write(everything: list[Route], known: dict[str, str]) -> None:
    """Write the page: a line for each route, empty where it has not been run."""
    lines = [known.get(one.name, f"| {one.name} | {one.how} |" + " |" * 6 + f" {one.against} |") for one in everything]
    PAGE.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")


def main(words: list[str]) -> int:
    """Run the routes asked for; the exit status is 1 if one misses its bounds."""
    known, missed = rows(), 0
    everything = routes()
    for route in everything:
        if words and not any(word in route.name for word in words):
            continue
        begin = time.process_time()
        outcome = calibrate(route)
        known[route.name] = outcome.row()
        print(f"{known[route.name]}  ({time.process_time() - begin:.0f} s)", flush=True)
        for sentence in outcome.shortfalls(whole=True):
            missed += 1
            print(f"  MISSED: {sentence}", flush=True)
        write(everything, {**rows(), route.name: known[route.name]})
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
