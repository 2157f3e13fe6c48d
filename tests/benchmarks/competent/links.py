"""The links, and the script of each."""

from typing import NamedTuple

import numpy as np

from . import circle, erf_products, noisy_products, phase_signs, products, relus, signs, tanhs, token_products
from .iteration import Script, iterated

__all__ = ["CASES", "Case"]

# Projectors on (h_1 + h_2)/sqrt(2) and (h_1 - h_2)/sqrt(2); on two indices together, and on each of them.
_ROTATED = np.array([[[0.5, 0.5], [0.5, 0.5]], [[0.5, -0.5], [-0.5, 0.5]]])
_ONE = np.eye(2)[None]
_TWO = np.array([np.diag([1.0, 0.0]), np.diag([0.0, 1.0])])
# The first of three, and the two others.
_ONE_AND_TWO = np.array([np.diag([1.0, 0.0, 0.0]), np.diag([0.0, 1.0, 1.0])])


class Case(NamedTuple):
    """A link y = g(h) + sqrt(noise) z at alpha, and its script."""

    text: str
    alpha: float
    script: Script
    noise: float = 0.0

    @property
    def name(self) -> str:
        """As it is printed."""
        return f"{self.text}{f', noise {self.noise:g}' if self.noise else ''} at {self.alpha:g}"


_SIGNS = Script(iterated(signs.averages, 2), _ROTATED, (8, 12, 16, 24, 32, 48, 72))
_FIRST_OF_TOKENS = np.ones((1, 1, 1))

CASES = (
    Case("h[1]*h[2]", 0.8, Script(iterated(products.averages, 2), _ROTATED, (12, 16, 24, 32, 40, 56, 80))),
    Case("sign(h[1])+sign(h[2])", 1.0, _SIGNS),
    Case("sign(h[1])+sign(h[2])", 2.07, _SIGNS),
    Case("h[1]**2+h[2]**2", 1.5, Script(iterated(circle.averages, 1), _ONE, (8, 12, 16, 20, 30, 40))),
    Case("erf(h[1])*h[2]", 0.8, Script(iterated(erf_products.averages, 2), _TWO, (12, 16, 24, 32, 40, 56, 72))),
    Case(
        "h[1]+h[2]*h[3]",
        1.5,
        Script(iterated(noisy_products.with_a_third_index, 2), _ONE_AND_TWO[::-1], (16, 24, 36, 48, 60, 80)),
    ),
    Case(
        "h[1]**2+sign(h[1]*h[2]*h[3])",
        1.0,
        Script(iterated(phase_signs.averages, 2), _ONE_AND_TWO, (16, 24, 40, 60, 90, 120)),
    ),
    Case("h[1,1]*h[1,2]", 1.0, Script(token_products.solve, _FIRST_OF_TOKENS, (8, 12, 16, 24))),
    Case("tanh(h[1])+tanh(h[2])", 0.8, Script(iterated(tanhs.averages, 2), _ROTATED, (12, 16, 24, 32, 48, 64))),
    Case("Max(h[1],0)+Max(h[2],0)", 0.8, Script(iterated(relus.averages, 2), _ROTATED, (8, 12, 20, 32, 48))),
    Case("h[1]*h[2]", 0.8, Script(iterated(noisy_products.averages, 1), _ONE, (12, 16, 24, 36, 48, 60)), 0.1),
)
