"""State evolution by samples of a tied layer and of a link: three errors hold, or it is too near a threshold."""

from collections.abc import Callable
from functools import cache
from itertools import product

import numpy as np
from harness import Answer, Route, Settings, calibration_tests

from attnlimits.numerics.link_cli import kernel_of
from attnlimits.numerics.link_evolution import evolve as evolve_link
from attnlimits.numerics.models import Attention
from attnlimits.numerics.results import EvolutionResult
from attnlimits.numerics.state_evolution import evolve

Cases = Callable[[np.random.Generator], list[Settings]]
# From just above their thresholds on: 1/6, with recovery at 0.4; 0.6169.
TIED = (0.17, 0.19, 0.22, 0.24, 0.26, 0.28, 0.3, 0.32, 0.34, 0.36)
LINK = (0.62, 0.7, 0.8, 0.9, 1.0, 1.2)


def _cases(alphas: tuple[float, ...], samples: tuple[int, ...], count: int) -> Cases:
    def cases(rng: np.random.Generator) -> list[Settings]:
        grid = [{"alpha": alpha, "samples": n, "replicas": r} for alpha, n, r in product(alphas, samples, (4, 8, 16))]
        chosen = [grid[i] for i in rng.permutation(np.arange(count) % len(grid))]
        return [one | {"seed": seed} for seed, one in enumerate(chosen)]

    return cases


def _answer(found: EvolutionResult) -> Answer:
    # Overlaps that a symmetry makes equal count once.
    last = slice(-1, None) if found.overlap[0, 0] == found.overlap[-1, -1] else slice(None)
    q, error = found.overlap.diagonal()[last], found.overlap_error.diagonal()[last]
    return Answer(q, error, found.estimation_error.how, not found.converged)


def _tied(s: Settings) -> Answer:
    return _answer(evolve(Attention(1, 3, 2), s["alpha"], samples=s["samples"], replicas=s["replicas"], rng=s["seed"]))


@cache
def _tied_fine(alpha: float) -> tuple[np.ndarray, np.ndarray]:
    found = evolve(Attention(1, 3, 2), alpha, samples=2048, replicas=32, rng=12345)
    return found.overlap.diagonal()[-1:], found.overlap_error.diagonal()[-1:]


def _link(s: Settings) -> Answer:
    kernel = kernel_of("h[1]*h[2]")
    return _answer(evolve_link(kernel, s["alpha"], samples=s["samples"], replicas=s["replicas"], rng=s["seed"]))


@cache
def _link_fine(alpha: float) -> tuple[np.ndarray, np.ndarray]:
    found = evolve_link(kernel_of("h[1]*h[2]"), alpha, samples=512, replicas=16, rng=12345)
    return found.overlap.diagonal()[-1:], found.overlap_error.diagonal()[-1:]


ROUTES = (
    Route(
        "evolve, one layer of rank 2, sampled",
        "monte-carlo",
        _cases(TIED, (64, 128, 256), 160),
        _tied,
        lambda s: _tied_fine(s["alpha"]),
        "65536 points",
        ordinary=lambda s: s["samples"] * s["replicas"] >= 2048 and s["alpha"] > 0.22,
        sample=3,
    ),
    Route(
        "evolve, link h[1]*h[2], sampled",
        "monte-carlo",
        _cases(LINK, (32, 64, 128), 180),
        _link,
        lambda s: _link_fine(s["alpha"]),
        "8192 points",
        ordinary=lambda s: s["samples"] * s["replicas"] >= 1024 and s["alpha"] > 0.85,
        sample=1,
    ),
)
test_sample, test_whole = calibration_tests(ROUTES)
