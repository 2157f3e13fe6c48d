"""From the readout back to the indices of the last layer: (170)-(183).

The formulas of the paper are written here in plain exponentials of v and compared with the derived branches
and Jacobians, which come from SymPy's own solution of the link.
"""

from collections.abc import Callable

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from attnlimits.derive import mixing, symbols
from attnlimits.derive import readout as derived
from attnlimits.derive.architecture import Architecture
from attnlimits.derive.primitives import elementary
from attnlimits.derive.registry import CheckOutcome
from attnlimits.generated.attention_tied_linear_m2 import numpy64 as linear_kernel
from attnlimits.generated.attention_tied_softmax_m2 import numpy64 as softmax_kernel

from .tools import numeric, symbolic

Array = NDArray[np.float64]

_V = symbols.readout_symbols(2)[0]
_SOFTMAX = Architecture(layers=1, tokens=2, activation="softmax")
_LINEAR = Architecture(layers=1, tokens=2, activation="linear")

# Beyond the reach the Gaussian weight is below 1e-20; midpoint sums converge exponentially in the step, and
# halving this one changes the integrals by 1e-16.
_STEP, _REACH = 0.05, 14.0


def _plain_softmax() -> tuple[sp.Expr, sp.Expr, sp.Expr, sp.Expr]:
    """y_11, y_12, y_21, y_22 of (176) with inverse temperature, in plain exponentials."""
    scores = [[sp.exp(symbols.beta * _V[i] * _V[j]) for j in range(2)] for i in range(2)]
    rows = [[entry / sum(row) for entry in row] for row in scores]
    return rows[0][0], rows[0][1], rows[1][0], rows[1][1]


def _plain_odds() -> tuple[sp.Expr, sp.Expr]:
    """l_1 and l_2 as the quadratic forms of (180), times beta."""
    return symbols.beta * (_V[0] ** 2 - _V[0] * _V[1]), symbols.beta * (_V[1] ** 2 - _V[0] * _V[1])


def check_172() -> CheckOutcome:
    """Entries of the linear readout, from the derived link, and the redundancy of y_22."""
    h = symbols.token_pair(symbols.vp, symbols.vm)
    y = mixing.link(_LINEAR, [h])
    differences = {f"y_{i + 1}{j + 1}": y[i, j] - symbols.beta * h[i] * h[j] for i in range(2) for j in range(2)}
    differences["y_22"] = y[1, 1] * y[0, 0] - y[0, 1] ** 2
    return symbolic(differences, "derived linear link against v^T v, and y_22 = y_12^2 / y_11")


def check_174() -> CheckOutcome:
    """Linear readout: branches and Jacobian of the derivation against the stated ones."""
    found = derived.invert(_LINEAR)
    y11, y12 = found.kept
    beta = symbols.beta
    stated = sp.Matrix([[sp.sqrt(y11 / beta), y12 / sp.sqrt(beta * y11)]])
    determinant = sp.Matrix([beta * _V[0] ** 2, beta * _V[0] * _V[1]]).jacobian(list(_V)).det()
    return symbolic(
        {
            "branch": found.branches[0] - stated,
            "other branch": found.branches[1] + stated,
            "Jacobian in v": found.jacobian_of_v - determinant,
            "Jacobian in y": found.jacobian - 2 * beta * y11,
            "at beta = 1": found.jacobian.subs(beta, 1) - 2 * y11,
        },
        "derived branches and Jacobian of the linear readout against (174)",
    )


def check_176() -> CheckOutcome:
    """Entries of the softmax readout, from the derived link, and the form of (178)-(179)."""
    y = elementary(mixing.link(_SOFTMAX, [_V]))
    y11, y12, y21, y22 = _plain_softmax()
    l1, l2 = _plain_odds()
    return symbolic(
        {
            "y_12": y[0, 1] - y12,
            "y_21": y[1, 0] - y21,
            "row 1": y[0, 0] + y12 - 1,
            "row 2": y[1, 1] + y21 - 1,
            "y_11": y[0, 0] - y11,
            "y_22": y[1, 1] - y22,
            "(178) y_12": y12 * (1 + sp.exp(sp.expand(l1))) - 1,
            "(178) y_21": y21 * (1 + sp.exp(sp.expand(l2))) - 1,
        },
        "derived softmax link against (176) and the logistic form of (179)",
    )


def check_177() -> CheckOutcome:
    """Range: the product of the odds, and the sign of 1 - y_12 - y_21."""
    _, y12, y21, _ = _plain_softmax()
    odds = sp.simplify((1 / y12 - 1) * (1 / y21 - 1) - sp.exp(sp.expand(symbols.beta * (_V[0] - _V[1]) ** 2)))
    a, b = sp.symbols("a b", positive=True)  # y_12 and y_21
    # (1/a - 1)(1/b - 1) - 1 = (1 - a - b) / (a b): with a, b > 0 the two sides of (177) have one sign.
    sign = (1 / a - 1) * (1 / b - 1) - 1 - (1 - a - b) / (a * b)
    slack = derived.domain_slack(_SOFTMAX) - (1 - symbols.y12 - symbols.y21)
    return symbolic(
        {"product of the odds": odds, "equivalence": sign, "derived slack": slack},
        "product of the odds against exp((v_1 - v_2)^2), and its equivalence with y_12 + y_21 <= 1",
    )


def check_180() -> CheckOutcome:
    """Compare the odds of the plain softmax with the quadratic system, and with the derived log-odds."""
    y11, y12, y21, y22 = _plain_softmax()
    l1, l2 = _plain_odds()
    first, second = derived.log_odds(sp.Matrix([[y11, y12], [y21, y22]]))
    return symbolic(
        {
            "odds 1": sp.simplify((1 / y12 - 1) / sp.exp(l1)) - 1,
            "odds 2": sp.simplify((1 / y21 - 1) / sp.exp(l2)) - 1,
            "derived l_1": sp.expand(sp.expand_log(first - l1, force=True)),
            "derived l_2": sp.expand(sp.expand_log(second - l2, force=True)),
        },
        "odds of the readout against exp(v_1^2 - v_1 v_2), exp(v_2^2 - v_1 v_2)",
    )


def check_181() -> CheckOutcome:
    """Check that the branches solve the system and are the derived ones."""
    l1, l2 = sp.symbols("l_1 l_2", positive=True)
    v1, v2 = l1 / sp.sqrt(l1 + l2), -l2 / sp.sqrt(l1 + l2)
    found = derived.invert(_SOFTMAX)
    y = symbols.readout_symbols(2)[1]
    in_y = {y[0, 0]: sp.exp(l1) * y[0, 1], y[1, 1]: sp.exp(l2) * y[1, 0], symbols.beta: 1}
    branch = found.branches[0].subs(in_y).applyfunc(lambda e: sp.expand_log(sp.simplify(e), force=True))
    return symbolic(
        {
            "first equation": v1**2 - v1 * v2 - l1,
            "second equation": v2**2 - v1 * v2 - l2,
            "square": (v1 - v2) ** 2 - (l1 + l2),
            "derived branch": branch - sp.Matrix([[v1, v2]]),
            "other branch": found.branches[0] + found.branches[1],
        },
        "stated solutions in the quadratic system, and against the derived branches",
    )


def check_182() -> CheckOutcome:
    """Jacobian of the softmax readout by differentiation, against the stated and the derived one."""
    y11, y12, y21, y22 = _plain_softmax()
    determinant = sp.Matrix([y12, y21]).jacobian(list(_V)).det()
    beta = symbols.beta
    stated = 2 * beta**2 * (_V[0] - _V[1]) ** 2 * y12 * (1 - y12) * y21 * (1 - y21)
    found = derived.invert(_SOFTMAX)
    # One name per exponential makes the differences rational.
    e11, e12, e22 = sp.symbols("e_11 e_12 e_22", positive=True)
    names = {
        sp.exp(beta * _V[0] ** 2): e11,
        sp.exp(beta * _V[0] * _V[1]): e12,
        sp.exp(beta * _V[1] ** 2): e22,
    }

    def rational(expr: sp.Expr) -> sp.Expr:
        return sp.together(expr.subs(names))

    return symbolic(
        {
            "stated": rational(determinant + stated),
            "derived in v": rational(elementary(found.jacobian_of_v) - stated),
            "complements": rational((1 - y12) * (1 - y21) - y11 * y22),
        },
        "determinant of d(y_12, y_21)/d(v_1, v_2) against 2 (v_1 - v_2)^2 y_12 (1 - y_12) y_21 (1 - y_21)",
    )


def _gaussian(v1: Array, v2: Array) -> Array:
    """Evaluate a test weight that is not even, so that both branches matter."""
    return np.exp(-((v1 - 0.7) ** 2 + (v2 + 0.4) ** 2 + 0.6 * v1 * v2) / 1.3)


def _label_function(y: tuple[Array, ...]) -> Array:
    """Evaluate a test function of the label."""
    return y[0] * y[3] + np.cos(y[1] - 2.0 * y[2])


def _grid(step: float, reach: float) -> tuple[Array, Array]:
    """Midpoint grid: r > 0 and s of both signs."""
    r = (np.arange(int(reach / step)) + 0.5) * step
    s = np.concatenate([-r[::-1], r])
    first, second = np.meshgrid(r, s, indexing="ij")
    return first, second


def _direct(activation: str, beta: float, step: float, reach: float) -> float:
    """Integral over v of the weight times the label function, by the definition of the link."""
    r, s = _grid(step, reach)
    total = 0.0
    for sign in (1.0, -1.0):
        v1, v2 = sign * (r + s) / 2.0, sign * (s - r) / 2.0  # v_1 - v_2 = +-r, v_1 + v_2 = +-s
        if activation == "softmax":
            p11 = 1.0 / (1.0 + np.exp(-beta * (v1**2 - v1 * v2)))
            p22 = 1.0 / (1.0 + np.exp(-beta * (v2**2 - v1 * v2)))
            labels = (p11, 1.0 - p11, 1.0 - p22, p22)
        else:
            labels = (beta * v1 * v1, beta * v1 * v2, beta * v1 * v2, beta * v2 * v2)
        total += float(np.sum(_gaussian(v1, v2) * _label_function(labels))) * step * step / 2.0
    return total


def _over_labels(
    invert: Callable[..., tuple[Array, ...]], labels: tuple[Array, ...], cell: Array, beta: float
) -> float:
    """Integral over labels of the label function times (1/J) sum over branches of the weight."""
    vp, vm, log_jacobian = invert(*labels, beta)
    v1, v2 = (vp + vm) / np.sqrt(2.0), (vp - vm) / np.sqrt(2.0)
    branches = _gaussian(v1, v2) + _gaussian(-v1, -v2)
    return float(np.sum(cell * _label_function(labels) * branches * np.exp(-log_jacobian)))


def _softmax_residual(beta: float) -> float:
    step, reach = _STEP, _REACH
    r, s = _grid(step, reach)  # r^2 = l_1 + l_2 and s r = l_1 - l_2 cover the range l_1 + l_2 > 0 once
    l1, l2 = (r * r + r * s) / 2.0, (r * r - r * s) / 2.0
    q12, q21 = 1.0 / (1.0 + np.exp(l1)), 1.0 / (1.0 + np.exp(l2))
    p11, p22 = 1.0 / (1.0 + np.exp(-l1)), 1.0 / (1.0 + np.exp(-l2))
    cell = q12 * p11 * q21 * p22 * r * r * step * step  # area of the cell in (y_12, y_21)
    value = _over_labels(softmax_kernel.invert, (p11, q12, q21, p22), cell, beta)
    return abs(value / _direct("softmax", beta, step, reach) - 1.0)


def _linear_residual(beta: float) -> float:
    step, reach = _STEP, _REACH
    r, s = _grid(step, reach)  # y_11 = r^2 and y_12 = r s cover the half plane y_11 > 0 once
    labels = (r * r, r * s, r * s, s * s)
    cell = 2.0 * r * r * step * step  # area of the cell in (y_11, y_12)
    value = _over_labels(linear_kernel.invert, labels, cell, beta)
    return abs(value / _direct("linear", beta, step, reach) - 1.0)


def check_171() -> CheckOutcome:
    """Test the linear integral I(y), solved, against functions of the label: what its delta function defines."""
    residuals = [_linear_residual(beta) for beta in (1.0, 0.6, 1.7)]
    return numeric(residuals, 1e-10, "integral of I(y) f(y) over labels against that of phi(v) f(v^T v) over v")


def check_175() -> CheckOutcome:
    """Test the softmax integral I(y), solved, against functions of the label: what its delta function defines."""
    residuals = [_softmax_residual(beta) for beta in (1.0, 0.6, 0.3)]
    return numeric(residuals, 1e-10, "integral of I(y) f(y) over labels against that of phi(v) f(y(v)) over v")


def check_183() -> CheckOutcome:
    """Integral over labels through the generated inverse, against the same integral over v."""
    # Rounding of sums over 1e5 nodes remains.
    residuals = [_softmax_residual(1.0), _softmax_residual(0.4), _linear_residual(1.0), _linear_residual(1.7)]
    return numeric(residuals, 1e-10, "integral over labels by kernel inverse and Jacobian against the one over v")
