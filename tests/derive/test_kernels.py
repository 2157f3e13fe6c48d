"""Generated float64 kernels against the arbitrary-precision ones, and those against independent formulas."""

import importlib
import warnings

import numpy as np
import pytest

FAMILIES = ("softmax", "linear")
EPS = np.finfo(float).eps


def _module(activation, name):
    return importlib.import_module(f"attnlimits.generated.attention_tied_{activation}_m2.{name}")


@pytest.fixture(params=FAMILIES)
def activation(request):
    return request.param


@pytest.fixture(params=["numpy64", "numba64"])
def backend(request):
    return request.param


def _close(made, wanted, tolerance, what):
    """Compare with an absolute tolerance; numbers below 1e-290 count as zero (their products underflow)."""
    for value, exact, allowed in zip(made, wanted, tolerance, strict=True):
        assert np.isfinite(value), what
        assert abs(float(value - exact)) <= float(allowed) + 1e-290, (what, float(value), float(exact))


def _spread(beta, plus, minus):
    """Exponents u + |w|: their rounding errors, relative to themselves, enter every exponential."""
    return beta * (minus**2 + abs(plus * minus))


def test_layer(activation, backend, grid, parameters, context):
    ctx, module, oracle = context(40), _module(activation, backend), _module(activation, "mp")
    for c, beta in parameters:
        for vp, vm in grid(40, 2):
            exact = oracle.layer(ctx, vp, vm, c, beta)
            # Each entry is a sum of positive terms or a product, so the error is relative to the entry.
            grow = 1 + _spread(beta, vp, vm) if activation == "softmax" else 1
            tolerance = [8 * EPS * grow * abs(entry) for entry in exact]
            _close(module.layer(vp, vm, c, beta), exact, tolerance, ("layer", vp, vm, c, beta))


def test_link(activation, backend, grid, parameters, context):
    ctx, module, oracle = context(40), _module(activation, backend), _module(activation, "mp")
    for _, beta in parameters:
        for vp, vm in grid(40, 2):
            exact = oracle.link(ctx, vp, vm, beta)
            grow = 1 + _spread(beta, vp, vm) if activation == "softmax" else 1
            # 1e-307: results below the normal range lose digits by themselves.
            tolerance = [8 * EPS * grow * abs(entry) + 1e-307 for entry in exact]
            _close(module.link(vp, vm, beta), exact, tolerance, ("link", vp, vm, beta))


def test_undo(activation, backend, grid, parameters, context):
    ctx, module, oracle = context(40), _module(activation, backend), _module(activation, "mp")
    for c, beta in parameters:
        for xp, xm, vp, vm in grid(80, 4):
            exact = oracle.undo(ctx, xp, xm, vp, vm, c, beta)
            if activation == "softmax":
                grow = 16 * EPS * (1 + _spread(beta, xp, xm))
                # a holds s b with the absolute error of s; b and the determinant are sums of positive terms.
                tolerance = (
                    grow * (abs(vp) + abs(exact[1])) / (1 + c),
                    grow * abs(exact[1]),
                    grow * exact[2],
                )
            else:
                size = 16 * EPS * (abs(vp) + abs(vm)) / c
                tolerance = (size, size, 16 * EPS * exact[2])
            _close(module.undo(xp, xm, vp, vm, c, beta), exact, tolerance, ("undo", xp, xm, vp, vm, c, beta))


def test_quadratic(activation, backend, grid, context):
    ctx, module, oracle = context(40), _module(activation, backend), _module(activation, "mp")
    for a, b in grid(60, 2):
        tolerance = (2 * EPS * (1 + a * a), EPS * abs(a * b), 2 * EPS * (1 + b * b))
        _close(module.quadratic(a, b), oracle.quadratic(ctx, a, b), tolerance, ("quadratic", a, b))


def test_invert(activation, backend, context, rng):
    ctx, module, oracle = context(40), _module(activation, backend), _module(activation, "mp")
    for beta in (0.2, 1.0, 5.0):
        for scale in (1e-2, 0.5, 2.0, 6.0):
            for vp, vm in scale * rng.normal(size=(25, 2)):
                y = [float(entry) for entry in oracle.link(ctx, vp, vm, beta)]
                if activation == "softmax" and min(y) < 1e-300:
                    continue
                exact = oracle.invert(ctx, *y, beta)
                if activation == "softmax":
                    l_1, l_2 = np.log(y[0] / y[1]), np.log(y[3] / y[2])
                    # Both logarithms carry a rounding; their sum may be much smaller than either.
                    relative = 8 * EPS * (1 + abs(l_1) + abs(l_2)) / abs(float(exact[1]) ** 2 * 2 * beta)
                    size = abs(l_1) + abs(l_2) + 1
                    tolerance = (
                        relative * abs(exact[0]) + 8 * EPS * size / (beta * abs(exact[1])),
                        relative * abs(exact[1]),
                        relative + 8 * EPS * sum(abs(np.log(entry)) for entry in y),
                    )
                else:
                    size = 8 * EPS * (abs(exact[0]) + abs(exact[1]))
                    tolerance = (size, size, 8 * EPS * (1 + abs(exact[2])))
                _close(module.invert(*y, beta), exact, tolerance, ("invert", vp, vm, beta))


def test_invert_undoes_link(activation, context, grid):
    """invert(link(v)) = +-v at 400 digits, for magnitudes that float64 outputs could not carry."""
    ctx, oracle = context(400), _module(activation, "mp")
    points = [(p, m) for p, m in np.clip(grid(60, 2), -12, 12) if abs(m) > 1e-9 and abs(p) > 1e-9]
    assert len(points) > 60
    for vp, vm in points:
        if activation == "linear" and abs(vp) == abs(vm):
            continue
        plus, minus, _ = oracle.invert(ctx, *oracle.link(ctx, vp, vm, 1.5), 1.5)
        sign = 1 if minus * vm > 0 else -1
        for made, wanted in ((sign * plus, vp), (sign * minus, vm)):
            assert abs(made - ctx.mpf(wanted)) < ctx.mpf(10) ** -150 * (1 + abs(wanted))


def test_linear_inverse_where_one_diagonal_entry_is_tiny(backend):
    module = _module("linear", backend)
    # At y_11 = 0, where the density is singular, numpy64 refuses (`test_outside_the_domain`).
    zero = [] if backend == "numpy64" else [(0.0, 1.0)]
    for first, second in ((1e-9, 1.0), (1.0, 1e-9), (-1e-9, 2.0), *zero, (1.0, 0.0)):
        y = (2 * first**2, 2 * first * second, 2 * first * second, 2 * second**2)
        plus, minus, log_jacobian = module.invert(*y, 2.0)
        made = np.array([plus + minus, plus - minus]) / np.sqrt(2)
        sign = 1 if made @ [first, second] > 0 else -1
        # The small entry to rounding of the large one, through modes.
        np.testing.assert_allclose(sign * made, [first, second], atol=4 * EPS * 2)
        assert log_jacobian == (pytest.approx(np.log(4 * y[0]), rel=1e-14) if first else -np.inf)


@pytest.mark.parametrize("beta", [0.2, 1.0, 5.0])
def test_jacobian_against_finite_differences(activation, beta, context, rng):
    ctx, oracle = context(50), _module(activation, "mp")
    kept = (1, 2) if activation == "softmax" else (0, 1)
    step = ctx.mpf(10) ** -13
    root = ctx.sqrt(2)

    def outputs(v_1, v_2):
        y = oracle.link(ctx, (v_1 + v_2) / root, (v_1 - v_2) / root, beta)
        return [y[k] for k in kept]

    for v in rng.normal(size=(10, 2)):
        v_1, v_2 = ctx.mpf(v[0]), ctx.mpf(v[1])
        columns = []
        for d_1, d_2 in ((step, 0), (0, step)):
            up, down = outputs(v_1 + d_1, v_2 + d_2), outputs(v_1 - d_1, v_2 - d_2)
            columns.append([(p - q) / (2 * step) for p, q in zip(up, down, strict=True)])
        determinant = abs(columns[0][0] * columns[1][1] - columns[0][1] * columns[1][0])
        y = oracle.link(ctx, (v_1 + v_2) / root, (v_1 - v_2) / root, beta)
        made = ctx.exp(oracle.invert(ctx, *y, beta)[2])
        # Central differences: step^2 = 1e-26 times third derivatives; rounding 1e-50/1e-13.
        assert abs(made / determinant - 1) < ctx.mpf(10) ** -20


def test_mp_layer_and_link_against_the_definition(activation, context, grid):
    """The oracle itself, against softmax or products written out in the token basis."""
    ctx, oracle = context(120), _module(activation, "mp")
    root, c, beta = ctx.sqrt(2), ctx.mpf(3) / 4, ctx.mpf(7) / 5
    for vp, vm in np.clip(grid(25, 2), -8, 8):
        v = [(ctx.mpf(vp) + vm) / root, (ctx.mpf(vp) - vm) / root]
        y = ctx.matrix(2, 2)
        for i in range(2):
            scores = [beta * v[i] * v[j] for j in range(2)]
            total = sum(ctx.exp(score) for score in scores)
            for j in range(2):
                y[i, j] = ctx.exp(scores[j]) / total if activation == "softmax" else scores[j]
        made = oracle.link(ctx, vp, vm, beta)
        for value, wanted in zip(made, (y[0, 0], y[0, 1], y[1, 0], y[1, 1]), strict=True):
            assert abs(value - wanted) < ctx.mpf(10) ** -100 * (1 + abs(wanted))
        rotation = ctx.matrix([[1, 1], [1, -1]]) / root
        matrix = rotation.T * (c * ctx.eye(2) + y) * rotation
        made = oracle.layer(ctx, vp, vm, c, beta)
        for value, wanted in zip(made, (matrix[0, 0], matrix[0, 1], matrix[1, 0], matrix[1, 1]), strict=True):
            assert abs(value - wanted) < ctx.mpf(10) ** -100 * (1 + abs(wanted))
        a, b, inv_det = oracle.undo(ctx, vp, vm, 0.3, -0.4, c, beta)
        solved = ctx.lu_solve(matrix, ctx.matrix([0.3, -0.4]))
        assert abs(a - solved[0]) + abs(b - solved[1]) < ctx.mpf(10) ** -100
        assert abs(inv_det * ctx.det(matrix) - 1) < ctx.mpf(10) ** -100


def test_mp_takes_its_precision_from_the_context_alone(activation, context):
    import mpmath

    before = mpmath.mp.dps
    few, many = context(20), context(60)
    oracle = _module(activation, "mp")
    coarse, fine = oracle.link(few, 0.3, 0.7, 1)[0], oracle.link(many, 0.3, 0.7, 1)[0]
    assert 0 < abs(many.convert(coarse) - fine) < many.mpf(10) ** -18
    assert mpmath.mp.dps == before


# y_12 + y_21 > 1 is out of the range of the link (177); so is a negative diagonal (171), and zero is on its edge.
OUTSIDE = [
    ("softmax", (0.4, 0.6, 0.6, 0.4), 1),
    ("linear", (-1.0, 0.0, 0.0, -1.0), 0),
    ("linear", (0.0, 0.0, 0.0, 2.0), 2),
]


@pytest.mark.parametrize(("name", "y", "bad"), OUTSIDE)
def test_outside_the_domain(name, y, bad, context):
    """An error from what checks its outputs, and inf or nan from what is compiled, whose callers check."""
    for call in (_module(name, "numpy64").invert, lambda *a: _module(name, "mp").invert(context(30), *a)):
        with pytest.raises(ValueError, match=r"invert: an output is not finite at .*expected .*troiani2025"):
            call(*y, 1.0)
    assert not np.isfinite(_module(name, "numba64").invert(*y, 1.0)[bad])


@pytest.mark.parametrize("position", range(4))
def test_undo_passes_nan_on(activation, backend, position):
    arguments = [0.3, 0.7, 0.2, -0.4, 1.0, 1.0]
    arguments[position] = np.nan
    assert np.isnan(_module(activation, backend).undo(*arguments)[0])


def test_numpy_broadcasts_and_is_silent_at_extremes(activation):
    module = _module(activation, "numpy64")
    x = np.array([0.0, 1e-300, -1e3, 1e3, 30.0])
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        parts = module.undo(x[:, None], x, 1.0, -1.0, 1.0, np.ones((3, 1, 1)))
        layer = module.layer(x, 0.5, 1.0, 1.0)
        module.link(x[:, None], x, 5.0)
    assert [part.shape for part in parts] == [(3, 5, 5)] * 3
    assert [part.shape for part in layer] == [(5,)] * 4
    # Also the constant entries are arrays of their own, which may be written to.
    layer[2][0] = 1.0
    assert np.ndim(module.quadratic(1.0, 2.0)[0]) == 0


def test_the_printers_agree(activation, grid):
    """numpy64 on arrays and numba64 point by point: the same program, so rounding apart the same numbers."""
    compiled, vectorised = _module(activation, "numba64"), _module(activation, "numpy64")
    points = np.clip(grid(60, 4), -20, 20)
    made = np.array([compiled.undo(*point, 0.5, 1.3) for point in points])
    wanted = np.array(vectorised.undo(*points.T, 0.5, 1.3)).T
    size = 1 + np.abs(wanted).max(axis=1, keepdims=True)
    # Exponents up to 1.3 * 800 carry that many roundings.
    assert (np.abs(made - wanted) <= 4e-13 * size).all()


def test_constants(activation):
    package = importlib.import_module(f"attnlimits.generated.attention_tied_{activation}_m2")
    assert (package.TOKENS, package.ACTIVATION) == (2, activation)
    assert len(package.DERIVATION_HASH) == 64
    assert set(package.EQUATIONS) >= {5, 6, 7, 185}


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_posterior_sums_against_plain_ones(activation, sign, rng):
    """The compiled loops, against the density and its moments written out on arrays."""
    loops, vectorised = _module(activation, "posterior64"), _module(activation, "numpy64")
    c, beta, v = 0.8, 1.3, rng.normal(size=2)
    omega = rng.normal(size=(2, 2))
    covariance = np.array([[0.7, 0.2], [0.2, 0.4]])
    # Pieces of rows of falling length; the last lanes have no nodes.
    lengths, step = np.array([24, 24, 9, 5, 5, 2, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0]), 0.13
    pieces = np.zeros((loops.PIECE_ROWS, lengths.size))
    pieces[0], pieces[1] = rng.normal(size=(2, lengths.size)) - [[0.0], [1.0]]
    pieces[2] = lengths
    pieces[3:5] = shares = rng.normal(size=(2, lengths.size))
    slope = covariance[0, 1] / covariance[0, 0]
    i1, i2 = covariance[0, 0] ** -0.5, (covariance[1, 1] - slope * covariance[0, 1]) ** -0.5
    shift = 0.7
    parameters = np.array([*v, c, beta, *omega[0], *omega[1], i1, slope, i2, shift])

    def plain(branch, first, xm, length):
        xp, xm = first + step * np.arange(length), np.full(length, xm)
        a, b, inv_det = vectorised.undo(xp, xm, *(branch * v), c, beta)
        h = np.array([[xp, xm], [a, b]]) - omega[:, :, None]
        form = np.einsum("imk,ij,jmk->k", h, np.linalg.inv(covariance), h)
        weight = np.exp(0.5 * (shift - form)) * inv_det
        # z whitens h - omega: |z|^2 is the quadratic form of the Gaussian.
        z = np.concatenate([h[0] * i1, (h[1] - slope * h[0]) * i2])
        np.testing.assert_allclose((z**2).sum(axis=0), form, rtol=1e-12)
        second = np.einsum("k,ik,jk->ij", weight, z, z)
        return np.concatenate([[weight.sum()], z @ weight, second[np.triu_indices(4)]])

    loops.undo_rows(parameters, pieces, lengths.size, step)
    one, both = np.zeros((2, 30, loops.LANES))
    loops.branch_moments(parameters, pieces, lengths.size, step, sign, one)
    loops.pair_moments(parameters, pieces, lengths.size, step, both)
    exact = {
        branch: shares @ [plain(branch, *piece) for piece in zip(pieces[1], pieces[0], lengths, strict=True)]
        for branch in (1.0, -1.0)
    }
    # Sums of few terms in another order, of powers up to the 24th.
    np.testing.assert_allclose(one.sum(axis=1), exact[sign].ravel(), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(both.sum(axis=1), (exact[1.0] + exact[-1.0]).ravel(), rtol=1e-12, atol=1e-13)
