"""Every step of sculpting by itself: against a second route, and on heads that are known."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog, nnls

from attnlimits.numerics.multihead.errors import LinearProgramFailure
from attnlimits.numerics.multihead.layer import multihead, nmse
from attnlimits.numerics.multihead.regression import best_w
from attnlimits.numerics.multihead.sculpt.body import inequalities, slabs, violation
from attnlimits.numerics.multihead.sculpt.certification import certify, differences, distinct, interior, noise_level
from attnlimits.numerics.multihead.sculpt.crude_sum import crude_sum
from attnlimits.numerics.multihead.sculpt.hull import affine_hull, span_residual
from attnlimits.numerics.multihead.sculpt.margin import large_margin_sum
from attnlimits.numerics.multihead.sculpt.net import best_tuples, grid, search
from attnlimits.numerics.multihead.sculpt.programs import Box, Polytope
from attnlimits.numerics.multihead.sculpt.simplex import faces, simplex_regression
from attnlimits.numerics.multihead.teachers import make_examples, make_teacher


class Instance:
    """A teacher of known heads and its examples, tokens of a sample distinct, with the first steps taken."""

    def __init__(self, heads, tokens, dim, samples, *, seed=7, noise=0.0, scale=4.0, family="gauss"):
        rng = np.random.default_rng(seed)
        self.theta, self.w = make_teacher(family, heads, dim, scale=scale, rng=rng)
        made = make_examples(self.theta, self.w, samples=samples, tokens=tokens, noise=noise, rng=rng)
        kept = distinct(made.X)
        self.x, self.y, self.noise_std = made.X[kept], made.Y[kept], made.noise_std
        self.s = self.w.sum(axis=0)
        self.crude = crude_sum(self.x, self.y)
        self.certification = certify(self.x, self.y, self.crude, heads)
        self.body = slabs(self.x, self.certification.patterns, self.certification.s, self.noise_std)
        self.one_sided = inequalities(self.x, self.certification.patterns, self.certification.s, self.noise_std, 300)
        self.hull = affine_hull(self.body, heads)

    def error(self, s):
        return np.linalg.norm(s - self.s) / np.linalg.norm(self.s)


@pytest.fixture(scope="module")
def two():
    return Instance(2, 2, 8, 4000)


@pytest.fixture(scope="module")
def three():
    return Instance(3, 2, 6, 6000)


def every_input(tokens, dim):
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=tokens * dim)))
    return signs.reshape(-1, tokens, dim)


def test_crude_sum_is_exact_over_all_inputs_where_attention_is_uniform():
    rng = np.random.default_rng(0)
    x, w = every_input(2, 4), rng.standard_normal((2, 4, 4))
    uniform = multihead(x, np.zeros((2, 4, 4)), w)
    assert np.abs(crude_sum(x, uniform) - w.sum(axis=0)).max() < 1e-14
    theta = rng.standard_normal((2, 4, 4))
    biased = crude_sum(x, multihead(x, theta, w))
    # The mean over all inputs: a bias, no sampling error.
    assert np.linalg.norm(biased - w.sum(axis=0)) > 0.02 * np.linalg.norm(w.sum(axis=0))


@pytest.mark.parametrize("tokens", [2, 3, 4, 6])
def test_simplex_regression_against_nonnegative_least_squares(tokens):
    rng = np.random.default_rng(tokens)
    x = 2.0 * rng.integers(0, 2, (40, tokens, 8)) - 1
    y, s = 2 * rng.standard_normal(x.shape), rng.standard_normal((8, 8)) / 2
    found = simplex_regression(x, y, s)
    assert found.alpha.min() >= 0 and np.abs(found.alpha.sum(axis=2) - 1).max() < 1e-12
    for image, outputs, rho in zip(x @ s, y, found.rho, strict=True):
        for target, residual in zip(outputs, rho, strict=True):
            # A heavy row holds the sum to one: to 1e-10 with weight 1e5.
            alpha = nnls(np.vstack([image.T, np.full(tokens, 1e5)]), np.append(target, 1e5))[0]
            expected = np.linalg.norm(target - alpha / alpha.sum() @ image)
            assert residual == pytest.approx(expected, rel=1e-7)
    again = simplex_regression(x, y, s, rng.integers(1, 2**tokens, found.face.shape))
    assert np.abs(again.alpha - found.alpha).max() < 1e-12  # wherever it starts


def test_simplex_regression_recovers_patterns_and_their_faces():
    rng = np.random.default_rng(1)
    x, s = 2.0 * rng.integers(0, 2, (200, 3, 8)) - 1, rng.standard_normal((8, 8))
    x = x[distinct(x)]
    alpha = rng.dirichlet(np.ones(3), (len(x), 3))
    alpha[::2, :, 0] = 0
    alpha /= alpha.sum(axis=2, keepdims=True)
    found = simplex_regression(x, alpha @ x @ s, s)
    # Rows of three tokens in a plane of two dimensions leave nothing open here: condition numbers up to 1e3.
    assert np.abs(found.alpha - alpha).max() < 1e-8 and found.rho.max() < 1e-8
    assert sorted(faces(3).tolist()) == list(range(1, 8)) and faces(3)[0] == 7


def test_equal_tokens_are_set_aside():
    x = np.array([[[1.0, 1, 1], [1, 1, 1]], [[1, -1, 1], [1, 1, 1]]])
    assert distinct(x).tolist() == [False, True]


def test_certification_improves_the_sum(two, three):
    for instance, bound in ((two, 0.03), (three, 0.05)):
        assert instance.error(instance.certification.s) < bound < instance.error(instance.crude)
        kept = [r.kept for r in instance.certification.rounds]
        assert kept == sorted(kept, reverse=True)
        assert all(r.spread > 0.12 for r in instance.certification.rounds)


def test_trimming_stops_before_it_collapses():
    """Tokens that agree in all but one coordinate: patterns with next to no spread, however many rows are kept."""
    instance = Instance(2, 2, 6, 1500)
    x = np.repeat(instance.x[:, :1], 2, axis=1)
    x[:, 1, 0] *= -1
    x[:, :, 1] = 1.0
    x[:, :, 2] = 1.0
    y = multihead(x, instance.theta, instance.w)
    found = certify(x, y, instance.s, 2)
    assert len(found.rounds) == 1 and "stopped" in found.status
    assert np.array_equal(found.s, instance.s)


def test_noise_is_bounded_from_certified_rows():
    for noise in (0.02, 0.1):
        instance = Instance(2, 2, 8, 8000, noise=noise)
        ratio = noise_level(instance.certification.patterns, 8) / instance.noise_std
        # An upper bound but for the selection of small residuals, which 2 per cent of 16000 rows hardly shows.
        assert 0.95 < ratio < 2


def test_slabs_of_one_head_with_the_true_sum_are_equations():
    instance = Instance(1, 3, 6, 300)
    patterns = simplex_regression(instance.x, instance.y, instance.s)
    body = slabs(instance.x, patterns, instance.s, 0.0, 10_000)
    assert np.abs(body.values(instance.theta[0]) - body.bound).max() < 1e-7
    direct = np.einsum("pq,q->p", body.rows, instance.theta[0].ravel())
    assert np.allclose(direct, body.values(instance.theta[0]), atol=1e-12)
    inside = (patterns.alpha > 0.02).sum(axis=2)  # weights of a row: pairs of them are constraints, others no matter
    assert len(body) == (inside * (inside - 1) // 2).sum() > 3 * interior(patterns).sum()
    assert differences(patterns) == (inside - 1).sum() and (np.diff(body.slack) >= 0).all()
    below = inequalities(instance.x, patterns, instance.s, 0.0)
    assert len(below) > 50
    assert (below.values(instance.theta[0]) >= below.bound - 1e-6).all()


def test_heads_lie_in_the_body_of_a_moderate_level(two):
    level = violation(two.body.tightest(1500), two.theta)
    by_hand = [
        max(
            abs(q @ theta @ e - b) / s
            for q, e, b, s in zip(
                *(getattr(two.body, n)[:1500] for n in ("query", "difference", "bound", "slack")), strict=True
            )
        )
        for theta in two.theta
    ]
    assert np.allclose(level, by_hand, rtol=1e-9)
    assert level.max() < 30
    assert violation(two.body.tightest(1500), np.zeros((1, 8, 8)))[0] > 2 * level.max()
    broken = (two.one_sided.bound - two.one_sided.values(two.theta)) / two.one_sided.slack
    assert broken.max() < level.max()


@pytest.mark.parametrize("name", ["two", "three"])
def test_hull_by_the_gram_matrix_against_the_singular_value_decomposition(name, request):
    instance = request.getfixturevalue(name)
    heads, body, hull = len(instance.theta), instance.body, instance.hull
    # Weights 1/slack^2, the tightest half of d^2 alike, of the largest weight one.
    floor = body.slack[instance.x.shape[2] ** 2 // 2]
    weight = (floor / np.maximum(body.slack, floor)) ** 2
    _, values, right = np.linalg.svd(body.rows * weight[:, None], full_matrices=False)
    # eps times the square of the condition number, about 30.
    assert np.allclose(hull.singular_values, values, rtol=1e-10)
    kept = len(values) - heads + 1
    mine = hull.directions.reshape(heads - 1, -1)
    assert np.allclose(mine @ right[kept:].T @ right[kept:], mine, atol=1e-8)
    weighted = (body.rows * weight[:, None]) @ right[:kept].T
    fitted = np.linalg.lstsq(weighted, body.bound * weight, rcond=None)[0] @ right[:kept]
    assert np.allclose(hull.proxy.ravel(), fitted, atol=1e-8 * np.linalg.norm(fitted))
    assert hull.gap == pytest.approx(values[kept - 1] / values[kept], rel=1e-8)


def test_hull_contains_the_heads(two):
    assert span_residual(two.hull, two.theta).max() < 0.05
    stranger = np.random.default_rng(0).standard_normal((1, 8, 8))
    assert span_residual(two.hull, stranger)[0] > 0.5


def test_least_level_against_the_program_in_the_entries_of_theta(two):
    body = two.body.tightest(400)
    polytope = Polytope(body, two.one_sided.tightest(0), two.hull, 30.0)
    rows, off = body.rows / body.slack[:, None], body.bound / body.slack
    ones = np.ones((len(body), 1))
    plain = linprog(
        np.append(np.zeros(64), 1.0),
        A_ub=np.block([[rows, -ones], [-rows, -ones]]),
        b_ub=np.concatenate([off, -off]),
        bounds=(None, None),
        method="highs",
    )
    assert polytope.least_level() == pytest.approx(plain.fun, rel=1e-6)
    level = 3 * plain.fun
    axis = two.hull.directions[0].ravel()
    ends = [
        sign
        * linprog(
            sign * axis,
            A_ub=np.concatenate([rows, -rows]),
            b_ub=np.concatenate([off, -off]) + level,
            bounds=(None, None),
            method="highs",
        ).fun
        - axis @ two.hull.proxy.ravel()
        for sign in (1, -1)
    ]
    box = polytope.box(level)
    assert np.allclose([box.low[0], box.high[0]], ends, atol=1e-6 * (box.high[0] - box.low[0]))


def test_box_grows_with_the_level_holds_the_heads_and_shrinks_by_the_boundary(two):
    body = two.body.tightest(500)
    known = np.tensordot(two.theta - two.hull.proxy, two.hull.directions, ([1, 2], [1, 2]))
    free, cut = (Polytope(body, two.one_sided.tightest(n), two.hull, 30.0) for n in (0, 300))
    level = float(violation(body, two.theta).max())
    boxes = [free.box(t) for t in (level, 3 * level)]
    assert boxes[1].low < boxes[0].low < known.min() < known.max() < boxes[0].high < boxes[1].high
    smaller = cut.box(3 * level)
    assert smaller.low < known.min() and smaller.high > known.max()
    assert smaller.high - smaller.low < 0.95 * (boxes[1].high - boxes[1].low)


def test_fewer_free_directions_make_a_smaller_body(two):
    body = two.body.tightest(500)
    whole, part, line = (Polytope(body, two.one_sided, two.hull, 30.0, reach) for reach in (64, 20, 1))
    levels = [p.least_level() for p in (whole, part, line)]
    assert levels == sorted(levels) and levels[2] > 1.01 * levels[0]
    # On the hull alone the program is one of two unknowns: the least over c of the largest violation at Theta* + c D.
    points = np.linspace(-6, 6, 4001)
    along = violation(body, two.hull.proxy + points[:, None, None] * two.hull.directions[0])
    below = (two.one_sided.bound - two.one_sided.values(two.hull.proxy)) / two.one_sided.slack
    slope = two.one_sided.values(two.hull.directions[0]) / two.one_sided.slack
    along = np.maximum(along, np.max(below - points[:, None] * slope, axis=1))
    steepest = np.abs(body.values(two.hull.directions[0]) / body.slack).max()
    assert 0 <= along.min() - levels[2] < 0.003 * max(steepest, np.abs(slope).max())
    box = line.box(4 * levels[2])
    inside = points[along <= 4 * levels[2]]
    assert np.allclose([box.low[0], box.high[0]], [inside[0], inside[-1]], atol=0.004)  # a step of the grid


def test_linear_programs_fail_with_a_sentence(two):
    polytope = Polytope(two.body.tightest(300), two.one_sided, two.hull, 1e-6)
    with pytest.raises(LinearProgramFailure, match=r"stopped at its limit.*raise time_limit"):
        polytope.least_level()
    patient = Polytope(two.body.tightest(300), two.one_sided, two.hull, 30.0)
    with pytest.raises(LinearProgramFailure, match="without a solution"):
        patient.box(patient.least_level() - 1.0)  # by far more than rounding


@pytest.mark.parametrize(("name", "count"), [("two", 31), ("three", 49)])
def test_net_against_regression_of_each_tuple(name, count, request):
    instance = request.getfixturevalue(name)
    heads = len(instance.theta)
    x, y = instance.x[:300], instance.y[:300]
    box = Box(1.0, np.full(heads - 1, -2.0), np.full(heads - 1, 2.5))
    net = search(x, y, instance.hull, box, heads)
    assert len(net.points) == count and len(grid(box, heads)) == count
    expected = sorted(itertools.combinations(range(count), heads))
    assert sorted(map(tuple, net.tuples.tolist())) == expected
    for number in [*np.random.default_rng(0).integers(0, len(expected), 12).tolist(), int(np.argmin(net.error))]:
        theta = net.matrices(instance.hull, number)
        direct = nmse(y, multihead(x, theta, best_w(x, y, theta)))
        # The net's ridge, 1e-9 of the mean square of a regressor, matters where neighbours are nearly alike.
        assert net.error[number] == pytest.approx(direct, rel=1e-3)
    chosen = best_tuples(net, 3)
    assert chosen[0] == np.argmin(net.error) and len(chosen) == 3
    for first, second in itertools.combinations(chosen, 2):
        assert len(set(net.tuples[first]) & set(net.tuples[second])) <= heads - 2


def test_large_margins_give_the_sum_of_one_head():
    instance = Instance(1, 2, 8, 4000)
    found = large_margin_sum(instance.x, instance.y, instance.hull.proxy, 64)
    assert found.rows == 64 and found.margin > 8
    # exp(-margin), times the size of differences of tokens.
    assert instance.error(found.s) < 10 * np.exp(-found.margin)
    assert instance.error(found.s) < 0.1 * instance.error(instance.certification.s)
