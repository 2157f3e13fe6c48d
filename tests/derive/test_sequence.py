"""Channels of sequence outputs: measure by the co-area formula of the forward pass, densities by simulation."""

import itertools
import types

import numpy as np
import pytest
import sympy as sp

from attnlimits.derive.architecture import Architecture
from attnlimits.derive.linear_pair import linear_pair, prove_linear_pair
from attnlimits.derive.matrix_program import Names, invert, log_volume
from attnlimits.derive.sequence_inversion import missing_dimensions, sequence_channel
from attnlimits.derive.sequence_rank import evaluator

DIGITS = 60


def _model(layers, tokens, ranks, activation, tied, heads=1, **more):
    more = {"skip": sp.Rational(2, 3), "beta": sp.Rational(4, 3)} | more
    return Architecture(layers, tokens, ranks, activation, tied, output="sequence", heads=heads, **more)


def _forward(ctx, model, h, readouts=(), activation=None):
    """Return B_L in mpmath, independent of `derive.mixing`; h is P x M, its rows as `Architecture.index_blocks`."""
    tokens, heads = model.tokens, model.heads
    skip, beta = (ctx.mpf(int(value.p)) / int(value.q) for value in (model.skip, model.beta))
    mixing, row = ctx.eye(heads * tokens), 0
    for layer, rank in enumerate(model.rank_vector):
        change = ctx.zeros(heads * tokens, heads * tokens)
        for head in range(heads):
            seen = []
            for _ in range(1 if model.tied else 2):
                indices = ctx.matrix(rank, heads * tokens)
                for b in range(heads):
                    indices[:, b * tokens : (b + 1) * tokens] = h[row : row + rank, :]
                    row += rank
                seen.append(indices * mixing[head * tokens : (head + 1) * tokens, :].T)
            scores = beta * seen[0].T * seen[-1]
            for i in range(tokens):
                entries = [(activation or (lambda s: s))(scores[i, j]) for j in range(tokens)]
                if model.activation == "softmax":
                    entries = [ctx.exp(value) for value in entries]
                    entries = [value / ctx.fsum(entries) for value in entries]
                for a in range(heads):
                    weight = ctx.mpf(1) if heads == 1 else readouts[layer][a, head]
                    for j in range(tokens):
                        change[a * tokens + i, head * tokens + j] = weight * entries[j]
        mixing = (skip * ctx.eye(heads * tokens) + change) * mixing
    return mixing


def _draw(ctx, rng, *shape):
    """Numbers of size 0.2 .. 1.1 and either sign."""
    values = rng.integers(200, 1100, size=shape) * rng.choice([-1, 1], size=shape)
    return ctx.matrix((values / 1).tolist()) / 1009


def _derivative(ctx, function, point):
    """Central differences of a function of a list: step 1e-20, so errors of order 1e-40."""
    step = ctx.mpf(10) ** -20
    columns = []
    for k in range(len(point)):
        up, down = ([x + s * step * (i == k) for i, x in enumerate(point)] for s in (1, -1))
        columns.append([(a - b) / (2 * step) for a, b in zip(function(up), function(down), strict=True)])
    return ctx.matrix(columns).T if columns else ctx.matrix(len(function(point)), 0)


def _null_space(ctx, matrix, columns):
    """Return an orthonormal basis of the kernel, one column per vector, by Gram-Schmidt on rows and unit vectors."""
    rows = [list(matrix[i, :]) for i in range(matrix.rows)]
    rows += [[ctx.mpf(i == k) for i in range(columns)] for k in range(columns)]
    basis, found = [], []
    for number, row in enumerate(rows):
        for vector in basis * 2:
            along = ctx.fdot(row, vector)
            row = [a - along * b for a, b in zip(row, vector, strict=True)]
        length = ctx.norm(row)
        if length > ctx.mpf(10) ** -15:
            basis.append([a / length for a in row])
            found += basis[-1:] if number >= matrix.rows else []
    assert len(basis) == columns
    return found


def _gram_logarithm(ctx, matrix):
    """Return log sqrt(det(M M^T)), zero for no rows."""
    return ctx.log(ctx.det(matrix * matrix.T)) / 2 if matrix.rows else ctx.mpf(0)


class _Numbers:
    """A channel with numbers: everything as functions of (earlier indices, fibre variables, y)."""

    def __init__(self, ctx, channel, constants=None):
        self.ctx, self.channel = ctx, channel
        self.constants = constants or {}
        self.sizes = [len(channel.h), len(channel.equations), len(channel.jacobian), 2, len(channel.conditions)]
        self.places = list(np.cumsum(self.sizes))
        arguments = [*channel.earlier, *channel.fibre_variables, *channel.signs, *channel.output, *self.constants]
        weights = [channel.log_weight, channel.log_surface_weight]
        outputs = [*channel.h, *channel.equations, *channel.jacobian, *weights, *channel.conditions]
        self.function = evaluator(ctx, arguments, channel.body, outputs)

    def __call__(self, earlier, free, y, signs=None):
        signs = [1] * len(self.channel.signs) if signs is None else signs
        values = self.function(*earlier, *free, *map(self.ctx.mpf, signs), *y, *self.constants.values())
        return [values[a:b] for a, b in zip([0, *self.places], self.places, strict=False)]


CASES = [
    # layers, tokens, ranks, activation, tied, heads; dimensions of the image missing from those of its kind
    ((1, 3, 1, "softmax", True, 1), 3),
    ((1, 3, 2, "linear", True, 1), 4),
    ((1, 2, 1, "softmax", True, 2), 4),
    ((2, 2, 1, "softmax", True, 1), 0),
    ((2, 2, 2, "linear", False, 1), 0),
    ((2, 3, 1, "softmax", True, 1), 0),
    ((2, 3, (1, 2), "softmax", True, 1), 0),
    ((2, 3, 1, "softmax", False, 1), 0),
    ((2, 3, 1, "linear", True, 1), 3),
    ((2, 3, (2, 1), "linear", False, 1), 0),
    ((3, 2, 1, "linear", True, 1), 0),
    ((3, 2, 1, "softmax", True, 1), 0),
    # Three layers of two tokens and two layers of three are above.
    pytest.param((3, 3, 1, "softmax", True, 1), 0, marks=pytest.mark.slow),
    ((2, 2, 1, "softmax", True, 2), 0),
    ((2, 2, 1, "linear", False, 2), 4),
]


@pytest.mark.slow_for("shape14-4", "shape13-0", "shape9-0", "shape7-0", "shape5-0", "shape6-0")
@pytest.mark.parametrize(("shape", "surface"), CASES)
def test_density_is_that_of_the_coarea_formula(shape, surface, context, rng):
    """dh = exp(log_surface_weight) d(coordinates) dH d(fibre), from derivatives of the forward pass and of h alone."""
    _check_coarea(context(DIGITS), _model(*shape), rng, surface)


def _check_coarea(ctx, model, rng, surface, readouts=None, inverse=None, activation=None):
    channel = sequence_channel(model, readouts, inverse=inverse)
    heads, tokens = model.heads, model.tokens
    weights = [_draw(ctx, rng, heads, heads) for _ in range(model.layers)] if heads > 1 else []
    constants = {}
    if readouts is None:
        constants = {s: v for o, w in zip(model.readouts, weights, strict=True) for s, v in zip(o, w, strict=True)}
    else:
        weights = [
            ctx.matrix([[ctx.mpf(int(v.p)) / int(v.q) for v in o[i, :]] for i in range(heads)]) for o in readouts
        ]
    numbers = _Numbers(ctx, channel, constants)

    def output(h):
        return list(
            _forward(ctx, model, ctx.matrix([h[k : k + tokens] for k in range(0, len(h), tokens)]), weights, activation)
        )

    start = _draw(ctx, rng, model.indices, tokens)
    y = output(list(start))
    earlier = list(start)[: len(channel.earlier)]
    free = [abs(x) for x in _draw(ctx, rng, len(channel.fibre_variables) or 1, 1)][: len(channel.fibre_variables)]
    h, equations, jacobian, (_, surface_weight), conditions = numbers(earlier, free, y)
    # 60 digits, and condition numbers of the inverses far below 1e10.
    assert max(abs(a - b) for a, b in zip(output(h), y, strict=True)) < ctx.mpf(10) ** -45
    assert max([abs(e) for e in equations], default=0) < ctx.mpf(10) ** -45
    assert min([*conditions, 1]) > 0
    assert (len(equations), len(channel.dependent)) == (missing_dimensions(model, inverse), surface)

    places = {symbol: k for k, symbol in enumerate(channel.output)}
    known, moved = [places[s] for s in channel.coordinates], [places[s] for s in channel.dependent]
    count, total = len(channel.unknowns), len(channel.equations)
    # E, by differences of the equations themselves; the last column of a softmax block makes up for its row.
    ends = [k // tokens * tokens + tokens - 1 for k in moved] if model.activation == "softmax" else []

    def shown(unknowns):
        at = list(y)
        for n, k in enumerate(moved):
            shift = unknowns[len(earlier) + n] - y[k]
            at[k] += shift
            if ends:
                at[ends[n]] -= shift
        return numbers(unknowns[: len(earlier)], free, at)[1]

    matrix = ctx.matrix([jacobian[i * count : (i + 1) * count] for i in range(total)]) if total else ctx.matrix(0, 0)
    if total:
        numeric = _derivative(ctx, shown, [*earlier, *[y[k] for k in moved]])
        scale = max(abs(x) for x in matrix)
        # Differences of order 1e-40 and rounding 1e-60 over the step 1e-20, times condition numbers.
        assert max(abs(a - b) for a, b in zip(matrix, numeric, strict=True)) < ctx.mpf(10) ** -30 * scale
    tangents = _null_space(ctx, matrix, count)
    # All equations independent: as many directions are left as the channel says, and they keep all entries of y.
    assert len(tangents) == count - total == channel.dimension - len(free)
    assert all(abs(x) < ctx.mpf(10) ** -30 for vector in tangents for x in vector[len(earlier) :])

    def along(steps):
        moved_to = [x + ctx.fdot(steps[: len(tangents)], [v[k] for v in tangents]) for k, x in enumerate(earlier)]
        return numbers(moved_to, [f + s for f, s in zip(free, steps[len(tangents) :], strict=True)], y)[0]

    fibre = _derivative(ctx, along, [ctx.mpf(0)] * channel.dimension)
    slopes = _derivative(ctx, output, h)
    kept = ctx.matrix([list(slopes[k, :]) for k in known])
    wanted = _gram_logarithm(ctx, fibre.T) - _gram_logarithm(ctx, kept)
    assert abs(surface_weight - wanted) < ctx.mpf(10) ** -20
    # The fibre lies in the kernel of all of y, and together they are all directions.
    assert max([abs(x) for x in slopes * fibre], default=0) < ctx.mpf(10) ** -25 if channel.dimension else True
    assert channel.dimension + len(known) == model.indices * tokens


def test_any_pivots_give_the_same_density(context, rng):
    """The equations of other pivots are others, the density on their solutions is not."""
    ctx = context(DIGITS)
    model = _model(2, 3, 1, "softmax", True)
    h = _draw(ctx, rng, 2, 3)
    y = list(_forward(ctx, model, h))
    weights = []
    for pivots, reference in ((None, None), ((0,), 1)):
        numbers = _Numbers(ctx, sequence_channel(model, pivots=pivots, reference=reference))
        found, equations, _, (_, weight), _ = numbers(list(h)[:3], [], y)
        sign = ctx.sign(found[3] * h[1, 0])
        # 60 digits less the condition of the inverses.
        assert max(abs(a - b) for a, b in zip(found[3:], list(h)[3:], strict=True)) * (sign > 0) < ctx.mpf(10) ** -45
        assert max(map(abs, equations)) < ctx.mpf(10) ** -45
        weights.append(weight)
    assert max(abs(w - weights[0]) for w in weights) < ctx.mpf(10) ** -40


@pytest.mark.slow_for("last0", "last1")
@pytest.mark.parametrize(
    "last", [[[0, 2], [sp.Rational(-3, 2), 0]], [[1, 1], [1, 1]], [[0, 1], [3, sp.Rational(1, 2)]]]
)
def test_readouts_that_are_numbers(last, context, rng):
    """Zeros on the diagonal, and a singular o of the last layer: every column with an entry shows its head."""
    first = sp.Matrix([[1, sp.Rational(-1, 2)], [sp.Rational(1, 3), 2]])
    model = _model(2, 2, 1, "softmax", True, 2)
    _check_coarea(context(DIGITS), model, rng, 0, [first, sp.Matrix(last)])


def test_activation_given_as_a_function(context, rng):
    """The sinh with its inverse: 2 equations as for the linear activation."""
    ctx = context(DIGITS)
    model = _model(2, 2, 1, sp.sinh, True)
    _check_coarea(ctx, model, rng, 0, inverse=sp.asinh, activation=ctx.sinh)


def test_two_linear_layers_leave_eight_points(context, rng):
    """The closed form: each point gives y, has the determinant of the forward pass, and solves the general channel."""
    prove_linear_pair()
    ctx = context(40)
    model = _model(2, 2, 1, "linear", True)
    pair, general = _Numbers(ctx, linear_pair(model)), sequence_channel(model)
    assert (pair.channel.variables, general.dimension, general.finite) == ((), 0, True)
    numbers = _Numbers(ctx, general)
    h = _draw(ctx, rng, 2, 2)
    y = list(_forward(ctx, model, h))
    points = []
    for signs in itertools.product([1, -1], repeat=3):
        point, _, _, (weight, _), conditions = pair([], [], y, signs)
        assert min(conditions) > 0
        points.append(np.array(point, dtype=float))
        again = list(_forward(ctx, model, ctx.matrix([point[:2], point[2:]])))
        # 40 digits, and invariants that cancel to about 1e-2 of their terms.
        assert max(abs(a - b) for a, b in zip(again, y, strict=True)) < ctx.mpf(10) ** -35
        slopes = _derivative(ctx, lambda x: list(_forward(ctx, model, ctx.matrix([x[:2], x[2:]]))), point)
        # Rounding 1e-40 over the step 1e-20.
        assert abs(weight + ctx.log(abs(ctx.det(slopes)))) < ctx.mpf(10) ** -15
        both = [numbers(point[:2], [], y, [sign]) for sign in (1, -1)]
        assert max(abs(e) for e in both[0][1]) < ctx.mpf(10) ** -35
        assert min(max(abs(a - b) for a, b in zip(found[0], point, strict=True)) for found in both) < 1e-33
        assert all(abs(found[3][1] - weight) < ctx.mpf(10) ** -33 for found in both)
    assert min(np.abs(p - q).max() for p, q in itertools.combinations(points, 2)) > 1e-3
    assert min(np.abs(p - np.array(h, dtype=float).ravel()).max() for p in points) < 1e-12

    # The other way round: Newton's method on the general equations finds the four h_1 of these points and no others.
    wanted = {tuple(np.round(p[:2], 8)) for p in points}
    solutions = set()
    for start in rng.normal(size=(12, 2)):
        try:
            root = ctx.findroot(lambda *x: numbers(list(x), [], y)[1], [ctx.mpf(x) for x in start], tol=1e-40)
        except (ValueError, ZeroDivisionError):
            continue
        if min(numbers(list(root), [], y)[4]) > 0:
            solutions.add(tuple(np.round(np.array(root, dtype=float).ravel(), 8)))
    assert solutions == wanted
    assert len(wanted) == 4


def test_every_solution_of_two_softmax_layers_gives_the_output(context, rng):
    """M = 3, rank 1: three equations for h_1; what solves them has the output y and the determinant of dy/dh."""
    ctx = context(40)
    model = _model(2, 3, 1, "softmax", True)
    channel = sequence_channel(model)
    assert channel.finite
    numbers = _Numbers(ctx, channel)
    h = _draw(ctx, rng, 2, 3)
    y = list(_forward(ctx, model, h))
    kept = [list(channel.output).index(s) for s in channel.coordinates]
    roots = []
    for start in [*(np.array(h, dtype=float)[:1] * 1.02), *rng.normal(size=(12, 3))]:
        try:
            root = ctx.findroot(lambda *x: numbers(list(x), [], y)[1], [ctx.mpf(x) for x in start], tol=1e-40)
        except (ValueError, ZeroDivisionError, TypeError, OverflowError):
            continue  # Newton's method left the range, where logarithms are complex.
        if any(ctx.im(x) for x in root) or min(map(ctx.re, numbers(list(root), [], y)[4])) <= 0:
            continue
        point, _, _, (_, weight), _ = numbers(list(root), [], y)
        shown = lambda x: list(_forward(ctx, model, ctx.matrix([x[:3], x[3:]])))  # noqa: E731
        assert max(abs(a - b) for a, b in zip(shown(point), y, strict=True)) < ctx.mpf(10) ** -30
        slopes = _derivative(ctx, shown, point)
        determinant = ctx.det(ctx.matrix([list(slopes[k, :]) for k in kept]))
        assert abs(weight + ctx.log(abs(determinant))) < ctx.mpf(10) ** -12
        roots.append(np.array(point, dtype=float))
    assert len(roots) > 1
    # Among them the indices that made y, up to the two signs.
    drawn = np.array(h, dtype=float).ravel()
    assert min(np.abs(np.abs(root) - np.abs(drawn)).max() for root in roots) < 1e-12


def test_density_on_a_curve_is_that_of_simulated_outputs():
    """Two linear layers of ranks 1 and 3, M = 2: one equation for h_1, three angles of h_2; y in R^4.

    Probability of a ball of outputs: the integral of the density over the ball, along the curves and over the angles,
    against the share of simulated outputs that fall into it.
    """
    model = _model(2, 2, (1, 3), "linear", True, skip=sp.Integer(1), beta=sp.Rational(1, 2))
    channel = sequence_channel(model)
    # The same program over arrays.
    arrays = types.SimpleNamespace(mpf=float, **{f: getattr(np, f) for f in ("exp", "log", "sqrt", "sin", "cos")})
    numbers = _Numbers(arrays, channel)
    assert (len(channel.equations), channel.dimension, len(channel.signs)) == (1, 4, 0)
    rng = np.random.default_rng(7)
    centre, radius, count = np.array([3.0, 1.6, 0.9, 2.2]), 0.6, 200_000
    directions = rng.normal(size=(4, count))
    y = centre[:, None] + radius * directions / np.linalg.norm(directions, axis=0) * rng.random(count) ** 0.25
    ranges = [[float(end) for end in pair] for pair in channel.fibre_ranges]
    angles = [rng.uniform(low, high, count) for low, high in ranges]
    theta = rng.uniform(0, 2 * np.pi, count)
    ray = np.array([np.cos(theta), np.sin(theta)])
    # Along a ray of h_1 the equation, S symmetric, is linear in t = beta r^2/(1 + beta r^2).
    t = (y[1] - y[2]) / ((y[0] * ray[0] + y[1] * ray[1]) * ray[1] - (y[2] * ray[0] + y[3] * ray[1]) * ray[0])
    there = (t > 0) & (t < 1)
    y, ray, t, angles = y[:, there], ray[:, there], t[there], [angle[there] for angle in angles]
    distance = np.sqrt(2 * t / (1 - t))
    # Where a condition fails the weight is no number.
    with np.errstate(invalid="ignore"):
        h, equations, jacobian, (_, exponent), conditions = numbers(distance * ray, angles, y)
    # Rounding 1e-16 of terms of order y/(1 - t).
    assert np.all(abs(equations[0]) < 1e-13 * abs(y).max() / (1 - t))
    inside = np.logical_and.reduce([condition > 0 for condition in conditions])
    # |d curve/d theta| from the equation.
    length = np.hypot(*jacobian) * distance / abs(jacobian[0] * ray[0] + jacobian[1] * ray[1])
    gaussian = -sum(x**2 for x in h) / 2 - 4 * np.log(2 * np.pi)
    values = np.zeros(count)
    values[: inside.sum()] = (np.exp(exponent + gaussian) * length)[inside]
    values *= np.pi**2 / 2 * radius**4 * 2 * np.pi * np.prod([high - low for low, high in ranges])
    probability, error = values.mean(), values.std() / np.sqrt(count)

    hits, chunks, chunk = 0, 2, 500_000
    for _ in range(chunks):
        first, second = rng.normal(size=(2, chunk)), rng.normal(size=(3, 2, chunk))
        # B_1 = I + h h^T/2, B_2 = (I + B_1 K B_1/2) B_1 with K = h_2^T h_2.
        b = [1 + first[0] ** 2 / 2, first[0] * first[1] / 2, 1 + first[1] ** 2 / 2]
        v = [[row[0] * b[0] + row[1] * b[1], row[0] * b[1] + row[1] * b[2]] for row in second]
        s = [sum(row[i] * row[j] for row in v) / 2 for i, j in ((0, 0), (0, 1), (1, 1))]
        made = [(1 + s[0]) * b[0] + s[1] * b[1], (1 + s[0]) * b[1] + s[1] * b[2]]
        made += [s[1] * b[0] + (1 + s[2]) * b[1], s[1] * b[1] + (1 + s[2]) * b[2]]
        hits += (sum((a - c) ** 2 for a, c in zip(made, centre, strict=True)) < radius**2).sum()
    share = hits / (chunks * chunk)
    sigma = np.hypot(error, share / np.sqrt(hits))
    assert sigma < 0.03 * share
    assert abs(probability - share) < 4 * sigma


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_programs_of_inverse_and_volume(size, rng):
    """Exact rational numbers through the programs, against SymPy's own inverse and determinants."""

    def run(names, value):
        known = {}
        for symbol, assigned in names.body:
            known[symbol] = assigned.xreplace(known)
        return value.xreplace(known)

    square = sp.Matrix(size, size, lambda i, j: sp.Symbol(f"m_{i}_{j}", real=True))
    wide = sp.Matrix(size, size + 2, lambda i, j: sp.Symbol(f"e_{i}_{j}", real=True))
    numbers = {s: sp.Rational(int(k), 7) for s, k in zip([*square, *wide], rng.integers(-40, 41, 1000), strict=False)}
    names = Names()
    inverse, determinant = invert(names, square)
    names.body[:0] = numbers.items()
    assert run(names, inverse) == square.xreplace(numbers).inv()
    assert run(names, determinant) == square.xreplace(numbers).det()
    names = Names()
    volume = log_volume(names, wide)
    names.body[:0] = numbers.items()
    matrix = wide.xreplace(numbers)
    assert sp.expand_log(run(names, volume) * 2 - sp.log((matrix * matrix.T).det()), force=True).equals(0)


def test_counts_of_equations():
    assert missing_dimensions(_model(2, 3, 1, "softmax", True)) == 3
    assert missing_dimensions(_model(2, 3, 2, "softmax", False)) == 0
    assert missing_dimensions(_model(3, 2, 1, "linear", True)) == 2
    assert missing_dimensions(_model(2, 2, 1, "softmax", True, 2)) == 4


def test_what_has_no_sequence_channel_is_named():
    with pytest.raises(ValueError, match="must be 'sequence'"):
        sequence_channel(Architecture(2, 2))
    with pytest.raises(ValueError, match="without a known inverse"):
        sequence_channel(_model(2, 2, 1, sp.tanh, True))
    with pytest.raises(ValueError, match="2 matrices o"):
        sequence_channel(_model(2, 2, 1, "softmax", True, 2), [sp.eye(2)])
    with pytest.raises(ValueError, match=r"column 2 of o_2 .* is zero"):
        sequence_channel(_model(2, 2, 1, "softmax", True, 2), [sp.eye(2), sp.Matrix([[1, 0], [1, 0]])])
    with pytest.raises(ValueError, match=r"B_1 is as well"):
        sequence_channel(_model(2, 2, 1, "softmax", True, 2), [-sp.eye(2) * sp.Rational(2, 3), sp.eye(2)])
    with pytest.raises(ValueError, match="eight points"):
        linear_pair(_model(2, 2, 1, "softmax", True))
