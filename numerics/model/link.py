"""A user's own link y = g(h): what it was written as, and its kernel."""

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypedDict

from ..core.shown import in_html
from ..core.validation import not_negative, within
from .link_kernels import kernel_of, noiseless_of
from .links import LinkKernel

__all__ = ["MAX_DIGITS", "Link"]

#: Significant digits of the threshold of a link at most: its sums are in float64.
MAX_DIGITS = 13


class _Sizes(TypedDict):
    """Numbers of tokens and indices."""

    tokens: int | None
    indices: int | None


@in_html
@dataclass(frozen=True)
class Link:
    """A link y = g(h) + sqrt(Delta) z of one's own, in place of a network.

    Parameters
    ----------
    text : str or sympy expression
        In h[p, m], or h[p] for one token, such as "sign(h[1]*h[2])"; several outputs in brackets. A SymPy expression
        has the symbols h_p or h_p_m.
    noise : str or float, optional
        Variance Delta >= 0 of Gaussian noise on y; a text is read exactly.
    tokens, indices : int, optional
        M and P; by default the largest that occur.
    label_noise : str or float, optional
        Probability that a discrete output is replaced by another of its K values, each of which is as likely; from 0
        to below 1 - 1/K. Of several outputs, all together are one value.

    Raises
    ------
    ValueError
        When the kernel is first needed: the link cannot be read or solved; the message names the part.
    ConvergenceError
        Its derivation took too long or too much memory.

    Examples
    --------
    >>> Link("abs(h[1])").describe()
    'y = Abs(h_1_1), P=1, M=1'
    """

    text: str
    noise: str = "0"
    tokens: int | None = None
    indices: int | None = None
    label_noise: str = "0"

    def __post_init__(self) -> None:
        """Keep the texts of expressions and of numbers."""
        object.__setattr__(self, "text", str(self.text))
        object.__setattr__(self, "noise", str(self.noise))
        object.__setattr__(self, "label_noise", str(self.label_noise))

    @cached_property
    def kernel(self) -> LinkKernel:
        """Kernel: from the user's cache, or derived and kept there."""
        size = math.nan
        with suppress(ValueError, ZeroDivisionError):  # what is no number is refused where it is read
            size = _number(self.noise)
        if size > 0:
            within("noise", size)
        kernel = kernel_of(self.text, **self._sizes, noise=self.noise, reduced=not self._replaced)
        return self._seen(kernel)

    @property
    def _sizes(self) -> "_Sizes":
        return {"tokens": self.tokens, "indices": self.indices}

    @property
    def _replaced(self) -> float:
        """Probability that a label is replaced by another one."""
        try:
            probability = _number(self.label_noise)
        except (ValueError, ZeroDivisionError):
            asked = "label_noise must be a number >= 0 in decimal or as a fraction"
            raise ValueError(f"{asked}, got {self.label_noise!r}") from None
        return not_negative("label_noise", probability, "(9)")

    def _seen(self, kernel: LinkKernel) -> LinkKernel:
        """The kernel with label noise."""
        return kernel.with_label_noise(self._replaced) if self._replaced else kernel

    @cached_property
    def noiseless(self) -> LinkKernel | None:
        """The same outputs without noise, None where there is none or they cannot be solved."""
        return noiseless_of(self.kernel, self.text)

    @cached_property
    def observed(self) -> LinkKernel:
        """Kernel of the outputs as they are in data.

        The other kernel is of outputs that hold the same: `2*h[1]` is `h[1]` for what can be learned, and not where the
        numbers themselves are given. Where there are more or fewer of them than were written, those are the data.
        """
        if self.kernel.noise:
            return self.kernel
        written = kernel_of(self.text, **self._sizes, noise=self.noise, reduced=False)
        same = len(written.text) != len(self.kernel.text) or written.text == self.kernel.text
        return self.kernel if same else self._seen(written)

    @property
    def limit(self) -> LinkKernel:
        """Kernel of the limit without noise, in which outputs that hold the same are reduced."""
        return replace(self, noise="0").kernel

    @property
    def slopes(self) -> LinkKernel:
        """Kernel with the slopes of every output, which are those without noise."""
        if not self.kernel.noise:
            return self.observed
        return kernel_of(self.text, **self._sizes, reduced=False)

    def along(self, axes: tuple[tuple[int, ...], ...], *, noise: str) -> LinkKernel:
        """Kernel with this noise and with the indices counted along orthogonal vectors."""
        return self._seen(kernel_of(self.text, **self._sizes, noise=noise, axes=axes))

    def describe(self) -> str:
        """One line about the link."""
        return self.kernel.describe()


def _number(text: str) -> float:
    """A number in decimal or as a fraction."""
    numerator, _, denominator = text.partition("/")
    return float(numerator) / float(denominator or 1)
