"""Write the page of the site about speed from the ratios that are committed: `python tests/benchmarks/page.py`."""

import json
from pathlib import Path

__all__ = ["PAGE", "page"]

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "results" / "speed.md"
HEAD = """# Speed

How fast are the kernels and the verbs? Seconds say as much of the machine as of the program. Here is the processor time
of each task over that of its peer or its floor, measured in turns in one run: a plain compiled trapezoid for the
denoiser, exponentials for what is made of exponentials, products of matrices for an iteration of message passing, the
start of Python and of the libraries for a command.

| task | ratio | better |
| --- | --- | --- |
"""
TAIL = """
Measured on: {machine}, load {load:g}; {versions}.

- `make bench-short` measures the ratios whose names begin with "short" (half a minute), and fails where one of them is
  {worse:g} times worse than here; it is part of what every change must pass.
- `make bench` measures all of them, with tables of accuracy against time, and writes them to build/ratios.json beside
  the committed ones. When a ratio has changed for a reason, copy that file to tests/benchmarks/ratios.json and write
  this page again: `python tests/benchmarks/page.py`.
"""


def page(worse: float) -> str:
    """Text of the page; `worse` is the factor at which a ratio fails."""
    record = json.loads((HERE / "ratios.json").read_text(encoding="utf-8"))
    rows = "".join(f"| {name} | {one['value']:.4g} | {one['better']} |\n" for name, one in record["ratios"].items())
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    return HEAD + rows + TAIL.format(**{**record, "versions": versions}, worse=worse)


if __name__ == "__main__":
    from ratios import WORSE

    PAGE.write_text(page(WORSE), encoding="utf-8")
