"""Layers of two tokens by the two numbers that their scores enter through, and the kernels printed of it."""

import itertools

import numpy as np
import pytest
import sympy as sp
from mpmath.ctx_mp import MPContext
from scipy.integrate import quad

from attnlimits.derive.pair_scores import posterior_entries, prove_scores, solved_scores, wider_fibre
from attnlimits.derive.proof import ProofError, prove_equal
from attnlimits.generated.scores_untied_softmax_m2 import numpy64
from attnlimits.numerics.model.kernels import load_package

EPS = np.finfo(float).eps


@pytest.fixture(scope="module")
def mp(derived):
    """The printing for arbitrary precision, which is not committed."""
    return load_package(derived("scores_untied_softmax_m2"), "mp")


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_the_output_shows_two_numbers(rank):
    prove_scores(rank)


def test_a_wrong_mixing_matrix_is_no_proof(monkeypatch):
    monkeypatch.setattr("attnlimits.derive.pair_scores.seen_scores", lambda plus, minus, *_: (minus, plus))
    with pytest.raises(ProofError, match="differences of scores"):
        prove_scores(1)


def test_what_is_solved_gives_the_scores_back():
    u, w, upper, lower = sp.symbols("u w S T", real=True)
    plus, minus, determinant = solved_scores(u, w, upper, lower)
    prove_equal(sp.Matrix([lower**2 * minus, lower * (plus + upper * minus)]), sp.Matrix([u, w]), "scores")
    assert determinant == lower**3


def _fibre_moment(power, rho):
    """Integral of t^p exp(-t^2/2 - rho^2/(2 t^2)) over t > 0."""
    return quad(lambda t: t**power * np.exp(-0.5 * (t * t + rho * rho / (t * t))), 0, np.inf, epsabs=0, epsrel=1e-12)[0]


@pytest.mark.parametrize(("rank", "rho"), list(itertools.product([1, 2, 3, 5], [0.1, 1.0, 7.0])))
def test_moments_of_the_fibre(rank, rho):
    """Two more rows, and E[t^-2], against integrals over t."""
    low, middle, high = (_fibre_moment(rank - 3 + 2 * k, rho) for k in range(3))
    density, mean = wider_fibre(low, middle / low, rho, rank)
    assert float(density) == pytest.approx(middle / rank, rel=1e-9)
    assert float(mean) == pytest.approx(high / middle, rel=1e-9)
    entries = posterior_entries(1.0, 0.0, rho, middle / low, rank)
    inverse = _fibre_moment(rank - 5, rho) / low
    assert entries["kk_pp"] == pytest.approx((rho**2 * inverse + rank - 1) / rank - 1, rel=1e-9, abs=1e-9)


def _context():
    context = MPContext()
    context.dps = 40
    return context


def test_layer_keeps_its_digits_where_the_entry_is_small(mp):
    ctx = _context()
    for u, w, excess in itertools.product([-40.0, -3.0, 0.2, 600.0], [-7.0, 0.0, 2.5], [0.0, 1e-9, 2.0]):
        s, lower = mp.layer(ctx, u, w, excess)
        made = numpy64.layer(u, w, excess)
        assert abs(made[0] - s) <= 8 * EPS * max(1, abs(u) + abs(w)) * max(abs(s), lower)
        assert abs(made[1] - lower) <= 8 * EPS * (1 + abs(u) + abs(w)) * lower


def test_beside_the_root_no_digit_is_lost(mp):
    ctx = _context()
    for w, c in itertools.product([0.0, 0.3, 5.0, 300.0], [0.01, 0.5, 0.97]):
        (exact,) = mp.root(ctx, w, c)
        (root,) = numpy64.root(w, c)
        assert abs(root - exact) <= 1e-13 * (1 + abs(w))
        # The exact lower entry vanishes there.
        assert abs(mp.layer(ctx, exact, w, ctx.mpf(c) - 1)[1]) <= 1e-36
        for d in (1e-12, -1e-5, 0.7, -30.0):
            (wanted,) = mp.beside(ctx, d, exact, w)
            direct = mp.layer(ctx, exact + d, w, ctx.mpf(c) - 1)[1]
            assert abs(wanted - direct) <= 1e-30
            (made,) = numpy64.beside(d, float(exact), w)
            assert abs(made - wanted) <= 64 * EPS * (1 + abs(w) + abs(d)) * abs(wanted)
