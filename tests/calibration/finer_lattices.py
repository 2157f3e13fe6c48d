"""Averages of three layers by lattices finer than those of the route, of other nodes: truths of its averages."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlimits.numerics.channel.deep.hidden_lattice import Fineness, HiddenLattice
from attnlimits.numerics.model.network import Network

__all__ = ["by_finer_lattice", "known_averages", "lattice_cases"]

Array = NDArray[np.float64]
Settings = dict[str, Any]

# A seed that no route has; and a finer step, with less left out, of as many nodes as those of the route.
_SEED = 10**6
_FINE = Fineness(0.7, 10.5, 2)
_COUNT = 18


class _Finer(HiddenLattice):
    efforts = (_FINE,)


def lattice_cases() -> list[Settings]:
    """Overlaps over the range of lattices with one hidden layer known, and at its bounds .35 and .97; the last .95.

    The last one is drawn in log(1 - q), up to .99: beyond it sums take several times as long.
    """
    rng = np.random.default_rng(7)
    cases: list[Settings] = []
    for k in range(_COUNT):
        skip, beta = (float(f"{np.exp(rng.uniform(-0.5, 0.5)):.3g}") for _ in range(2)) if k % 3 else (1.0, 1.0)
        alone, last, *_ = rng.uniform([0.36, np.log(0.01), 0.0, 0.0], [0.92, np.log(0.05), 1.0, 1.0])
        last = 1 - np.exp(last)
        q = [0.0, 0.0, round(float(last), 5)]
        q[k % 2] = round(float(alone), 4)
        if k < 4:
            q = [[0.97, 0.0, 0.95], [0.0, 0.97, 0.98], [0.36, 0.0, 0.95], [0.0, 0.36, 0.95]][k]
        cases.append({"skip": skip, "beta": beta, "q": q})
    return cases


def known_averages(rule: HiddenLattice, q: list[float]) -> tuple[Array, Array]:
    """Averages of the layers that are known, and growth rates of the others, with what they may be off by."""
    found, known = rule(np.diag(q)), np.array(q) > 0
    values = np.where(known, found.g[0].diagonal(), found.growth[0])
    return values, np.where(known, found.bias.diagonal(), found.growth_bias)


def by_finer_lattice(s: Settings) -> tuple[list[float], list[float]]:
    """The same by a finer lattice, whose points are others and have other nodes."""
    model = Network(3, skip=s["skip"], beta=s["beta"])
    values, off = known_averages(_Finer(model, 0, rng=np.random.default_rng(_SEED), workers=1), s["q"])
    return values.tolist(), off.tolist()
