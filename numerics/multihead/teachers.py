"""Teachers to learn from, and their examples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..core.random import seeded
from ..core.shown import few_lines
from ..learning.blocks import Array
from .batch import Batch
from .checks import at_least_zero, count, one_of
from .parity import parity_teacher

__all__ = ["FAMILIES", "TeacherData", "make_examples", "make_teacher"]

#: Families of teachers, with the usual scale of their logits.
FAMILIES = {"gauss": 4.0, "corr": 1.0, "sameW": 1.0, "saturated": 30.0, "lowrank": 4.0, "parity": 0.0}


@few_lines
@dataclass(frozen=True)
class TeacherData:
    """Examples of a layer.

    Attributes
    ----------
    X : ndarray, shape (n, k, d)
        Entries +-1.
    Y : ndarray, shape (n, k, d)
        F(X) plus Gaussian noise.
    noise_std : float
        Standard deviation of every entry of that noise.
    """

    X: Array
    Y: Array
    noise_std: float


def make_teacher(
    family: str, heads: int, dim: int, *, scale: float | None = None, rng: np.random.Generator | int | None = None
) -> tuple[Array, Array]:
    """A random layer.

    Parameters
    ----------
    family : str
        "gauss": Theta_i and W_i Gaussian, W_i of variance 1/d. "corr": Theta_i = C + 0.3 G_i. "sameW": W_i = C + 0.3
        G_i. "saturated": as "gauss", of scale 30. "lowrank": W_i = a_i b^T, with the same b. "parity": carries a
        parity of n bits, where heads is n for odd n and n + 1 for even n; `parity.parity_teacher`.
    heads, dim : int
        m and d, both >= 1.
    scale : float, optional
        Standard deviation of the logit differences x^T Theta (x_a - x_b) of independent tokens, exactly: sqrt(2)
        |Theta|_F; default 4, and 1 for "corr" and "sameW".
    rng : Generator, int or None, optional

    Returns
    -------
    theta, w : ndarray, shape (m, d, d)

    Raises
    ------
    ValueError
        An argument outside its range.
    """
    one_of("family", family, tuple(FAMILIES))
    m, d = count("heads", heads), count("dim", dim)
    spread = FAMILIES[family] if scale is None else at_least_zero("scale", scale)
    _, generator = seeded(rng)
    if family == "parity":
        # n odd takes n heads and n even n + 1: the odd one is named by its heads.
        if m % 2 == 0 or scale is not None:
            raise ValueError(f'family "parity" takes an odd number of heads and no scale, got {heads} and {scale}')
        made = parity_teacher(m, d, generator)
        return made.theta, made.w
    theta = _alike(generator, m, d) if family == "corr" else generator.standard_normal((m, d, d))
    theta *= spread / math.sqrt(2) / np.linalg.norm(theta, axis=(1, 2), keepdims=True)
    if family == "lowrank":
        w = generator.standard_normal((m, d, 1)) * generator.standard_normal(d) / math.sqrt(d)
    else:
        w = (_alike(generator, m, d) if family == "sameW" else generator.standard_normal((m, d, d))) / math.sqrt(d)
    return theta, w


def _alike(generator: np.random.Generator, m: int, d: int) -> Array:
    # Of a head's own part beside the common one, in the families of heads that are nearly alike.
    own = 0.3
    return generator.standard_normal((d, d)) + own * generator.standard_normal((m, d, d))


def make_examples(
    theta: Array,
    w: Array,
    *,
    samples: int,
    tokens: int,
    noise: float = 0.0,
    rng: np.random.Generator | int | None = None,
) -> TeacherData:
    """Random examples of a layer: X uniform on {+-1}^{k x d}, Y = F(X) + noise.

    Parameters
    ----------
    theta, w : ndarray, shape (m, d, d)
    samples, tokens : int
        n and k, both >= 1.
    noise : float
        Standard deviation of the noise over the root mean square of F on these samples, >= 0.
    rng : Generator, int or None, optional

    Returns
    -------
    TeacherData

    Raises
    ------
    ValueError
        An argument outside its range.
    """
    n, k, d = count("samples", samples), count("tokens", tokens), theta.shape[1]
    relative = at_least_zero("noise", noise)
    _, generator = seeded(rng)
    X = np.asarray(2.0 * generator.integers(0, 2, (n, k, d)) - 1.0, dtype=np.float64)
    batch = Batch(X)
    clean = batch.unpack(batch.predict(theta, w))
    noise_std = relative * math.sqrt(float(np.mean(clean**2)))
    return TeacherData(X, clean + noise_std * generator.standard_normal(X.shape), noise_std)
