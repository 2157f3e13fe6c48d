"""State evolution of y = g(h) + noise for one entry h, by plain sums over omega, h and y.

No part of it is shared with the numerics.
"""

from collections.abc import Callable
from functools import cache

import numpy as np

__all__ = ["EVEN", "alpha_of", "rising"]

Array = np.ndarray
# Smooth even functions of one entry.
EVEN: dict[str, Callable[[Array], Array]] = {
    "h**2": lambda h: h**2,
    "cos(h)": np.cos,
    "exp(-h**2)": lambda h: np.exp(-(h**2)),
}
STEPS = (1.0, 1.3)


@cache
def _likelihood(text: str, noise: str, step: float) -> tuple[Array, Array]:
    """Nodes of h, and the density of y given h, times the root of the step of y, shape (h, y)."""
    sigma = float(noise) ** 0.5
    h = np.arange(-9.5, 9.5, 0.012 * step * min(1.0, 2 * sigma))
    values = EVEN[text](h)
    y = np.arange(values.min() - 9.5 * sigma, values.max() + 9.5 * sigma, 0.12 * step * sigma)
    density = np.exp(-0.5 * ((y - values[:, None]) / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))
    return h, density * 0.12 * step * sigma


def _average(q: float, text: str, noise: str, step: float) -> float:
    """G(q) = E (E[h | y, omega] - omega)^2/V^2."""
    h, density = _likelihood(text, noise, step)
    # Even: half the line of omega.
    z = (np.arange(0, 9.5, 0.1 * step) + 0.05 * step)[:, None]
    weights = np.exp(-0.5 * z[:, 0] ** 2)
    omega, v = np.sqrt(q) * z, 1 - q
    given = np.exp(-0.5 * (h - omega) ** 2 / v)
    given /= given.sum(axis=1, keepdims=True)
    mass, moved = given @ density, (given * (h - omega)) @ density
    inner = np.where(mass > 1e-250, moved**2 / np.maximum(mass, 1e-250), 0.0).sum(axis=1)
    return float(weights @ inner / weights.sum()) / v**2


@cache
def alpha_of(q: float, text: str, noise: str, step: float = STEPS[0]) -> float:
    """alpha at which q is a fixed point, q/((1 - q) G(q))."""
    return q / ((1 - q) * _average(q, text, noise, step))


def rising(q: float, text: str, noise: str) -> tuple[float, float] | None:
    """alpha at which an uninformed start ends at q, and the error of q; None where it ends elsewhere."""
    fine, coarse = (alpha_of(q, text, noise, step) for step in STEPS)
    below = [alpha_of(float(x), text, noise) for x in np.arange(0.02, 0.98, 0.06) if x < q - 0.01]
    slope = (alpha_of(q + 1e-3 * (1 - q), text, noise) - fine) / (1e-3 * (1 - q))
    if slope <= 0 or any(value >= fine for value in below):
        return None
    return fine, (abs(fine - coarse) + 1e-13) / slope
