import numpy as np
import pytest
import sympy as sp
from scipy.integrate import quad

from attnlimits.derive import symbols
from attnlimits.derive.architecture import Architecture
from attnlimits.derive.linearization import (
    apply_operator,
    curvature_blocks,
    fibre_moment,
    layer_multipliers,
    layer_term,
    prove_parity,
    shift_loss,
    single_layer_eigenvalue,
    single_layer_threshold,
    untied_operator,
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


@pytest.mark.slow_for("3-5", "2-3", "2-2")
@pytest.mark.parametrize(("tokens", "rank"), [(2, 2), (2, 3), (3, 3), (3, 5)])
def test_wide_softmax_layer_against_samples(tokens, rank):
    """y fixes all entries of K = h^T h but K_ee; the mean of that one given the rest, and what it loses."""
    rng = np.random.default_rng(3)
    count = 100_000
    h = rng.normal(size=(count, rank, tokens))
    modes = np.linalg.qr(np.column_stack([np.ones(tokens), np.eye(tokens)[:, 1:]]))[0]
    gram = np.einsum("am,nka,nkl,lb->nmb", modes, h, h, modes)
    row, rest = gram[:, 0, 1:], gram[:, 1:, 1:]
    mean = np.einsum("na,na->n", row, np.linalg.solve(rest, row[:, :, None])[:, :, 0]) + rank - tokens + 1
    error = gram[:, 0, 0] - mean
    # The conditional mean is the function of y whose error is orthogonal to every function of y.
    for test in (np.ones(count), row[:, 0] ** 2, np.tanh(rest[:, 0, 0]), mean, np.cos(row[:, 0] * rest[:, 0, 0])):
        terms = error * test
        assert abs(terms.mean()) < 4 * terms.std() / np.sqrt(count)
    gram[:, 0, 0] = mean
    norms = ((gram / rank - np.eye(tokens)) ** 2).sum(axis=(1, 2))
    sigma = norms.std() / np.sqrt(count)
    assert abs(norms.mean() - float(single_layer_eigenvalue(tokens, rank))) < 4 * sigma
    # The loss 2 (r - M + 1)/r^2 is more than ten standard errors in every case.
    assert 10 * sigma < float(shift_loss(sp.Integer(tokens), sp.Integer(rank)))


def test_wide_softmax_layer_for_symbols():
    m, r = symbols.tokens, sp.Symbol("r", integer=True, positive=True)
    formula = single_layer_threshold(rank=r, wide=True)
    assert sp.cancel(formula - r**2 / ((m - 1) * ((m + 2) * r + 2))) == 0
    assert single_layer_threshold(2, 2) == formula.subs({m: 2, r: 2}) == sp.Rational(2, 5)
    # One degree of freedom less than tokens loses nothing: the two regimes meet at r = M - 1.
    assert sp.cancel(formula.subs(r, m - 1) - single_layer_threshold().subs(m, m) * (m - 1)) == 0


def _fibre(rho, first, second):
    """E|k|^2 and E|q|^2 given |k||q| = rho, by sums over the joint density of the two norms."""
    x = np.linspace(-12.0, 8.0, 1201)
    r = np.exp(x)[:, None]
    t = rho / r
    log_density = first * np.log(r) + second * np.log(t) - 0.5 * (r**2 + t**2)
    weight = np.exp(log_density - log_density.max(axis=0))
    weight /= weight.sum(axis=0)
    return (weight * r**2).sum(axis=0), (weight * t**2).sum(axis=0)


@pytest.mark.slow_for("3-linear", "2-softmax", "3-softmax")
@pytest.mark.parametrize("activation", ["softmax", "linear"])
@pytest.mark.parametrize("tokens", [2, 3])
def test_untied_layer_against_samples(tokens, activation):
    """The operator from its definition: G of sampled outputs, moments along the fibre by plain sums."""
    rng = np.random.default_rng(8)
    count = 20_000
    k, q = rng.normal(size=(2, count, tokens))
    seen = q - q.mean(axis=1, keepdims=True) if activation == "softmax" else q
    size = tokens - 1 if activation == "softmax" else tokens
    projection = np.eye(tokens) - (1 / tokens if activation == "softmax" else 0)
    norm_k, norm_q = np.linalg.norm(k, axis=1), np.linalg.norm(seen, axis=1)
    square_k, square_q = np.concatenate(
        [_fibre(rho, tokens, size) for rho in np.array_split(norm_k * norm_q, 20)], axis=1
    )
    u, w = k / norm_k[:, None], seen / norm_q[:, None]

    def outer(a, b):
        return np.einsum("ni,nj->nij", a, b)

    def dot(a, b):
        return (a * b).sum(axis=(1, 2))

    kk = square_k[:, None, None] * outer(u, u) - np.eye(tokens)
    qq = square_q[:, None, None] * outer(w, w) - projection
    kq = outer(k, seen)
    qk = kq.transpose(0, 2, 1)
    zero = np.zeros(count)
    operator = untied_operator(sp.Integer(tokens), activation)
    values = {
        "kk": (dot(kk, kk), operator.kk),
        "qq": (dot(qq, qq), operator.qq),
        "cross": (dot(kq, kq), operator.cross),
        "off": (dot(kk, qq) + dot(kq, qk), operator.off),
        "mixing, k": (dot(kk, kq), zero.sum()),
        "mixing, q": (dot(qq, qk), zero.sum()),
    }
    for name, (samples, wanted) in values.items():
        sigma = samples.std() / np.sqrt(count)
        number = wanted.replace(sp.Integral, _by_sum) if hasattr(wanted, "replace") else wanted
        assert abs(samples.mean() - float(number)) < 4 * sigma, name


def _by_sum(function, limits):
    """The integral over rho of a product of Bessel functions, by a trapezoidal sum in log(rho)."""
    x = np.linspace(-20.0, 5.0, 4001)
    values = sp.lambdify(limits[0], function, "scipy")(np.exp(x)) * np.exp(x)
    return sp.Float(np.trapezoid(values, x))


def test_untied_softmax_layer_against_the_delta_integral():
    """M = 2: y fixes a_m = k_m s with s = (q_1 - q_2)/sqrt(2); moments from the integral over s, on a grid of a."""
    x, width = np.linspace(-9.0, 4.2, 500, retstep=True)
    rho = np.exp(x)
    z = np.linspace(-10.0, 6.0, 2001)
    s = np.exp(z)[:, None]
    total = dict.fromkeys(("mass", "kk", "qq", "cross", "off"), 0.0)
    angles = 2 * np.pi * (np.arange(8) + 0.5) / 8
    for angle in angles:
        a = rho * np.array([[np.cos(angle)], [np.sin(angle)]])
        # Two signs of s; N(s) N(a_1/s) N(a_2/s)/s^2 ds with ds = s dz, and the common factor (2 pi)^{-3/2}.
        weight = 2 * np.exp(-0.5 * (s**2 + (a**2).sum(axis=0) / s**2)) / s * (2 * np.pi) ** -1.5 * (z[1] - z[0])
        mass = weight.sum(axis=0)
        k = [[(weight * a[i] * a[j] / s**2).sum(axis=0) / mass - (i == j) for j in range(2)] for i in range(2)]
        q = (weight * s**2).sum(axis=0) / mass - 1
        e = [1 / np.sqrt(2), -1 / np.sqrt(2)]
        qq = [[q * e[i] * e[j] for j in range(2)] for i in range(2)]
        kq = [[a[i] * e[j] for j in range(2)] for i in range(2)]
        cell = mass * rho**2 * width * 2 * np.pi / len(angles)
        pairs = [(i, j) for i in range(2) for j in range(2)]
        total["mass"] += cell.sum()
        total["kk"] += sum((cell * k[i][j] ** 2).sum() for i, j in pairs)
        total["qq"] += sum((cell * qq[i][j] ** 2).sum() for i, j in pairs)
        total["cross"] += sum((cell * kq[i][j] ** 2).sum() for i, j in pairs)
        total["off"] += sum((cell * (k[i][j] * qq[i][j] + kq[i][j] * kq[j][i])).sum() for i, j in pairs)
    operator = untied_operator(sp.Integer(2))
    # The grid of a starts at exp(-9): about exp(-9)^2 of each sum is below it, times the density exp(-rho)/rho.
    assert total.pop("mass") == pytest.approx(1, abs=3e-4)
    for name, value in total.items():
        assert value == pytest.approx(float(getattr(operator, name)), abs=1e-3), name
    top = max(np.linalg.eigvalsh([[total["kk"], total["cross"]], [total["cross"], total["qq"]]]))
    assert 1 / top == pytest.approx(float(single_layer_threshold(2, tied=False)), rel=2e-4)


def test_untied_softmax_layer_for_symbols():
    m = symbols.tokens
    formula = single_layer_threshold(tied=False)
    assert sp.simplify(formula - (sp.sqrt(m**2 + 1) - m) / (m - 1)) == 0
    assert single_layer_threshold(2, tied=False) == sp.sqrt(5) - 2
    operator = untied_operator()
    matrix = sp.Matrix([[operator.kk, operator.cross], [operator.cross, operator.qq]])
    direction = sp.Matrix([operator.direction[0, 0], operator.direction[1, 1]])
    assert (matrix * direction - operator.top * direction).applyfunc(sp.simplify) == sp.zeros(2, 1)
    # Positive entries: semidefinite. The cross direction is stable longer at any M.
    assert sp.simplify(operator.off - (m**2 - 1) / m) == 0
    assert all(float((operator.top - operator.off).subs(m, size)) > 0 for size in range(2, 50))


def test_fibre_moment_against_quadrature():
    rho = sp.Symbol("rho", positive=True)
    for power in (-2, -1, 0, 1, 2):
        for value in (0.3, 2.0):
            number, _ = quad(lambda r, p=power, v=value: r**p * np.exp(-(r**2) / 2 - v**2 / (2 * r**2)), 0, np.inf)
            assert float(fibre_moment(power, rho).subs(rho, value)) == pytest.approx(number, rel=1e-7)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((1,), {}, "tokens must be an integer >= 2, got 1"),
        ((2, 0), {}, "rank must be an integer >= 1, got 0"),
        ((2, 1, "relu"), {}, "got 'relu'"),
        ((2, 2), {"tied": False}, "an untied layer has a closed form for rank 1, got 2"),
    ],
)
def test_bad_single_layers_are_named(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        single_layer_threshold(*arguments, **options)


@pytest.mark.parametrize("ranks", [1, (2, 1)])
@pytest.mark.parametrize("tokens", [2, 3])
def test_parity_of_tied_layers(tokens, ranks):
    model = Architecture(2, tokens, ranks)
    for layer in (1, 2):
        prove_parity(model, layer)
    with pytest.raises(ValueError, match=r"layer must be 1 \.\. 2, got 3"):
        prove_parity(model, 3)


@pytest.mark.slow_for("3-2")  # as two layers of two tokens, and two of three
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


@pytest.mark.parametrize(
    "model", [Architecture(2, 2, tied=False), Architecture(2, 2, heads=2), Architecture(2, 2, output="sequence")]
)
def test_the_tied_forms_refuse_other_models(model):
    for call in (lambda: prove_parity(model, 1), lambda: layer_multipliers(model), lambda: layer_term(model, 1)):
        with pytest.raises(ValueError, match="tied, one head, output 'last'"):
            call()
