"""Generated channels of attention-indexed models: every printing, and each formula by a second route."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.integrate import quad

from attnlimits.derive.aim import kernels
from attnlimits.derive.proof import ProofError
from attnlimits.generated.aim_channels import numba64, numpy64
from attnlimits.numerics.aim.channels import Hardmax, Linear, Softmax, pairs, variances
from attnlimits.numerics.model.kernels import load_package

KERNELS = {kernel.name: kernel for kernel in kernels.PACKAGE.kernels}
V, THIRD = 0.37, 1 / 3


@pytest.fixture(scope="module")
def mp(derived):
    """The printing for arbitrary precision, which is not committed."""
    return load_package(derived("aim_channels"), "mp")


def draw(kernel, rng, count):
    """Arguments inside the domain, a third of the real ones far out."""
    columns = []
    for symbol in kernel.arguments:
        if symbol.name.startswith("s_") and symbol.name != "s_um":
            columns.append(rng.choice([-1.0, 1.0], count))
        elif symbol.name == "r":
            columns.append(rng.uniform(-0.9, 0.9, count))
        elif symbol.name == "t" or symbol.is_positive:
            columns.append(10.0 ** rng.uniform(-3, 1, count))
        else:
            columns.append(rng.normal(size=count) * rng.choice([0.1, 1.0, 10.0], count))
    return columns


@pytest.mark.parametrize("name", KERNELS)
def test_float64_is_the_rounded_arbitrary_precision(name, rng, context, mp):
    ctx = context(40)
    arguments = draw(KERNELS[name], rng, 60)
    vectorised = getattr(numpy64, name)(*arguments)
    for at in range(60):
        point = [float(column[at]) for column in arguments]
        exact = getattr(mp, name)(ctx, *point)
        compiled = getattr(numba64, name)(*point)
        # Rounding of the argument x of erfc or exp is worth x^2 of it, and differences cancel.
        size = 1 + max(abs(x) for x in point)
        for one, two, true in zip(vectorised, compiled, exact, strict=True):
            scale = (
                abs(float(true)) * size**2 if name in ("hardmax_slopes", "hardmax_weight") else _largest(name, point)
            )
            assert abs(one[at] - float(true)) <= 2e-15 * scale + 1e-300
            assert abs(two - float(true)) <= 2e-15 * scale + 1e-300


def _largest(name, point):
    """Sum of the magnitudes of the terms, whose rounding is all the error."""
    values = dict(zip([s.name for s in KERNELS[name].arguments], point, strict=True))
    if name == "projected_score":
        return (abs(values["v"]) + abs(values["u"] * values["v_sum"] / values["u_sum"])) / values["V"]
    if name.startswith("noisy"):
        return 1 + sum(map(abs, point)) + abs(values.get("sigma", 0)) + values.get("c", 0)
    if name == "entry_exponent":
        return values["t"] ** 2 + (abs(values["y"]) + abs(values["value"])) ** 2 / (values["c"] * values["Delta_n"])
    divisor = {"linear_score": ("c", "V"), "softmax_score": ("c", "V"), "softmax_index": ("beta",)}.get(name)
    top = sum(abs(x) for key, x in values.items() if key not in ("c", "V", "beta", "c_1", "c_2", "s_1", "s_2"))
    if divisor is not None:
        return top / math.prod(values[key] for key in divisor)
    return top / math.sqrt(values["V"] * min(values["c_1"], values["c_2"]))


def phi2(mp, ctx, k1, k2, r):
    """Phi2 from the generated weight."""
    weight = ctx.quad(lambda t: mp.hardmax_weight(ctx, t, k1, k2, r)[0], [0, 1, 3, 8, 20])
    return ctx.exp(-(ctx.mpf(k1) ** 2) / 2) / ctx.sqrt(2 * ctx.pi) * weight


def test_weight_integrates_to_the_probability_of_a_quadrant(context, mp):
    ctx = context(30)
    for r in (THIRD, -THIRD, 0.7):
        assert abs(phi2(mp, ctx, 0, 0, r) - (0.25 + ctx.asin(r) / (2 * ctx.pi))) < 1e-25
        # One limit far out: the law of the other variable.
        assert abs(phi2(mp, ctx, 0.4, 30, r) - ctx.ncdf(0.4)) < 1e-25


@pytest.mark.slow_for("0.3--0.8-0.3333333333333333")
@pytest.mark.parametrize(("k1", "k2", "r"), [(0.3, -0.8, THIRD), (-2.0, 1.5, -THIRD), (-4.0, -5.0, 0.6)])
def test_slopes_are_the_derivatives_of_phi2(k1, k2, r, context, mp):
    ctx = context(40)
    h = ctx.mpf(10) ** -8
    for at, slope in enumerate(mp.hardmax_slopes(ctx, k1, k2, r)):
        ends = [phi2(mp, ctx, *(k + s * h * (i == at) for i, k in enumerate((k1, k2))), r) for s in (1, -1)]
        # The next term of the difference is of order h^2.
        assert abs((ends[0] - ends[1]) / (2 * h) / slope - 1) < 1e-13


@pytest.mark.slow_for("signs1", "signs0")
@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, -1)])
def test_hardmax_score_is_the_slope_of_log_z(signs, context, mp):
    ctx, omega = context(40), (0.4, -0.3, 0.9)
    h = ctx.mpf(10) ** -9
    r = ctx.mpf(signs[0] * signs[1]) / 3

    def log_z(*means):
        return ctx.log(phi2(mp, ctx, *mp.hardmax_arguments(ctx, *means, *signs, 3, 3, V), r))

    k = mp.hardmax_arguments(ctx, *omega, *signs, 3, 3, V)
    z = phi2(mp, ctx, *k, r)
    ratios = [slope / z for slope in mp.hardmax_slopes(ctx, *k, r)]
    score = mp.hardmax_score(ctx, *ratios, *signs, 3, 3, V)
    for at, g in enumerate(score):
        ends = [log_z(*(m + s * h * (i == at) for i, m in enumerate(omega))) for s in (1, -1)]
        assert abs((ends[0] - ends[1]) / (2 * h) - g) < 1e-12
    # And what the numerics compute from the label, in float64.
    label = np.array([[[signs[0] > 0, signs[0] < 0], [signs[1] < 0, signs[1] > 0]]], float)
    channel = Hardmax()
    found = channel.score(channel.prepare(label), np.array([omega]), V)
    assert found[0] == pytest.approx([float(g) for g in score], rel=1e-12)


def posterior_over_the_shift(phi, omega, precision):
    """G = Sigma^{-1} (E[h | y] - omega)/V by averaging h = phi + c over the shift c on nodes."""

    def weight(c, power):
        rest = phi + c - omega
        return c**power * math.exp(-0.5 * (rest @ precision @ rest) / V + top)

    centre = -(precision @ (phi - omega)).sum() / precision.sum()
    rest = phi + centre - omega
    top = 0.5 * (rest @ precision @ rest) / V
    reach = 9 * math.sqrt(V / precision.sum())
    mass, first = (quad(weight, centre - reach, centre + reach, (p,), epsabs=1e-13, limit=200)[0] for p in (0, 1))
    return precision @ (phi + first / mass - omega) / V


@pytest.mark.parametrize("tokens", [2, 3, 5])
def test_softmax_score_is_a_posterior_mean(tokens, rng):
    beta = 1.7
    rows, columns = pairs(tokens)
    h = rng.normal(size=(tokens, tokens))
    h = h + h.T
    log_y = Softmax(tokens, beta, logarithms=True).observe(h[None])[0]
    last = tokens - 1
    (phi,) = numpy64.softmax_index(log_y, log_y[:, -1:], log_y[-1, :, None], log_y[-1, -1], beta)
    assert phi == pytest.approx(h - h[last, last], abs=1e-13)
    phi, omega, spread = phi[rows, columns], rng.normal(size=len(rows)), variances(tokens)
    e = phi - omega
    mean = (e * (2 - (rows == columns))).sum() / tokens**2
    (g,) = numpy64.softmax_score(e, mean, spread, V)
    assert g == pytest.approx(posterior_over_the_shift(phi, omega, np.diag(1 / spread)), abs=1e-9)
    # Any covariance: a sample's own is near diag(1 + delta_ab).
    noise = 0.1 * rng.normal(size=(len(rows), len(rows)))
    precision = np.linalg.inv(np.diag(spread) + noise @ noise.T)
    v, u = precision @ e, precision.sum(axis=1)
    (g,) = numpy64.projected_score(v, u, v.sum(), u.sum(), V)
    assert g == pytest.approx(posterior_over_the_shift(phi, omega, precision), abs=1e-9)
    assert abs(g.sum()) < 1e-12  # The shift is not seen.


@pytest.mark.parametrize("tokens", [2, 3])
@pytest.mark.parametrize("own", [False, True])
def test_numerics_are_the_generated_scores(tokens, own, rng, context, mp):
    """At 30 digits: softmax and linear of the numerics, with the limit's covariance and with one of its own."""
    ctx = context(30)
    size = len(variances(tokens))
    noise = 0.2 * rng.normal(size=(size, size))
    sigma = np.diag(variances(tokens)) + noise @ noise.T if own else np.diag(variances(tokens))
    given = sigma[None] if own else None
    seen, omega = rng.normal(size=(2, 1, size))
    inverse = ctx.matrix(sigma.tolist()) ** -1
    v = inverse * ctx.matrix((seen - omega)[0].tolist())
    u = inverse * ctx.ones(size, 1)
    wanted = [mp.projected_score(ctx, v[i], u[i], sum(v), sum(u), V)[0] for i in range(size)]
    assert Softmax(tokens).score(seen, omega, V, given)[0] == pytest.approx([float(g) for g in wanted], abs=1e-13)
    if not own:
        wanted = [
            mp.linear_score(ctx, h, m, c, V)[0] for h, m, c in zip(seen[0], omega[0], variances(tokens), strict=True)
        ]
        assert Linear(tokens).score(seen, omega, V)[0] == pytest.approx([float(g) for g in wanted], rel=1e-14)


def test_slopes_far_out(context, mp):
    """Zero or the density, never nan: at 1e3 the label is certain or impossible."""
    with np.errstate(all="raise", under="ignore"):
        first, second = numpy64.hardmax_slopes([1e3, -1e3, 1e3, 0.0], [1e3, -1e3, -1e3, 1e3], THIRD)
    assert (first[:3] == 0).all() and (second == 0).all()
    assert first[3] == pytest.approx(1 / math.sqrt(2 * math.pi), rel=1e-15)
    tail = mp.hardmax_slopes(context(20), 0, -30, THIRD)[0]
    assert numpy64.hardmax_slopes(0.0, -30.0, THIRD)[0] == pytest.approx(float(tail), rel=1e-12) and 0 < tail < 1e-200


def test_what_leaves_the_domain_is_refused(context, mp):
    for call in (
        lambda: numpy64.linear_score(1.0, 0.0, 1.0, 0.0),
        lambda: numpy64.hardmax_slopes(0.1, 0.2, 1.5),
        lambda: mp.projected_score(context(20), 1, 1, 1, 0, 1),
    ):
        with pytest.raises(ValueError, match=r"expected .*boncoraglio2025, \("):
            call()


@pytest.fixture(scope="module")
def proved_once(once):
    """Let what is right in every case be proved once."""
    once(kernels, "prove_equal")
    once(kernels.channels, "softmax_gradient_by_integration")
    once(kernels.noise, "noise_identities")
    once(kernels.entrywise, "entry_identities")


@pytest.mark.usefixtures("proved_once")
@pytest.mark.parametrize("name", KERNELS)
def test_a_wrong_kernel_fails_its_proof(name):
    kernel = KERNELS[name]
    (key, value), *rest = kernel.outputs
    wrong = dataclasses.replace(kernel, outputs=((key, 2 * value), *rest))
    changed = tuple(wrong if k.name == name else k for k in kernels.PACKAGE.kernels)
    with pytest.raises(ProofError, match=name):
        kernels._prove(changed)


def test_equations_are_those_of_the_registry():
    from attnlimits.derive import registry

    known = {e.id for e in registry.load("boncoraglio2025")}
    assert kernels.PACKAGE.paper == "boncoraglio2025"
    assert set(kernels.PACKAGE.equations) <= known
