"""The table of learning: successes, errors and CPU seconds of sculpting and of `auto`, beside those of a prototype.

table.json beside this file holds the rows, to which `python -m attnlimits.papers.chen2024.figures.table` adds those it
lacks (some ten minutes for all on one core); `markdown` makes of them the table on the paper's page.

Every run draws a teacher, N examples and 5000 clean ones to test on from one seed. It succeeds if the mean squared
error on these is below 1e-8 of the outputs' square and every Theta_i and W_i is right to one per cent; with noise, if
they are below 0.05 of the noise's square and five per cent.
"""

import statistics
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from attnlimits.numerics.core.results import load, save
from attnlimits.numerics.multihead.errors import LearnError
from attnlimits.numerics.multihead.layer import multihead, nmse
from attnlimits.numerics.multihead.learn import learn_multihead
from attnlimits.numerics.multihead.matching import parameter_error
from attnlimits.numerics.multihead.sculpt import SculptResult, sculpt
from attnlimits.numerics.multihead.teachers import make_examples, make_teacher

from ...figures import Progress, Record, Steps, recompute, table

__all__ = ["DATA", "METHODS", "ROWS", "Cell", "Row", "compute", "markdown", "run"]

DATA = Path(__file__).with_suffix(".json")
METHODS = ("sculpt", "auto")
_FIRST_SEED, _TEST = 1000, 5000


@dataclass(frozen=True)
class Cell:
    """Successes out of runs, median error on test examples and median seconds; None where not published."""

    successes: int
    runs: int
    error: float | None
    seconds: float | None


@dataclass(frozen=True)
class Row:
    """A teacher, the number of examples, and what the prototype made of them.

    Attributes
    ----------
    family : str
    heads, tokens, dim : int
    scale, noise : float
        Of the logits, and of the noise relative to the outputs.
    samples : int
    sculpt, restarts : Cell or None
        The prototype's sculpting, and its Levenberg-Marquardt from up to eight random starts.
    """

    family: str
    heads: int
    tokens: int
    dim: int
    scale: float
    noise: float
    samples: int
    sculpt: Cell
    restarts: Cell | None

    @property
    def name(self) -> str:
        """Key of the stored row."""
        noise = f", noise {self.noise:g}" if self.noise else ""
        return f"{self.family} {self.heads},{self.tokens},{self.dim},{self.scale:g}{noise}, N = {self.samples}"


def _cell(row: Mapping[str, str], method: str) -> Cell | None:
    """What the prototype made of a row, None where it did not run."""
    successes, runs, error, seconds = (row[f"{method}_{name}"] for name in ("successes", "runs", "error", "seconds"))
    return Cell(int(successes), int(runs), float(error) if error else None, float(seconds)) if runs else None


def _row(row: Mapping[str, str]) -> Row:
    heads, tokens, dimension = (int(row[name]) for name in ("heads", "tokens", "dim"))
    sculpted = _cell(row, "sculpt")
    assert sculpted is not None
    scale, noise, samples = float(row["scale"]), float(row["noise"]), int(row["samples"])
    restarts = _cell(row, "restarts")
    return Row(row["family"], heads, tokens, dimension, scale, noise, samples, sculpted, restarts)


#: The rows, with the figures published for the prototype (medians; one thread): prototype.csv beside this file.
ROWS = tuple(map(_row, table(DATA.with_name("prototype.csv"))))


def run(row: Row, method: str, seed: int) -> Record:
    """Learn one instance of a row.

    Parameters
    ----------
    row : Row
    method : {"sculpt", "auto"}
        Both are told the noise.
    seed : int

    Returns
    -------
    dict
        `success`, CPU `seconds`, and where a layer was learned `error` on clean examples and `parameter_error`; of
        "sculpt" also `crude` and `sum`, relative errors of S before and after step 2, `net`, the error of the candidate
        that won before its descent, and `attempts`, how many descents there were.
    """
    generator = np.random.default_rng(seed)
    theta, w = make_teacher(row.family, row.heads, row.dim, scale=row.scale, rng=generator)
    made = make_examples(theta, w, samples=row.samples, tokens=row.tokens, noise=row.noise, rng=generator)
    test = make_examples(theta, w, samples=_TEST, tokens=row.tokens, rng=generator)
    begin = time.process_time()
    try:
        found = (
            sculpt(made.X, made.Y, row.heads, noise_std=made.noise_std, rng=seed)
            if method == "sculpt"
            else learn_multihead(made.X, made.Y, row.heads, "auto", noise_std=made.noise_std, rng=seed)
        )
    except LearnError:
        return {"success": False, "seconds": time.process_time() - begin}
    told: Record = {"seconds": time.process_time() - begin}
    told["error"] = nmse(test.Y, multihead(test.X, found.theta, found.w))
    told["parameter_error"] = parameter_error(found.theta, found.w, theta, w)
    most, off = (0.05 * row.noise**2, 5e-2) if row.noise else (1e-8, 1e-2)
    told["success"] = bool(told["error"] < most and told["parameter_error"] < off)
    if isinstance(found, SculptResult):
        s = w.sum(axis=0)
        for name, estimate in (("crude", found.crude), ("sum", found.certification.s)):
            told[name] = float(np.linalg.norm(estimate - s) / np.linalg.norm(s))
        won = min(found.attempts, key=lambda attempt: attempt.validation_error)
        told["net"], told["attempts"] = won.regression_error, len(found.attempts)
    return told


def _summary(runs: list[Record]) -> Record:
    """Successes, and medians over the runs that learned a layer; of seconds over all."""
    told: Record = {"successes": sum(one["success"] for one in runs), "runs": len(runs)}
    for name in sorted({key for one in runs for key in one} - {"success", "attempts"}):
        told[name] = float(f"{statistics.median(one[name] for one in runs if name in one):.3g}")
    if any("sum" in one for one in runs):
        told["worst_sum"] = float(f"{max(one['sum'] for one in runs if 'sum' in one):.3g}")
        told["attempts"] = max(one["attempts"] for one in runs if "attempts" in one)
    return told


def compute(progress: Progress | None = None) -> Path:
    """Run the rows that `DATA` lacks, and write it after each."""
    record: Record = {"how": "monte-carlo", "first_seed": _FIRST_SEED, "test_samples": _TEST}
    record["rows"] = load(DATA)["rows"] if DATA.exists() else {}
    pairs = [(row, method) for row in sorted(ROWS, key=lambda row: row.sculpt.seconds or 0.0) for method in METHODS]
    with threadpool_limits(1, "blas"):
        warm, step = False, Steps(progress, len(pairs))
        for row, method in pairs:
            cells = record["rows"].setdefault(row.name, {})
            if method not in cells:
                if not warm:  # what is compiled or loaded on first use is not a row's time
                    warm = all(run(ROWS[0], each, 0) for each in METHODS)
                seeds = range(_FIRST_SEED, _FIRST_SEED + row.sculpt.runs)
                cells[method] = _summary([run(row, method, seed) for seed in seeds])
                save(DATA, record)
            step()
    return DATA


def markdown(record: Record) -> str:
    """The rows as a Markdown table."""
    lines = [
        "| teacher m,k,d,s | S: crude, step 2 | net alone | sculpt | prototype | auto | prototype, 8 starts |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        cells = record["rows"][row.name]
        ours = cells["sculpt"]
        texts = [
            row.name,
            f"{ours['crude']:.2f}, {ours['sum']:.1g}",
            f"{ours['net']:.0e}",
            _text(ours),
            _text(asdict(row.sculpt)),
            _text(cells["auto"]),
            _text(asdict(row.restarts)) if row.restarts is not None else "not run",
        ]
        lines.append("| " + " | ".join(texts) + " |")
    return "\n".join(lines) + "\n"


def _text(cell: Record) -> str:
    error = "" if cell.get("error") is None else f" {cell['error']:.0e}"
    return f"{cell['successes']}/{cell['runs']}{error} {cell['seconds']:.2g} s"


if __name__ == "__main__":
    print(markdown(load(recompute("table", compute))))
