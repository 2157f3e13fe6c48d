"""The variational problem and its stationary points: (10), (96)-(103), (160)-(161)."""

import sympy as sp

from attnlimits.derive.registry import CheckOutcome

from .tools import matrix, symbolic, symmetric, symmetric_gradient

_INDICES = 2  # P
_TOKENS = 2  # M


def prior_potential(conjugate: sp.Matrix) -> sp.Expr:
    """Psi_w = 1/2 Tr qhat - 1/2 log det(I + qhat), the Gaussian prior of (97)."""
    size = conjugate.shape[0]
    return conjugate.trace() / 2 - sp.log((sp.eye(size) + conjugate).det()) / 2


def conjugate_of(overlap: sp.Matrix) -> sp.Matrix:
    """Solution qhat = (I - q)^{-1} - I of the stationarity of (10) in qhat."""
    size = overlap.shape[0]
    return (sp.eye(size) - overlap).inv() - sp.eye(size)


def check_10() -> CheckOutcome:
    """Prove where the inner infimum of (10) is, that it is one, and that its value is the replica one."""
    q, qhat = symmetric("q", _INDICES), symmetric("k", _INDICES)
    inner = -(q * qhat).trace() / 2 + prior_potential(qhat)
    solution = conjugate_of(q)
    at_solution = dict(zip(qhat, solution, strict=True))
    slope = symmetric_gradient(inner, qhat).subs(at_solution)
    # The value at the solution, written without logarithms of matrices: exp(2 value - Tr q) = det(I - q).
    trace_part = (-(q * solution).trace() + solution.trace()) - q.trace()
    determinant_part = (sp.eye(_INDICES) + solution).det() * (sp.eye(_INDICES) - q).det() - 1
    # Along qhat + t H with C = (I + qhat)^{-1} diagonal, the curvature is a sum of squares: the point is a
    # minimum.
    t, c1, c2 = sp.symbols("t c_1 c_2", positive=True)
    direction = symmetric("H", _INDICES)
    line = prior_potential(sp.diag(1 / c1 - 1, 1 / c2 - 1) + t * direction)
    squares = (c1**2 * direction[0, 0] ** 2 + c2**2 * direction[1, 1] ** 2 + 2 * c1 * c2 * direction[0, 1] ** 2) / 2
    return symbolic(
        {
            "stationarity": slope,
            "trace of the value": trace_part,
            "determinant of the value": determinant_part,
            "curvature": sp.diff(line, t, 2).subs(t, 0) - squares,
        },
        "inner infimum of the variational problem against 1/2 log det(I - q) + 1/2 Tr q, P = 2",
    )


def check_96() -> CheckOutcome:
    """Put the potentials (97) into the sum: the functional of (10), with the entropy H = -Psi_out."""
    q, qhat, alpha = symmetric("q", _INDICES), symmetric("k", _INDICES), sp.Symbol("alpha", positive=True)
    entropy = sp.Function("H")(q[0, 0], q[0, 1], q[1, 1])
    one = sp.eye(_INDICES)
    as_sum = -(q * qhat).trace() / 2 + prior_potential(qhat) + alpha * (-entropy)
    as_stated = -(q * qhat).trace() / 2 + qhat.trace() / 2 - sp.log((one + qhat).det()) / 2 - alpha * entropy
    # At the inner stationary point the traces leave 1/2 Tr q and the determinant 1/2 log det(I - q), as in (144).
    solution = conjugate_of(q)
    value = as_sum.subs(dict(zip(qhat, solution, strict=True)))
    without_log = value - prior_potential(solution) + solution.trace() / 2
    return symbolic(
        {
            "functional": as_sum - as_stated,
            "traces at the infimum": without_log + alpha * entropy - q.trace() / 2,
            "determinant at the infimum": (one + solution).det() * (one - q).det() - 1,
        },
        "sum of the two potentials against (10), and its value at the inner infimum against (144), P = 2",
    )


def _weight_partition(a: sp.Symbol, b: sp.Symbol) -> sp.Expr:
    """Z_w in one dimension, by integration."""
    w = sp.Symbol("w", real=True)
    return sp.integrate(
        sp.exp(-(w**2) / 2 - a * w**2 / 2 + b * w) / sp.sqrt(2 * sp.pi), (w, -sp.oo, sp.oo), manual=True
    )


def _weight_closed_form(a: sp.Matrix, b: sp.Matrix) -> sp.Expr:
    precision = sp.eye(a.shape[0]) + a
    return sp.exp((b.T * precision.inv() * b)[0, 0] / 2) / sp.sqrt(precision.det())


def _log(expr: sp.Expr) -> sp.Expr:
    """Logarithm of a positive product, split into a sum."""
    return sp.expand_log(sp.log(expr), force=True)


def check_97() -> CheckOutcome:
    """E[Z_w log Z_w] for the Gaussian prior, from its integrals over the weight and over xi."""
    # With 1 + a = s^2 the weighted measure Dxi Z_w is a Gaussian of variance s^2, which SymPy integrates at
    # once.
    s, xi = sp.Symbol("s", positive=True), sp.Symbol("xi", real=True)
    a, b = sp.Symbol("a", positive=True), sp.Symbol("b", real=True)
    in_s = {a: s**2 - 1, b**2: (s**2 - 1) * xi**2}
    log_partition = sp.expand(_log(_weight_partition(a, b)))
    measure = sp.expand(-(xi**2) / 2 - sp.log(2 * sp.pi) / 2 + log_partition.subs(in_s))
    weighted = sp.exp(-(xi**2) / (2 * s**2)) / (sp.sqrt(2 * sp.pi) * s)
    one, square = (sp.integrate(weighted * xi**k, (xi, -sp.oo, sp.oo)) for k in (0, 2))
    in_xi = sp.Poly(sp.expand(log_partition.subs(in_s)), xi)
    potential = in_xi.coeff_monomial(1) * one + in_xi.coeff_monomial(xi**2) * square
    # A diagonal qhat factorises Z_w, and each factor has mean one: the potential is a sum over the
    # eigenvalues.
    r = sp.Symbol("r", positive=True)
    total = one.subs(s, r) * potential + one * potential.subs(s, r)
    stated = prior_potential(sp.diag(s**2 - 1, r**2 - 1))
    return symbolic(
        {
            "weighted measure": sp.expand_log(measure - _log(weighted), force=True),
            "normalisation": one - 1,
            "potential": sp.expand_log(total - stated, force=True),
        },
        "E[Z_w log Z_w] integrated over w and xi against 1/2 Tr qhat - 1/2 log det(I + qhat)",
    )


def check_98() -> CheckOutcome:
    """Z_w of the Gaussian prior in closed form."""
    a1, a2 = sp.symbols("a_1 a_2", positive=True)
    b1, b2 = sp.symbols("b_1 b_2", real=True)
    integral = _log(_weight_partition(a1, b1)) + _log(_weight_partition(a2, b2))
    closed = _log(_weight_closed_form(sp.diag(a1, a2), sp.Matrix([b1, b2])))
    difference = sp.expand_log((integral - closed).replace(lambda e: isinstance(e, sp.log), _factored_log), force=True)
    return symbolic({"log Z_w": difference}, "Z_w integrated over the weights against its closed form, P = 2")


def _factored_log(term: sp.Expr) -> sp.Expr:
    return sp.log(sp.factor(term.args[0]))


def _gaussian_exponent(h: sp.Matrix, mean: sp.Matrix, variance: sp.Matrix) -> sp.Expr:
    """Log-density of independent tokens (columns), up to a constant."""
    spread = h - mean
    return -(spread.T * variance.inv() * spread).trace() / 2 - h.shape[1] * sp.log(variance.det()) / 2


def check_99() -> CheckOutcome:
    """Prove that log Z_w generates the moments of the weights, and the heat equation in (omega, V)."""
    a, b = symmetric("A", _INDICES), matrix("b", _INDICES, 1)
    spread = (sp.eye(_INDICES) + a).inv()
    log_weights = (b.T * spread * b)[0, 0] / 2 - sp.log((sp.eye(_INDICES) + a).det()) / 2
    gradient = sp.Matrix([sp.diff(log_weights, entry) for entry in b])
    hessian = sp.hessian(log_weights, list(b))

    h, omega = matrix("h", _INDICES, _TOKENS), matrix("omega", _INDICES, _TOKENS)
    v = symmetric("V", _INDICES)
    exponent = _gaussian_exponent(h, omega, v)
    slope = sp.Matrix(_INDICES, _TOKENS, lambda p, m: sp.diff(exponent, omega[p, m]))
    # d_V N / N against 1/2 sum_m d_m d_m^T N / N, with N = exp(exponent).
    heat = symmetric_gradient(exponent, v)
    laplace = sp.zeros(_INDICES)
    for p in range(_INDICES):
        for r in range(_INDICES):
            laplace[p, r] = sum(slope[p, m] * slope[r, m] + sp.diff(slope[p, m], omega[r, m]) for m in range(_TOKENS))
    return symbolic(
        {
            "mean of the weights": gradient - spread * b,
            "covariance of the weights": hessian - spread,
            "gradient in omega": slope - v.inv() * (h - omega),
            "heat equation": heat - laplace / 2,
        },
        "derivatives of log Z_w and of the Gaussian channel against moments and the heat equation, P = M = 2",
    )


def check_100() -> CheckOutcome:
    """Gradients of the free entropy, for a generic output potential."""
    q, qhat, alpha = symmetric("q", _INDICES), symmetric("k", _INDICES), sp.Symbol("alpha", positive=True)
    output = sp.Function("Psi_out")(q[0, 0], q[0, 1], q[1, 1])
    potential = -(q * qhat).trace() / 2 + prior_potential(qhat) + alpha * output
    return symbolic(
        {
            "gradient in q": symmetric_gradient(potential, q) - (alpha * symmetric_gradient(output, q) - qhat / 2),
            "gradient in qhat": symmetric_gradient(potential, qhat)
            - (symmetric_gradient(prior_potential(qhat), qhat) - q / 2),
        },
        "gradients of the free entropy against the two stationarity conditions, P = 2",
    )


def prior_map_difference() -> sp.Matrix:
    """2 grad Psi_w(qhat) - qhat (I + qhat)^{-1}, the first half of (101)."""
    qhat = symmetric("k", _INDICES)
    map_value = qhat * (sp.eye(_INDICES) + qhat).inv()
    return 2 * symmetric_gradient(prior_potential(qhat), qhat) - map_value


def check_101() -> CheckOutcome:
    """Prove that the gradient of the prior potential is F, and that F inverts the solution of the infimum."""
    q = symmetric("q", _INDICES)
    solution = conjugate_of(q)
    back = solution * (sp.eye(_INDICES) + solution).inv()
    return symbolic(
        {"2 grad Psi_w - F": prior_map_difference(), "F(qhat(q)) - q": back - q},
        "2 grad Psi_w against qhat (I + qhat)^{-1}, P = 2",
    )


def check_102() -> CheckOutcome:
    """Differentiate in a matrix that multiplies xi, through a shift, on plane waves (they span functions)."""
    root, xi = matrix("S", _INDICES, _INDICES), matrix("xi", _INDICES, _TOKENS)
    eta, wave = matrix("eta", _INDICES, _TOKENS), matrix("J", _INDICES, _TOKENS)
    function = sp.exp((wave.T * (root * xi + eta)).trace())
    differences = {}
    for a in range(_INDICES):
        for b in range(_INDICES):
            shifted = sum(xi[b, m] * sp.diff(function, eta[a, m]) for m in range(_TOKENS))
            rest = (sp.diff(function, root[a, b]) - shifted) / function
            differences[f"entry {a + 1}{b + 1}"] = sp.powsimp(rest)
    return symbolic(differences, "derivative in the matrix against the derivative in the shift, plane waves, P = M = 2")


def output_gradient_difference() -> dict[str, sp.Expr]:
    """Integrands of 2 grad Psi_out and of E sum_m g g^T, subtracted, for a generic channel Z(omega, V).

    Psi_out(q) averages phi = Z log Z over omega ~ N(0, q) at V = I - q, so that its derivative in q is the
    average of (1/2) sum_m d_m d_m^T phi - d_V phi. The heat equation of (99) removes d_V.
    """
    omega, v = matrix("omega", _INDICES, _TOKENS), symmetric("V", _INDICES)
    channel = sp.Function("Z")(*omega, v[0, 0], v[0, 1], v[1, 1])
    phi = channel * sp.log(channel)
    differences: dict[str, sp.Expr] = {}
    for a in range(_INDICES):
        for b in range(a, _INDICES):
            share = sp.Rational(1, 2)  # of the symmetric gradient, as in `symmetric_gradient`
            diffused = share * sum(sp.diff(phi, omega[a, m], omega[b, m]) for m in range(_TOKENS))
            in_variance = symmetric_gradient(phi, v)[a, b]
            heat = share * sum(sp.diff(channel, omega[a, m], omega[b, m]) for m in range(_TOKENS))
            v_derivative = sp.Derivative(channel, v[a, b])
            in_variance = in_variance.subs(v_derivative, heat if a == b else 2 * heat)
            score = sum(sp.diff(channel, omega[a, m]) * sp.diff(channel, omega[b, m]) / channel for m in range(_TOKENS))
            differences[f"entry {a + 1}{b + 1}"] = sp.expand(2 * (diffused - in_variance) - score)
    return differences


def check_103() -> CheckOutcome:
    """Prove that the gradient of the output potential is the covariance of the denoiser."""
    return symbolic(
        output_gradient_difference(),
        "2 grad Psi_out against E sum_m g g^T, generic channel with the heat equation, P = M = 2",
    )


def check_161() -> CheckOutcome:
    """Prove that the state equation is the pair (101) with (103)."""
    differences: dict[str, sp.Expr | sp.MatrixBase] = {"prior half": prior_map_difference()}
    differences.update({f"channel half, {k}": value for k, value in output_gradient_difference().items()})
    return symbolic(differences, "state equation against the stationarity of the free entropy, P = M = 2")
