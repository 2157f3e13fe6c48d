"""Operators (15) of links from samples: the top eigenvalue, the subspace, and the independence of links."""

import numpy as np
import pytest

from attnlimits.numerics.core.errors import NotServedError
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.thresholds.link import operator as operators
from attnlimits.numerics.thresholds.link.leading import sampled_norm
from attnlimits.numerics.thresholds.link.operator import Operator, operator
from attnlimits.numerics.thresholds.link.thresholds import threshold

SIZES = (1.0, 0.97)
NOISE = 0.01
OPERATORS = 200


def drawn(rng: np.random.Generator) -> Operator:
    """Two indices of different eigenvalues, of which single samples are as far off as these are apart."""
    spread = np.zeros((8, 2, 2, 2, 2))
    for i, size in enumerate(SIZES):
        spread[:, i, i, i, i] = size + NOISE * rng.standard_normal(8)
    return Operator((0, 1), np.zeros((2, 2)), spread.mean(axis=0), NOISE, 0.0, 8, spread)


def test_the_top_eigenvalue_is_not_mixed_with_others_that_are_near() -> None:
    """Along the mean of both eigenvectors it was 0.985."""
    rng = np.random.default_rng(3)
    values, errors = np.array([sampled_norm(drawn(rng)) for _ in range(OPERATORS)]).T
    # Of 8 samples the order is certain: a mean of normal variables, to four standard deviations.
    assert abs(values.mean() - SIZES[0]) < 4 * NOISE / np.sqrt(8 * OPERATORS)
    assert np.mean(np.abs(values - SIZES[0]) <= 3 * errors) > 0.98


@pytest.fixture
def samples_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators from samples, without the quadrature that serves some of the links."""

    def refused(*_: object) -> Operator:
        raise NotServedError("not here")

    monkeypatch.setattr(operators, "_integrated", refused)


@pytest.mark.usefixtures("samples_alone")
def test_links_have_samples_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cube orders outputs as the product does: of the same samples both operators would be the same numbers."""
    monkeypatch.setattr(operators, "_LOG2_SAMPLES", 12)
    once, again, cube = (operator(kernel_of(t)).spread for t in ("h[1]*h[2]*h[3]",) * 2 + ("(h[1]*h[2]*h[3])**3",))
    np.testing.assert_array_equal(once, again)
    assert once is not None and cube is not None and np.abs(once - cube).max() > 0.01


@pytest.mark.usefixtures("samples_alone")
def test_indices_that_only_noise_joins_are_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "_LOG2_SAMPLES", 16)
    equal = threshold(kernel_of("abs(h[1]*h[2]*h[3])"))
    assert equal.subspace == "indices 1, 2, 3"
    assert "the eigenvalues of indices 1, 2, 3 are equal within the errors" in equal.status
    # The first of these has an eigenvalue several times as large as the others.
    apart = threshold(kernel_of("abs(h[1])**3*abs(h[2])**0.5*abs(h[3])**0.5"))
    assert apart.subspace == "index 1" and "equal within" not in apart.status
