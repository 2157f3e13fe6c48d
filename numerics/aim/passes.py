"""Passes of message passing over the samples, in blocks of rows, and what an output leaves unexplained."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..learning.blocks import Array, Floats, Source
from .channels import Channel, pairs, variances
from .checks import CITE
from .data import Stream, check_samples, gram, indices, refuse_size, rows_at_a_time

__all__ = ["Passes"]


@dataclass
class _Block:
    """What a block of samples remembers from one iteration to the next."""

    seen: Array
    g: Array
    # Of the scores so far, with the memory that the damped estimate has of them.
    onsager: Array


class Passes:
    """Passes over the samples, in blocks of rows."""

    def __init__(self, x: ArrayLike | Source, y: ArrayLike | None, output: Channel) -> None:
        self.output = output
        self._x: Floats | None = None
        if callable(x):
            if y is not None:
                raise ValueError("y must be None where x is a function, whose blocks hold both; leave y out")
            self._source = x
        else:
            if y is None:
                raise ValueError(f"y is missing: one T x T output per sample ({CITE}, outputs)")
            self._x = check_samples(x, output.tokens)
            n, _, d = self._x.shape
            refuse_size(n / d**2, d, output.tokens, f"x of shape {self._x.shape}", scalar=True)
            self._y = output.check(y)
            if len(self._y) != len(self._x):
                raise ValueError(
                    f"x and y must have as many samples, got {len(self._x)} and {len(self._y)} ({CITE}, model)"
                )
        self.blocks: list[_Block] = []
        self.samples = self.dimension = 0
        for part, labels in self._parts():
            samples = check_samples(part, output.tokens)
            self.dimension = self.dimension or samples.shape[2]
            if samples.shape[2] != self.dimension:
                raise ValueError(
                    f"every block of x must have d = {self.dimension} ({CITE}, model), got {samples.shape}"
                )
            seen = output.prepare(output.check(labels))
            if len(seen) != len(samples):
                raise ValueError(f"a block has {len(samples)} samples and {len(seen)} outputs; make them as many")
            zero = np.zeros((len(seen), len(variances(output.tokens))))
            self.blocks.append(_Block(seen, zero, zero))
            self.samples += len(seen)
        if not self.samples:
            raise ValueError(f"x must hold at least one sample ({CITE}, model); the function gave no blocks")

    def _tokens(self) -> Iterator[ArrayLike]:
        """Blocks of x; the outputs have been seen."""
        if self._x is None and isinstance(self._source, Stream):
            return self._source.tokens()
        return (part for part, _ in self._parts())

    def _parts(self) -> Iterator[tuple[ArrayLike, ArrayLike]]:
        if self._x is None:
            yield from self._source()
            return
        step = rows_at_a_time(*self._x.shape[1:])
        for start in range(0, len(self._x), step):
            yield self._x[start : start + step], self._y[start : start + step]

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
            square += float((g * (block.seen - h)).sum())
            pull += _pull(x, g, tokens)
        return (1 + noise) * square / (self.samples * self.functionals), 0.5 * (pull + pull.T)

    @property
    def functionals(self) -> int:
        """K: functionals of h that an output fixes, exactly or but for noise; 0 where it fixes none."""
        if self.output.functionals is not None:
            return self.output.functionals
        return len(variances(self.output.tokens)) if self.output.noise else 0

    def _blocks(self, covariance: str) -> Iterator[tuple[Floats, _Block, Array | None]]:
        # Parts after the last block have not been seen before: the source is not the same at every call.
        for part, block in zip(self._tokens(), self.blocks, strict=True):
            x = np.asarray(part)
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
