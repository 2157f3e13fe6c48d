"""Checks of the steps of the algorithm."""

import numpy as np
from scipy.optimize import minimize

from attnlimits.derive.multihead import estimates
from attnlimits.derive.multihead.layer import matrix
from attnlimits.derive.registry import CheckOutcome
from attnlimits.numerics.multihead.equivalences import compare
from attnlimits.numerics.multihead.layer import attention, multihead, nmse
from attnlimits.numerics.multihead.regression import best_w
from attnlimits.numerics.multihead.risk import exact_risk
from attnlimits.numerics.multihead.sculpt.body import Body, slabs, violation
from attnlimits.numerics.multihead.sculpt.certification import distinct
from attnlimits.numerics.multihead.sculpt.crude_sum import crude_sum
from attnlimits.numerics.multihead.sculpt.hull import affine_hull, span_residual
from attnlimits.numerics.multihead.sculpt.simplex import Patterns, simplex_regression
from attnlimits.numerics.multihead.teachers import make_examples, make_teacher
from attnlimits.papers.troiani2025.checks.tools import numeric, symbolic


def check_22() -> CheckOutcome:
    """Mean of the crude sum to first order in Theta, by enumeration at four (k, d)."""
    found = {}
    for k, d in ((2, 2), (2, 3), (3, 2), (4, 2)):
        zeroth, first = estimates.crude_sum_series(k, d)
        found[f"k = {k}, d = {d}, uniform attention"] = zeroth - matrix("W", d, d)
        found[f"k = {k}, d = {d}, first order"] = first - estimates.crude_sum_bias(k, d)
    return symbolic(found, "(k, d) = (2, 2), (2, 3), (3, 2), (4, 2), all inputs, Theta and W of symbols")


def check_23() -> CheckOutcome:
    """The sum of the code on all inputs at small logits: its bias is that of first order."""
    rng = np.random.default_rng(0)
    x = np.array([[1.0 - 2 * (code >> p & 1) for p in range(6)] for code in range(1 << 6)]).reshape(-1, 2, 3)
    theta, w = rng.standard_normal((2, 1, 3, 3))
    off = theta[0] - np.diag(np.diag(theta[0]))
    residuals = []
    for size in (1e-3, 1e-4):
        found = crude_sum(x, multihead(x, size * theta, w)) - w[0]
        # tanh has no second order; what is left is of the third.
        residuals.append(float(np.abs(found / size - 0.5 * off @ w[0]).max()) / (20 * size**2 + 1e-11))
    return numeric(residuals, 1.0, "k = 2, d = 3, all 64 inputs, logits of order 1e-3 and 1e-4")


def check_24() -> CheckOutcome:
    """The regression over the simplex against a general minimiser, and its conditions of optimality."""
    rng = np.random.default_rng(1)
    residuals = []
    for k in (2, 3, 4):
        x, y, s = rng.standard_normal((20, k, 6)), rng.standard_normal((20, k, 6)), rng.standard_normal((6, 6))
        found = simplex_regression(x, y, s)
        image = x @ s
        gradient = (found.alpha @ image - y) @ image.swapaxes(1, 2)
        # At the minimum every vertex lies uphill: gradient . (e_j - alpha) >= 0, and alpha is in the simplex.
        uphill = gradient - (gradient * found.alpha).sum(axis=2, keepdims=True)
        residuals += [float(-uphill.min()) / 1e-9, float(-found.alpha.min()) / 1e-12]
        residuals.append(float(np.abs(found.alpha.sum(axis=2) - 1).max()) / 1e-12)

        def distance(z: np.ndarray, target: np.ndarray = y[0, 0], tokens: np.ndarray = image[0]) -> float:
            weights = np.exp(z - z.max())
            return float(np.sum((target - weights / weights.sum() @ tokens) ** 2))

        best = min(minimize(distance, rng.standard_normal(k), tol=1e-12).fun for _ in range(5))
        # A softmax reaches the boundary of the simplex in the limit only.
        residuals.append((found.rho[0, 0] ** 2 - best) / 1e-9)
        residuals.append((best - found.rho[0, 0] ** 2) / 1e-3)
    return numeric([max(r, 0.0) for r in residuals], 1.0, "k = 2, 3, 4: optimality, and a descent over softmax weights")


def check_25() -> CheckOutcome:
    """What a residual says of the deviations of the heads."""
    found = {}
    for place in ((2, 3, 2), (3, 4, 2), (2, 4, 3)):
        for name, rest in estimates.agreement_identities(*place).items():
            if name != "first order":
                found[f"(k, d, m) = {place}: {name}"] = rest
    return symbolic(found, "at three (k, d, m), everything a symbol")


def check_26() -> CheckOutcome:
    """Rank of B: full if and only if d >= m (k - 1), for random W at random inputs."""
    rng = np.random.default_rng(2)
    residuals = []
    for k, d, m in ((2, 2, 2), (2, 3, 4), (3, 4, 2), (3, 5, 3), (4, 6, 2), (4, 5, 2)):
        x, w = rng.standard_normal((k, d)), rng.standard_normal((m, d, d))
        rows = ((x[:-1] - x[-1]) @ w).reshape(m * (k - 1), d)
        least = np.linalg.svd(rows @ rows.T, compute_uv=False)[-1]
        # Rounding of a singular matrix, or the least square of a regular one.
        residuals.append(1e-6 / least if d >= m * (k - 1) else least / 1e-12)
    return numeric(residuals, 1.0, "three (k, d, m) with d >= m (k - 1), three without")


def check_27() -> CheckOutcome:
    """Log-ratios of a head to first order in its deviation."""
    rest = estimates.agreement_identities(2, 2, 1)["first order"]
    return symbolic({"derivative": rest}, "any weights and deviations")


def check_28() -> CheckOutcome:
    """A single head lies in its body: all slabs of exact patterns hold to rounding."""
    theta, w = make_teacher("gauss", 1, 5, rng=0)
    data = make_examples(theta, w, samples=300, tokens=3, rng=1)
    x = data.X[distinct(data.X)]
    alpha = attention(x, theta)[:, 0]
    body = slabs(x, Patterns(alpha, np.zeros(alpha.shape[:2]), np.zeros(alpha.shape[:2], np.int64)), w[0], 0.0)
    exact = float(np.abs(body.values(theta[0]) - body.bound).max()) / 1e-10
    # Moved by one, it lies outside.
    return numeric([exact, 1.0 / float(violation(body, theta + 1.0)[0])], 1.0, f"{len(body)} slabs of exact patterns")


def check_29() -> CheckOutcome:
    """Hull of three matrices from constraints that all of them meet: it holds them, with the proxy as least point."""
    rng = np.random.default_rng(3)
    theta = rng.standard_normal((3, 3, 3))
    # Rows with <x y^T, Theta_i> equal for all i: solve for y at random x.
    query = rng.standard_normal((60, 3))
    difference = []
    for x in query:
        differences = np.stack([x @ (theta[i] - theta[0]) for i in (1, 2)])
        difference.append(np.linalg.svd(differences)[2][-1])
    found = np.array(difference)
    bound = np.einsum("pa,ab,pb->p", query, theta[0], found)
    hull = affine_hull(Body(query, found, bound, np.ones(60)), 3)
    inside = float(span_residual(hull, theta).max())
    orthogonal = float(np.abs(np.einsum("jab,ab->j", hull.directions, hull.proxy)).max())
    return numeric([inside / 1e-6, orthogonal / 1e-9, 1e3 / hull.gap], 1.0, "three matrices, 60 exact constraints")


def check_32() -> CheckOutcome:
    """Values by least squares from the true Theta."""
    theta, w = make_teacher("gauss", 2, 5, rng=2)
    data = make_examples(theta, w, samples=200, tokens=2, rng=3)
    mixed = (attention(data.X, theta) @ data.X[:, None]).transpose(0, 2, 1, 3).reshape(-1, 10)
    plain = np.linalg.lstsq(mixed, data.Y.reshape(-1, 5), rcond=None)[0].reshape(2, 5, 5)
    found = best_w(data.X, data.Y, theta)
    return numeric([np.abs(found - w).max() / 1e-9, np.abs(found - plain).max() / 1e-9], 1.0, "the W, and lstsq")


def check_34() -> CheckOutcome:
    """Risk over all inputs: of a layer and itself in another order, and of two layers by a plain sum."""
    theta, w = make_teacher("gauss", 2, 4, rng=4)
    other, values = make_teacher("gauss", 2, 4, rng=5)
    x = np.array([[1.0 - 2 * (code >> p & 1) for p in range(8)] for code in range(1 << 8)]).reshape(-1, 2, 4)
    plain = nmse(multihead(x, theta, w), multihead(x, other, values))
    same = exact_risk(theta[::-1], w[::-1], theta, w, 2).largest
    agree = 0.0 if compare((theta[::-1], w[::-1]), (theta, w), 2).equivalent else np.inf
    found = exact_risk(other, values, theta, w, 2).nmse
    return numeric([abs(found / plain - 1) / 1e-12, same / 1e-13, agree], 1.0, "k = 2, d = 4, all 256 inputs")
