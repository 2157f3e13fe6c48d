"""Message passing on instances against the fixed point of the state evolution, for architectures of every kind."""

import argparse
import math
import time
from itertools import count
from typing import NamedTuple

import numpy as np
from cells import MODELS
from numpy.typing import NDArray

import attnlimits as al
from attnlimits.numerics.core.errors import UnreachableOutputError
from attnlimits.numerics.learning.gamp.results import GAMPResult
from attnlimits.numerics.learning.heads import weight_blocks

__all__ = ["POINTS", "Comparison", "Point", "compare"]

Array = NDArray[np.float64]


class Point(NamedTuple):
    """Where an architecture is compared: alpha, D, and samples of the state evolution where it is sampled."""

    alpha: float
    dimension: int
    samples: int | None = None


#: By the names of `cells.MODELS`; at twice to three times the threshold of the last layer.
POINTS: dict[str, Point] = {
    "L=1, M=2, untied": Point(0.5, 1000),
    "L=1, M=3, untied, rank 2": Point(0.4, 500, 256),
    "L=2, M=2, untied": Point(0.9, 600, 256),
    "L=2, M=2, rank 2": Point(1.2, 500, 256),
    "L=2, M=3, ranks 1,2": Point(0.4, 500, 256),
    "L=2, M=3": Point(0.2, 1000),
    "L=2, M=3, untied": Point(0.3, 500, 256),
    "L=2, M=2, two heads": Point(0.25, 600, 64),
    "L=2, M=2, linear": Point(0.9, 1000),
    "L=2, M=2, untied, noise 0.3": Point(1.2, 500, 256),
    "L=2, M=2, sequence output": Point(1.0, 200, 64),
    "L=3, M=2": Point(0.5, 1000),
    "L=3, M=2, untied": Point(0.9, 500, 256),
    "L=4, M=2": Point(0.5, 600),
}


class Comparison(NamedTuple):
    """Overlaps of what is learned as one, by both routes.

    Attributes
    ----------
    names : list of str
    overlap, overlap_error : ndarray
        Means over instances, and their standard errors with Student's factor.
    theory, theory_error : ndarray
        State evolution.
    converged : int
        Number of instances that did.
    seconds : tuple of float
        Of message passing, and of the state evolution.
    """

    names: list[str]
    overlap: Array
    overlap_error: Array
    theory: Array
    theory_error: Array
    converged: int
    seconds: tuple[float, float]

    @property
    def sigmas(self) -> Array:
        """Differences in units of their errors; of overlaps of instances where theory has 0 the size is 1/sqrt(D)."""
        return np.asarray((self.overlap - self.theory) / np.hypot(self.overlap_error, self.theory_error))


def _teacher(model: al.Network, dimension: int, seed: int) -> Array:
    """Weights with W W^T/D = 1, which theory has."""
    weights = al.teacher(model, dimension, rng=seed)
    rows, columns = weights.shape
    root = np.linalg.cholesky(weights @ weights.T / columns)
    return np.asarray(np.linalg.solve(root, weights), np.float64) if rows <= columns else weights


def _mean_over_blocks(model: al.Network, values: Array, where: list[tuple[str, slice]]) -> Array:
    return np.array([float(np.mean(values[rows])) for _, rows in where])


def compare(name: str, seeds: int, dimension: int | None = None) -> Comparison:
    """Run instances of an architecture from nothing, and its state evolution.

    Parameters
    ----------
    name : str
        One of `POINTS`.
    seeds : int
        Instances, at least two.
    dimension : int, optional
        D; that of `POINTS` if left out.
    """
    model, point = MODELS[name], POINTS[name]
    if dimension is not None:
        point = point._replace(dimension=dimension)
    where, began = weight_blocks(model), time.perf_counter()
    runs: list[GAMPResult] = []
    for seed in count():
        if len(runs) == seeds:
            break
        weights = _teacher(model, point.dimension, seed)
        x, y = al.make_data(model, weights, point.alpha, rng=seed)
        try:
            runs.append(al.gamp(model, x, y, teacher=weights, rng=seed))
        except UnreachableOutputError:
            # An attention that is 1 to the last bit: another instance.
            continue
    found = np.array([_mean_over_blocks(model, run.overlap.diagonal(), where) for run in runs])
    middle = time.perf_counter()
    settings = {} if point.samples is None else {"samples": point.samples}
    theory = al.evolve(model, point.alpha, **settings)
    # Every row of the weights of several heads has as many indices as there are heads, with the same overlap.
    fold = model.heads if model.heads > 1 else 1
    where_theory = [(label, slice(fold * rows.start, fold * rows.stop)) for label, rows in where]
    value = _mean_over_blocks(model, theory.overlap.diagonal(), where_theory)
    error = np.array([float(np.max(theory.overlap_error.diagonal()[rows])) for _, rows in where_theory])
    ended = time.perf_counter()
    return Comparison(
        [label for label, _ in where],
        found.mean(axis=0),
        np.asarray(al.learning.standard_error(found)),
        value,
        error,
        sum(run.converged for run in runs),
        (middle - began, ended - middle),
    )


def main() -> None:
    """Print a table of Markdown."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--model", help="those whose name contains this")
    parser.add_argument("--exact", action="store_true", help="the one whose name is this")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--dimension", type=int, help="D, instead of the usual one")
    args = parser.parse_args()
    print("| architecture | alpha | D | overlaps, GAMP | overlaps, state evolution | sigmas | converged | seconds |")
    print("| --- |" + " --- |" * 7)
    for name, point in POINTS.items():
        if args.model is not None and not (name == args.model if args.exact else args.model in name):
            continue
        made = compare(name, args.seeds, args.dimension)
        cells = [
            ", ".join(f"{value:.3f} +- {error:.3f}" for value, error in zip(*pair, strict=True))
            for pair in ((made.overlap, made.overlap_error), (made.theory, made.theory_error))
        ]
        sigmas = ", ".join(f"{s:.1f}" for s in made.sigmas)
        took = " + ".join(f"{math.ceil(s)}" for s in made.seconds)
        row = [
            name,
            f"{point.alpha:g}",
            str(args.dimension or point.dimension),
            *cells,
            sigmas,
            f"{made.converged} of {args.seeds}",
            took,
        ]
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
