"""Hidden parities: the teachers carry them exactly, the correlations are 0, and who learns them."""

import itertools
import math

import numpy as np
import pytest
import sympy as sp

from attnlimits.derive.multihead import parity as exact
from attnlimits.numerics.core.results import load
from attnlimits.numerics.multihead.adam import adam
from attnlimits.numerics.multihead.batch import Batch
from attnlimits.numerics.multihead.hardness import METHODS, hardness
from attnlimits.numerics.multihead.layer import multihead, nmse
from attnlimits.numerics.multihead.parity import (
    hidden_bit,
    parity_coefficients,
    parity_shifts,
    parity_teacher,
    sq_correlations,
)
from attnlimits.numerics.multihead.risk import exact_risk
from attnlimits.numerics.multihead.teachers import make_teacher
from attnlimits.papers.chen2024.figures import hardness as figure


def tokens(dim):
    return np.array(list(itertools.product([1, -1], repeat=dim)))


@pytest.mark.parametrize("n", range(1, 10))
def test_coefficients_solve_their_equations(n):
    sums = np.arange(-n, n + 1, 2)
    found = np.tanh(sums[:, None] + parity_shifts(n)) @ parity_coefficients(n)
    assert np.abs(found - (-1.0) ** ((n - sums) // 2)).max() < 1e-14
    assert len(parity_shifts(n)) == (n if n % 2 else n + 1)
    # The exact values increase with n towards 1.8766.
    assert 1.3 < np.abs(parity_coefficients(n)).max() < 1.877


@pytest.mark.parametrize("n", range(1, 7))
def test_coefficients_are_the_exact_ones(n):
    assert list(parity_shifts(n)) == exact.shifts(n)
    values = [float(c.subs(exact.token_exponent, sp.exp(2)).evalf(30)) for c in exact.coefficients(n)]
    assert parity_coefficients(n) == pytest.approx(values, rel=1e-13)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_the_layer_carries_the_parity_on_all_inputs(n):
    """By the definition of a parity, in integers."""
    made = parity_teacher(n, 6, n)
    assert len(set(made.subset)) == n and max(made.subset) < 5
    x = tokens(12).reshape(-1, 2, 6)
    outputs = multihead(x, made.theta, made.w)
    assert (outputs[..., 1:] == 0).all()
    differ = x[:, 0, -1] != x[:, 1, -1]
    for row in (0, 1):
        ones = (x[:, row, list(made.subset)] == -1).sum(axis=1)
        bit = (-1) ** ones * (x[:, row, -1] if n % 2 == 0 else 1)
        assert np.abs(outputs[differ, row, 0] - bit[differ]).max() < 1e-14
        assert (hidden_bit(x, made.subset)[:, row] == np.where(differ, bit, 0)).all()
        # Elsewhere nothing depends on the set.
        assert np.abs(outputs[~differ, row, 0] - x[~differ, row, -1] * made.coefficients.sum()).max() < 1e-14


def test_the_family_of_teachers_has_them():
    theta, w = make_teacher("parity", 3, 8, rng=4)
    made = parity_teacher(3, 8, 4)
    assert theta.shape == (3, 8, 8)
    assert exact_risk(theta, w, made.theta, made.w, 2).inputs == 2**16
    assert sorted(w[:, -1, 0]) == pytest.approx(sorted(made.coefficients))


@pytest.mark.parametrize(("n", "dim"), [(1, 3), (2, 5), (3, 6), (4, 6), (5, 6)])
def test_correlations_are_zero_by_plain_sums(n, dim):
    """The same sums without a transform, over all tokens."""
    x = tokens(dim)
    sets = list(itertools.combinations(range(dim - 1), n))
    bits = np.array([x[:, s].prod(axis=1) * (x[:, -1] if n % 2 == 0 else 1) for s in sets])
    assert (bits @ bits.T == 2**dim * np.eye(len(sets), dtype=int)).all()
    low = np.array([x[:, s].prod(axis=1) for size in range(n) for s in itertools.combinations(range(dim), size)])
    assert not (bits @ low.T).any()
    found = sq_correlations(n, dim)
    assert (found.concepts, found.inputs) == (len(sets), len(x))
    assert (found.pairwise, found.low_degree) == (0, 0)


def test_correlations_see_a_bit_that_is_no_parity(monkeypatch):
    """With one coordinate replaced by the constant, the bits have correlations of lower degree."""
    from attnlimits.numerics.multihead import parity

    right = parity.combinations
    monkeypatch.setattr(parity, "combinations", lambda pool, n: [part[1:] for part in right(pool, n)])
    found = sq_correlations(3, 6)
    assert found.low_degree == found.pairwise == found.inputs


@pytest.mark.parametrize("n", range(1, 8))
def test_correlations_at_ten_dimensions(n):
    found = sq_correlations(n, 10)
    assert (found.concepts, found.pairwise, found.low_degree) == (math.comb(9, n), 0, 0)


def test_adam_takes_the_steps_it_says():
    """Two steps of batch one on one example, by hand."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((1, 2, 3)), rng.standard_normal((1, 2, 3))
    theta, w = rng.standard_normal((2, 2, 3, 3))
    first = second = 0.0
    at, rates = np.stack([theta, w]), (0.1, 0.05)
    for step, rate in enumerate(rates, 1):
        gradient = np.stack(Batch(X, Y).loss(at[0], at[1])[1:])
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        at = at - rate * first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    found = adam(X, Y, theta, w, steps=2, batch=1, rate=0.1, rng=0)
    assert np.abs(np.stack([found.theta, found.w]) - at).max() < 1e-14
    assert found.loss == pytest.approx(nmse(Y, multihead(X, at[0], at[1])), rel=1e-12)


def test_one_hidden_coordinate_is_learned_by_all_but_sculpting():
    found = hardness((1,), dim=6, samples=1000, rng=0)
    assert tuple(point.method for point in found.points) == METHODS
    for point in found.points:
        if point.method == "sculpt":
            assert point.error == 1.0
            assert point.refused == "DegenerateSum" and point.status.startswith("DegenerateSum")
        else:
            assert point.error < 0.01 and not point.refused, point
        assert (point.n, point.heads) == (1, 1)
    assert "3 of 4" in found.status
    again = hardness((1,), dim=6, samples=1000, methods=("lbfgs",), rng=0)
    assert again.points[0].error < 0.01
    assert (again.correlations, again.seed) == (found.correlations, 0)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: parity_teacher(0, 5), "n must be an integer >= 1"),
        (lambda: parity_teacher(5, 5), "never hidden"),
        (lambda: sq_correlations(3, 15), "at most 14"),
        (lambda: hardness((1,), methods=("sgd",)), "methods must be one of adam, lbfgs, lm, sculpt"),
        (lambda: hardness((1,), starts=0), "starts must be"),
        (lambda: hardness((1,), start_scale=-1.0), "start_scale must be"),
    ],
)
def test_bad_arguments_are_named(call, said):
    with pytest.raises(ValueError, match=said):
        call()


# The stored table.


@pytest.fixture(scope="module")
def tables():
    return load(figure.DATA)["tables"]


def errors(table, method):
    return {p["n"]: p["error"] for p in table["points"] if p["method"] == method}


def test_the_table_is_what_its_settings_ask_for(tables):
    assert list(tables) == [*figure.TABLES, *figure.SMALL]
    for name, settings in (figure.TABLES | figure.SMALL).items():
        table = tables[name]
        assert table["dim"] == settings["dim"]
        assert len(table["points"]) == 7 * len(settings["methods"])
        for one in table["correlations"]:
            assert one["pairwise"] == one["low_degree"] == 0
        for point in table["points"]:
            assert point["heads"] == (point["n"] if point["n"] % 2 else point["n"] + 1)
            if point["method"] == "sculpt":
                assert point["error"] == 1.0
                assert point["status"].startswith("DegenerateSum")


def test_more_heads_are_harder_and_more_dimensions_too(tables):
    small, middle, large = (errors(tables[f"d = {d}"], "adam") for d in (10, 20, 30))
    # 1 is the trivial predictor; a standard error is below 0.02.
    assert max(small[1], small[3]) < 0.01
    assert small[7] > 0.1 > small[4]
    for n in (5, 6, 7):
        assert min(middle[n], large[n]) > 0.95
    assert small[4] < middle[4] < large[4]
    assert large[3] > 0.2 > middle[3]
    # Full-batch and second-order descents give up earlier, and all do from saturated starts.
    for method in ("lbfgs", "lm"):
        assert errors(tables["d = 10"], method)[7] > 0.8
    saturated = tables["d = 10, saturated start"]
    assert min(errors(saturated, method)[7] for method in ("adam", "lbfgs")) > 0.5


def test_small_starts_are_as_hard_as_they_were_to_the_earlier_program(tables):
    """At odd n, where the layers are alike: one bit is learned, seven are not, and three by Adam."""
    for name in figure.SMALL:
        for method, before in figure.PROTOTYPE.items():
            found = errors(tables[name], method)
            assert max(found[1], before[0]) < 0.01
            assert min(found[7], before[6]) > 0.95
        assert max(errors(tables[name], "adam")[3], figure.PROTOTYPE["adam"][2]) < 0.1
        # Adam is between the two at five bits.
        assert errors(tables[name], "adam")[5] == pytest.approx(figure.PROTOTYPE["adam"][4], abs=0.35)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [11, 12])
def test_small_starts_from_another_seed(seed):
    found = hardness((1, 3, 7), dim=10, methods=("adam",), start_scale=1.0, rng=seed).points
    assert max(found[0].error, found[1].error) < 0.01
    assert found[2].error > 0.5


@pytest.mark.slow
def test_a_table_from_another_seed():
    """n = 3 and 7: learned at d = 10, and out of reach of Adam at d = 20."""
    near = hardness((3, 7), dim=10, methods=("adam",), rng=1)
    assert near.points[0].error < 0.2
    assert near.points[1].error < 0.5
    far = hardness((3, 7), dim=20, methods=("adam",), starts=2, rng=1)
    assert far.points[0].error < 0.3
    assert far.points[1].error > 0.9
