"""The spectrum of what the matrix denoiser sees, as a result that one looks at: support, density, shrinkage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..core.errors import ConvergenceError
from ..core.pictures import plots
from ..core.results import Estimate, Result, versions
from ..core.validation import numbers
from ..learning.blocks import Array
from .checks import CITE, above_zero, count
from .spectrum import Spectrum, mmse

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["SpectrumResult", "spectrum"]

_EPS = float(np.finfo(float).eps)
# Of the mass, beyond which the density is not known.
_MASS = 1e-6


@dataclass(frozen=True, repr=False)
class SpectrumResult(Result):
    """Law of the eigenvalues of Y = S + sqrt(Delta) Z in the limit of large d.

    Attributes
    ----------
    rho, delta : float
    edges : ndarray, shape (k, 2)
        Ends of the one or two intervals of the support.
    edge_error : float
        Estimated bound on the error of each.
    mass : Estimate
        Integral of the density, one but for its error.
    mmse : Estimate
        Error of the denoiser.
    x, density, shrunk : ndarray, shape (n,)
        Eigenvalues, the density at them, and the estimates f(x) of the eigenvalues of S.
    density_error, shrunk_error : ndarray, shape (n,)
        Estimated bounds on their errors: rounding, which counts at edges, and what a range of Delta leaves open.
    status, versions
        Provenance.
    """

    papers: ClassVar[tuple[str, ...]] = ("boncoraglio2025",)

    rho: float
    delta: float
    edges: Array
    edge_error: float
    mass: Estimate
    mmse: Estimate
    x: Array
    density: Array
    shrunk: Array
    density_error: Array
    shrunk_error: Array
    status: str
    versions: dict[str, str] = field(default_factory=versions)

    def lines(self) -> Iterator[str]:
        """Support and error."""
        yield "support " + ", ".join(f"[{low:.10g}, {high:.10g}]" for low, high in self.edges)
        yield f"MMSE = {self.mmse.value:.10g} +- {self.mmse.error:.1e}"
        yield self.status

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw density and shrinkage over the eigenvalues; returns the matplotlib axes."""
        with plots().on_axes(axes) as axes:
            axes.plot(self.x, self.density, label="density")
            axes.plot(self.x, self.shrunk, "--", label="estimate f(x)")
            axes.set(xlabel="eigenvalue x of Y", title=rf"$\rho$ = {self.rho:g}, $\Delta$ = {self.delta:g}")
            plots().legend_below(axes, 2)
            return axes


def spectrum(
    rho: float,
    delta: float,
    *,
    at: ArrayLike | None = None,
    points: int = 201,
    within: Sequence[float] = (),
) -> SpectrumResult:
    """Support, density and optimal shrinkage of the eigenvalues of Y = S + sqrt(Delta) Z.

    Parameters
    ----------
    rho, delta : float
        Width r/d and variance of the noise.
    at : array_like, shape (n,), keyword-only, optional
        Eigenvalues; by default `points` of them on every interval, denser at its ends.
    points : int, keyword-only
    within : sequence of float, keyword-only, optional
        Ends of the range of the noise, such as the `bracket` of a fixed point: errors contain what it leaves open.

    Returns
    -------
    SpectrumResult

    Raises
    ------
    ValueError
        A parameter out of range.
    ConvergenceError
        Intervals that float64 does not resolve, or a range of the noise in which their number changes.

    References
    ----------
    boncoraglio2025, (12)-(17).
    """
    found = Spectrum(rho, delta)
    ends = [Spectrum(rho, above_zero("within", end, "matrix denoiser")) for end in within]
    if any(end.edges.shape != found.edges.shape for end in ends):
        raise ConvergenceError(
            f"Delta is known to be from {min(within):.3g} to {max(within):.3g} alone, where a gap of the spectrum "
            f"opens ({CITE}, matrix denoiser); give one value of it"
        )
    mass = found.mass()
    if abs(mass.value - 1) > _MASS:
        raise ConvergenceError(
            f"the density integrates to {mass.value:.9g} at rho = {rho:g}, Delta = {delta:g} ({CITE}, matrix "
            "denoiser): intervals of the support are too narrow for float64; mmse_digits (aim denoise --digits) has "
            "the error"
        )
    if at is None:
        angles = np.linspace(-0.5 * np.pi, 0.5 * np.pi, count("points", points, 2, "matrix denoiser"))
        middle, half = found.edges.mean(axis=1), 0.5 * np.diff(found.edges, axis=1)
        x = (middle[:, None] + half * np.sin(angles)).ravel()
    else:
        x = np.atleast_1d(numbers("at", at))
        if not np.isfinite(x).all():
            raise ValueError(f"at must be finite ({CITE}, matrix denoiser), got NaN or infinity; leave these out")
    # At an edge x is stationary in the parameter, so that the rounding of its terms is what is left.
    e = np.exp(np.array(found.intervals)).ravel()
    largest = float((1 / (found.s + e) + found.rho / e + found.delta * (found.s + e)).max())
    density, shrunk, least = found.density(x), found.shrink(x), mmse(rho, delta)
    rounding = _rounding(found, x, density, shrunk, largest)
    off = _most(np.array(least.value), [np.array(mmse(rho, end).value) for end in within])
    return SpectrumResult(
        rho=found.rho,
        delta=found.delta,
        edges=found.edges,
        edge_error=8 * _EPS * largest + float(_most(found.edges, [end.edges for end in ends]).max()),
        mass=Estimate(mass.value, max(mass.error, abs(mass.value - 1)), "estimated"),
        mmse=Estimate(least.value, least.error + float(off), least.how),
        x=x,
        density=density,
        shrunk=shrunk,
        density_error=rounding[0] + _most(density, [end.density(x) for end in ends]),
        shrunk_error=rounding[1] + _most(shrunk, [end.shrink(x) for end in ends]),
        status=f"converged: the density integrates to one within {max(mass.error, abs(mass.value - 1)):.0e}",
    )


def _rounding(found: Spectrum, x: Array, density: Array, shrunk: Array, largest: float) -> tuple[Array, Array]:
    """What rounding leaves of density and estimate: that of the terms of x moves x, and that of log e both of them."""
    off = 8 * _EPS * (largest + np.abs(x))
    near = [(found.density(at), found.shrink(at)) for at in (x - off, x + off)]
    relative = 8 * _EPS * (1 + float(np.abs(found.intervals).max()))
    return (
        _most(density, [one for one, _ in near]) + (relative + found.rounding(x)) * density,
        # Outside of the support it is a difference from x.
        _most(shrunk, [one for _, one in near])
        + relative * np.abs(shrunk)
        + 2 * _EPS * (np.abs(x) + np.abs(x - shrunk)),
    )


def _most(values: Array, others: list[Array]) -> Array:
    """Largest distance of each value from the others."""
    return np.asarray(np.max([np.zeros_like(values), *(np.abs(other - values) for other in others)], axis=0))
