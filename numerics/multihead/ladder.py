"""Layers of more and more heads fitted to the same examples, each compared with smaller ones on those held out."""

import math
from dataclasses import dataclass

import numpy as np

from ..learning.blocks import Array
from .evidence import RARE, HeadsEvidence, Rung
from .holdout import EXACT, Split, error_of
from .nested import one_less, one_more
from .paired import Paired, paired
from .resolution import resolution
from .restarts import LM_UNKNOWNS, RestartResult, restarts, unknowns
from .watch import Watch

__all__ = ["Ladder", "Layer"]


@dataclass(frozen=True)
class Layer:
    """A fitted layer with its squared error on every held-out example."""

    theta: Array
    w: Array
    squares: Array

    @classmethod
    def of(cls, split: Split, theta: Array, w: Array) -> "Layer":
        """From its parameters."""
        return cls(theta, w, split.held.squares(theta, w))


class Ladder:
    """Layers of 1, 2, .. heads fitted to the same examples, each compared with smaller ones."""

    def __init__(
        self, split: Split, noise_std: float | None, starts: int, rng: np.random.Generator, watch: Watch
    ) -> None:
        self.split, self.noise_std, self.starts, self.rng, self.watch = split, noise_std, starts, rng, watch
        zero = np.zeros((0, split.X.shape[2], split.X.shape[2]))
        self.layers = {0: Layer(zero, zero, (split.Y_val**2).sum(axis=(1, 2)))}
        self.fits: dict[int, RestartResult] = {}
        self.rungs: list[Rung] = []

    def fit(self, heads: int, first: tuple[Array, ...] = (), *, starts: int | None = None) -> RestartResult:
        """Search for the best layer of so many heads, from these starts first; `starts` at random for a quick look."""
        self.watch.expect(starts or self.starts)
        found = restarts(
            self.split,
            heads,
            noise_std=self.noise_std,
            starts=starts or self.starts,
            first=first,
            signs=starts is None,
            watch=self.watch,
            rng=self.rng,
        )
        old = self.fits.get(heads)
        if old is None or found.validation_error < old.validation_error:
            self.fits[heads] = found
            self.layers[heads] = Layer.of(self.split, found.theta, found.w)
        return self.fits[heads]

    def test(self, small: int, large: Layer) -> Paired:
        """Compare a larger layer with one of the ladder, and keep a note of it."""
        found = paired(self.layers[small].squares, large.squares)
        # F = 0 leaves |Y|^2.
        sizes, heads = self.layers[0].squares, len(large.theta)
        self.rungs = [rung for rung in self.rungs if (rung.heads, rung.against) != (heads, small)]
        self.rungs.append(Rung.of(heads, error_of(large.squares, sizes), small, found, float(sizes.mean())))
        return found

    def further(self, heads: int) -> tuple[list[Layer], list[Paired]]:
        """Layers of one and of two heads more than one of the ladder, beside it, until one is better."""
        layers: list[Layer] = []
        tests: list[Paired] = []
        theta = self.layers[heads].theta
        # Layers of this many heads more are tried.
        for _ in range(2):
            with self.watch.work(kept=True):
                found = one_more(self.split, theta, rng=self.rng, watch=self.watch)
                layers.append(Layer.of(self.split, found.theta, found.w))
                tests.append(self.test(heads, layers[-1]))
                theta = found.theta
            if self.watch.interrupted or tests[-1].p < RARE:
                break
        return layers, tests

    def fewer(self, heads: int) -> bool:
        """Whether a layer of one head less, from this one's heads, is as good: it is then in the ladder."""
        found = self.fit(heads - 1, tuple(one_less(self.layers[heads].theta)))
        if found.validation_error <= EXACT:
            return True
        return self.test(heads - 1, self.layers[heads]).p >= RARE

    def noise(self, heads: int) -> float:
        """The standard deviation of the noise: given, or what the layer leaves over."""
        if self.noise_std is not None:
            return self.noise_std
        error = self.fits[heads].validation_error
        return 0.0 if error <= EXACT else math.sqrt(error * float(np.mean(self.split.Y_val**2)))

    def evidence(self, heads: int, tests: list[Paired]) -> HeadsEvidence:
        """What the tests say of the number of heads."""
        rungs = tuple(sorted(self.rungs, key=lambda rung: (rung.heads, rung.against)))
        counted = f"{heads} head{'s' if heads > 1 else ''}"
        if self.fits[heads].validation_error <= EXACT:
            return HeadsEvidence(heads, True, rungs, f"{counted}: nothing is left over")
        if self.watch.interrupted:
            return HeadsEvidence(heads, False, rungs, f"at least {counted}: interrupted before more were tried")
        better = min(test.p for test in tests)
        if better < RARE:
            doubt = f"more heads leave less, p = {better:.1g}, and are not told apart"
        elif better < 0.5:
            doubt = f"more heads leave less, by what may be chance: p = {better:.2g}"
        else:
            doubt = self._unseen(heads)
        if doubt:
            return HeadsEvidence(heads, False, rungs, f"at least {counted}: {doubt}")
        return HeadsEvidence(heads, True, rungs, f"{counted}: one and two more leave more of held-out examples")

    def _unseen(self, heads: int) -> str:
        layer = self.layers[heads]
        if self.noise(heads) == 0:
            return "something is left over, though there is no noise"
        if unknowns(heads, layer.theta.shape[1]) > LM_UNKNOWNS:
            return "whether a further head would be seen is not computed for so many unknowns"
        found = resolution(self.split, layer.theta, layer.w, self.noise(heads))
        return "the Jacobian is singular" if found is None else found.status
