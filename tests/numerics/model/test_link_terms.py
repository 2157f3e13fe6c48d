"""Outputs of links as sums of functions of one combination of h."""

import numpy as np
import pytest

from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.model.link_terms import terms_of


@pytest.mark.parametrize(
    ("text", "noise", "axes", "cuts"),
    [
        ("sign(h[1])", "0", [[1]], [[0]]),
        ("sign(h[1]-1)+2*sign(h[1]+1)", "0", [[1]], [[-1, 1]]),
        ("sign(h[1])+sign(h[2])", "0", [[1, 0], [0, 1]], [[0], [0]]),
        ("(h[1]+h[2])**2", "0", [[0.5**0.5, 0.5**0.5]], [[]]),
        ("sign(h[1]+h[2])", "0", [[0.5**0.5, 0.5**0.5]], [[0]]),
        ("abs(h[1]-2*h[2])", "0", [[0.2**0.5, -2 * 0.2**0.5]], [[0]]),
        ("tanh(h[1]+h[2])", "0.1", [[0.5**0.5, 0.5**0.5]], [[]]),
    ],
)
def test_terms_and_their_jumps(text: str, noise: str, axes: list[list[float]], cuts: list[list[float]]) -> None:
    kernel = kernel_of(text, noise=noise)
    terms = terms_of(kernel, 0)
    assert terms is not None and len(terms) == len(axes)
    for term, axis, places in zip(terms, axes, cuts, strict=True):
        assert abs(abs(term.weights @ axis) - 1) < 1e-15
        assert np.abs(np.sort(term.cuts) - places).max(initial=0) < 1e-15
    h = np.random.default_rng(2).standard_normal((50, kernel.size))
    total = sum(term.value(h @ term.weights) for term in terms)
    differences = kernel.outputs(h.reshape(-1, kernel.tokens, kernel.indices).swapaxes(-1, -2))[:, 0] - total
    assert np.ptp(differences) < 1e-12


@pytest.mark.parametrize("text", ["h[1]*h[2]", "sign(h[1]*h[2])", "Max(h[1], h[2])", "h[1,1]**2 + h[1,1]*h[1,2]"])
def test_other_links_have_none(text: str) -> None:
    assert terms_of(kernel_of(text), 0) is None
