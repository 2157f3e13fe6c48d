"""What acts on the scores of a layer: softmax, nothing, or a function of the user."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from ..core.shown import in_html
from .link_kernels import kernel_of
from .links import LinkKernel

__all__ = ["ACTIVATIONS", "Activation", "ScoreFunction", "activated", "finite_output", "read_activation"]

Array = NDArray[np.float64]
Activation = str | Callable[[Array], Array]

ACTIVATIONS = ("softmax", "linear")
# Scores are looked for up to here, by halving the interval this many times.
_LARGEST, _BISECTIONS = 1e6, 200
# From so many on NumPy adds up the entries of a row in another order than one after the other.
_MANY_COLUMNS = 8
_VARIABLE = re.compile(r"\bz\b")


@in_html
@dataclass(frozen=True)
class ScoreFunction:
    """A function of one score z, entry by entry, written in the grammar of links.

    Parameters
    ----------
    text : str
        Such as "tanh(z)".

    Raises
    ------
    ValueError
        When it is first evaluated: the text cannot be read; the message names the place.
    """

    text: str

    @cached_property
    def kernel(self) -> LinkKernel:
        """The function as a link of one entry."""
        return kernel_of(_VARIABLE.sub("h", self.text), reduced=False)

    @property
    def __name__(self) -> str:
        """The text itself."""
        return self.text

    def __call__(self, scores: Array) -> Array:
        """Values at scores of any shape."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(self.kernel.outputs(np.asarray(scores)[..., None, None])[..., 0])

    def scores(self, values: Array) -> Array:
        """Scores at which a strictly monotone function has these values, to rounding; the nearest where it has none."""
        rising = bool(self(np.array(1.0)) > self(np.array(-1.0)))
        low, high = np.full(values.shape, -_LARGEST), np.full(values.shape, _LARGEST)
        for _ in range(_BISECTIONS):
            # Between numbers of one sign by their logarithms, so that small scores are as exact as large ones.
            with np.errstate(invalid="ignore"):
                middle = np.where(low * high > 0, np.sign(low) * np.sqrt(low * high), 0.5 * (low + high))
            above = (self(middle) < values) == rising
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return 0.5 * (low + high)


def read_activation(given: Activation) -> Activation:
    """Return a text in z, and a function or an expression of SymPy, as a `ScoreFunction`; others as they are."""
    if isinstance(given, str):
        return ScoreFunction(given) if given not in ACTIVATIONS and _VARIABLE.search(given) else given
    sympy = sys.modules.get("sympy")
    if sympy is None or isinstance(given, ScoreFunction):
        return given
    if isinstance(given, sympy.FunctionClass | sympy.Lambda):
        return ScoreFunction(str(given(sympy.Symbol("z"))))
    if isinstance(given, sympy.Expr) and len(given.free_symbols) == 1:
        return ScoreFunction(str(given.subs(*given.free_symbols, sympy.Symbol("z"))))
    return given


def activated(scores: Array, activation: Activation, beta: float) -> Array:
    """Attention sigma(beta scores); a row-wise softmax, or entry by entry.

    Raises
    ------
    ValueError
        A function of the user fails, returns another shape, or is not finite at a finite score.
    """
    scores = beta * scores
    if activation == "linear":
        return scores
    if activation == "softmax":
        powers = np.exp(scores - _along_rows(np.maximum, scores))
        return np.asarray(powers / _along_rows(np.add, powers), dtype=np.float64)
    assert callable(activation)
    try:
        value = np.asarray(activation(scores), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "activation must take an array of scores and return an array of numbers, entry by entry (3); it failed "
            f"with {type(error).__name__}: {error}"
        ) from error
    if value.shape != scores.shape:
        raise ValueError(f"activation must act entry by entry (3): shape {scores.shape} in, but {value.shape} out")
    bad = np.isfinite(scores) & ~np.isfinite(value)
    if bad.any():
        got, where = float(value[bad][0]), float(scores[bad][0])
        raise ValueError(f"activation must be finite at every finite score (3), got {got} at the score {where:g}")
    return value


def _along_rows(operation: np.ufunc, values: Array) -> Array:
    """Maximum or sum over the last axis, which stays; of a few columns by columns, which is faster than by rows."""
    count = values.shape[-1]
    if not 0 < count < _MANY_COLUMNS:
        return np.asarray(operation.reduce(values, axis=-1, keepdims=True))
    return reduce(operation, (values[..., k : k + 1] for k in range(count)))


def finite_output(value: Array, layers: int) -> Array:
    """Return what so many layers give, or raise OverflowError."""
    if not np.isfinite(value).all():
        raise OverflowError(
            f"the output of {layers} layers exceeds float64 (2)-(3): use smaller inputs, beta or skip, or the "
            "softmax activation, whose outputs are bounded"
        )
    return value
