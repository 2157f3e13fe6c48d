"""Inputs of one's own, measured: their spectrum, the covariance of their tokens, and how far they are from Gaussian.

The theory asks three things of inputs: what the covariance of the coordinates is, how tokens are correlated, and that
projections on directions of the weights, h = W x/sqrt(D), are Gaussian. All three are measured here, with errors from
groups of samples that are left out in turn. A sample covariance has eigenvalues that spread further than those of Sigma
(Marchenko and Pastur): what enters thresholds, E lambda^2 = Tr Sigma^2 D/(Tr Sigma)^2, is taken from products of the
covariances of different groups, which are independent, so that its mean is that of Sigma.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.decimals import pm
from ..core.memory import refuse_memory
from ..core.results import Estimate, Result, versions
from ..core.validation import plain
from ..priors import Spectrum
from ..priors.eigenvalues import Eigenvalues
from .blocks import Array
from .input_pictures import draw_inputs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Inputs", "measure_inputs"]

# Groups of samples, random directions, and data sets of Gaussian samples that they are compared with.
_GROUPS, _DIRECTIONS, _SETS = 16, 64, 40
# Most samples of a Gaussian data set: the scatter of larger ones is that of this many, scaled.
_MOST = 2048
# Eigenvalues of a covariance below this share of the largest are rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, repr=False)
class Inputs(Result):
    """What the theory needs to know of inputs.

    Attributes
    ----------
    samples, tokens, dimension : int
    variance : float
        Mean variance of a coordinate: X over its square root has the scale of the theory.
    mean_share : float
        Share of E|x|^2 that is of the mean of each token, which is taken off.
    eigenvalues : ndarray, shape (D,)
        Of the sample covariance over `variance`, the largest first.
    sample_square : float
        Mean of their squares.
    square : Estimate
        E lambda^2 of Sigma itself, without the spread that finitely many samples add; thresholds are divided by it.
    effective_dimension : Estimate
        D/E lambda^2, the number of equal eigenvalues with the same E lambda^2.
    token_covariance : ndarray, shape (M, M)
        E x_m.x_m'/D over `variance`, pooled over coordinates.
    kurtosis, gaussian_kurtosis : Estimate
        E z^4/(E z^2)^2 of projections on random directions, the mean over these; and what Gaussian samples with these
        covariances, as many, show: its error is the scatter from one such data set to another.
    norms, gaussian_norms : Estimate
        Relative variance of |x|^2 of a token; and 2 E lambda^2/D of Gaussian samples.
    status : str
    versions : dict
    """

    samples: int
    tokens: int
    dimension: int
    variance: float
    mean_share: float
    eigenvalues: Array
    sample_square: float
    square: Estimate
    effective_dimension: Estimate
    token_covariance: Array
    kurtosis: Estimate
    gaussian_kurtosis: Estimate
    norms: Estimate
    gaussian_norms: Estimate
    status: str
    converged: bool = True
    versions: dict[str, str] = field(default_factory=versions)

    @property
    def spectrum(self) -> Spectrum:
        """That of the sample covariance, without directions: for theory, and for data that are made."""
        return Spectrum(replace(Eigenvalues.checked(self.eigenvalues, "measured spectrum"), directed=False))

    @property
    def excess(self) -> float:
        """Distance of the kurtosis from that of Gaussian samples, in its standard errors."""
        error = math.hypot(self.kurtosis.error, self.gaussian_kurtosis.error)
        return (self.kurtosis.value - self.gaussian_kurtosis.value) / error

    def lines(self) -> Iterator[str]:
        """Sizes, moments, and the distance from Gaussian samples."""
        tokens = f"{self.tokens} token{'s' * (self.tokens > 1)}"
        yield f"{self.samples} samples of {tokens}, D = {self.dimension}; variance {self.variance:.4g}"
        yield f"E lambda^2 = {_pm(self.square)}, effective dimension {_pm(self.effective_dimension)}"
        yield f"kurtosis {_pm(self.kurtosis)}, of Gaussian samples {_pm(self.gaussian_kurtosis)}"
        yield self.status

    def plot(self) -> Figure:
        """Draw eigenvalues, kurtosis and token covariance; returns the matplotlib figure."""
        return draw_inputs(self)


def _pm(estimate: Estimate) -> str:
    return pm(estimate.value, estimate.error)


def measure_inputs(X: ArrayLike, *, rng: np.random.Generator | int = 0) -> Inputs:
    """Measure inputs: spectrum, token covariance, and the distance from Gaussian ones.

    Parameters
    ----------
    X : array_like, shape (n, D) or (n, M, D)
        Samples, of M tokens each, such as embeddings of words or sentences; memory-mapped if wanted. At least eight.
    rng : Generator or int, optional
        Of the directions, and of the Gaussian samples.

    Returns
    -------
    Inputs

    Raises
    ------
    ValueError
        X has another shape, too few samples, or entries that are not finite or do not vary.
    MemoryError
        A covariance of D coordinates does not fit into memory.

    Notes
    -----
    Tokens of one sample may depend on each other, samples do not: errors are standard ones by leaving out a sixteenth
    of the samples in turn (jackknife).

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((4000, 50)) * np.repeat([0.5, 1.5], 25) ** 0.5
    >>> found = measure_inputs(x)
    >>> abs(found.square.value - 1.25) < 3 * found.square.error, abs(found.excess) < 4
    (True, True)
    """
    x = _checked(X)
    generator = rng if isinstance(rng, np.random.Generator) else np.random.default_rng(rng)
    n, tokens, dimension = x.shape
    mean = x.mean(axis=0, dtype=np.float64)
    if not np.isfinite(mean).all():
        raise ValueError("X must be finite, got NaN or infinity; leave such samples out")
    groups = np.array_split(np.arange(n), min(_GROUPS, n // 2))
    covariance, square, trace = _second_moments(x, groups)
    values = np.linalg.eigvalsh(covariance)[::-1] / trace
    values = np.where(values > _ROUNDING * values[0], values, 0.0)
    flat = mean.ravel()
    token = _token_covariance(x, mean) / (dimension * trace)
    directions = generator.standard_normal((dimension, min(_DIRECTIONS, 4 * dimension)))
    kurtosis, norms = _fourth_moments(x, mean, groups, directions)
    seen = Inputs(
        samples=n,
        tokens=tokens,
        dimension=dimension,
        variance=trace,
        mean_share=float(flat @ flat / (flat @ flat + trace * tokens * dimension)),
        eigenvalues=np.asarray(values, np.float64),
        sample_square=float((values**2).mean()),
        square=square,
        effective_dimension=Estimate(dimension / square.value, dimension * square.error / square.value**2, square.how),
        token_covariance=token,
        kurtosis=kurtosis,
        gaussian_kurtosis=_of_gaussians(n, token, directions.T @ covariance @ directions, generator),
        norms=norms,
        gaussian_norms=Estimate(2 * square.value / dimension, 2 * square.error / dimension, square.how),
        status="",
    )
    return _judged(seen)


def _checked(X: ArrayLike) -> NDArray[np.floating]:
    """Samples of shape (n, M, D)."""
    x = plain("X", X)
    if x.dtype.kind not in "iuf":
        raise ValueError(f"X must hold real numbers, got {x.dtype}")
    if x.ndim not in (2, 3) or not x.size:
        raise ValueError(f"X must have shape (n, D) or (n, M, D): samples, tokens, dimension; got {x.shape}")
    x = x[:, None] if x.ndim == 2 else x
    if len(x) < 8:
        raise ValueError(f"X must have at least 8 samples for errors, got {len(x)}")
    refuse_memory(f"a covariance of D = {x.shape[2]} coordinates", 40 * x.shape[2] ** 2, "take fewer coordinates")
    return x


def _jackknife(parts: Array, value: Callable[[Array], float]) -> Estimate:
    """Value of the sum of parts of groups, shape (G, ...), and its standard error by leaving out one in turn."""
    total, count = parts.sum(axis=0), len(parts)
    left = np.array([value(total - part) for part in parts])
    error = math.sqrt((count - 1) / count * float(((left - left.mean()) ** 2).sum()))
    return Estimate(value(total), error, "monte-carlo")


def _group_covariance(x: NDArray[np.floating], rows: NDArray[np.intp]) -> Array:
    """Of some samples about their own mean of each token, pooled over tokens."""
    part = np.asarray(x[rows], np.float64)
    flat = (part - part.mean(axis=0)).reshape(-1, x.shape[2])
    return np.asarray(flat.T @ flat / ((len(rows) - 1) * x.shape[1]))


def _second_moments(x: NDArray[np.floating], groups: list[NDArray[np.intp]]) -> tuple[Array, Estimate, float]:
    """Sample covariance, E lambda^2 of Sigma from products of groups, and the mean variance."""
    n, tokens, dimension = x.shape
    mean, total, pooled = x.mean(axis=0, dtype=np.float64), np.zeros((dimension, dimension)), np.zeros((dimension,) * 2)
    own, traces = [], []
    for rows in groups:
        part = _group_covariance(x, rows)
        total += part
        own.append(float((part * part).sum()))
        traces.append(float(np.trace(part)))
        apart = np.asarray(x[rows], np.float64).mean(axis=0) - mean
        pooled += part * (len(rows) - 1) + len(rows) / tokens * apart.T @ apart
    crossed = np.array([float((_group_covariance(x, rows) * total).sum()) for rows in groups])
    squares, sides = np.array(own), np.array(traces)
    if not sides.min() > 0:
        raise ValueError("X has variance 0 over a part of its samples: its entries do not vary")

    def ratio(left: NDArray[np.intp]) -> float:
        """D Tr Sigma^2/(Tr Sigma)^2 of the pairs of these groups."""
        without = np.setdiff1d(np.arange(len(groups)), left)
        pairs = float((total * total).sum() - squares.sum())
        for k in left:
            pairs -= 2 * float(crossed[k] - squares[k])
        some = sides[without]
        return dimension * pairs / float(some.sum() ** 2 - (some**2).sum())

    every = ratio(np.zeros(0, np.intp))
    left = np.array([ratio(np.array([k])) for k in range(len(groups))])
    error = math.sqrt((len(groups) - 1) / len(groups) * float(((left - left.mean()) ** 2).sum()))
    covariance = pooled / (n - 1)
    return covariance, Estimate(every, error, "monte-carlo"), float(np.trace(covariance) / dimension)


def _token_covariance(x: NDArray[np.floating], mean: Array) -> Array:
    """Sum over coordinates of E x_m x_m', shape (M, M)."""
    tokens = x.shape[1]
    out = np.zeros((tokens, tokens))
    for part in np.array_split(np.arange(len(x)), max(1, x.size // (1 << 22))):
        rows = x[part] - mean
        out += np.einsum("nmd,npd->mp", rows, rows, optimize=True)
    return out / (len(x) - 1)


def _fourth_moments(
    x: NDArray[np.floating], mean: Array, groups: list[NDArray[np.intp]], directions: Array
) -> tuple[Estimate, Estimate]:
    """Kurtosis of projections, mean over directions, and relative variance of |x|^2; samples are left out whole."""
    sums, lengths = [], []
    for rows in groups:
        part = (np.asarray(x[rows], np.float64) - mean).reshape(-1, x.shape[2])
        square = (part @ directions) ** 2
        sums.append(np.array([np.full(square.shape[1], float(len(part))), square.sum(axis=0), (square**2).sum(axis=0)]))
        norm = (part * part).sum(axis=1)
        lengths.append(np.array([len(norm), norm.sum(), (norm**2).sum()]))
    kurtosis = _jackknife(np.array(sums), lambda s: float((s[0] * s[2] / s[1] ** 2).mean()))
    return kurtosis, _jackknife(np.array(lengths), lambda s: float(s[0] * s[2] / s[1] ** 2 - 1))


def _of_gaussians(n: int, token: Array, covariance: Array, rng: np.random.Generator) -> Estimate:
    """Kurtosis that Gaussian samples with these covariances show, and its scatter between data sets."""
    rows = min(n, _MOST)
    roots = []
    for matrix in (token, covariance):
        values, vectors = np.linalg.eigh(matrix)
        roots.append(vectors * np.sqrt(np.maximum(values, 0.0)))
    found = []
    for _ in range(_SETS):
        z = rng.standard_normal((rows, len(token), len(covariance)))
        z = np.einsum("mp,npk->nmk", roots[0], z @ roots[1].T)
        z -= z.mean(axis=0)
        square = z.reshape(-1, len(covariance)) ** 2
        found.append(float(((square**2).mean(axis=0) / square.mean(axis=0) ** 2).mean()))
    # The mean is off 3 by the order of 1/n, its scatter by that of n^{-1/2}.
    share = rows / n
    value, scatter = 3 + share * (float(np.mean(found)) - 3), math.sqrt(share) * float(np.std(found, ddof=1))
    return Estimate(value, scatter, "monte-carlo")


def _judged(seen: Inputs) -> Inputs:
    """The same with a sentence on how far it is from Gaussian."""
    distance = seen.excess
    near = f"projections are Gaussian within their errors ({distance:+.1f} standard errors)"
    far = (
        f"projections are not Gaussian: their kurtosis is {_pm(seen.kurtosis)} where Gaussian samples of this spectrum "
        f"show {_pm(seen.gaussian_kurtosis)}, and the theory is of Gaussian inputs"
    )
    status = near if abs(distance) < 4 else far
    if seen.samples * seen.tokens < seen.dimension:
        status += f"; {seen.samples * seen.tokens} samples of D = {seen.dimension} coordinates leave eigenvalues unseen"
    return replace(seen, status=status)
