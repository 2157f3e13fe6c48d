"""The arbitrary-precision denoiser: against closed forms, itself at other precisions, and the stored reference."""

import json
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath.ctx_mp import MPContext

from attnlimits.numerics import precise
from attnlimits.numerics.denoiser import denoise
from attnlimits.numerics.errors import ConvergenceError, KernelNotFoundError, UnreachableOutputError
from attnlimits.numerics.models import Attention
from attnlimits.numerics.precise import denoise_mp

CTX = MPContext()
CTX.dps = 45
REFERENCE: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "denoiser_reference.json").read_text(encoding="utf-8")
)
EASY = Attention(skip=5.0, beta=0.2)
V = np.array([[0.02, 0.01], [0.01, 0.4]])
OMEGA = np.array([[0.3, -0.5], [0.2, 0.7]])
Y = EASY.link(np.array([[0.35, -0.6], [-0.3, 0.9]]))


def cheapest(activation: str, category: str) -> dict[str, Any]:
    cases = [case for case in REFERENCE if (case["activation"], case["category"]) == (activation, category)]
    return min(cases, key=lambda case: case["nodes"])


def largest(values: Any) -> Any:
    return max(abs(value) for value in np.asarray(values, dtype=object).ravel())


@pytest.mark.parametrize("tokens", [2, 3])
@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_one_layer(activation: str, tokens: int) -> None:
    """Posterior of h = +-v from its two weights, with v recovered by the exact inverse of the link."""
    model = Attention(1, tokens, beta=1.3, activation=activation)
    h = [CTX.mpf(k) / 7 for k in (3, -5, 9)][:tokens]
    scores = [[CTX.mpf(1.3) * a * b for b in h] for a in h]
    if activation == "softmax":
        y = [[CTX.exp(s) / sum(CTX.exp(other) for other in row) for s in row] for row in scores]
    else:
        y = scores
    omega, variance = [CTX.mpf(k) / 9 for k in (2, 1, -4)][:tokens], CTX.mpf(3) / 8
    made = denoise_mp(model, y, [omega], [[variance]], digits=30)
    up = CTX.exp(sum(a * w for a, w in zip(h, omega, strict=True)) / variance)
    share = up / (up + 1 / up)
    norm = (2 * CTX.pi * variance) ** (-CTX.mpf(tokens) / 2)
    density = sum(
        norm * CTX.exp(-sum((sign * a - w) ** 2 for a, w in zip(h, omega, strict=True)) / (2 * variance))
        for sign in (1, -1)
    )
    jacobian = CTX.mpf(1)
    if tokens == 2 and activation == "linear":
        jacobian = 2 * CTX.mpf(1.3) * y[0][0]
    elif tokens == 2:
        jacobian = 2 * CTX.mpf(1.3) ** 2 * (h[0] - h[1]) ** 2 * y[0][0] * y[0][1] * y[1][0] * y[1][1]
    assert abs(made.log_z - CTX.log(density / jacobian)) < 1e-30
    for a in range(tokens):
        mean = (2 * share - 1) * h[a]
        assert abs(made.g_out[0, a] - (mean - omega[a]) / variance) < 1e-29
        for b in range(tokens):
            spread = h[a] * h[b] * 4 * share * (1 - share) / variance**2 - (a == b) / variance
            assert abs(made.dg_out[0, a, 0, b] - spread) < 1e-28
    floats = denoise(model, np.array(y, float), np.array([omega], float), np.array([[float(variance)]]))
    np.testing.assert_allclose(floats.g_out, made.g_out.astype(float), rtol=1e-12)
    np.testing.assert_allclose(floats.dg_out, made.dg_out.astype(float), rtol=1e-12, atol=1e-12)
    assert float(floats.log_z) == pytest.approx(float(made.log_z), abs=1e-12)


@pytest.mark.parametrize("category", ["V_11 = 1e-3", "correlated"])
@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_fewer_digits_of_the_reference(activation: str, category: str) -> None:
    """A cruder cut of the plane and lower orders give the stored numbers to what they promise."""
    case = cheapest(activation, category)
    model = Attention(2, 2, 1, case["skip"], case["beta"], case["activation"])
    made = denoise_mp(model, case["y"], case["omega"], case["V"], digits=9)
    assert made.how == "estimated" and made.error <= 1e-9 and made.nodes > 0
    grow = np.abs(np.linalg.inv(np.array(case["V"]))).max()
    for name in ("g_out", "dg_out"):
        exact = np.array([CTX.mpf(text) for text in case[name]], dtype=object)
        # V^{-1/2} magnifies an error of the moments once in g_out, V^{-1} in d g_out; the last summation is far closer.
        assert largest(getattr(made, name).ravel() - exact) < 1e-9 * (grow**0.5 if name == "g_out" else grow)
    assert abs(made.log_z - CTX.mpf(case["log_z"])) < 1e-9


def test_more_digits_agree() -> None:
    low, high = (denoise_mp(EASY, Y, OMEGA, V, digits=digits) for digits in (8, 14))
    assert low.nodes < high.nodes
    assert low.error <= 1e-8 and high.error <= 1e-14
    assert abs(low.log_z - high.log_z) < 1e-8
    assert largest(low.g_out - high.g_out) < 1e-8 * largest(np.linalg.inv(V))


def test_cut_is_seamless(rng: np.random.Generator) -> None:
    """Neighbours share their edges bit by bit after any halving: a gap of one rounding once cost 4e-15 of the mass."""
    for middle in (*rng.normal(scale=30.0, size=20), 0.0, 1e-12, 1e3):
        low, high = middle - 7.3, middle + 7.3
        edges = precise._edges(low, high)
        assert edges[0] <= low and edges[-1] >= high and (np.diff(edges) > 0).all()
        assert not low < 0 < high or 0.0 in edges
        boxes = precise._product(edges, edges)
        for axis in (0, 1, 0, 1, 0, 1):
            boxes = precise._halves(boxes, axis)
        for axis in (0, 1):
            starts, ends = np.unique(boxes[:, axis]), np.unique(boxes[:, axis] + boxes[:, 2 + axis])
            np.testing.assert_array_equal(starts[1:], ends[:-1])


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_derivatives_at_high_precision(activation: str) -> None:
    """Central differences with step 1e-8 at 24 digits: the error is of order 1e-15, in log_z and in g_out."""
    model = Attention(skip=5.0, beta=0.2, activation=activation)
    y = model.link(np.array([[0.35, -0.6], [-0.3, 0.9]]))
    middle = denoise_mp(model, y, OMEGA, V, digits=24)
    step = CTX.mpf("1e-8")
    for p, m in ((0, 1), (1, 0)):
        sides = []
        for sign in (1, -1):
            moved = np.array([[CTX.mpf(x) for x in row] for row in OMEGA.tolist()], dtype=object)
            moved[p, m] += sign * step
            sides.append(denoise_mp(model, y, moved, V, digits=24))
        up, down = sides
        assert abs((up.log_z - down.log_z) / (2 * step) - middle.g_out[p, m]) < 1e-12
        assert largest((up.g_out - down.g_out) / (2 * step) - middle.dg_out[:, :, p, m]) < 1e-11


@pytest.mark.slow
@pytest.mark.parametrize("category", ["V_22 = 1e-3", "near-singular", "unlikely y"])
def test_reference_again(category: str) -> None:
    """`denoise_mp` in full on narrow and unlikely posteriors."""
    case = cheapest("softmax", category)
    model = Attention(2, 2, 1, case["skip"], case["beta"], case["activation"])
    made = denoise_mp(model, case["y"], case["omega"], case["V"], digits=18)
    exact = np.array([CTX.mpf(text) for text in case["g_out"]], dtype=object)
    # The kept entries are sums in extended precision, good to 2e-16, that V^{-1} magnifies.
    rounding = max(1e-15, 2e-16 * float(np.linalg.cond(case["V"])))
    assert largest(made.g_out.ravel() - exact) < rounding * largest(exact)
    assert abs(made.log_z - CTX.mpf(case["log_z"])) < 1e-15


def test_floats_are_exact_and_text_is_decimal() -> None:
    as_floats = denoise_mp(Attention(1), [[0.7, 0.3], [0.2, 0.8]], [[0.1, 0.2]], [[0.5]])
    as_text = denoise_mp(Attention(1), [["0.7", "0.3"], ["0.2", "0.8"]], [["0.1", "0.2"]], [["0.5"]])
    gap = abs(as_floats.log_z - as_text.log_z)
    assert 1e-20 < gap < 1e-14  # 0.7 is no binary number
    exact = [[CTX.mpf(0.7), CTX.mpf(0.3)], [CTX.mpf(0.2), CTX.mpf(0.8)]]
    as_mpf = denoise_mp(Attention(1), exact, [[CTX.mpf(0.1), CTX.mpf(0.2)]], [[CTX.mpf(0.5)]])
    assert abs(as_mpf.log_z - as_floats.log_z) < 1e-30


def test_global_precision_is_left_alone() -> None:
    before = mpmath.mp.dps
    try:
        mpmath.mp.dps = 5
        made = denoise_mp(Attention(1), [[0.7, 0.3], [0.2, 0.8]], [[0.1, 0.2]], [[0.5]], digits=30)
        assert mpmath.mp.dps == 5
    finally:
        mpmath.mp.dps = before
    again = denoise_mp(Attention(1), [[0.7, 0.3], [0.2, 0.8]], [[0.1, 0.2]], [[0.5]], digits=30)
    assert made.log_z == again.log_z


@pytest.mark.parametrize(
    ("arguments", "options", "error", "word"),
    [
        ((EASY, Y, OMEGA, V), {"digits": 4}, ValueError, "digits"),
        ((EASY, Y, OMEGA, V), {"digits": 1000}, ValueError, "digits"),
        ((EASY, Y, OMEGA, V), {"digits": 10.0}, ValueError, "digits"),
        ((EASY, Y, OMEGA, V), {"digits": 10, "max_nodes": 100}, ConvergenceError, "max_nodes"),
        ((EASY, Y[None], OMEGA, V), {}, ValueError, "y must be a single one"),
        ((EASY, Y, OMEGA[0], V), {}, ValueError, "omega must be a single one"),
        ((EASY, Y, OMEGA, np.eye(3)), {}, ValueError, "V must be a single one"),
        ((EASY, Y, OMEGA * np.nan, V), {}, ValueError, "finite"),
        ((EASY, Y, OMEGA, -V), {}, ValueError, "semi-definite"),
        ((EASY, [[0.4, 0.6], [0.5, 0.5]], OMEGA, V), {}, UnreachableOutputError, "177"),
        ((Attention(3), Y, np.zeros((3, 2)), np.eye(3)), {}, KernelNotFoundError, "precise"),
    ],
)
def test_bad_input(arguments: Any, options: dict[str, Any], error: type[Exception], word: str) -> None:
    with pytest.raises(error, match=word):
        denoise_mp(*arguments, **options)
