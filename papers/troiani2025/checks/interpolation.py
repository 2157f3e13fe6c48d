"""Interpolation between the model and its scalar channels: (60)-(61), (63)."""

import sympy as sp

from attnlimits.derive.registry import CheckOutcome

from .tools import covariance, matrix, symbolic, symmetric

_INDICES = 2  # P


def check_60() -> CheckOutcome:
    """Covariance of the interpolating input over inputs and side information, and both ends of the path.

    The square roots enter through their squares R R^T = R_2 and T T^T = t I + 2 s I - R_2.
    """
    t, s = sp.symbols("t s", positive=True)
    dimension, tokens = 3, 2
    one = sp.eye(_INDICES)
    weights, sample = matrix("W", _INDICES, dimension), matrix("x", dimension, tokens)
    root, rest = matrix("R", _INDICES, _INDICES), matrix("T", _INDICES, _INDICES)
    known, unknown = matrix("V", _INDICES, tokens), matrix("U", _INDICES, tokens)
    inputs = sp.sqrt(1 - t) * weights * sample / sp.sqrt(dimension) + root * known + rest * unknown
    gaussians = [*sample, *known, *unknown]
    overlap = weights * weights.T / dimension
    path = symmetric("q", _INDICES)
    differences: dict[str, sp.Expr | sp.MatrixBase] = {}
    for m in range(tokens):
        for k in range(tokens):
            moment = covariance(inputs[:, m], inputs[:, k], gaussians)
            stated = (1 - t) * overlap + root * root.T + rest * rest.T if m == k else sp.zeros(_INDICES)
            differences[f"tokens {m + 1}{k + 1}"] = (moment - stated).applyfunc(sp.expand)
    # With W W^T / D = I the covariance is the same for all t: that of the model, widened by 2 s.
    total = (1 - t) * one + path + (t * one + 2 * s * one - path)
    differences["constant along the path"] = total - (1 + 2 * s) * one
    return symbolic(differences, "covariance of the interpolating input over t, P = M = 2, D = 3")


def check_61() -> CheckOutcome:
    """Rotate the weight observation: R_1^{1/2} Y' is the effective field (92) with qhat = R_1."""
    root = symmetric("S", _INDICES)
    target, noise = matrix("w", _INDICES, 1), matrix("Z", _INDICES, 1)
    field = root * (root * target + noise)
    conjugate = root * root
    signal = field.jacobian(target)
    return symbolic(
        {
            "signal": signal - conjugate,
            "noise": covariance(root * noise, root * noise, noise) - conjugate,
            "rest": field - signal * target - root * noise,
        },
        "signal and noise of R_1^{1/2} Y' against the field b = qhat w* + qhat^{1/2} eta, P = 2",
    )


def check_63() -> CheckOutcome:
    """Expand the weight factor of the interpolating posterior: that of (98) at A = R_1, b = R_1^{1/2} Y'."""
    root = symmetric("S", _INDICES)
    w, seen = matrix("w", _INDICES, 1), matrix("Y", _INDICES, 1)
    spread = seen - root * w
    exponent = -(spread.T * spread)[0, 0] / 2
    stated = -(w.T * root * root * w)[0, 0] / 2 + ((root * seen).T * w)[0, 0] - (seen.T * seen)[0, 0] / 2
    return symbolic({"exponent": exponent - stated}, "weight factor of the posterior against that of (98), P = 2")
