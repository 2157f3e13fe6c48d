"""Sequence multi-index models as multi-index models of the flattened input: (56)-(58), (65)-(67)."""

import numpy as np
import sympy as sp

from attnlimits.derive.registry import CheckOutcome

from .forward import random_weights, reference_link
from .tools import average, matrix, numeric, symbolic


def _vec(value: sp.Matrix) -> sp.Matrix:
    """Stack the columns."""
    return sp.Matrix([value[i, j] for j in range(value.shape[1]) for i in range(value.shape[0])])


def _kron_identity(size: int, block: sp.Matrix) -> sp.Matrix:
    return sp.Matrix(sp.kronecker_product(sp.eye(size), block))


def check_56() -> CheckOutcome:
    """Write the weights block by block: the Kronecker product with the identity."""
    weights = matrix("W", 2, 3)
    return symbolic(
        {f"M = {tokens}": sp.diag(*[weights] * tokens) - _kron_identity(tokens, weights) for tokens in (2, 3)},
        "weights with one block per token against I kron W, P = 2, D = 3",
    )


def check_57() -> CheckOutcome:
    """vec(W x) = (I (x) W) vec(x)."""
    weights, sample = matrix("W", 2, 3), matrix("x", 3, 3)
    difference = _vec(weights * sample) - _kron_identity(3, weights) * _vec(sample)
    return symbolic({"vec(W x)": difference}, "vec(W x) against (I kron W) vec(x), P = 2, M = D = 3")


def check_58() -> CheckOutcome:
    """Check that the model on flattened inputs gives the labels of the link."""
    rng = np.random.default_rng(58)
    residuals = []
    for tokens, ranks, dimension in ((2, (1, 1), 40), (3, (2, 1, 1), 30)):
        weights = random_weights(rng, ranks, dimension)
        sample = rng.standard_normal((dimension, tokens))
        stacked = np.vstack(weights)
        flat = np.kron(np.eye(tokens), stacked) @ sample.T.reshape(-1) / np.sqrt(dimension)
        unflattened = flat.reshape(tokens, stacked.shape[0]).T
        direct = reference_link(np.split(stacked @ sample / np.sqrt(dimension), np.cumsum(ranks)[:-1]), 0.7, 1.3)
        residuals.append(np.abs(reference_link(np.split(unflattened, np.cumsum(ranks)[:-1]), 0.7, 1.3) - direct).max())
    # Sums of 40 products in another order: a few hundred rounding errors at most.
    return numeric(residuals, 1e-12, "labels from flattened inputs against the link on W x / sqrt(D)")


def check_65() -> CheckOutcome:
    """Flatten the interpolating input (60) term by term."""
    t = sp.Symbol("t", positive=True)
    weights, sample = matrix("W", 2, 2), matrix("x", 2, 2)
    root, rest, known, unknown = matrix("R", 2, 2), matrix("T", 2, 2), matrix("V", 2, 2), matrix("U", 2, 2)
    scale = sp.sqrt(1 - t) / sp.sqrt(2)
    inputs = scale * weights * sample + root * known + rest * unknown
    flat = (
        scale * _kron_identity(2, weights) * _vec(sample)
        + _kron_identity(2, root) * _vec(known)
        + _kron_identity(2, rest) * _vec(unknown)
    )
    return symbolic({"vec(S)": _vec(inputs) - flat}, "vec of (60) against its flattened terms, P = M = D = 2")


def check_66() -> CheckOutcome:
    """Sharing the weights over tokens sums the product of gradients over tokens.

    For gradients A and B (P x M), E_x <A, W x> <B, w x> / D = Tr[(W w^T / D) sum_m B_m A_m^T].
    """
    dimension = 2
    target, guess, sample = matrix("W", 2, dimension), matrix("w", 2, dimension), matrix("x", dimension, 2)
    first, second = matrix("A", 2, 2), matrix("B", 2, 2)
    product = (first.T * target * sample).trace() * (second.T * guess * sample).trace() / dimension
    contracted = (target * guess.T / dimension * second * first.T).trace()
    return symbolic(
        {"contraction": average(product, sample) - contracted},
        "Gaussian average of two directional derivatives against the token sum of gradients, P = M = D = 2",
    )


def check_67() -> CheckOutcome:
    """(I (x) A)(I (x) B) = I (x) AB."""
    left, right = matrix("A", 2, 3), matrix("B", 3, 2)
    difference = _kron_identity(3, left) * _kron_identity(3, right) - _kron_identity(3, left * right)
    return symbolic({"product": difference}, "product of flattened matrices against the flattened product, M = 3")
