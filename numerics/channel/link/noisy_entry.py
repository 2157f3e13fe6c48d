"""Channel averages of a noisy link of one entry of h: over fibres, near recovery over the posterior of each output."""

from contextlib import suppress
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...core.errors import NotServedError
from ...model.links import LinkKernel, Loaded, Part
from ..averages import SAFETY
from .fibres import FibreGroup, Resolved
from .scalar_noise import NoisyScalarLink

__all__ = ["NoisyEntry"]

Array = NDArray[np.float64]


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
        Several outputs, or poles, or no rule over its fibres that is about as good as panels of the posteriors.
    """

    # Variance of h given omega below which the posterior is narrower than the fibres, which noise spaces, lie apart.
    _least = 0.05

    def __init__(self, kernel: LinkKernel, noiseless: LinkKernel, part: Part, tolerance: float | None) -> None:
        super().__init__(kernel, part)
        self._fibres = FibreGroup(noiseless, part, kernel.noise, tolerance)
        if not _by_fibres(Loaded.of(kernel), Loaded.of(noiseless), tuple(part.entries)):
            raise NotServedError("its posteriors are resolved better than its fibres")

    def __call__(self, q: float) -> tuple[Array, Array]:
        """E g^2 and E (dg/d omega)^2 at the overlap q, each by two resolutions: shape (2,)."""
        if 1 - q >= self._least:
            with suppress(NotServedError):
                return _averages(self._fibres, q)
        return super().__call__(q)

    def log_density(self, q: float) -> Array:
        """E log Z_out at the overlap q by two resolutions: shape (2,)."""
        if 1 - q >= self._least:
            with suppress(NotServedError):
                return self._fibres.log_density(np.array([[q]]))
        return super().log_density(q)


def _averages(fibres: FibreGroup, q: float) -> tuple[Array, Array]:
    """E g^2 and E (dg/d omega)^2, each after what is as far from it as its error says."""
    found = fibres(np.array([[q]]), True)
    assert found.change is not None
    return _two(found.score), _two(found.change)


def _two(found: Resolved) -> Array:
    value, error = found.value.item(), found.error.item()
    return np.array([value + error / SAFETY, value])


@lru_cache(maxsize=64)
def _by_fibres(noisy: Loaded, noiseless: Loaded, entries: tuple[int, ...]) -> bool:
    """Whether fibres resolve averages about as well as panels of the posteriors, which take a hundred times as long."""
    part = noiseless.part(entries)
    # Overlap at which the two ways are compared; the difference of two resolutions over fibres at which they are not,
    # and the share of it that the other way must have to be taken.
    middle, enough, less = 0.5, 1e-8, 0.1
    found = _averages(FibreGroup(noiseless.kernel, part, noisy.noise), middle)[0]
    if np.ptp(found) <= enough:
        return True
    return bool(np.ptp(NoisyScalarLink(noisy.kernel, part)(middle)[0]) >= less * np.ptp(found))
