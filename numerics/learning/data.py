"""Data for GAMP: checks of samples and weights, and data sets made from a teacher."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ..channel.averages import matrix_root
from ..core.memory import refuse_memory
from ..core.validation import not_negative, numbers, plain, whole
from ..fixed_point.evolve import check_overlap
from ..model.network import Network
from ..posterior.protocol import Model
from ..priors import GAUSSIAN, Prior, SpectrumLike, as_prior, as_spectrum
from .blocks import Array, Floats, rows_of, stream
from .colour import Colour, colour_of
from .heads import blocks_of, of_blocks, to_indices, weight_rows

__all__ = [
    "alpha_of",
    "check_samples",
    "check_weights",
    "colour_for",
    "count_of",
    "draw",
    "informed_start",
    "make_data",
    "outputs_of",
    "part_rows",
    "refuse_rows",
    "refuse_size",
    "teacher",
]

# Entries of X made or read at a time.
_ENTRIES = 1 << 24


def check_samples(x: ArrayLike, model: Model, name: str = "X") -> Floats:
    """Return the samples as they are: an array of shape (N, M, D) of float32 or float64, memory-mapped or not.

    Raises
    ------
    ValueError
        Another shape or type, no samples, or fewer dimensions than indices; the message says what to do. Whether all
        entries are finite is seen once they are used.
    """
    array = plain(name, x)
    if array.dtype not in (np.float32, np.float64):
        raise ValueError(
            f"{name} must be float32 or float64, for its entries are real numbers of mean 0 and variance 1 "
            f"(troiani2025 (1)), got {array.dtype}; embed and standardise, or convert by {name}.astype(np.float32)"
        )
    if array.ndim != 3:
        raise ValueError(f"{name} must have shape (N, M, D): samples, tokens, dimension; got {array.shape}")
    n, m, dimension = array.shape
    if m != model.tokens:
        hint = f"; swap the last two axes: np.swapaxes({name}, 1, 2)" if dimension == model.tokens else ""
        raise ValueError(f"{name} must have shape (N, M, D) with M = {model.tokens} tokens, got {array.shape}{hint}")
    if not n or not dimension:
        raise ValueError(f"{name} must hold at least one sample of at least one dimension, got shape {array.shape}")
    heads, rows = blocks_of(model), weight_rows(model)
    if dimension % heads:
        raise ValueError(f"{name} must have D a multiple of the {heads} heads (troiani2025 (27)), got D = {dimension}")
    if dimension < heads * rows:
        raise ValueError(
            f"{name} must have D >= P: {model.indices} indices are projections on as many directions (troiani2025 "
            f"(1)), got D = {dimension}"
        )
    return array


def refuse_size(model: Model, alpha: float, dimension: int, what: str, itemsize: int = 4) -> None:
    """Raise MemoryError if a data set does not fit into memory, with what a run on it keeps for each sample.

    Parameters
    ----------
    model : Network or LinkKernel
    alpha : float
    dimension : int
    what : str
        The arguments that determine the size, for the message.
    itemsize : int, optional
        Bytes of an entry of X; 0 where it is not in memory as a whole.
    """
    rows = max(1.0, alpha * dimension)
    drawn = min(rows * model.tokens * dimension, max(float(_ENTRIES), model.tokens * dimension))
    # Teacher, estimate, start, and what an iteration moves them by.
    weights = 80 * weight_rows(model) * dimension
    size = rows * (itemsize * model.tokens * dimension + _kept(model)) + 12 * drawn + weights
    refuse_memory(what, size, "take fewer dimensions, samples (alpha) or tokens")


def refuse_rows(model: Model, rows: int) -> None:
    """Raise MemoryError if what a run keeps for each sample does not fit into memory; X itself may be mapped."""
    refuse_memory(f"X and Y of {rows} samples", rows * _kept(model), "take fewer samples")


def _kept(model: Model) -> int:
    """Bytes for each sample beside X: h and the output while they are made and inverted; then scores, their memory."""
    outputs = math.prod(model.output_shape)
    return 8 * (4 * model.indices * model.tokens + 8 * outputs)


def teacher(
    model: Model, dimension: int, rng: np.random.Generator | int | None = None, *, prior: Prior | str = GAUSSIAN
) -> Array:
    """Draw weights from the prior, standard Gaussian by default, shape (P, D), in the order of the model's indices.

    Of several heads those of `networks.random_weights`, shape (rows, D/H).
    """
    heads, rows = blocks_of(model), weight_rows(model)
    dimension = whole("dimension", dimension, heads * rows, "(1)")
    if dimension % heads:
        raise ValueError(f"dimension must be a multiple of the {heads} heads (troiani2025 (27)), got {dimension}")
    refuse_memory(f"dimension = {dimension}", 8 * rows * dimension, "take a smaller one")
    return as_prior(prior).draw((rows, dimension // heads), stream(rng, 0))


def make_data(
    model: Model,
    weights: ArrayLike,
    alpha: float,
    rng: np.random.Generator | int | None = None,
    *,
    dtype: type[np.float32] | type[np.float64] = np.float32,
    spectrum: SpectrumLike | None = None,
) -> tuple[Floats, Array]:
    """Draw samples, and label them by a teacher.

    Parameters
    ----------
    model : Network or LinkKernel
    weights : array_like, shape (P, D)
        Of the teacher; of several heads (rows, D/H), as `teacher` draws them.
    alpha : float
        Samples per dimension; N = round(alpha D), at least 1.
    rng : Generator, int or None, optional
    dtype : {np.float32, np.float64}, optional
        Of X.
    spectrum : optional
        Of the covariance of the inputs: that of D coordinates is the same at every call.

    Returns
    -------
    X : ndarray, shape (N, M, D)
    Y : ndarray, shape (N, M, M), or (N, K) of a link
        With the noise that a link has.

    References
    ----------
    troiani2025, (1).
    """
    w = check_weights("weights", weights, model)
    alpha = not_negative("alpha", alpha, "(1)")
    generator = stream(rng, 1)
    dimension, tokens = blocks_of(model) * w.shape[1], model.tokens
    asked = f"alpha = {alpha:g} at D = {dimension} with {tokens} tokens"
    refuse_size(model, alpha, dimension, asked, np.dtype(dtype).itemsize)
    colour = colour_for(model, dimension, spectrum)
    x = np.empty((count_of(alpha, dimension), tokens, dimension), dtype)
    h = np.empty((len(x), model.indices, tokens))
    for part in rows_of(x, part_rows(tokens, dimension)):
        h[part] = draw(x[part], w, model, generator, colour)
    return x, outputs_of(h, model, generator)


def colour_for(model: Model, dimension: int, spectrum: SpectrumLike | None) -> Colour | None:
    """Covariance of the inputs of a model, of D coordinates; None of white ones.

    Raises
    ------
    ValueError
        The spectrum is none, of another dimension, or the model has several heads, whose coordinates differ.
    """
    if spectrum is None:
        return None
    if blocks_of(model) > 1:
        raise ValueError(
            f"a spectrum is served for one head (troiani2025 (30)), got {blocks_of(model)}: each reads coordinates of "
            "its own"
        )
    return colour_of(as_spectrum(spectrum), dimension)


def count_of(alpha: float, dimension: int) -> int:
    """Number of samples, round(alpha D) and at least 1."""
    return max(1, round(alpha * dimension))


def alpha_of(alpha: float, dimension: int) -> float:
    """N/D of the whole number of samples N that `make_data` draws for an alpha."""
    return count_of(alpha, dimension) / dimension


def part_rows(tokens: int, dimension: int) -> int:
    """Samples that are drawn at a time."""
    return max(1, _ENTRIES // (tokens * dimension))


def draw(
    x: Floats, weights: Array, model: Model, generator: np.random.Generator, colour: Colour | None = None
) -> Array:
    """Fill x with new samples, of this covariance, and return their indices, shape (n, P, M)."""
    x[:] = generator.standard_normal(x.shape, dtype=x.dtype.type)
    if colour is not None:
        colour.tint(x)
    # As the network would, in double precision of the samples as they are stored.
    if isinstance(model, Network) and model.chain is not None and model.chain.root is not None:
        x[:] = model.chain.root @ x
    projected = of_blocks(x.astype(np.float64), model) @ weights.T
    return to_indices(np.swapaxes(projected, 1, 2), model) / math.sqrt(weights.shape[1])


def outputs_of(h: Array, model: Model, generator: np.random.Generator) -> Array:
    """Outputs of indices, with the noise that a model has."""
    y = model.link(h)
    return model.observed(y, generator.standard_normal(y.shape)) if model.random else y


def informed_start(weights: ArrayLike, q: ArrayLike | float, rng: np.random.Generator | int | None = None) -> Array:
    """Estimate of a teacher at overlap q, as a posterior mean would be: q W + (q - q^2)^{1/2} Z.

    Parameters
    ----------
    weights : array_like, shape (P, D)
    q : float or array_like of shape (P, P)
        Overlap with the teacher and with itself, 0 <= q < I.
    rng : Generator, int or None, optional

    Returns
    -------
    ndarray, shape (P, D)
    """
    w = numbers("weights", weights)
    matrix = numbers("q", q)
    overlap = check_overlap(matrix * np.eye(len(w)) if matrix.ndim == 0 else matrix, len(w))
    noise = stream(rng, 2).standard_normal(w.shape)
    return np.asarray(overlap @ w + matrix_root(overlap - overlap @ overlap) @ noise)


def check_weights(name: str, value: ArrayLike, model: Model, dimension: int | None = None) -> Array:
    """Return weights as float64 of shape (P, D), or raise ValueError."""
    array = numbers(name, value)
    p = weight_rows(model)
    if array.ndim != 2 or array.shape[0] != p or (dimension is not None and array.shape[1] != dimension):
        raise ValueError(
            f"{name} must have shape (P, D) = ({p}, {'D' if dimension is None else dimension}) (troiani2025 (1)), got "
            f"{array.shape}"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    return array
