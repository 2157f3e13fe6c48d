"""Passes of message passing over the samples, in blocks of rows, and what an output leaves unexplained."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..learning.blocks import Array, Floats, Source
from ..learning.sources import Blocks
from .channels import Channel, pairs, variances
from .checks import CITE
from .data import check_samples, gram, indices, refuse_size, rows_at_a_time

__all__ = ["Passes"]


@dataclass
class _Block:
    """What a block of samples remembers from one iteration to the next."""

    seen: Array
    g: Array
    # Of the scores so far, with the memory that the damped estimate has of them.
    onsager: Array

    @property
    def rows(self) -> int:
        """Number of samples."""
        return len(self.seen)


class Passes(Blocks[_Block]):
    """Passes over the samples, in blocks of rows."""

    names = ("x", "y")

    def __init__(self, x: ArrayLike | Source, y: ArrayLike | None, output: Channel) -> None:
        self.output = output
        super().__init__(x, y, lambda array: rows_at_a_time(*array.shape[1:]))
        # A function is read once, to know how many samples there are.
        if not self.blocks:
            for _ in self.each():
                pass
        self.samples = self.rows

    def checked(self, x: ArrayLike, name: str) -> Floats:
        """As `check_samples` has it."""
        return check_samples(x, self.output.tokens)

    def outputs(self, x: Floats, y: ArrayLike) -> Array:
        """All outputs, checked before the blocks are."""
        n, _, d = x.shape
        refuse_size(n / d**2, d, self.output.tokens, f"x of shape {x.shape}", scalar=True)
        return _as_many(x, self.output.check(y))

    def keep(self, x: Floats, y: ArrayLike) -> _Block:
        """What the score needs of the outputs, and no scores yet."""
        seen = self.output.prepare(_as_many(x, self.output.check(y)))
        zero = np.zeros((len(seen), len(variances(self.output.tokens))))
        return _Block(seen, zero, zero)

    def forget(self) -> None:
        """Forget the scores of earlier sweeps."""
        for block in self.blocks:
            block.g = block.onsager = np.zeros_like(block.g)

    def sweep(self, S: Array, V: float, newest: float, old: float, covariance: str) -> tuple[float, Array]:
        """One pass: qhat, and (2/d) times the sum of g_ab Z_ab."""
        d, tokens = self.dimension, self.output.tokens
        strength, pull = 0.0, np.zeros((d, d))
        for x, block, sigma in self._blocks(covariance):
            block.onsager = (1 - old) * newest * _times(sigma, block.g, tokens) + old * block.onsager
            g = block.g = self._score(block, self._entries(x, S) - block.onsager, V, sigma)
            strength += float((g * _times(sigma, g, tokens)).sum())
            pull += _pull(x, g, tokens)
        return 2 / d**2 * strength, np.asarray((pull + pull.T) / d)

    def residual(self, S: Array, covariance: str) -> tuple[float, Array]:
        """Mean square of what S leaves of the functionals that outputs fix, over that of S = 0 per unit of Q.

        Returns
        -------
        square : float
            Sum of f^T Sigma^{-1} f over n K, f the functionals less those of S. Of an S independent of the samples it
            is ||S - Shat||^2/d on average, and that plus Delta_n with noise.
        pull : ndarray, shape (d, d)
            The symmetric gradient of -(n K/2) times it without noise.
        """
        d, tokens, noise = self.dimension, self.output.tokens, self.output.noise
        square, pull = 0.0, np.zeros((d, d))
        for x, block, sigma in self._blocks(covariance):
            h = self._entries(x, S)
            g = self._score(block, h, 1.0, sigma)
            square += float((g * (_functionals(block.seen) - h)).sum())
            pull += _pull(x, g, tokens)
        return (1 + noise) * square / (self.samples * self.functionals), 0.5 * (pull + pull.T)

    @property
    def functionals(self) -> int:
        """K: functionals of h that an output fixes, exactly or but for noise; 0 where it fixes none."""
        return self.output.observed

    def _blocks(self, covariance: str) -> Iterator[tuple[Floats, _Block, Array | None]]:
        for x, block in self.each():
            yield x, block, gram(x) if covariance == "gram" else None

    def _score(self, block: _Block, omega: Array, V: float, sigma: Array | None) -> Array:
        try:
            return self.output.score(block.seen, omega, V, sigma)
        except np.linalg.LinAlgError:
            raise ValueError(
                f"x must have entries of mean 0 and variance 1 ({CITE}, model); the tokens of some sample are zero or "
                "parallel, and the covariance of h given them is singular; leave such samples out, of y too"
            ) from None

    def _entries(self, x: Floats, S: Array) -> Array:
        with np.errstate(invalid="ignore", over="ignore"):
            h = indices(x, S)[:, *pairs(self.output.tokens)]
        if not np.isfinite(h).all():
            raise ValueError(f"x must be finite ({CITE}, model), got NaN or infinity; leave such samples out, of y too")
        return np.asarray(h)


def _functionals(seen: Array) -> Array:
    """Entries that an output fixes, which stand before what else the score needs of it."""
    return seen if seen.ndim == 2 else np.asarray(seen[:, 0])


def _as_many(x: Floats, y: Array) -> Array:
    if len(y) != len(x):
        raise ValueError(f"x and y must have as many samples, got {len(x)} and {len(y)} ({CITE}, model)")
    return y


def _pull(x: Floats, g: Array, tokens: int) -> Array:
    """Sum of g_ab Z_ab, not yet symmetric."""
    d = x.shape[2]
    rows, columns = pairs(tokens)
    scores = np.zeros((len(g), tokens, tokens))
    scores[:, rows, columns] = 0.5 * g
    scores += scores.swapaxes(1, 2)
    flat = x.reshape(-1, d)
    weighted = (scores.astype(x.dtype) @ x).reshape(flat.shape)
    trace = float(g[:, rows == columns].sum())
    return np.asarray((np.asarray(flat.T @ weighted, np.float64) - trace * np.eye(d)) / math.sqrt(d))


def _times(sigma: Array | None, g: Array, tokens: int) -> Array:
    return variances(tokens) * g if sigma is None else np.asarray((sigma @ g[..., None])[..., 0])
