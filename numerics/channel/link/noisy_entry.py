"""Channel averages of a noisy link of one entry of h: over fibres, near recovery over the posterior of each output."""

from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from ...core.errors import NotServedError
from ...model.links import LinkKernel, Part
from ..averages import SAFETY
from .fibres import FibreGroup, Resolved
from .scalar_noise import NoisyScalarLink

__all__ = ["NoisyEntry"]

Array = NDArray[np.float64]

# Variance of h given omega below which the posterior is narrower than the fibres, which noise spaces, lie apart.
_LEAST = 0.05
# Difference of two resolutions, in units of 1/V, at which the other ones are not tried.
_ENOUGH = 1e-6


class NoisyEntry(NoisyScalarLink):
    """One noisy output of one entry of h.

    Parameters
    ----------
    kernel : LinkKernel
    noiseless : LinkKernel
        The same link without noise.
    part : Part
        Of the latter.
    tolerance : float, optional
        Of averages over fibres, as of `FibreGroup`.

    Raises
    ------
    NotServedError
        Several outputs, or poles, or no rule over its fibres.
    """

    def __init__(self, kernel: LinkKernel, noiseless: LinkKernel, part: Part, tolerance: float | None) -> None:
        super().__init__(kernel, part)
        self._fibres = FibreGroup(noiseless, part, kernel.noise, tolerance)

    def __call__(self, q: float) -> tuple[Array, Array]:
        """E g^2 and E (dg/d omega)^2 at the overlap q, each by two resolutions: shape (2,)."""
        found = self._by_fibres(q)
        if found is not None and np.ptp(found[0]) <= _ENOUGH / (1 - q):
            return found
        other = super().__call__(q)
        return other if found is None or np.ptp(other[0]) <= np.ptp(found[0]) else found

    def _by_fibres(self, q: float) -> tuple[Array, Array] | None:
        if 1 - q >= _LEAST:
            with suppress(NotServedError):
                found = self._fibres(np.array([[q]]), True)
                if found.change is not None:
                    return _two(found.score), _two(found.change)
        return None

    def log_density(self, q: float) -> Array:
        """E log Z_out at the overlap q by two resolutions: shape (2,)."""
        if 1 - q >= _LEAST:
            with suppress(NotServedError):
                return self._fibres.log_density(np.array([[q]]))
        return super().log_density(q)


def _two(found: Resolved) -> Array:
    """A value that is as far from the finer one as its error says, and the finer one."""
    value, error = found.value.item(), found.error.item()
    return np.array([value + error / SAFETY, value])
