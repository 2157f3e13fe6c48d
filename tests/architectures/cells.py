"""Twenty-four architectures and five verbs: what each cell computes, with its error, or why there is no number."""

import argparse
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import attnlimits as al
from attnlimits.numerics.core.errors import ConvergenceError

__all__ = ["MODELS", "REASONS", "VERBS", "Cell", "cell"]

_IDENTITY = ((1.0, 0.0), (0.0, 1.0))
_MIXED = ((1.0, 0.3), (-0.2, 0.8))

#: Architectures by name.
MODELS: dict[str, al.Network] = {
    "L=1, M=2": al.Network(1, 2),
    "L=1, M=3, rank 2": al.Network(1, 3, 2),
    "L=1, M=2, untied": al.Network(1, 2, tied=False),
    "L=1, M=3, untied, rank 2": al.Network(1, 3, 2, tied=False),
    "L=1, M=3, linear, rank 2": al.Network(1, 3, 2, activation="linear"),
    "L=1, M=2, linear, untied": al.Network(1, 2, activation="linear", tied=False),
    "L=2, M=2": al.Network(2, 2),
    "L=2, M=2, untied": al.Network(2, 2, tied=False),
    "L=2, M=2, rank 2": al.Network(2, 2, 2),
    "L=2, M=3, ranks 1,2": al.Network(2, 3, (1, 2)),
    "L=2, M=3": al.Network(2, 3),
    "L=2, M=3, untied": al.Network(2, 3, tied=False),
    "L=2, M=2, two heads": al.Network(2, 2, heads=2, readouts=[_MIXED]),
    "L=2, M=2, two heads, untied": al.Network(2, 2, heads=2, tied=False, readouts=[_MIXED]),
    "L=2, M=2, linear": al.Network(2, 2, activation="linear"),
    "L=2, M=3, linear, rank 2": al.Network(2, 3, 2, activation="linear"),
    "L=2, M=2, sequence output": al.Network(2, 2, output="sequence"),
    "L=2, M=3, sequence output": al.Network(2, 3, output="sequence"),
    "L=2, M=4, sequence output": al.Network(2, 4, output="sequence"),
    "L=3, M=3, sequence output": al.Network(3, 3, output="sequence"),
    "L=2, M=2, untied, noise 0.3": al.Network(2, 2, tied=False, noise=0.3),
    "L=3, M=2": al.Network(3, 2),
    "L=3, M=2, untied": al.Network(3, 2, tied=False),
    "L=3, M=3, ranks 1,2,1": al.Network(3, 3, (1, 2, 1)),
    "L=4, M=2": al.Network(4, 2),
    "L=4, M=2, untied": al.Network(4, 2, tied=False),
}

#: Why there is no number, by a part of the architecture's name.
REASONS: dict[str, str] = {
    "L=3, M=3, sequence output": "the six numbers of y are equations on the nine indices that leave three open, for "
    "which there is no chart; with noise every index is a coordinate: --noise",
}


class Cell(NamedTuple):
    """One number: its value, its error, and the seconds of processor time it took."""

    value: float
    error: float
    seconds: float


def _threshold(model: al.Network) -> tuple[float, float]:
    found = al.threshold(model)
    return float(found.value), found.error


def _evolve(model: al.Network) -> tuple[float, float]:
    found = al.evolve(model, _alpha(model), samples=16, nodes=512)
    return float(found.overlap[-1, -1]), float(found.overlap_error[-1, -1])


def _curve(model: al.Network) -> tuple[float, float]:
    # Above the onset of a first layer the posterior of many indices is narrow.
    nodes = 2048 if model.indices * model.tokens >= 12 else 512
    found = al.curve(model, [_alpha(model), 1.5 * _alpha(model)], samples=16, nodes=nodes)
    last = found.points["uninformed"][-1]
    return float(last.overlap[-1, -1]), float(last.overlap_error[-1, -1])


def _gamp(model: al.Network) -> tuple[float, float]:
    weights = al.teacher(model, 200, rng=1)
    x, y = al.make_data(model, weights, 2 * _alpha(model), rng=2)
    found = al.gamp(model, x, y, teacher=weights, rng=3, max_iter=10)
    # Of one instance: the overlap scatters by 1/sqrt(D).
    return float(np.abs(found.overlap).max()), 1 / math.sqrt(200)


def _free_energy(model: al.Network) -> tuple[float, float]:
    found = al.free_entropy(model, _alpha(model), samples=16)
    value = found(0.3 * np.eye(model.indices))
    return float(value.value), float(value.error)


#: What is computed, by name.
VERBS: dict[str, Callable[[al.Network], tuple[float, float]]] = {
    "threshold": _threshold,
    "evolve": _evolve,
    "curve": _curve,
    "gamp": _gamp,
    "free-energy": _free_energy,
}


def _alpha(model: al.Network) -> float:
    """A value of alpha at which the last layer is learned."""
    return 1.2 if model.noise else 0.6


def cell(model: str, verb: str) -> Cell | str:
    """The number of a cell, or the sentence of its refusal."""
    began = time.process_time()
    try:
        value, error = VERBS[verb](MODELS[model])
    except (ConvergenceError, ValueError) as refusal:
        return str(refusal)
    return Cell(value, error, time.process_time() - began)


def main() -> None:
    """Print the matrix as a table of Markdown."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--model", help="those whose name contains this")
    parser.add_argument("--verb", choices=list(VERBS))
    args = parser.parse_args()
    verbs = [args.verb] if args.verb else list(VERBS)
    print("| architecture | " + " | ".join(verbs) + " |")
    print("| --- |" + " --- |" * len(verbs))
    for name in MODELS:
        if args.model is None or args.model in name:
            cells = [cell(name, verb) for verb in verbs]
            texts = [
                found if isinstance(found, str) else f"{found.value:.4g} +- {found.error:.1g} ({found.seconds:.0f} s)"
                for found in cells
            ]
            print("| " + " | ".join([name, *texts]) + " |", flush=True)


if __name__ == "__main__":
    main()
