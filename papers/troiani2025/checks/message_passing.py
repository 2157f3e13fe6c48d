"""From belief propagation to message passing and its state evolution: (80)-(89), (107)-(118)."""

import sympy as sp

from attnlimits.derive.registry import CheckOutcome

from .tools import average, covariance, matrix, symbolic, symmetric

_INDICES = 2  # P
_TOKENS = 2  # M
_EPS = sp.Symbol("epsilon", positive=True)  # 1 / sqrt(D)


def _order(expr: sp.Expr, power: int) -> sp.Expr:
    """Taylor coefficient in epsilon."""
    return sp.diff(expr, _EPS, power).subs(_EPS, 0) / sp.factorial(power)


def check_80() -> CheckOutcome:
    """Mean and variance of sum_j w_j x_j / sqrt(D), from the cumulants of the messages to second order."""
    fourier = matrix("hhat", _INDICES, _TOKENS)
    log_average = sp.S.Zero
    mean = sp.zeros(_INDICES, _TOKENS)
    blocks = {(m, k): sp.zeros(_INDICES) for m in range(_TOKENS) for k in range(_TOKENS)}
    for j in range(2):
        row, first, second = (
            matrix(f"x{j}", 1, _TOKENS),
            matrix(f"m{j}", _INDICES, 1),
            symmetric(f"s{j}", _INDICES),
        )
        wave = fourier * row.T  # what multiplies w_j in the exponent
        linear, square = (wave.T * first)[0, 0], (wave.T * second * wave)[0, 0]
        log_average += sp.log(1 - sp.I * _EPS * linear - _EPS**2 * square / 2)
        mean += first * row
        spread = second - first * first.T
        for m, k in blocks:
            blocks[m, k] += spread * row[m] * row[k]
    quadratic = sum((fourier[:, m].T * block * fourier[:, k])[0, 0] for (m, k), block in blocks.items())
    return symbolic(
        {
            "mean": _order(log_average, 1) + sp.I * (fourier.T * mean).trace(),
            "variance": _order(log_average, 2) + quadratic / 2,
        },
        "cumulants of the factorised weights against omega and V of the index, P = M = 2",
    )


def check_82() -> CheckOutcome:
    """Expand log Z_out in the separated weight, on plane waves (the identity is linear in it)."""
    omega, wave = matrix("omega", _INDICES, _TOKENS), matrix("J", _INDICES, _TOKENS)
    weight, row = matrix("w", _INDICES, 1), matrix("x", 1, _TOKENS)

    def log_channel(argument: sp.Matrix) -> sp.Expr:
        return sp.exp((wave.T * argument).trace())

    base = log_channel(omega)
    shifted = log_channel(omega + _EPS * weight * row)
    gradient = sp.Matrix(_INDICES, _TOKENS, lambda p, m: sp.diff(base, omega[p, m]))
    field = gradient * row.T
    coupling = sp.zeros(_INDICES)
    for p in range(_INDICES):
        for r in range(_INDICES):
            coupling[p, r] = -sum(
                row[m] * row[k] * sp.diff(gradient[p, m], omega[r, k]) for m in range(_TOKENS) for k in range(_TOKENS)
            )
    return symbolic(
        {
            "b": (_order(shifted, 1) - (field.T * weight)[0, 0]) / base,
            "A": (_order(shifted, 2) + (weight.T * coupling * weight)[0, 0] / 2) / base,
        },
        "Taylor coefficients of log Z_out against b and A of the message, P = M = 2",
    )


def _completed_square(precision: sp.Matrix, field: sp.Matrix) -> dict[str, sp.Expr]:
    """Return -1/2 w^T P w + f^T w minus the exponent of a Gaussian, covariance C = P^{-1} and mean C f.

    It is multiplied by the determinant of P: a polynomial is cheaper to reduce.
    """
    w = matrix("w", _INDICES, 1)
    spread = precision.inv()
    centred = w - spread * field
    exponent = -(w.T * precision * w)[0, 0] / 2 + (field.T * w)[0, 0]
    gaussian = -(centred.T * precision * centred)[0, 0] / 2 + (field.T * spread * field)[0, 0] / 2
    return {"exponent": sp.cancel(sp.together((exponent - gaussian) * precision.det()))}


def check_84() -> CheckOutcome:
    """Moments of the weight message under the Gaussian prior."""
    a, b = symmetric("A", _INDICES), matrix("b", _INDICES, 1)
    return symbolic(
        _completed_square(sp.eye(_INDICES) + a, b),
        "exponent of the weight message against a Gaussian with covariance (I + A)^{-1} and mean C b, P = 2",
    )


def check_87() -> CheckOutcome:
    """Joint law of target index and estimate: covariance of the construction, and the conditional law."""
    root, rest = matrix("S", _INDICES, _INDICES), matrix("R", _INDICES, _INDICES)
    xi, z = matrix("xi", _INDICES, 1), matrix("z", _INDICES, 1)
    omega, target = root * xi, root * xi + rest * z
    gaussians = [*xi, *z]
    q = root * root.T
    overlap = symmetric("q", _INDICES)
    one = sp.eye(_INDICES)
    return symbolic(
        {
            "omega omega": covariance(omega, omega, gaussians) - q,
            "target omega": covariance(target, omega, gaussians) - q,
            "target target": covariance(target, target, gaussians) - (q + rest * rest.T),
            "regression": overlap * overlap.inv() - one,
            "conditional variance": (one - overlap * overlap.inv() * overlap) - (one - overlap),
        },
        "covariance of (q^{1/2} xi + (I - q)^{1/2} z, q^{1/2} xi) and its Schur complement, P = 2",
    )


def check_89() -> CheckOutcome:
    """Moments over the sample of target index and estimate."""
    dimension = 3
    target, guess = matrix("W", _INDICES, dimension), matrix("v", _INDICES, dimension)
    sample = matrix("x", dimension, _TOKENS)
    differences: dict[str, sp.Expr | sp.MatrixBase] = {}
    pairs = (
        ("target target", target, target),
        ("target omega", target, guess),
        ("omega omega", guess, guess),
    )
    for name, left, right in pairs:
        for m in range(_TOKENS):
            for k in range(_TOKENS):
                moment = covariance(left * sample[:, m], right * sample[:, k], sample) / dimension
                stated = left * right.T / dimension if m == k else sp.zeros(_INDICES)
                differences[f"{name}, tokens {m + 1}{k + 1}"] = moment - stated
    mean = (guess * sample).applyfunc(lambda entry: average(entry, sample))
    differences["mean"] = sp.Matrix(mean)
    return symbolic(differences, "Gaussian averages over the sample against the overlaps, P = M = 2, D = 3")


def check_93() -> CheckOutcome:
    """Average the square of the noise over the entries of the sample that the denoiser does not see."""
    row, denoiser = matrix("x", 1, _TOKENS), matrix("g", _INDICES, _TOKENS)
    noise = denoiser * row.T
    stated = sum((denoiser[:, m] * denoiser[:, m].T for m in range(_TOKENS)), sp.zeros(_INDICES))
    return symbolic(
        {"covariance": covariance(noise, noise, row) - stated},
        "covariance of sum_m x_m g_m over the sample against sum_m g_m g_m^T, P = M = 2",
    )


def check_105() -> CheckOutcome:
    """Compare covariances with and without one edge, from (80) and (84), to first order in 1 / sqrt(D)."""
    total, single, own = symmetric("A", _INDICES), symmetric("a", _INDICES), symmetric("C", _INDICES)
    row = matrix("x", 1, _TOKENS)
    one = sp.eye(_INDICES)
    # (83): the coupling of one sample carries 1 / D; (80): so does the share of one weight in V.
    cavity = (one + total - _EPS**2 * single).inv()
    share = _EPS**2 * row[0] * row[1] * own
    return symbolic(
        {
            "C, order 0": cavity.subs(_EPS, 0) - (one + total).inv(),
            "C, order 1": cavity.applyfunc(lambda e: _order(e, 1)),
            "V, order 1": share.applyfunc(lambda e: _order(e, 1)),
        },
        "covariances of the weights and of the index with one edge removed, to first order, P = 2",
    )


def check_106() -> CheckOutcome:
    """Leave one weight out of the mean index, with (107) for its own message, to first order."""
    row, denoiser = matrix("x", 1, _TOKENS), matrix("g", _INDICES, _TOKENS)
    spread, estimate = symmetric("C", _INDICES), matrix("w", _INDICES, 1)
    others = matrix("r", _INDICES, _TOKENS)
    message = estimate - _EPS * spread * denoiser * row.T
    full = others + _EPS * message * row
    rest = others - (full - _EPS * estimate * row)
    return symbolic(
        {"order 0": rest.subs(_EPS, 0), "order 1": rest.applyfunc(lambda e: _order(e, 1))},
        "cavity mean of the index against the full one minus w x / sqrt(D), P = M = 2",
    )


def check_107() -> CheckOutcome:
    """Leaving one sample out of (84), to first order in 1 / sqrt(D)."""
    total, single = symmetric("A", _INDICES), symmetric("a", _INDICES)
    field, denoiser, row = matrix("b", _INDICES, 1), matrix("g", _INDICES, _TOKENS), matrix("x", 1, _TOKENS)
    one = sp.eye(_INDICES)
    own = _EPS * denoiser * row.T
    cavity = (one + total - _EPS**2 * single).inv() * (field - own)
    spread = (one + total).inv()
    stated = spread * field - _EPS * spread * denoiser * row.T
    return symbolic(
        {
            "order 0": (cavity - stated).applyfunc(lambda e: _order(e, 0)),
            "order 1": (cavity - stated).applyfunc(lambda e: _order(e, 1)),
        },
        "weight estimate without one sample against the full one minus C x g / sqrt(D), P = M = 2",
    )


def check_108() -> CheckOutcome:
    """Onsager term of the output field: the cavity corrections of the weights add up to -V g."""
    dimension = 2
    sample, denoiser = matrix("x", dimension, _TOKENS), matrix("g", _INDICES, _TOKENS)
    spreads = [symmetric(f"C{i}", _INDICES) for i in range(dimension)]
    estimates = [matrix(f"w{i}", _INDICES, 1) for i in range(dimension)]
    shift = sp.zeros(_INDICES, _TOKENS)
    for i in range(dimension):
        row = sample[i, :]
        cavity = estimates[i] - _EPS * spreads[i] * denoiser * row.T
        shift += _EPS * (cavity * row - estimates[i] * row)
    averaged = shift.applyfunc(lambda entry: average(entry, sample))
    variance = sum(spreads, sp.zeros(_INDICES)) * _EPS**2
    return symbolic(
        {"shift": averaged + variance * denoiser}, "averaged cavity corrections against -V g, P = M = D = 2"
    )


def check_109() -> CheckOutcome:
    """Derive the Onsager term of the weight field: the cavity correction adds A times the estimate."""
    row, estimate = matrix("x", 1, _TOKENS), matrix("w", _INDICES, 1)
    base = matrix("g", _INDICES, _TOKENS)
    slope = {
        (m, k): matrix(f"d{m}{k}", _INDICES, _INDICES) for m in range(_TOKENS) for k in range(_TOKENS)
    }  # derivative of g_m in omega_k
    shifted = sp.Matrix(base)
    for m in range(_TOKENS):
        for k in range(_TOKENS):
            shifted[:, m] -= _EPS * slope[m, k] * estimate * row[k]
    field = _EPS * shifted * row.T
    averaged = (field - _EPS * base * row.T).applyfunc(lambda entry: average(entry, row))
    coupling = -(_EPS**2) * sum((slope[m, m] for m in range(_TOKENS)), sp.zeros(_INDICES))
    return symbolic({"shift": averaged - coupling * estimate}, "averaged cavity correction against A w, P = M = 2")


def check_114() -> CheckOutcome:
    """Prior times the likelihood of the side information, as a Gaussian in the weight."""
    rate = sp.Symbol("lambda", positive=True)
    w, s = matrix("w", _INDICES, 1), matrix("s", _INDICES, 1)
    spread = s - sp.sqrt(rate) * w
    exponent = -(w.T * w)[0, 0] / 2 - (spread.T * spread)[0, 0] / 2
    stated = -(1 + rate) * (w.T * w)[0, 0] / 2 + sp.sqrt(rate) * (s.T * w)[0, 0]
    difference = sp.Matrix([sp.diff(exponent - stated, entry) for entry in w])
    return symbolic({"gradient in w": difference}, "log prior with side information, up to what does not depend on w")


def check_116() -> CheckOutcome:
    """Moments of the weight message with side information."""
    root = sp.Symbol("rho", positive=True)  # of the strength lambda
    a, b, s = symmetric("A", _INDICES), matrix("b", _INDICES, 1), matrix("s", _INDICES, 1)
    return symbolic(
        _completed_square((1 + root**2) * sp.eye(_INDICES) + a, b + root * s),
        "exponent with side information against a Gaussian with covariance ((1 + lambda) I + A)^{-1}, P = 2",
    )


def effective_overlaps(rate: sp.Expr) -> tuple[sp.Matrix, sp.Matrix, sp.Matrix]:
    """E[what w*^T], E[what what^T] and qhat for the field b = qhat w* + qhat^{1/2} eta and side information.

    The posterior of a weight under the Gaussian prior is a linear estimator of (b, s), so that the averages
    are exact moments.

    Parameters
    ----------
    rate : sympy.Expr
        Strength lambda of the side information, >= 0.

    Returns
    -------
    tuple of sympy.Matrix
        Overlap with the target, overlap with itself, and qhat, which is a square of symbols.
    """
    root = symmetric("S", _INDICES)
    conjugate = (root * root).applyfunc(sp.expand)
    target, noise, other = (matrix(name, _INDICES, 1) for name in ("w", "eta", "z"))
    field = conjugate * target + root * noise + sp.sqrt(rate) * (sp.sqrt(rate) * target + other)
    gaussians = [*target, *noise, *other]
    spread = ((1 + rate) * sp.eye(_INDICES) + conjugate).inv()
    with_target = spread * covariance(field, target, gaussians)
    with_itself = spread * covariance(field, field, gaussians) * spread
    return with_target, with_itself, conjugate


def overlap_differences(rate: sp.Expr) -> dict[str, sp.Matrix]:
    """Overlaps of the estimate less F(qhat + lambda I), times the determinant that all of them are divided by."""
    with_target, with_itself, conjugate = effective_overlaps(rate)
    total = conjugate + rate * sp.eye(_INDICES)
    precision = sp.eye(_INDICES) + total
    stated, scale = total * precision.inv(), precision.det()
    return {
        "with the target": ((with_target - stated) * scale).applyfunc(sp.cancel),
        "with itself": ((with_itself - stated) * scale**2).applyfunc(sp.cancel),
    }


def check_118() -> CheckOutcome:
    """Overlaps of the estimate with side information: F(qhat + lambda I) twice."""
    root = sp.Symbol("rho", positive=True)  # of the strength lambda
    return symbolic(overlap_differences(root**2), "overlaps of the estimate against F(qhat + lambda I), P = 2")
