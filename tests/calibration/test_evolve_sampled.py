"""State evolution by samples of a tied layer and of a link: three errors hold, or it is too near a threshold."""

from collections.abc import Callable
from functools import cache
from itertools import product

import numpy as np
from harness import Answer, Route, Settings, calibration_tests, load_truths

from attnlimits.numerics.core.results import EvolutionResult
from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.fixed_point.link import evolve as evolve_link
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.model.network import Network

Cases = Callable[[np.random.Generator], list[Settings]]
# From just above their thresholds on: 1/6, with recovery at 0.4; 0.6169.
TIED = (0.17, 0.19, 0.22, 0.24, 0.26, 0.28, 0.3, 0.32, 0.34, 0.36)
CLOSE, FAR = (0.62, 0.7, 0.8, 0.9, 1.0), (1.2, 1.35, 1.5)
REPLICAS = (4, 8, 16)


def _cases(
    alphas: tuple[float, ...], samples: tuple[int, ...], count: int, replicas: tuple[int, ...] = REPLICAS
) -> Cases:
    def cases(rng: np.random.Generator) -> list[Settings]:
        grid = [{"alpha": alpha, "samples": n, "replicas": r} for alpha, n, r in product(alphas, samples, replicas)]
        chosen = [grid[i] for i in rng.permutation(np.arange(count) % len(grid))]
        return [one | {"seed": seed} for seed, one in enumerate(chosen)]

    return cases


def _answer(found: EvolutionResult) -> Answer:
    # Overlaps that a symmetry makes equal count once.
    last = slice(-1, None) if found.overlap[0, 0] == found.overlap[-1, -1] else slice(None)
    q, error = found.overlap.diagonal()[last], found.overlap_error.diagonal()[last]
    return Answer(q, error, found.estimation_error.how, not found.converged)


def _tied(s: Settings) -> Answer:
    return _answer(evolve(Network(1, 3, 2), s["alpha"], samples=s["samples"], replicas=s["replicas"], rng=s["seed"]))


def _tied_fine(s: Settings) -> tuple[np.ndarray, np.ndarray]:
    found = evolve(Network(1, 3, 2), s["alpha"], samples=2048, replicas=32, rng=12345)
    return found.overlap.diagonal()[-1:], found.overlap_error.diagonal()[-1:]


def _link_cases(rng: np.random.Generator) -> list[Settings]:
    """Close above the threshold few points mostly leave no interval."""
    return [*_cases(FAR, (256,), 114, (16,))(rng), *_cases(CLOSE, (64,), 20)(rng)]


def _link(s: Settings) -> Answer:
    return _of_link(PRODUCT, s)


@cache
def _link_fine(alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """By quadrature over the fibres."""
    found = evolve_link(kernel_of(PRODUCT["link"]), alpha)
    return found.overlap.diagonal()[-1:], found.overlap_error.diagonal()[-1:]


def _stored(name: str, shape: Settings, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    asked = {**shape, "alpha": alpha}
    found = next(one for one in load_truths(name) if one["settings"] == asked)
    value, error = np.array(found["value"]), np.array(found["error"])
    last = slice(-1, None) if value[0] == value[-1] else slice(None)
    return value[last], error[last]


def _alphas(name: str, shape: Settings) -> tuple[float, ...]:
    stored = [one["settings"] for one in load_truths(name)]
    return tuple(one["alpha"] for one in stored if one == {**shape, "alpha": one["alpha"]})


RANK_TWO = {"layers": 1, "tokens": 3, "rank": 2}
PRODUCT = {"link": "h[1]*h[2]", "noise": "0"}
UNTIED = {"untied": True, "tokens": 2}
WIDE = {"layers": 1, "tokens": 4, "rank": 3}


def _untied_cases(rng: np.random.Generator) -> list[Settings]:
    """Mostly above the neighbourhood of the threshold; next to it, and from two randomisations, most are flagged."""
    alphas = _alphas("wide_and_untied", UNTIED)
    far = [one for n, r in ((64, 16), (128, 8)) for one in _cases(alphas[1:], (n,), 86, (r,))(rng)]
    return [*far, *_cases(alphas, (64,), 16, (2, 4))(rng)]


def _untied(s: Settings) -> Answer:
    model = Network(layers=1, tokens=2, rank=1, tied=False)
    return _answer(evolve(model, s["alpha"], samples=s["samples"], replicas=s["replicas"], rng=s["seed"]))


def _wide(s: Settings) -> Answer:
    return _answer(evolve(Network(1, 4, 3), s["alpha"], samples=s["samples"], replicas=s["replicas"], rng=s["seed"]))


SUM = {"link": "abs(h[1]) + h[2]", "noise": "0"}


def _sum_cases(rng: np.random.Generator) -> list[Settings]:
    """Before h[1] is learned; next to where it turns unstable, and above."""
    alphas = _alphas("links", SUM)
    below = tuple(alpha for alpha in alphas if alpha < 0.8)
    above = tuple(alpha for alpha in alphas if alpha > 0.8)
    few = _cases(below, (64,), 12, (4,))(rng)
    return [*_cases(below, (32, 64), 114, (8, 16))(rng), *few, *_cases(above, (64,), 8, (8, 16))(rng)]


NOISY = {"link": "abs(h[1]) + h[2]", "noise": "0.2"}


def _noisy_cases(rng: np.random.Generator) -> list[Settings]:
    return _cases(_alphas("links", NOISY), (32, 64), 126, (8, 16))(rng)


def _of_link(shape: Settings, s: Settings) -> Answer:
    # Noise as narrow as this is sampled, and changes overlaps by as little.
    own = float(shape["noise"]) > 0
    kernel = kernel_of(shape["link"], noise=shape["noise"] if own else "1e-7")
    partner = None if own else kernel_of(shape["link"])
    effort = {"samples": s["samples"], "replicas": s["replicas"], "rng": s["seed"]}
    return _answer(evolve_link(kernel, s["alpha"], noiseless=partner, **effort))


ROUTES = (
    Route(
        "evolve, one layer of rank 2, sampled",
        "monte-carlo",
        _cases(TIED, (64, 128, 256), 160),
        _tied,
        lambda s: _stored("tied", RANK_TWO, s["alpha"]),
        "65536 points, stored",
        ordinary=lambda s: s["samples"] * s["replicas"] >= 2048 and s["alpha"] > 0.22,
        sample=1,
        again=_tied_fine,
    ),
    Route(
        "evolve, link h[1]*h[2], sampled",
        "monte-carlo",
        _link_cases,
        _link,
        lambda s: _link_fine(s["alpha"]),
        "a quadrature over the fibres",
        ordinary=lambda s: s["alpha"] in FAR,
        sample=1,
    ),
    Route(
        "evolve, one layer of rank 3, sampled",
        "monte-carlo",
        _cases(_alphas("wide_and_untied", WIDE), (64, 128), 156),
        _wide,
        lambda s: _stored("wide_and_untied", WIDE, s["alpha"]),
        "16384 points, stored",
        ordinary=lambda s: s["samples"] * s["replicas"] >= 1024,
        sample=1,
    ),
    Route(
        "evolve, one untied layer, sampled",
        "monte-carlo",
        _untied_cases,
        _untied,
        lambda s: _stored("wide_and_untied", UNTIED, s["alpha"]),
        "16384 points, stored",
        ordinary=lambda s: s["replicas"] >= 8,
        sample=1,
    ),
    Route(
        "evolve, link abs(h[1]) + h[2], sampled",
        "monte-carlo",
        _sum_cases,
        lambda s: _of_link(SUM, s),
        lambda s: _stored("links", SUM, s["alpha"]),
        "8192 points, stored",
        ordinary=lambda s: s["alpha"] < 0.8,
        sample=1,
    ),
    Route(
        "evolve, noisy link abs(h[1]) + h[2], sampled",
        "monte-carlo",
        _noisy_cases,
        lambda s: _of_link(NOISY, s),
        lambda s: _stored("links", NOISY, s["alpha"]),
        "8192 points, stored",
        ordinary=lambda s: s["samples"] * s["replicas"] >= 512,
        sample=(2, 4),
    ),
)
test_sample, test_whole = calibration_tests(ROUTES)
