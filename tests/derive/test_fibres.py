"""Fibres against the link they undo, and their measures against determinants of numerical derivatives."""

import itertools

import mpmath
import numpy as np
import pytest
import sympy as sp

from attnlimits.derive.architecture import Architecture
from attnlimits.derive.channel import fibre_channel
from attnlimits.derive.fibres import entry_jacobian, fibre, fibre_dimension, orthogonal_frame, prove_measure
from attnlimits.derive.primitives import elementary
from attnlimits.derive.readout import prove_readout_jacobian, readout_jacobian

SHAPES = [(1, 2), (2, 2), (3, 2), (1, 3), (2, 3), (3, 3), (2, 4)]
KINDS = list(itertools.product(["softmax", "linear"], [True, False]))
# As many rows as tokens, and fewer, with more tokens than in other shapes: the same formulas with larger matrices.
large_shapes = pytest.mark.slow_for(
    *(f"{kind}-{tied}-{shape}" for kind, tied in KINDS for shape in ("3-3", "2-4")),
)


def _model(rank, tokens, activation, tied, **more):
    more.setdefault("beta", sp.Rational(4, 3))
    return Architecture(more.pop("layers", 1), tokens, rank, activation, tied, sp.Rational(2, 3), **more)


def _forward(model, h):
    """Output of the network on indices, in plain NumPy, independent of `derive.mixing`."""
    tokens, beta, skip = model.tokens, float(model.beta), float(model.skip)
    mixing, start = np.eye(tokens), 0
    for layer, rank in enumerate(model.rank_vector, start=1):
        keys = h[start : start + rank] @ mixing.T
        start += rank
        queries = keys
        if not model.tied:
            queries = h[start : start + rank] @ mixing.T
            start += rank
        scores = beta * keys.T @ queries
        if model.activation == "softmax":
            scores = np.exp(scores - scores.max(axis=1, keepdims=True))
            scores /= scores.sum(axis=1, keepdims=True)
        if layer == model.layers and model.output == "last":
            return scores
        mixing = skip * mixing + scores @ mixing
    return mixing


def _point(rng, variables):
    """Fibre variables in their ranges, which all contain (0.2, 3)."""
    return {
        v: sp.Rational(int(k), 512) for v, k in zip(variables, rng.integers(103, 1536, len(variables)), strict=True)
    }


def _determinant(unknowns, expressions, point, digits=40, step=15):
    """|d expressions / d unknowns| by central differences in mpmath."""
    function = expressions if callable(expressions) else sp.lambdify(unknowns, list(expressions), "mpmath", cse=True)
    with mpmath.workdps(digits):
        at = [mpmath.mpf(str(sp.N(point[u], digits - 5))) for u in unknowns]
        width = mpmath.mpf(10) ** -step
        columns = []
        for k in range(len(at)):
            up, down = list(at), list(at)
            up[k] += width
            down[k] -= width
            columns.append([(a - b) / (2 * width) for a, b in zip(function(*up), function(*down), strict=True)])
        return sp.Float(mpmath.nstr(abs(mpmath.det(mpmath.matrix(columns))), digits), digits)


def _data(found, y):
    names = dict(zip(found.output, [sp.Float(str(float(e)), 30) for e in y.ravel()], strict=True))
    return {symbol: value.subs(names).evalf(25) for symbol, value in found.data}


@large_shapes
@pytest.mark.parametrize(("rank", "tokens"), SHAPES)
@pytest.mark.parametrize(("activation", "tied"), KINDS)
def test_every_point_of_the_fibre_has_the_output_it_came_from(rank, tokens, activation, tied, rng):
    model = _model(rank, tokens, activation, tied)
    found = fibre(model)
    rows = rank if tied else 2 * rank
    y = _forward(model, rng.normal(size=(rows, tokens)))
    data = _data(found, y)
    for sign in (1, -1):
        point = data | _point(rng, found.variables) | dict.fromkeys(found.signs, sign)
        v = np.array(found.readout.subs(point).evalf(), dtype=float)
        # float64 outputs of order one; the pivots' condition numbers are below 1e4 for these seeds.
        np.testing.assert_allclose(_forward(model, v), y, rtol=1e-9, atol=1e-9 * np.abs(y).max())


@large_shapes
@pytest.mark.parametrize(("rank", "tokens"), SHAPES)
@pytest.mark.parametrize(("activation", "tied"), KINDS)
def test_dependent_scores_follow_from_the_data(rank, tokens, activation, tied, rng):
    """Coordinates and dependent scores are all scores, and the outputs of the network obey the dependence."""
    model = _model(rank, tokens, activation, tied)
    rows = rank if tied else 2 * rank
    y = _forward(model, rng.normal(size=(rows, tokens)))
    for reference in (None, 0) if activation == "softmax" else (None,):
        found = fibre(model, reference=reference)
        data = _data(found, y)
        names = dict(zip(found.output, [sp.Float(str(float(e)), 30) for e in y.ravel()], strict=True))
        shown = {*found.coordinates, *(score for score, _ in found.dependent)}
        assert len(shown) == len(found.coordinates) + len(found.dependent)
        assert len(shown) == tokens * (tokens - 1 if activation == "softmax" else tokens)
        for score, value in found.dependent:
            # Outputs in float64; the pivots' condition numbers are below 1e4 for these seeds.
            assert abs(score.subs(names) - value.subs(data)) < 1e-9 * (1 + abs(score.subs(names)))


@pytest.mark.parametrize(("pivots", "reference"), [((0, 2), None), ((2, 1), 0), ((3, 0), 2)])
def test_any_pivots_span_the_same_fibre(pivots, reference, rng):
    for tied in (True, False):
        model = _model(2, 4, "softmax", tied)
        y = _forward(model, rng.normal(size=(2 if tied else 4, 4)))
        found = fibre(model, pivots, reference)
        point = _data(found, y) | _point(rng, found.variables) | dict.fromkeys(found.signs, 1)
        np.testing.assert_allclose(_forward(model, np.array(found.readout.subs(point).evalf(), float)), y, rtol=1e-9)


@large_shapes
@pytest.mark.parametrize(("rank", "tokens"), SHAPES)
@pytest.mark.parametrize(("activation", "tied"), KINDS)
def test_measure_is_the_determinant_of_the_numerical_derivative(rank, tokens, activation, tied, rng):
    model = _model(rank, tokens, activation, tied)
    found = fibre(model)
    rows = rank if tied else 2 * rank
    data = _data(found, _forward(model, rng.normal(size=(rows, tokens))))
    point = data | _point(rng, found.variables)
    unknowns = [*data, *found.variables]
    signs = dict.fromkeys(found.signs, 1)
    determinant = _determinant(unknowns, found.readout.subs(signs), point)
    log_measure = found.log_density.subs(point).evalf(30) + len(found.coordinates) * sp.log(model.beta).evalf(30)
    # Central differences of order step^2 = 1e-30, times third derivatives.
    assert abs(sp.log(determinant) - log_measure) < 1e-20


# Not untied at (2, 3): 12 x 12 exact determinants take half a minute; the numerical one above covers them.
@pytest.mark.slow_for("2-3-softmax-True", "3-2-linear-False", "3-2-softmax-True", "3-2-linear-True")
@pytest.mark.parametrize(
    ("rank", "tokens", "activation", "tied"),
    [
        (r, m, *kind)
        for r, m in [(1, 2), (2, 2), (3, 2), (1, 3), (2, 3)]
        for kind in KINDS
        if (r, m, kind[1]) != (2, 3, False)
    ],
)
def test_measure_by_exact_differentiation(rank, tokens, activation, tied):
    prove_measure(_model(rank, tokens, activation, tied))


@large_shapes
@pytest.mark.parametrize(("rank", "tokens"), SHAPES)
@pytest.mark.parametrize(("activation", "tied"), KINDS)
def test_dimension_is_that_of_the_kernel_of_the_link(rank, tokens, activation, tied, rng):
    """Entries of the readout less the rank of dy/dv, from a finite-difference derivative of the forward pass."""
    model = _model(rank, tokens, activation, tied, beta=sp.Rational(1, 2))
    rows = rank if tied else 2 * rank
    h = rng.normal(size=(rows, tokens))
    jacobian = []
    for k in range(h.size):
        step = np.zeros(h.size)
        step[k] = 1e-5
        step = step.reshape(h.shape)
        jacobian.append((_forward(model, h + step) - _forward(model, h - step)).ravel() / 2e-5)
    values = np.linalg.svd(np.array(jacobian), compute_uv=False)
    # Differences err by 1e-10; the smallest true singular value of these seeds is above 1e-6.
    fibre_size = h.size - int((values > 3e-8 * values[0]).sum())
    found = fibre(model)
    assert fibre_dimension(model) == len(found.variables) == len(found.ranges) == fibre_size
    assert len(found.coordinates) + len(found.variables) == h.size
    assert found.finite == (fibre_size == 0)


def test_untied_rank_one_softmax_leaves_a_scale_and_a_shift():
    assert fibre_dimension(_model(1, 2, "softmax", False)) == 2
    assert fibre_dimension(_model(1, 5, "softmax", False)) == 2
    assert fibre_dimension(_model(1, 5, "linear", False)) == 1


@pytest.mark.parametrize(("rank", "columns"), [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (4, 2)])
def test_frames_are_orthonormal_and_their_measure_has_the_area_of_the_spheres(rank, columns):
    frame, angles, ranges, signs, weight = orthogonal_frame(rank, columns)
    point = {angle: sp.Rational(2 * k + 3, 7) for k, angle in enumerate(angles)} | dict.fromkeys(
        signs, sp.S.NegativeOne
    )
    turn = frame.subs(point).evalf(30)
    # 30 digits, a few products.
    assert (turn.T * turn - sp.eye(rank)).norm() < 1e-28
    area = sp.S.One
    for angle, (lower, upper) in zip(angles, ranges, strict=True):
        # The element is a product of one power of a sine per angle.
        area *= sp.integrate(sp.sin(angle) ** weight.coeff(sp.log(sp.sin(angle))), (angle, lower, upper))
    wanted = sp.Mul(
        *[2 * sp.pi ** sp.Rational(n, 2) / sp.gamma(sp.Rational(n, 2)) for n in range(rank, rank - columns, -1)]
    )
    assert sp.simplify(2 ** len(signs) * area / wanted) == 1


@pytest.mark.slow_for("2-3-True")
@pytest.mark.parametrize(
    ("rank", "tokens", "tied"), [(1, 2, True), (2, 2, True), (2, 3, True), (1, 2, False), (3, 3, False)]
)
def test_entries_of_softmax_outputs(rank, tokens, tied):
    """Determinant of the entries by the log-ratios, through the map from all log-ratios to the output."""
    found = fibre(_model(rank, tokens, "softmax", tied))
    entries, claim = entry_jacobian(found)
    data = [symbol for symbol, _ in found.data]
    free = dict(zip(found.variables, [sp.Rational(k + 3, 7) for k in range(len(found.variables))], strict=True))
    point = {symbol: sp.Rational(5 + k, 9 + 2 * k) for k, symbol in enumerate(data)}
    v = found.readout.subs(free | dict.fromkeys(found.signs, 1))
    half = v.rows // 2
    scores = found.model.beta * (v.T * v if tied else v[:half, :].T * v[half:, :])
    powers = scores.applyfunc(sp.exp)
    output = sp.Matrix(tokens, tokens, lambda a, b: powers[a, b] / sum(powers[a, :]))
    names = list(found.output)
    kept = [output[divmod(names.index(entry), tokens)] for entry in entries]
    # d(coordinates)/d(data) has determinant beta^n.
    value = claim.subs(dict(zip(names, output.subs(point).evalf(35), strict=True))).evalf(35)
    wanted = value * found.model.beta ** len(data)
    # Central differences of order step^2 = 1e-30.
    assert abs(_determinant(data, kept, point) / wanted - 1) < 1e-20


def test_user_activation_needs_and_uses_its_inverse(rng):
    model = _model(1, 2, sp.tanh, True)
    with pytest.raises(ValueError, match="pass inverse="):
        fibre(model)
    found = fibre(model, inverse=sp.atanh)
    v = rng.normal(size=(1, 2))
    data = _data(found, np.tanh(4 / 3 * v.T @ v))
    again = np.array(found.readout.subs(data | {s: int(np.sign(v[0, 0])) for s in found.signs}).evalf(), float)
    np.testing.assert_allclose(again, v, rtol=1e-12)


@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_rank_one_jacobian_of_entries(activation, context):
    for tokens in (2, 3):
        prove_readout_jacobian(_model(1, tokens, activation, True))
    ctx = context(50)
    for tokens, pair in ((4, (2, 0)), (5, (1, 4))):
        model = _model(1, tokens, activation, True)
        entries, claim = readout_jacobian(model, pair)
        v = [ctx.mpf((-1) ** k * (2 * k + 3)) / (3 * k + 4) for k in range(tokens)]

        def output(v, tokens=tokens):
            scores = [[ctx.mpf(4) / 3 * a * b for b in v] for a in v]
            if activation == "linear":
                return scores
            sums = [sum(map(ctx.exp, row)) for row in scores]
            return [[ctx.exp(scores[a][b]) / sums[a] for b in range(tokens)] for a in range(tokens)]

        places = [(int(str(e)[1]) - 1, int(str(e)[2]) - 1) for e in entries]
        derivative = ctx.matrix(tokens, tokens)
        for k in range(tokens):
            step = ctx.mpf(10) ** -17
            high, low = (
                output([x + step * (i == k) for i, x in enumerate(v)]),
                output([x - step * (i == k) for i, x in enumerate(v)]),
            )
            for row, (a, b) in enumerate(places):
                derivative[row, k] = (high[a][b] - low[a][b]) / (2 * step)
        y = output(v)
        values = {f"v{a + 1}": v[a] for a in range(tokens)}
        values |= {f"y{a + 1}{b + 1}": y[a][b] for a in range(tokens) for b in range(tokens)}
        value = claim.subs({s: sp.Float(str(values[s.name]), 45) for s in claim.free_symbols}).evalf(40)
        # Differences of order step^2 = 1e-34.
        assert abs(abs(ctx.det(derivative)) / ctx.mpf(str(value)) - 1) < 1e-28


@pytest.mark.slow_for("2-2-False-linear")
@pytest.mark.parametrize(
    ("layers", "ranks", "tied", "activation"),
    [(2, (1, 2), True, "softmax"), (2, 1, False, "softmax"), (2, 2, False, "linear"), (1, 2, True, "linear")],
)
def test_channel_of_any_last_layer(layers, ranks, tied, activation, rng):
    """The indices of the channel give the output through the forward pass, and dh_L/dv is the determinant's power."""
    model = Architecture(layers, 2, ranks, activation, tied, sp.Rational(2, 3), sp.Rational(4, 3))
    channel = fibre_channel(model)
    first = rng.normal(size=(model.indices, 2)) * 0.7
    y = _forward(model, first)
    # h_1 .. h_{L-1} as drawn; the fibre variables anywhere.
    rows = model.indices - channel.power
    values = _data(channel.fibre, y) | _point(rng, channel.fibre.variables) | dict.fromkeys(channel.signs, -1)
    values |= {s: sp.Float(float(x), 25) for s, x in zip(channel.variables, first[:rows].ravel(), strict=False)}
    values |= _point(rng, channel.fibre.variables)
    h = np.array(elementary(channel.h).subs(values).evalf(), dtype=float)
    np.testing.assert_allclose(_forward(model, h), y, rtol=1e-8, atol=1e-10)
    # log_integrand = log N - power log|det B| + fibre measure, each evaluated apart.
    place = channel.at(sp.zeros(model.indices, 2), sp.eye(model.indices))
    gaussian = -0.5 * (h**2).sum() - h.size / 2 * np.log(2 * np.pi)
    mixing = np.eye(2)
    if layers == 2:
        mixing = _forward(
            Architecture(1, 2, model.rank_vector[0], activation, tied, model.skip, model.beta, "sequence"), h
        )
    wanted = gaussian - channel.power * np.log(abs(np.linalg.det(mixing)))
    wanted += float(channel.fibre.log_density.subs(values).evalf())
    assert float(elementary(place.log_integrand).subs(values).evalf()) == pytest.approx(wanted, rel=1e-9)
    assert channel.power == (1 if tied else 2) * model.rank_vector[-1]


@pytest.mark.parametrize("tied", [True, False])
def test_channel_of_two_layers_is_normalised(tied, rng):
    """E of the integrand over its density under other indices is one: h_1 ~ N(0, I), readouts v ~ N(0, s^2 I)."""
    model = Architecture(2, 2, (1, 2) if tied else 1, "softmax", tied, sp.Rational(3, 2), sp.Rational(1, 2))
    channel = fibre_channel(model)
    count, spread, size = 40_000, 3.0, model.indices
    rows = size - 2
    first, v = rng.normal(size=(count, rows, 2)), spread * rng.normal(size=(count, 2, 2))
    if tied:
        # C = |v_1 - v_2|^2 and its angle; v_2 along it and across.
        w, last = v[..., 0] - v[..., 1], v[..., 1]
        length = np.linalg.norm(w, axis=1)
        across = (w[:, 0] * last[:, 1] - w[:, 1] * last[:, 0]) / length
        fibre_values = {"C_1_1": length**2, "X_1_1": (w * last).sum(axis=1)}
        fibre_values |= {"theta_1_1": np.arctan2(w[:, 1], w[:, 0]) % (2 * np.pi), "n_1_1": across}
    else:
        difference = v[:, 1, 0] - v[:, 1, 1]
        fibre_values = {"T_1_1": v[:, 0, 0] * difference, "T_2_1": v[:, 0, 1] * difference}
        fibre_values |= {"k_1_1": v[:, 0, 0], "u_1": v[:, 1, 1]}
    names = [*channel.variables[: 2 * rows], *[s for s, _ in channel.fibre.data], *channel.fibre.variables]
    values = [*first.reshape(count, -1).T, *[fibre_values[s.name] for s in names[2 * rows :]]]
    log_integrand = elementary(channel.at(sp.zeros(size, 2), sp.eye(size)).log_integrand)
    # The same fibre measure turns the proposal's density of v into one of the integration variables.
    expressions = [log_integrand, channel.fibre.log_density, *channel.fibre.readout]
    log_value, log_measure, *readout = sp.lambdify(names, expressions, "numpy", cse=True)(*values)
    np.testing.assert_allclose(np.stack(readout, axis=-1), v.reshape(count, 4), atol=1e-6)
    proposal = -0.5 * (first**2).sum(axis=(1, 2)) - 0.5 * (v**2).sum(axis=(1, 2)) / spread**2
    proposal -= (rows + 2) * np.log(2 * np.pi) + 4 * np.log(spread)
    ratio = np.exp(log_value - log_measure - proposal)
    sigma = ratio.std() / np.sqrt(count)
    assert sigma < 0.05
    assert abs(ratio.mean() - 1) < 4 * sigma


def test_what_has_no_fibre_is_named():
    with pytest.raises(ValueError, match="2 heads"):
        fibre(Architecture(1, 2, heads=2))
    with pytest.raises(ValueError, match="sequence_inversion"):
        fibre(Architecture(1, 2, output="sequence"))
    with pytest.raises(ValueError, match="2 different tokens"):
        fibre(Architecture(1, 3, 2), pivots=(0, 0))
    with pytest.raises(ValueError, match="reference is a token of softmax"):
        fibre(Architecture(1, 3, 2, "linear"), reference=1)
    with pytest.raises(ValueError, match="keep the log-ratios"):
        entry_jacobian(fibre(Architecture(1, 4, 2)))
    with pytest.raises(ValueError, match=r"columns must be 1 \.\. rank"):
        orthogonal_frame(2, 3)
