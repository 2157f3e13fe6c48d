"""Activations that act on the scores one by one, f(beta h), as text in z: their values, kinks and inverses."""

import math
import re
from functools import cached_property

import numpy as np

from ..core.errors import UnreachableOutputError
from ..core.shown import few_lines
from ..learning.blocks import Array
from ..model.activations import ScoreFunction
from ..model.link_kernels import kernel_of
from ..model.links import LinkKernel
from .checks import CITE, above_zero

__all__ = ["EntryFunction", "is_function"]

_VARIABLE = re.compile(r"\bz\b")
_ENTRY = re.compile(r"\bh(_\d+)*\b")


def is_function(text: str) -> bool:
    """Whether a text is a function of one score z, and not the name of an activation."""
    return bool(_VARIABLE.search(text))


@few_lines
class EntryFunction:
    """f(beta h), entry by entry.

    Parameters
    ----------
    text : str
        A function of z in the grammar of links, such as "tanh(z)".
    beta : float

    Raises
    ------
    ValueError
        The text cannot be read, or is no function of one score; the message names the place.
    """

    def __init__(self, text: str, beta: float) -> None:
        self.text, self.beta = text, above_zero("beta", beta, "outputs entry by entry")
        if _ENTRY.search(text):
            raise ValueError(
                f"activation must be a function of one score z such as tanh(z) ({CITE}, (58)), got {text!r}"
            )
        self._function = ScoreFunction(text)
        kernel = self._function.kernel
        if kernel.size != 1 or len(kernel.text) != 1:
            raise ValueError(f"activation must be one number of one score z ({CITE}, (58)), got {text!r}")

    @cached_property
    def one_to_one(self) -> bool:
        """Whether f is provably strictly monotone."""
        return kernel_of(_VARIABLE.sub("h", self.text)).text == ("h_1_1",)

    @property
    def even(self) -> bool:
        """Whether f is provably even, so that outputs do not know the sign of h."""
        return any(-1 in flip for flip in self._kernel.flips)

    @property
    def _kernel(self) -> LinkKernel:
        return self._function.kernel

    @cached_property
    def breaks(self) -> Array:
        """Values of h at which f is not smooth."""
        bounds = {b for region in self._kernel.regions for b in region.interval(0) if math.isfinite(b)}
        return np.array(sorted(bounds)) / self.beta

    @cached_property
    def jumps(self) -> bool:
        """Whether f is not continuous."""
        step = 1e-9 * (1 + np.abs(self.breaks))
        off = np.abs(self(self.breaks + step) - self(self.breaks - step))
        return bool((off > 1e-6 * (1 + np.abs(self(self.breaks + step)))).any())

    def __call__(self, h: Array) -> Array:
        """f(beta h)."""
        values = self._function(self.beta * np.asarray(h, np.float64))
        if not np.isfinite(values).all():
            raise ValueError(
                f"activation {self.text!r} must be finite at every score ({CITE}, (58)); it is not at "
                f"{np.asarray(h)[~np.isfinite(values)].flat[0] * self.beta:.3g}"
            )
        return values

    def inverse(self, y: Array) -> Array:
        """H with these outputs, where f is strictly monotone.

        Raises
        ------
        UnreachableOutputError
            Outputs beyond the range of f, or where it saturates in float64.
        """
        gap = 4 * np.spacing(np.abs(y))
        low, found, high = (self._function.scores(y + side * gap) / self.beta for side in (-1, 0, 1))
        off = np.abs(self._function(self.beta * found) - y)
        unknown = np.abs(high - low)
        # Of scores, by which the rounding of an output may leave them unknown.
        known = 1e-6
        bad = (off > 1e-9 * (1 + np.abs(y))) | (unknown > known * (1 + np.abs(found)))
        if bad.any():
            sample = int(np.argmax(bad.reshape(len(y), -1).any(axis=1)))
            raise UnreachableOutputError(
                f"y of sample {sample} is no value of {self.text}, or one where rounding hides the score ({CITE}, "
                "(58)); take a smaller beta, a noise > 0, or leave such samples out, of x too"
            )
        return found
