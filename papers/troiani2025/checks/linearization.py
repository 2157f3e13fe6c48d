"""Weak recovery: the operator (15), the threshold (16), and the forms for two layers (184)-(187)."""

import numpy as np
import sympy as sp

from attnlimits.derive import linearization as derived
from attnlimits.derive.registry import CheckOutcome
from attnlimits.generated.attention_tied_softmax_m2 import numpy64 as kernel
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.denoiser import denoise
from attnlimits.numerics.thresholds.last_layer import last_layer

from .forward import softmax
from .plain import PlainChannel, readout_grid
from .tools import gaussian_moment, matrix, numeric, symbolic, symmetric


def _one_layer_operator(tokens: int, rank: int) -> tuple[sp.Matrix, sp.Matrix]:
    """Apply the operator (15) of one tied layer to a matrix of symbols, averaging monomial by monomial.

    The label fixes K = h^T h and nothing else, so that E[h_m h_m'^T | y] = (K_mm' / r) I.
    """
    h = matrix("h", rank, tokens)
    gram = h.T * h
    moment = sp.Matrix(
        sp.kronecker_product(sp.eye(tokens), sp.zeros(rank)) + sp.kronecker_product(gram / rank, sp.eye(rank))
    )
    direction = symmetric("M", rank)
    blocks = derived.curvature_blocks(moment, rank, tokens)
    applied = derived.apply_operator(blocks, direction)
    return applied.applyfunc(lambda entry: gaussian_moment(entry, list(h))), direction


def check_15() -> CheckOutcome:
    """One tied layer: the operator is M (M + 1) / r times the identity map."""
    differences: dict[str, sp.Expr | sp.MatrixBase] = {}
    for tokens, rank in ((2, 1), (3, 1), (4, 1), (3, 2)):
        value, direction = _one_layer_operator(tokens, rank)
        stated = sp.Rational(tokens * (tokens + 1), rank) * direction
        differences[f"operator, M = {tokens}, r = {rank}"] = value - stated
        differences[f"derived eigenvalue, M = {tokens}, r = {rank}"] = derived.single_layer_eigenvalue(
            tokens, rank
        ) - sp.Rational(tokens * (tokens + 1), rank)
    # A sum over pairs of tokens is a quadratic polynomial in M: its values at M = 2, 3, 4 fix it for every M.
    m, r = sp.symbols("M r", positive=True, integer=True)
    through = sp.interpolate([(2, 6), (3, 12), (4, 20)], m)
    differences["symbolic M"] = derived.single_layer_eigenvalue(m) - through
    differences["symbolic M and r"] = derived.single_layer_eigenvalue(m, r) - through / r
    return symbolic(differences, "operator of one layer by Gaussian moments against M (M + 1) / r, and the derived one")


def check_16() -> CheckOutcome:
    """Exact thresholds: one layer r / (M (M + 1)); modulus 1/2; sign of a product pi^2 / 4."""
    m, r = sp.symbols("M r", positive=True, integer=True)
    differences: dict[str, sp.Expr | sp.MatrixBase] = {
        "one layer": derived.single_layer_threshold(m, r) - r / (m * (m + 1)),
        "two tokens": derived.single_layer_threshold(2) - sp.Rational(1, 6),
    }
    # y = |h|: h is known up to its sign, G = h^2 - 1.
    h = sp.Symbol("h", real=True)
    blocks = derived.curvature_blocks(sp.Matrix([[h**2]]), 1, 1)
    one = gaussian_moment(derived.apply_operator(blocks, sp.eye(1))[0], [h])
    differences["modulus"] = 1 / one - sp.Rational(1, 2)
    # y = sign(h_1 h_2): E[h_1 h_2 | y] = y E|h_1 h_2| and E[h_i^2 | y] = 1.
    half = sp.sqrt(2 / sp.pi)
    x = sp.Symbol("x", positive=True)
    modulus = sp.integrate(2 * x * sp.exp(-(x**2) / 2) / sp.sqrt(2 * sp.pi), (x, 0, sp.oo))
    differences["mean modulus"] = modulus - half
    direction = symmetric("M", 2)
    operator = sp.zeros(2)
    for label in (1, -1):
        cross = label * modulus**2
        blocks = derived.curvature_blocks(sp.Matrix([[1, cross], [cross, 1]]), 2, 1)
        operator += derived.apply_operator(blocks, direction) / 2
    swapped = sp.Matrix([[direction[1, 1], direction[0, 1]], [direction[0, 1], direction[0, 0]]])
    # Swapping the diagonal keeps the Frobenius norm: the supremum of ||F(M)|| is its factor, attained at
    # the identity.
    factor = 4 / sp.pi**2
    differences["sign of a product, operator"] = operator - factor * swapped
    differences["sign of a product, threshold"] = 1 / factor - sp.pi**2 / 4
    return symbolic(differences, "thresholds from the operator against r/(M(M+1)), 1/2 and pi^2/4")


def check_184() -> CheckOutcome:
    """Compare the derivative at (0, I) with plain posterior moments; blocks between layers vanish."""
    readouts = np.array([[1.9, -0.3], [0.4, 1.7], [-0.8, -1.1], [2.6, 0.1], [0.3, -0.2]])
    residuals = []
    for skip, beta in ((1.0, 1.0), (0.4, 2.0)):
        channel = PlainChannel(np.zeros((2, 2)), np.eye(2), skip=skip, beta=beta, step=0.05, reach=9.0)
        second = channel.moments(readouts).second
        labels = np.stack([softmax(beta * np.outer(v, v)) for v in readouts])
        found = denoise(Network(layers=2, tokens=2, skip=skip, beta=beta), labels, np.zeros((2, 2)), np.eye(2))
        stated = second - np.einsum("ab,mk->ambk", np.eye(2), np.eye(2))
        residuals.append(np.abs(found.dg_out - stated).max() / max(1.0, np.abs(stated).max()))
        residuals += [np.abs(found.dg_out[:, 0, :, 1, :]).max(), np.abs(second[:, 0, :, 1, :]).max()]
        residuals.append(np.abs(found.g_out).max())
    # The plain grid is converged to rounding; the denoiser's own tolerance of 1e-11 remains.
    return numeric(residuals, 1e-10, "derivative at (0, I) against E[h h^T | y] - I, and its parity zeros")


def check_185() -> CheckOutcome:
    """Multipliers of both layers by plain sums over labels, against the threshold of the numerics."""
    residuals = []
    for skip, beta in ((1.0, 1.0), (0.5, 1.6), (3.0, 0.5)):
        channel = PlainChannel(np.zeros((2, 2)), np.eye(2), skip=skip, beta=beta, reach=9.0)
        readouts, cell = readout_grid(skip, 0.2, 9.0)
        kept = readouts[:, 0] > readouts[:, 1]  # swapping the tokens maps one half of the labels on the other
        found = channel.moments(readouts[kept])
        weight = 2.0 * cell * found.density
        first, second = (
            float(weight @ np.sum((found.second[:, layer, :, layer, :] - np.eye(2)) ** 2, axis=(1, 2)))
            for layer in (0, 1)
        )
        model = Network(layers=2, tokens=2, skip=skip, beta=beta)
        residuals.append(abs(second * float(last_layer(model, digits=12).value) - 1.0))
        residuals.append(0.0 if first < second else 1.0)  # the maximum of (185) is the last layer's
        residuals.append(abs(float(weight.sum()) - 1.0))
    # The plain sums converge exponentially in their steps; at these, (0.5, 1.6) is the least converged, to
    # 4e-9.
    return numeric(residuals, 1e-8, "1 / E||E[h_2^T h_2 | y] - I||^2 by plain sums against the last-layer threshold")


def _known_second_layer(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw h_1 in modes and recover it from (y, h_2) up to its sign, for random two-layer samples."""
    skip, beta = 1.0, 1.0
    x, h2 = rng.standard_normal((count, 2)), rng.standard_normal((count, 2))
    pp, pm, mp, mm = kernel.layer(x[:, 0], x[:, 1], skip, beta)
    v = np.stack([pp * h2[:, 0] + pm * h2[:, 1], mp * h2[:, 0] + mm * h2[:, 1]], axis=1)
    y11, y12, y21, y22 = kernel.link(v[:, 0], v[:, 1], beta)
    vp, vm, _ = kernel.invert(y11, y12, y21, y22, beta)
    # The label fixes +-v; c + tau > 0 makes the sign that of the minus mode of h_2.
    sign = np.sign(vm * h2[:, 1])
    tau = sign * vm / h2[:, 1] - skip
    s = (sign * vp - (1.0 + skip) * h2[:, 0]) / h2[:, 1]
    # (s, tau) is the attention matrix of the first layer: p_11 - p_22 = s, p_11 + p_22 = 1 + tau.
    p11, p22 = (1.0 + tau + s) / 2.0, (1.0 + tau - s) / 2.0
    xp, xm, _ = kernel.invert(p11, 1.0 - p11, 1.0 - p22, p22, beta)
    return x, np.stack([xp, xm], axis=1)


def check_186() -> CheckOutcome:
    """Recover h_1 up to a sign from the label and h_2, so that E[h_1^T h_1 | y, h_2] = h_1^T h_1."""
    x, recovered = _known_second_layer(np.random.default_rng(186), 400)
    outer, found = x[:, :, None] * x[:, None, :], recovered[:, :, None] * recovered[:, None, :]
    # tau and s come from differences of numbers of order v / h_2, whose rounding the inverse softmax
    # amplifies by 1 / (y_12 y_21); the worst of these 400 samples loses eight digits.
    residual = np.abs(found - outer).max(axis=(1, 2)) / (1.0 + np.abs(outer).max(axis=(1, 2)))
    return numeric(residual, 1e-6, "h_1 h_1^T recovered from (y, h_2) against h_1 h_1^T, two layers, c = 1")


def check_187() -> CheckOutcome:
    """Conclude E || h_1^T h_1 - I ||^2 = M (M + 1): the threshold is that of a single layer."""
    _, weights = np.polynomial.hermite_e.hermegauss(24)
    nodes, _ = np.polynomial.hermite_e.hermegauss(24)
    weights = weights / weights.sum()
    first, second = np.meshgrid(nodes, nodes, indexing="ij")
    weight = np.outer(weights, weights)
    norm = (first**2 - 1.0) ** 2 + (second**2 - 1.0) ** 2 + 2.0 * (first * second) ** 2
    eigenvalue = float(np.sum(weight * norm))
    threshold = float(derived.single_layer_threshold(2))
    # Gauss-Hermite is exact for a polynomial of degree four; rounding remains.
    return numeric([abs(1.0 / eigenvalue - threshold)], 1e-13, "1 / E||h_1^T h_1 - I||^2 against 1/(M(M+1)), M = 2")
