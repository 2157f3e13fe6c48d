"""Checks of the layer: its derivatives, and what its outputs determine."""

import numpy as np
import sympy as sp

from attnlimits.derive.multihead import identifiability, layer, rank, two_tokens
from attnlimits.derive.registry import CheckOutcome
from attnlimits.numerics.multihead.certificates import sensitivity
from attnlimits.numerics.multihead.layer import jacobian
from attnlimits.papers.troiani2025.checks.tools import Differences, numeric, symbolic


def _steps(*starts: str) -> CheckOutcome:
    """Proof of the derivatives, the steps whose names begin so, at k = 2 and 3 and d = 2."""
    found = {
        f"k = {k}: {name}": difference
        for k in (2, 3)
        for name, difference in layer.derivative_identities(k, 2).items()
        if name.startswith(starts)
    }
    return symbolic(found, f"{len(found)} entries at k = 2, 3 and d = 2; tokens, Theta and W are symbols")


def check_7() -> CheckOutcome:
    """Derivative in Theta."""
    return _steps("1", "2", "3")


def check_8() -> CheckOutcome:
    """Derivative in W."""
    return _steps("4")


def check_9() -> CheckOutcome:
    """Log-ratio of attention weights."""
    found = {f"k = {k}": identifiability.recovery_identities(k, 2)["log-ratio"] for k in (2, 3)}
    return symbolic(found, "k = 2, 3 and d = 2; tokens and Theta are symbols")


def check_10() -> CheckOutcome:
    """Theta from attention weights at d^2 inputs, and that one token says nothing."""
    found: dict[str, sp.Expr | sp.MatrixBase] = {
        f"k = {k}, d = {d}": identifiability.recovery_identities(k, d)["Theta"] for k, d in ((2, 2), (3, 2), (2, 3))
    }
    found["k = 1"] = identifiability.single_token_attention(2)
    return symbolic(found, "at three (k, d), Theta of symbols")


def _equivalences(*starts: str) -> CheckOutcome:
    found: Differences = {
        name: difference for name, difference in two_tokens.equivalence_identities(2).items() if name.startswith(starts)
    }
    return symbolic(found, f"{', '.join(found)}; d = 2, everything a symbol")


def check_11() -> CheckOutcome:
    """Order of the heads."""
    return _equivalences("order")


def check_12() -> CheckOutcome:
    """Heads with equal Theta, and heads with W = 0."""
    return _equivalences("equal Theta", "W = 0")


def check_13() -> CheckOutcome:
    """Tanh form at k = 2."""
    return symbolic(
        {f"d = {d}: {name}": value for d in (2, 3) for name, value in two_tokens.tanh_identities(d).items()},
        "d = 2 and 3, tokens, Theta and W of symbols",
    )


def check_14() -> CheckOutcome:
    """Flips of one head and of two, of two heads."""
    return _equivalences("flip", "span of v")


def check_15() -> CheckOutcome:
    """Invisible pair."""
    return _equivalences("invisible")


def check_16() -> CheckOutcome:
    """Opposite pair of heads with any values."""
    return _equivalences("opposite")


def check_17() -> CheckOutcome:
    """Head with Theta = 0."""
    return _equivalences("linear")


def check_18() -> CheckOutcome:
    """Three tokens: every equivalence of signs leaves an exact nonzero difference."""
    gaps = two_tokens.three_token_gaps()
    # The proof is that none vanishes: an entry that is 0 becomes 1 here, and an exact nonzero one becomes 0.
    found = {name: sp.Integer(all(entry == 0 for entry in gap)) for name, gap in gaps.items()}
    return symbolic(found, f"rational outputs at Theta = log(2) times integers: {', '.join(gaps)}")


def check_19() -> CheckOutcome:
    """Weight of the first of k tokens, and its poles."""
    return symbolic(
        {f"k = {k}: {name}": value for k in (2, 3, 4) for name, value in two_tokens.pole_identities(k).items()},
        "k = 2, 3, 4, for every integer n",
    )


def check_21() -> CheckOutcome:
    """Full rank of the Jacobian on Boolean inputs modulo a prime, at six (k, d, m)."""
    places = ((2, 3, 1), (2, 3, 2), (3, 3, 2), (2, 4, 2), (2, 4, 3), (3, 4, 2))
    found = {}
    for place in places:
        full, unknowns = rank.jacobian_rank(*place)
        found[str(place)] = sp.Integer(full - unknowns)
    return symbolic(found, f"rank = 2 m d^2 modulo 2^31 - 1 at (k, d, m) = {', '.join(map(str, places))}")


def check_33() -> CheckOutcome:
    """Sensitivity: by the singular values of the Jacobian, and 0 for equal heads and the invisible pair."""
    rng = np.random.default_rng(0)
    X = 2.0 * rng.integers(0, 2, (400, 2, 4)) - 1
    theta, w = rng.standard_normal((2, 2, 4, 4))
    full = jacobian(X, theta, w)
    values = np.linalg.svd(full / np.linalg.norm(full, axis=0), compute_uv=False)
    residuals = [abs(sensitivity(X, theta, w) / (values[-1] / values[0]) - 1) / 1e-6]
    for other, value in ((theta[0], w[1]), (-theta[0], w[0])):
        # Singular values come from squares: 0 to the root of the rounding.
        residuals.append(sensitivity(X, np.stack([theta[0], other]), np.stack([w[0], value])) / 1e-6)
    return numeric(residuals, 1.0, "one random layer; equal heads; an invisible pair")
