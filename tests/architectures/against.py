"""Message passing on instances against the fixed point of the state evolution, for architectures of every kind."""

import argparse
import math
import time
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
# Instances drawn for each that is wanted, at most: some have outputs that cannot be inverted.
_TRIES = 4


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

#: Of the table that is printed.
COLUMNS = (
    "architecture",
    "alpha",
    "D",
    "overlaps, GAMP",
    "overlaps, state evolution",
    "sigmas",
    "converged",
    "iterations",
    "seconds of processor time of an instance + of the state evolution",
)


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
    n_iter : tuple of int
        Iterations of each instance.
    seconds : tuple of float
        Processor time of message passing on each instance, its data apart.
    theory_seconds : float
        Processor time of the state evolution.
    """

    names: list[str]
    overlap: Array
    overlap_error: Array
    theory: Array
    theory_error: Array
    converged: int
    n_iter: tuple[int, ...]
    seconds: tuple[float, ...]
    theory_seconds: float

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


def compare(name: str, seeds: int, point: Point | None = None, **settings: object) -> Comparison:
    """Run instances of an architecture from nothing, and its state evolution.

    Parameters
    ----------
    name : str
        One of `POINTS`.
    seeds : int
        Instances, at least two.
    point : Point, optional
        That of `POINTS` if left out.
    settings
        Of `al.gamp`.

    Raises
    ------
    RuntimeError
        Of four times as many instances too few have outputs that can be inverted.
    """
    model, point = MODELS[name], point or POINTS[name]
    where = weight_blocks(model)
    runs: list[GAMPResult] = []
    spent: list[float] = []
    for seed in range(_TRIES * seeds):
        if len(runs) == seeds:
            break
        weights = _teacher(model, point.dimension, seed)
        x, y = al.make_data(model, weights, point.alpha, rng=seed)
        began = time.process_time()
        try:
            runs.append(al.gamp(model, x, y, teacher=weights, rng=seed, **settings))
        except UnreachableOutputError:
            # An attention that is 1 to the last bit: another instance.
            continue
        spent.append(time.process_time() - began)
    if len(runs) < seeds:
        raise RuntimeError(f"{name}: {len(runs)} of {_TRIES * seeds} instances have outputs that can be inverted")
    found = np.array([_mean_over_blocks(model, run.overlap.diagonal(), where) for run in runs])
    began = time.process_time()
    theory = al.evolve(model, point.alpha, **({} if point.samples is None else {"samples": point.samples}))
    theory_seconds = time.process_time() - began
    # Every row of the weights of several heads has as many indices as there are heads, with the same overlap.
    fold = model.heads if model.heads > 1 else 1
    where_theory = [(label, slice(fold * rows.start, fold * rows.stop)) for label, rows in where]
    value = _mean_over_blocks(model, theory.overlap.diagonal(), where_theory)
    error = np.array([float(np.max(theory.overlap_error.diagonal()[rows])) for _, rows in where_theory])
    return Comparison(
        [label for label, _ in where],
        found.mean(axis=0),
        np.asarray(al.learning.standard_error(found)),
        value,
        error,
        sum(run.converged for run in runs),
        tuple(run.n_iter for run in runs),
        tuple(spent),
        theory_seconds,
    )


def main() -> None:
    """Print a table of Markdown."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--model", help="those whose name contains this")
    parser.add_argument("--exact", action="store_true", help="the one whose name is this")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--dimension", type=int, help="D, instead of the usual one")
    parser.add_argument("--alpha", type=float, help="alpha, instead of the usual one")
    parser.add_argument("--variance", choices=("slope", "nishimori"), default="slope")
    parser.add_argument("--solver", choices=("damped", "double-loop"), default="damped")
    parser.add_argument("--max-iter", type=int, default=500)
    args = parser.parse_args()
    settings = {"variance": args.variance, "solver": args.solver, "max_iter": args.max_iter}
    print("| " + " | ".join(COLUMNS) + " |")
    print("| --- " * len(COLUMNS) + "|")
    for name, point in POINTS.items():
        if args.model is not None and not (name == args.model if args.exact else args.model in name):
            continue
        asked = Point(args.alpha or point.alpha, args.dimension or point.dimension, point.samples)
        made = compare(name, args.seeds, asked, **settings)
        cells = [
            ", ".join(f"{value:.3f} +- {error:.3f}" for value, error in zip(*pair, strict=True))
            for pair in ((made.overlap, made.overlap_error), (made.theory, made.theory_error))
        ]
        # Where the theory has 0 to the digits shown, an overlap of instances has a size and no sign.
        shown = zip(made.sigmas, made.theory, strict=True)
        sigmas = ", ".join(f"{s:.1f}" if value >= 5e-4 else "-" for s, value in shown)
        least, most = min(made.n_iter), max(made.n_iter)
        took = f"{math.ceil(np.mean(made.seconds))} + {math.ceil(made.theory_seconds)}"
        row = [
            name,
            f"{asked.alpha:g}",
            str(asked.dimension),
            *cells,
            sigmas,
            f"{made.converged} of {args.seeds}",
            f"{least} to {most}",
            took,
        ]
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
