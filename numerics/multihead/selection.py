"""The number of heads and the level of the noise, by layers of more heads and of fewer on held-out examples."""

from dataclasses import dataclass, replace

import numpy as np

from ..learning.blocks import Array
from .evidence import RARE, HeadsEvidence
from .holdout import EXACT, Split, acceptable
from .ladder import Ladder, Layer
from .nested import one_less
from .paired import Paired, paired
from .restarts import RestartResult, best_optimiser, descended, polished, sample_count, unknowns
from .watch import Watch

__all__ = ["Fit", "doubt_of_noise", "fit_heads", "select_heads", "spare_head"]

_MOST_HEADS = 8


@dataclass(frozen=True)
class Fit:
    """A descent with the noise level that it was judged by.

    Attributes
    ----------
    found : RestartResult
    noise_std : float
    evidence : HeadsEvidence or None
        None where the number of heads and the noise were given.
    """

    found: RestartResult
    noise_std: float
    evidence: HeadsEvidence | None


def fit_heads(split: Split, heads: int, rng: np.random.Generator, starts: int = 8, watch: Watch | None = None) -> Fit:
    """Fit a layer of so many heads to outputs of unknown noise: none, or what it leaves over if more heads keep it.

    Returns
    -------
    Fit
        `found.converged` is True if the layer is better than none, and more heads leave no less than it does by more
        than chance; what is left is then noise.
    """
    ladder = Ladder(split, None, starts, rng, watch or Watch())
    found = ladder.fit(heads)
    tests: list[Paired] = []
    if found.validation_error > EXACT and not ladder.watch.interrupted:
        tests = ladder.further(heads)[1]
    return _judged(ladder, heads, tests)


def select_heads(
    split: Split,
    noise_std: float | None,
    rng: np.random.Generator,
    *,
    starts: int = 8,
    most: int = _MOST_HEADS,
    watch: Watch | None = None,
) -> Fit:
    """Fit layers of 1, 2, .. heads, as long as one or two more leave less of the held-out examples by more than chance.

    Parameters
    ----------
    split : Split
    noise_std : float or None
        None: what the layer leaves over.
    rng : Generator
    starts, most : int
        Starts with each number of heads, and the largest number.
    watch : Watch, optional

    Returns
    -------
    Fit
        `evidence` has the tests between the layers. A layer that is better than one of fewer heads only because the
        search for that one ended in a local minimum is left: its heads, each left out in turn, are starts for it.
    """
    ladder = Ladder(split, noise_std, starts, rng, watch or Watch())
    heads, tests = _climb(ladder, most)
    while heads > 1 and not ladder.watch.interrupted and ladder.fewer(heads):
        heads -= 1
        tests = [] if _exact(ladder, heads) else ladder.further(heads)[1]
    return _judged(ladder, heads, tests, selected=True)


def _exact(ladder: Ladder, heads: int) -> bool:
    return ladder.fits[heads].validation_error <= EXACT


def _climb(ladder: Ladder, most: int) -> tuple[int, list[Paired]]:
    """The number of heads that no one or two more improve upon, and the tests of these."""
    heads = 1
    ladder.fit(heads)
    # Random starts with one head more than are needed.
    probes = 3
    while not (_exact(ladder, heads) or ladder.watch.interrupted):
        layers, tests = ladder.further(heads)
        if ladder.watch.interrupted or heads + len(tests) > most:
            return heads, tests
        found = tests[-1].p < RARE
        more = heads + (len(tests) if found else 1)
        # Steps from the layer may end in local minima: one head more is searched for from random starts, too.
        ladder.fit(more, (layers[-1 if found else 0].theta,), starts=None if found else probes)
        tests[0 if not found else -1] = ladder.test(heads, ladder.layers[more])
        if not found and tests[0].p >= RARE:
            return heads, tests
        heads = more
    return heads, []


def _judged(ladder: Ladder, heads: int, tests: list[Paired], *, selected: bool = False) -> Fit:
    """The layer of so many heads with the noise that it leaves, and whether that is what it is."""
    found, noise_std = ladder.fits[heads], ladder.noise(heads)
    fine, verdict = found.converged, ""
    if ladder.noise_std is None and not _exact(ladder, heads):
        verdict = _doubt(ladder, heads, tests)
        fine = not verdict
        verdict = verdict or "more heads leave no less by more than chance: the rest is taken for noise"
    evidence = ladder.evidence(heads, tests)
    if ladder.watch.interrupted:
        fine, verdict = False, "interrupted"
    said = [found.status, *filter(None, [verdict, evidence.status if selected else ""])]
    size = unknowns(heads, ladder.split.X.shape[2])
    accept = acceptable(ladder.split, noise_std, size).high
    return Fit(replace(found, accept=accept, converged=fine, status=", ".join(said)), noise_std, evidence)


def _doubt(ladder: Ladder, heads: int, tests: list[Paired]) -> str:
    """Why what a layer leaves over is not noise alone, or empty."""
    better = min((test.p for test in tests), default=1.0)
    if ladder.test(0, ladder.layers[heads]).p >= RARE:
        return "no better than no layer at all"
    return f"more heads leave less, p = {better:.1g}: this is not noise alone" if better < RARE else ""


def doubt_of_noise(split: Split, theta: Array, w: Array, rng: np.random.Generator) -> str:
    """Why what a layer leaves of held-out examples is not noise alone, or empty; layers of more heads are tried."""
    ladder = Ladder(split, None, 1, rng, Watch())
    heads = len(theta)
    ladder.layers[heads] = Layer.of(split, theta, w)
    return _doubt(ladder, heads, ladder.further(heads)[1])


def spare_head(split: Split, theta: Array, w: Array) -> str:
    """Why a layer under noise has a head too many, or empty: one head less, from the others, leaves as little.

    Notes
    -----
    Two heads with equal Theta, or a head beyond those of the truth, are fitted to noise: the outputs fix what the fit
    has of them, though not the layer's own.
    """
    begun = one_less(theta)
    if not begun:
        return ""
    chosen = best_optimiser(theta.size * 2)
    count = sample_count(split, 2 * begun[0].size, noisy=True, optimiser=chosen)
    X, Y = split.X[:count], split.Y[:count]
    best = min((descended(X, Y, start, chosen, noisy=True) for start in begun), key=lambda end: end.loss)
    if count < len(split.X):
        best = polished(split, best, chosen, noisy=True)
    less, own = split.held.squares(best.theta, best.w), split.held.squares(theta, w)
    p = paired(less, own).p
    return f"one head less leaves as little of held-out examples: p = {p:.2g} for the last one" if p >= RARE else ""
