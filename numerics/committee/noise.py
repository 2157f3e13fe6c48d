"""The committee behind its last layer, to leading order in 1/c: a sum of features, seen with noise.

With q_L = 1 - rho/c^2 the output (52) gives, given h_L to leading order, Y = X + eta z, where X = sum_l (s_l, t_l) over
the hidden layers, z is standard normal, and eta = sqrt(rho)/|b_L| with the mode b_L of the last layer. Where nothing of
the hidden layers is known, X is a sum of n iid features: its characteristic function is a power, so that nothing here
costs more as n grows.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from ..core.errors import ConvergenceError
from ..quadrature.rules import gauss_legendre_panels
from .features import features, quadrant, stability

__all__ = ["NoisySum"]

Array = NDArray[np.float64]

# exp(-k^2 eta^2/2), or the power of the characteristic function, at the end of the grid of k.
_END = 1e-9
# Widths of a Gaussian on either side.
_TAIL = 6.5


class _Grid(NamedTuple):
    """A square grid: its first point, its step, and the width of the Gaussians on it."""

    corner: Array
    step: float
    width: float


@njit(cache=True, nogil=True)
def _deposit(s: Array, t: Array, weights: Array, grid: _Grid, out: Array) -> None:
    """Add up weights times a Gaussian at each (s, t), on a grid, for every row of weights."""
    corner, step, width = grid
    spread = math.ceil(_TAIL * width / step)
    first, second = np.empty(2 * spread + 1), np.empty(2 * spread + 1)
    for j in range(len(s)):
        i1, i2 = round((s[j] - corner[0]) / step), round((t[j] - corner[1]) / step)
        for m in range(2 * spread + 1):
            off = m - spread
            first[m] = math.exp(-0.5 * ((corner[0] + (i1 + off) * step - s[j]) / width) ** 2)
            second[m] = math.exp(-0.5 * ((corner[1] + (i2 + off) * step - t[j]) / width) ** 2)
        for f in range(len(weights)):
            for m in range(2 * spread + 1):
                part = weights[f, j] * first[m]
                for n in range(2 * spread + 1):
                    out[f, i1 + m - spread, i2 + n - spread] += part * second[n]


class _Waves:
    """Fourier transforms of the law of (s, t - E t) of one layer, alone and with the entries of h h^T - I.

    The law is smeared on a grid by a Gaussian, half as wide as the least noise, that is divided out again; the grid is
    as fine as a Gaussian asks.
    """

    def __init__(self, beta: float, top: float, level: int) -> None:
        x, weights = quadrant((96 + 64 * level) + math.ceil((1.3 + 0.5 * level) * top), 8.6)
        a, b = np.meshgrid(x, x, indexing="ij")
        s, t = (part.ravel() for part in features(a, b, beta))
        w = 4 * np.outer(weights, weights)
        rows = np.array([w, w * (a**2 - 1), w * (b**2 - 1), math.sqrt(2) * w * a * b]).reshape(4, -1)
        self._width = 3.0 / top
        step = 0.8 * self._width
        margin = (_TAIL + 1) * self._width
        corner = np.array([-margin, -margin])
        shape = (math.ceil((1 + 2 * margin) / step) + 2,) * 2
        self._grid = np.zeros((4, *shape))
        _deposit(s, t, rows, _Grid(corner, step, self._width), self._grid)
        self._grid *= step**2 / (2 * math.pi * self._width**2)
        self._s, self._t = (
            start + step * np.arange(shape[0]) for start in (corner[0], corner[1] - stability(beta).mean)
        )

    def __call__(self, k1: Array, k2: Array) -> list[NDArray[np.complex128]]:
        """Return E cos(k1 s) e^{i k2 t} alone and times a^2 - 1 and b^2 - 1, and E sin(k1 s) e^{i k2 t} sqrt(2) a b."""
        phase = np.outer(k1, self._s)
        cos, sin = np.cos(phase), np.sin(phase)
        angle = np.outer(self._t, k2)
        turn = np.cos(angle), np.sin(angle)
        sharp = np.outer(*(np.exp(0.5 * (self._width * k) ** 2) for k in (k1, k2)))
        waves = (cos, cos, cos, sin)
        # Real products: of complex arrays with parts that vanish there would be twice as many.
        seen = [w @ f for w, f in zip(waves, self._grid, strict=True)]
        return [np.asarray((part @ turn[0] + 1j * (part @ turn[1])) * sharp, np.complex128) for part in seen]


@lru_cache(maxsize=16)
def _probed(beta: float) -> tuple[Array, Array]:
    """Values of k, and |phi| of one layer at pairs of them."""
    # Where the characteristic function of one layer is evaluated to find the range of its power.
    probe = 120.0
    k = np.linspace(0.0, probe, 401)
    return k, np.abs(_Waves(beta, probe, 0)(k, k)[0])


def _ends(beta: float, count: int) -> Array:
    """Find k_1 and k_2 beyond which |phi|^n counts no more; infinity where the probe does not reach so far."""
    k, size = _probed(beta)
    seen = size**count > _END
    last = [int(np.flatnonzero(seen.any(axis=1 - axis)).max()) for axis in (0, 1)]
    return np.array([math.inf if n >= 360 else 1.1 * k[n] + k[1] for n in last])


class _Parts(NamedTuple):
    """Real and imaginary part of an array, each in one piece of memory."""

    real: Array
    imag: Array


def _parts(values: NDArray[np.complex128]) -> _Parts:
    return _Parts(values.real.copy(), values.imag.copy())


class NoisySum:
    """Averages over Y = X + eta z at eta = sqrt(rho)/|b_L|, and over b_L.

    Parameters
    ----------
    count : int
        Number n = L - 1 >= 1 of hidden layers.
    beta : float
        Inverse temperature.
    least : float
        Smallest rho at which averages are taken.
    level : int
        Resolution 0, 1, ...; each adds digits.
    """

    # Amplitudes b_L are cut here: the mass beyond is 6e-7, and what depends on it varies like a logarithm.
    _largest = 5.0

    def __init__(self, count: int, beta: float, least: float, level: int = 0) -> None:
        layer = stability(beta)
        self._count, self._least = count, least
        self._width = np.sqrt(count * layer.rest(0.0))
        # Largest b^2 + |a b| of one layer but for a mass of 1e-9.
        square = 50.0
        # One layer may be far out, where its features grow like squares.
        self._tail = float(features(np.zeros(1), np.full(1, math.sqrt(square)), beta)[1][0])
        # Largest noise over the standard deviation of X that is computed.
        widest = 30.0
        narrow, self._widest = math.sqrt(least) / self._largest, widest * float(self._width.max())
        # The power of the characteristic function may end before the noise does.
        end = math.sqrt(-2 * math.log(_END)) / narrow
        self._top = np.minimum(end, _ends(beta, count)) if count > 2 else np.full(2, end)
        self._waves = _Waves(beta, float(self._top.max()), level)
        steps = max(8, math.ceil((7 + 4 * level) * math.log10(self._widest / narrow)))
        noise = np.geomspace(narrow, self._widest, steps)
        logs = np.log(noise)
        self._error, self._growth = (
            CubicSpline(logs, np.log(part)) for part in np.array([self._at(e) for e in noise]).T
        )

    def _at(self, eta: float) -> tuple[float, float]:
        """Return the mean square error of X, and E |E[h h^T - I | Y]|^2 of one layer, at this noise."""
        # Standard deviations of X, and of the noise, on either side of the mean.
        reach, noise = 9.0, 7.0
        # Half a period, from the mean: features are within 1 of theirs.
        half = np.minimum(reach * self._width + self._tail, self._count) + noise * eta
        top = np.minimum(self._top, math.sqrt(-2 * math.log(_END)) / eta)
        k1, k2 = (math.pi / h * np.arange(math.ceil(t * h / math.pi) + 1) for t, h in zip(top, half, strict=True))
        one, *others = self._waves(k1, k2)
        # Half of the weight on the axes: the trapezoidal rule on a quarter of the plane.
        weight = np.outer(*(np.exp(-0.5 * (eta * k) ** 2) * np.where(k > 0, 1.0, 0.5) for k in (k1, k2)))
        weight *= 4 * k1[1] * k2[1] / (2 * math.pi) ** 2
        density = one**self._count * weight
        moments = [other * one ** (self._count - 1) * weight for other in others]
        points = [len(k) + 8 for k in (k1, k2)]
        y1 = (np.arange(points[0]) + 0.5) * half[0] / points[0]
        y2 = ((np.arange(2 * points[1]) + 0.5) / points[1] - 1) * half[1]
        turn = _parts(np.exp(-1j * np.outer(k2, y2)))
        fields = [_parts(field) for field in (density, -1j * k2 * density, *moments)]
        del one, others, density, moments, weight

        def back(waves: Array, field: _Parts) -> Array:
            return np.asarray((waves @ field.real) @ turn.real - (waves @ field.imag) @ turn.imag)

        # Rows of the grid of outputs at once, which bounds the memory.
        rows = 1024
        blocks = [y1[begin : begin + rows] for begin in range(0, len(y1), rows)]
        densities = [back(np.cos(np.outer(y, k1)), fields[0]) for y in blocks]
        # Density below which an output counts as impossible, relative to the largest: rounding of a Fourier sum.
        tiny = 1e-11
        least = tiny * max(float(p.max()) for p in densities)
        cell = 2 * (half[0] / points[0]) * (half[1] / points[1])  # y1 of either sign
        information = growth = 0.0
        for y, p in zip(blocks, densities, strict=True):
            phase = np.outer(y, k1)
            cos, sin = np.cos(phase), np.sin(phase)
            inverse = np.where(p > least, cell / np.where(p > least, p, 1.0), 0.0)
            for wave, field in ((-sin * k1, fields[0]), (cos, fields[1])):
                information += float((back(wave, field) ** 2 * inverse).sum())
            for wave, field in zip((cos, cos, sin), fields[2:], strict=True):
                growth += float((back(wave, field) ** 2 * inverse).sum())
        return eta**2 * (2 - eta**2 * information), growth

    def _average(self, rho: float) -> tuple[float, float]:
        if not rho >= self._least:
            raise ConvergenceError(f"rho = {rho:.3g} is below {self._least:.3g}, the least that was prepared (52)")
        b = gauss_legendre_panels(
            np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 7), np.linspace(1.0, self._largest, 6)[1:]]), 12
        )
        weights = b.weights * np.exp(-0.5 * b.nodes**2) * math.sqrt(2 / math.pi)
        eta = math.sqrt(rho) / b.nodes
        log_eta = np.log(np.minimum(eta, self._widest))
        # Beyond the widest noise nothing of X is learned: to leading order its variance, and eta^-2.
        far = np.maximum(eta / self._widest, 1.0)
        share = 2 - np.exp(self._error(log_eta)) / eta**2
        growth = np.exp(self._growth(log_eta)) / far**2
        return float(weights @ share), float(weights @ growth)

    def share(self, rho: float) -> float:
        """Return E[eta^2 J], J the Fisher information of Y: 1/alpha at the fixed point of the last layer, (14)."""
        return self._average(rho)[0]

    def growth(self, rho: float) -> float:
        """Return lambda of a hidden layer (15), (187): E |E[h h^T - I | Y]|^2."""
        return self._average(rho)[1]
