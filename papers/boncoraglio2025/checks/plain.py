"""Plain evaluations for the checks: the spectral density of Y, integrals over it, and the hardmax information F(c).

They share nothing with the numerics. The density vanishes like a square root at the edges, so that with x = mid + half
cos(theta) every integrand is smooth and periodic in theta, and equal weights converge exponentially.
"""

import math
from collections.abc import Callable

import numpy as np
from mpmath import mpf
from mpmath.ctx_mp import MPContext
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]


def _cubic(x: Array | mpf, rho: mpf, noise: mpf, root: mpf) -> list[Array | mpf]:
    """Coefficients of the Stieltjes cubic, highest first."""
    return [noise, -(x + noise * root), x * root + 1 - rho, -root]


def edges(rho: float, noise: float) -> Array:
    """Edges of the support of Y, sorted: two, or four where it has two components."""
    root = math.sqrt(rho)
    quartic = [noise, -2 * noise * root, noise * rho + rho - 1, 2 * root, -rho]
    found = np.roots(quartic)
    g = np.sort(found[np.abs(found.imag) < 1e-9 * np.abs(found)].real)
    return np.sort(1 / g + rho / (root - g) + noise * g)


def spectrum(rho: float, noise: float, nodes: int = 200) -> tuple[Array, Complex, Array]:
    """Nodes x, the physical g(x) with Im g < 0, and weights dx on the support of Y.

    Parameters
    ----------
    rho, noise : float
        Width and Delta, > 0.
    nodes : int
        Per component of the support.
    """
    limits = edges(rho, noise).reshape(-1, 2)
    theta = (np.arange(nodes) + 0.5) * math.pi / nodes
    middle, half = limits.mean(axis=1, keepdims=True), np.diff(limits, axis=1) / 2
    x = (middle + half * np.cos(theta)).ravel()
    dx = (half * np.sin(theta) * math.pi / nodes).ravel()
    companion = np.zeros((x.size, 3, 3))
    lead, *rest = (np.broadcast_to(c, x.shape) for c in _cubic(x, rho, noise, math.sqrt(rho)))
    companion[:, 0, :] = -np.stack(rest, axis=1) / lead[:, None]
    companion[:, [1, 2], [0, 1]] = 1.0
    roots = np.linalg.eigvals(companion)
    g = np.take_along_axis(roots, np.argmin(roots.imag, axis=1)[:, None], axis=1)[:, 0]
    return x, g.astype(complex), dx


def mean(rho: float, noise: float, function: Callable[[Array, Complex], Array], nodes: int = 200) -> float:
    """Integral of rho_Y(x) function(x, g(x))."""
    x, g, dx = spectrum(rho, noise, nodes)
    return float(np.sum(-g.imag / math.pi * dx * function(x, g)))


def mmse(rho: float, noise: float, nodes: int = 200) -> float:
    """MMSE_rho(Delta) = Delta - (4 pi^2 / 3) Delta^2 int rho_Y^3, to about 1e-12 Delta^2."""
    return noise - 4.0 / 3.0 * noise**2 * mean(rho, noise, lambda x, g: g.imag**2, nodes)


def mmse_digits(ctx: MPContext, rho: mpf, noise: mpf, nodes: int) -> mpf:
    """Return `mmse` in arbitrary precision; the caller sets the precision and the nodes."""
    root = ctx.sqrt(rho)
    quartic = [noise, -2 * noise * root, noise * rho + rho - 1, 2 * root, -rho]
    tiny = ctx.mpf(10) ** (-ctx.dps // 2)
    # Real roots come without an imaginary part, or with one of rounding.
    real = [ctx.re(g) for g in ctx.polyroots(quartic, maxsteps=200, extraprec=200) if abs(ctx.im(g)) < tiny * abs(g)]
    limits = sorted(1 / g + rho / (root - g) + noise * g for g in real)
    total = ctx.zero
    for low, high in zip(limits[::2], limits[1::2], strict=True):
        middle, half = (low + high) / 2, (high - low) / 2
        for k in range(nodes):
            theta = (k + ctx.mpf(1) / 2) * ctx.pi / nodes
            roots = ctx.polyroots(_cubic(middle + half * ctx.cos(theta), rho, noise, root), maxsteps=100, extraprec=100)
            height = min(ctx.im(g) for g in roots)
            total += abs(height) ** 3 * half * ctx.sin(theta) * ctx.pi / nodes
    return noise - 4 / (3 * ctx.pi) * noise**2 * total


def bisect(function: Callable[[float], float], target: float, low: float, high: float) -> float:
    """Where an increasing or decreasing positive function of a positive argument takes a value, to rounding."""
    rising = function(high) > function(low)
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if (function(middle) < target) == rising else (low, middle)
    return math.sqrt(low * high)


def fixed_point(rho: float, error: float, information: Callable[[float], float]) -> float:
    """Sample ratio at which the state evolution has the error V: V = MMSE(Delta), alpha = V / (2 Delta F)."""
    noise = bisect(lambda d: mmse(rho, d, 120), error, 1e-7, 1e7)
    return error / (2.0 * noise * information((1.0 + rho - error) / error))


def bivariate_cdf(k1: Array, k2: Array, r: float) -> Array:
    """Phi2(k1, k2; r) by Owen's T function, to about 1e-16 absolute; neither argument may be zero."""
    root = math.sqrt(1.0 - r * r)
    first = special.owens_t(k1, (k2 - r * k1) / (k1 * root))
    second = special.owens_t(k2, (k1 - r * k2) / (k2 * root))
    return np.asarray(0.5 * (special.ndtr(k1) + special.ndtr(k2)) - first - second - 0.5 * (k1 * k2 < 0))


def partial(k1: Array, k2: Array, r: float) -> Array:
    """Derivative of Phi2(k1, k2; r) with respect to k1, phi(k1) Phi((k2 - r k1) / sqrt(1 - r^2))."""
    density = np.exp(-(k1**2) / 2) / math.sqrt(2 * math.pi)
    return np.asarray(density * special.ndtr((k2 - r * k1) / math.sqrt(1.0 - r * r)))


def bivariate_density(k1: Array, k2: Array, r: float) -> Array:
    """Density phi2(k1, k2; r) of two standard Gaussians of correlation r."""
    rest = 1.0 - r * r
    exponent = -(k1**2 - 2 * r * k1 * k2 + k2**2) / (2 * rest)
    return np.asarray(np.exp(exponent) / (2 * math.pi * math.sqrt(rest)))


def _terms(m1: Array, m2: Array, published: bool) -> Array:
    """Sum over the four labels of (P_1^2 + P_2^2 + (2/3) s_1 s_2 P_1 P_2) / Z at the means m."""
    total = np.zeros_like(m1)
    for s1 in (1.0, -1.0):
        for s2 in (1.0, -1.0):
            k1, k2, r = s1 * m1, s2 * m2, s1 * s2 / 3.0
            z = bivariate_cdf(k1, k2, r)
            if published:
                p1 = p2 = bivariate_density(k1, k2, r)
            else:
                p1, p2 = partial(k1, k2, r), partial(k2, k1, r)
            top = p1**2 + p2**2 + 2.0 / 3.0 * s1 * s2 * p1 * p2
            # A label of probability z adds of order z log(1/z): nothing at 1e-13, below which z has no digits.
            total += np.where(z > 1e-13, top / np.maximum(z, 1e-13), 0.0)
    return total


def hardmax_information(c: float, *, published: bool = False, nodes: int = 160) -> float:
    """F(c) of hardmax at two tokens by plain sums over the means m ~ N(0, c [[1, 1/3], [1/3, 1]]).

    Parameters
    ----------
    c : float
        q / V, > 0.
    published : bool
        With the bivariate density in place of both derivatives, as in the published code.
    nodes : int
        Per axis, even, so that no mean is zero. Uniform in arcsinh of the means: the terms vary on the scale one, the
        means on that of sqrt(c).
    """
    m1, m2, weight = _means(c, nodes)
    return float(np.sum(weight * _terms(m1, m2, published)))


def _means(c: float, nodes: int) -> tuple[Array, Array, Array]:
    """Grid of means m ~ N(0, c [[1, 1/3], [1/3, 1]]) in units of sqrt(3V), with its weights."""
    reach = math.asinh(9.0 * math.sqrt(c))
    u, step = np.linspace(-reach, reach, nodes, retstep=True)
    axis, scale = np.sinh(u), np.cosh(u) * step
    m1, m2 = np.meshgrid(axis, axis, indexing="ij")
    root = math.sqrt(c)
    density = bivariate_density(m1 / root, m2 / root, 1.0 / 3.0) / c
    return m1, m2, scale[:, None] * scale * density


def hardmax_entropy(c: float, nodes: int = 160) -> float:
    """Psi_out = sum over the labels of E Z log Z at q / V = c, by the sums of `hardmax_information`."""
    m1, m2, weight = _means(c, nodes)
    total = 0.0
    for s1 in (1.0, -1.0):
        for s2 in (1.0, -1.0):
            z = bivariate_cdf(s1 * m1, s2 * m2, s1 * s2 / 3.0)
            total += float(np.sum(weight * special.xlogy(np.maximum(z, 0.0), np.maximum(z, 0.0))))
    return total


def published_tail() -> float:
    """Limit of c F(c) of the published variant: its terms decay in all directions, and only the means near 0 count."""
    axis, step = np.linspace(-9.0, 9.0, 200, retstep=True)
    m1, m2 = np.meshgrid(axis, axis, indexing="ij")
    return float(_terms(m1, m2, True).sum()) * step**2 / (2 * math.pi * math.sqrt(8.0 / 9.0))
