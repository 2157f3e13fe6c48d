import numpy as np
import pytest
import sympy as sp

from attnlimits.derive import symbols
from attnlimits.derive.architecture import Architecture
from attnlimits.derive.linearization import (
    apply_operator,
    curvature_blocks,
    layer_multipliers,
    layer_term,
    prove_parity,
    single_layer_eigenvalue,
    single_layer_threshold,
)


@pytest.mark.parametrize("tokens", [2, 3, 7, 100])
def test_single_layer_threshold_is_exact(tokens):
    value = single_layer_threshold(tokens)
    assert isinstance(value, sp.Rational)
    assert value == sp.Rational(1, tokens * (tokens + 1))


def test_single_layer_threshold_for_symbols():
    r = sp.Symbol("r", integer=True, positive=True)
    m = symbols.tokens
    assert sp.cancel(single_layer_threshold() - 1 / (m * (m + 1))) == 0
    assert sp.cancel(single_layer_threshold(rank=r) - r / (m * (m + 1))) == 0
    assert single_layer_threshold(4, 3) == sp.Rational(3, 20)
    # The linear output fixes h^T h at any rank.
    assert single_layer_threshold(2, 5, "linear") == sp.Rational(5, 6)


@pytest.mark.parametrize("rank", [1, 2])
def test_single_layer_eigenvalue_against_exact_moments(rank):
    """The same number by the operator itself: G_{mm'} = h_m h_{m'}^T averaged over the rotations, M = 3."""
    tokens = 3
    rng = np.random.default_rng(11)
    h = rng.normal(size=(400_000, rank, tokens))
    gram = np.einsum("nkm,nkl->nml", h, h) / rank - np.eye(tokens)
    norms = (gram**2).sum(axis=(1, 2))
    sigma = norms.std() / np.sqrt(len(norms))
    # Four standard errors of this seeded sample.
    assert abs(norms.mean() - float(single_layer_eigenvalue(tokens, rank))) < 4 * sigma
    assert sigma < 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1,), "tokens must be an integer >= 2, got 1"),
        ((2, 0), "rank must be an integer >= 1, got 0"),
        ((2, 2), "does not fix h"),
        ((2, 1, "relu"), "got 'relu'"),
    ],
)
def test_bad_single_layers_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        single_layer_threshold(*arguments)


@pytest.mark.parametrize("ranks", [1, (2, 1)])
@pytest.mark.parametrize("tokens", [2, 3])
def test_parity_of_tied_layers(tokens, ranks):
    model = Architecture(2, tokens, ranks)
    for layer in (1, 2):
        prove_parity(model, layer)
    with pytest.raises(ValueError, match=r"layer must be 1 \.\. 2, got 3"):
        prove_parity(model, 3)


@pytest.mark.parametrize(("layers", "tokens"), [(1, 2), (2, 2), (3, 2), (2, 3)])
def test_operator_acts_entry_by_entry(layers, tokens):
    multipliers = layer_multipliers(Architecture(layers, tokens))
    assert multipliers.shape == (layers, layers)
    # The diagonal is a squared Frobenius norm; Cauchy-Schwarz bounds the rest by it.
    rng = np.random.default_rng(5)
    for _ in range(20):
        values = {symbol: rng.normal() for symbol in multipliers.free_symbols}
        numbers = np.array(multipliers.subs(values), dtype=float)
        assert (np.diag(numbers) > 0).all()
        bound = np.sqrt(np.outer(np.diag(numbers), np.diag(numbers)))
        assert (np.abs(numbers) <= bound * (1 + 1e-12)).all()


def test_operator_against_its_definition_in_index_form():
    rng = np.random.default_rng(2)
    blocks = rng.normal(size=(2, 2, 3, 3))
    overlap = rng.normal(size=(3, 3))
    overlap = overlap + overlap.T
    wanted = np.einsum("mnij,jk,mnlk->il", blocks, overlap, blocks)
    made = apply_operator([[sp.Matrix(block) for block in row] for row in blocks], sp.Matrix(overlap))
    np.testing.assert_allclose(np.array(made, dtype=float), wanted, rtol=1e-13)


def test_curvature_blocks_are_the_second_moment_minus_one():
    second = sp.Matrix(4, 4, lambda i, j: sp.Symbol(f"s{min(i, j)}{max(i, j)}"))
    blocks = curvature_blocks(second, 2, 2)
    assert blocks[0][0] == second[:2, :2] - sp.eye(2)
    assert blocks[0][1] == second[:2, 2:]
    assert blocks[1][1] == second[2:, 2:] - sp.eye(2)


@pytest.mark.parametrize("layer", [1, 2])
def test_layer_term_of_two_layers(layer):
    term = layer_term(Architecture(2, 2), layer)
    row = term.channel.h[layer - 1, :]
    assert term.quadratic == row.T * row - sp.eye(2)
    assert term.channel.omega == sp.zeros(2, 2)
    assert term.channel.covariance == sp.eye(2)


def test_layer_term_of_one_layer_gives_the_exact_eigenvalue():
    """At L = 1 nothing is left to integrate: h is v, and the mean over v ~ N(0, I) is M (M + 1)."""
    term = layer_term(Architecture(1, 2), 1)
    assert term.channel.variables == ()
    v = list(term.channel.readout)
    norm = sum(entry**2 for entry in term.quadratic)
    density = sp.exp(term.channel.log_integrand)
    total = norm * density
    for variable in v:
        total = sp.integrate(sp.expand(total), (variable, -sp.oo, sp.oo))
    assert sp.simplify(total) == single_layer_eigenvalue(2)


def test_bad_layer_terms_are_named():
    with pytest.raises(ValueError, match=r"layer must be 1 \.\. 2, got 0"):
        layer_term(Architecture(2, 2), 0)
    with pytest.raises(ValueError, match="rank 1 in every layer"):
        layer_term(Architecture(2, 3, (2, 1)), 1)
    with pytest.raises(ValueError, match="rank 1 in every layer"):
        layer_multipliers(Architecture(2, 3, (2, 1)))
