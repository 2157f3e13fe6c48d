"""Blind fits of multi-head layers: what is decided of each, and the numbers with their errors, for one processor.

Run by itself, it prints a line of JSON for every case.
"""

import json
import sys
import time
import warnings
from functools import cache
from typing import NamedTuple

import numpy as np

from attnlimits.numerics.core.blas import one_blas_thread
from attnlimits.numerics.multihead.errors import LearnError, LearnWarning
from attnlimits.numerics.multihead.gram import gram
from attnlimits.numerics.multihead.layer import multihead, nmse
from attnlimits.numerics.multihead.learn import learn_multihead
from attnlimits.numerics.multihead.matching import parameter_error
from attnlimits.numerics.multihead.sculpt import sculpt
from attnlimits.numerics.multihead.teachers import TeacherData, make_examples, make_teacher

# Of the loss: what descents under noise may leave of it, ten steps of 1e-6; of the outputs: their rounding.
_LEFT, _ROUNDING = 1e-5, 1e-15


class Case(NamedTuple):
    """A teacher, its examples, and how a student is fitted to them."""

    family: str
    heads: int
    tokens: int
    dim: int
    scale: float | None
    noise: float
    samples: int
    #: "learn" or "sculpt", with the number of heads and whether the noise is given.
    method: str = "learn"
    asked: int | str = 2
    known: bool = True
    seed: int = 0


_LEARNED = {
    "gauss": Case("gauss", 2, 2, 5, 4.0, 0.0, 600),
    "gauss of three tokens": Case("gauss", 2, 3, 4, 4.0, 0.0, 500),
    "correlated": Case("corr", 2, 2, 5, 1.0, 0.0, 600),
    "correlated, saturated": Case("corr", 2, 2, 5, 60.0, 0.0, 800),
    "values alike": Case("sameW", 2, 2, 5, 1.0, 0.0, 600),
    "saturated": Case("saturated", 2, 2, 6, 30.0, 0.0, 800),
    "saturated by 100": Case("saturated", 2, 2, 6, 100.0, 0.0, 1200),
    "saturated by 300": Case("saturated", 2, 2, 6, 300.0, 0.0, 2000),
    "saturated by 300, noise open": Case("saturated", 2, 2, 6, 300.0, 0.0, 2000, known=False),
    "values of one direction": Case("lowrank", 2, 2, 5, 4.0, 0.0, 600),
    "parity": Case("parity", 3, 2, 5, None, 0.0, 600, asked=3),
    "noise": Case("gauss", 2, 2, 5, 4.0, 0.05, 1500),
    "noise, saturated": Case("saturated", 2, 2, 5, 30.0, 0.02, 1500),
    "noise, correlated": Case("corr", 2, 2, 4, 1.0, 0.02, 1500),
    "noise open": Case("gauss", 2, 3, 4, 4.0, 0.05, 1000, known=False),
    "number of heads open": Case("gauss", 2, 2, 4, 4.0, 0.0, 400, asked="auto"),
    "both open": Case("gauss", 2, 2, 4, 4.0, 0.05, 1000, asked="auto", known=False),
    "a head too few": Case("gauss", 2, 2, 4, 4.0, 0.0, 400, asked=1),
}
_SCULPTED = {
    "gauss": Case("gauss", 2, 2, 6, 4.0, 0.0, 600, "sculpt"),
    "correlated": Case("corr", 2, 2, 6, 1.0, 0.0, 600, "sculpt"),
    "correlated, saturated": Case("corr", 2, 2, 6, 60.0, 0.0, 1000, "sculpt"),
    "saturated": Case("saturated", 2, 2, 6, 30.0, 0.0, 1000, "sculpt"),
    "saturated by 300": Case("saturated", 2, 2, 6, 300.0, 0.0, 2000, "sculpt"),
    "saturated, four dimensions": Case("saturated", 2, 2, 4, 300.0, 0.0, 2000, "sculpt"),
    "saturated by 3000": Case("saturated", 2, 2, 6, 3000.0, 0.0, 1000, "sculpt"),
    "one head": Case("gauss", 1, 2, 6, 4.0, 0.0, 800, "sculpt", asked=1),
    "values of one direction": Case("lowrank", 2, 2, 6, 4.0, 0.0, 600, "sculpt"),
    "parity": Case("parity", 3, 2, 6, None, 0.0, 500, "sculpt", asked=3),
    "noise": Case("gauss", 2, 2, 6, 4.0, 0.05, 1500, "sculpt"),
    "noise open": Case("saturated", 2, 2, 6, 30.0, 0.05, 1500, "sculpt", known=False),
}
_SEEDS = 2


@cache
def _table() -> dict[str, Case]:
    rows = [*_LEARNED.items(), *_SCULPTED.items()]
    return {
        f"{case.method}, {name}, seed {seed}": case._replace(seed=seed) for seed in range(_SEEDS) for name, case in rows
    }


def cases() -> list[str]:
    """Names of the sixty fits."""
    return list(_table())


def run(name: str) -> dict[str, object]:
    """Fit a student.

    Parameters
    ----------
    name : str
        One of `cases()`.

    Returns
    -------
    dict
        "decision": what was found, or the kind of error that refused it. "numbers": of a layer that was found the
        nmse on fresh examples, and the largest relative error of a matrix, each with by how much it may differ from
        the same number of another processor, in both directions.
    """
    case = _table()[name]
    rng = np.random.default_rng([case.seed, cases().index(name)])
    theta, w = make_teacher(case.family, case.heads, case.dim, scale=case.scale, rng=rng)
    made = make_examples(theta, w, samples=case.samples, tokens=case.tokens, noise=case.noise, rng=rng)
    fresh = make_examples(theta, w, samples=1000, tokens=case.tokens, rng=rng)
    try:
        found, said = _fitted(case, made)
    except LearnError as error:
        return {"decision": type(error).__name__, "numbers": {}}
    with one_blas_thread():
        clean = nmse(fresh.Y, multihead(fresh.X, *found))
        off, relative = _errors(made, *found)
        numbers = {"nmse": [clean, 2 * np.sqrt(clean) * off + off**2]}
        if len(found[0]) == case.heads and case.family != "parity":
            numbers["parameter error"] = [parameter_error(*found, theta, w), relative]
    return {"decision": said, "numbers": numbers}


Layer = tuple[np.ndarray, np.ndarray]


def _fitted(case: Case, made: TeacherData) -> tuple[Layer, str]:
    noise_std = made.noise_std if case.known else None
    if case.method == "sculpt":
        result = sculpt(made.X, made.Y, int(case.asked), noise_std=noise_std, rng=case.seed)
        return (result.theta, result.w), "found"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LearnWarning)
        fit = learn_multihead(made.X, made.Y, case.asked, noise_std=noise_std, rng=case.seed)
    return (fit.theta, fit.w), f"found, {fit.heads} heads by {fit.method}"


def _errors(made: TeacherData, theta: np.ndarray, w: np.ndarray) -> tuple[float, float]:
    """How far the outputs may be from those of the minimum, of their size, and any matrix, of its own, to first order.

    A descent ends with its loss, or a part of 1e-5 of it under noise, above that of the minimum, and with the rounding
    of the outputs: |dF|. Parameters then are |dF| (J^T J)^(-1/2) from those of the minimum. Twice that, for two ends.
    """
    size = float(np.linalg.norm(made.Y))
    left = _LEFT if made.noise_std else 1.0
    off = 2 * np.hypot(_ROUNDING, np.sqrt(left * nmse(made.Y, multihead(made.X, theta, w))))
    normal = gram(made.X, theta, w)
    unit = 1 / np.sqrt(np.maximum(np.diag(normal), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(normal * unit[:, None] * unit)
    # Rounding of the normal equations hides directions that are weaker.
    values = np.maximum(values, np.finfo(float).eps * values[-1] * len(values))
    half = unit[:, None] * vectors / np.sqrt(values)
    blocks = half.reshape(2 * len(theta), theta[0].size, -1)
    reach = np.array([np.linalg.norm(block, 2) for block in blocks])
    sizes = np.linalg.norm(np.concatenate([theta, w]), axis=(1, 2))
    return float(off), float(np.max(off * size * reach / sizes))


def main() -> None:
    """Print what is found in every case."""
    for name in cases():
        begun = time.process_time()
        line = {"case": name, **run(name)}
        print(json.dumps(line, sort_keys=True), flush=True)
        print(f"{time.process_time() - begun:.2f} s {name}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
