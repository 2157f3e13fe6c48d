"""The replica computation: (128), (136)-(151), (156)-(158)."""

import sympy as sp

from attnlimits.derive.registry import CheckOutcome

from .tools import average, covariance, matrix, symbolic, symmetric, symmetric_gradient
from .variational import conjugate_of, prior_potential

_N = sp.Symbol("n", positive=True)
_INDICES = 2  # P

Block = tuple[sp.Matrix, sp.Matrix]
"""(A, B) stands for I_{n+1} (x) A + 1_{n+1} (x) B; these form an algebra for every n, real n included."""


def _multiply(left: Block, right: Block, n: sp.Expr) -> Block:
    """Product of two such matrices: the all-ones matrix squares to n + 1 times itself."""
    return left[0] * right[0], left[0] * right[1] + left[1] * right[0] + (n + 1) * left[1] * right[1]


def _explicit(block: Block, n: int) -> sp.Matrix:
    """Write the same matrix out for an integer n."""
    size = n + 1
    return sp.Matrix(sp.kronecker_product(sp.eye(size), block[0]) + sp.kronecker_product(sp.ones(size), block[1]))


def _overlap(q: sp.Matrix) -> Block:
    """Return the replica-symmetric matrix (140)."""
    return sp.eye(q.shape[0]) - q, q


def _inverse(q: sp.Matrix, n: sp.Expr) -> Block:
    """Its inverse as (141)-(142) state it."""
    one = sp.eye(q.shape[0])
    resolvent = (one - q).inv()
    return resolvent, -resolvent * q * (one + n * q).inv()


def check_128() -> CheckOutcome:
    """Replicated indices of a Gaussian sample have covariance delta_{mm'} W^a W^bT / D."""
    dimension, tokens = 3, 2
    first, second = matrix("Wa", _INDICES, dimension), matrix("Wb", _INDICES, dimension)
    sample = matrix("x", dimension, tokens)
    differences = {}
    for name, left, right in (("ab", first, second), ("aa", first, first)):
        for m in range(tokens):
            for k in range(tokens):
                moment = covariance(left * sample[:, m], right * sample[:, k], sample) / dimension
                overlap = left * right.T / dimension if m == k else sp.zeros(_INDICES)
                differences[f"{name}, tokens {m + 1}{k + 1}"] = moment - overlap
    return symbolic(differences, "Gaussian average of h^a h^bT against the overlap, P = M = 2, D = 3")


def check_136() -> CheckOutcome:
    """Integrate the Gaussian over one coordinate of all replicas."""
    a1, a2 = sp.symbols("a_1 a_2", positive=True)
    w = sp.Symbol("w", real=True)

    def one(a: sp.Symbol) -> sp.Expr:
        return sp.integrate(sp.exp(-(1 + a) * w**2 / 2) / sp.sqrt(2 * sp.pi), (w, -sp.oo, sp.oo), manual=True)

    closed = (sp.eye(2) + sp.diag(a1, a2)).det() ** sp.Rational(-1, 2)
    return symbolic(
        {"integral": (one(a1) * one(a2)) ** 2 - closed**2}, "Gaussian integral against det(I + Qhat)^{-1/2}"
    )


def _saddle() -> tuple[sp.Matrix, sp.Matrix, sp.Matrix, sp.Expr]:
    overlap, conjugate = symmetric("Q", 2), symmetric("K", 2)
    exponent = ((conjugate * overlap).trace() - sp.log((sp.eye(2) + conjugate).det())) / 2
    return overlap, conjugate, overlap.inv() - sp.eye(2), exponent


def check_138() -> CheckOutcome:
    """Stationarity of the exponent (137) at Qhat = Q^{-1} - I."""
    _, conjugate, solution, exponent = _saddle()
    slope = symmetric_gradient(exponent, conjugate).subs(dict(zip(conjugate, solution, strict=True)))
    return symbolic({"slope": slope}, "slope of the exponent (137) at Qhat = Q^{-1} - I")


def check_139() -> CheckOutcome:
    """Value of the exponent (137) there, written without logarithms of matrices."""
    overlap, conjugate, solution, exponent = _saddle()
    trace_part = exponent.coeff(sp.log((sp.eye(2) + conjugate).det()), 0)
    value = trace_part.subs(dict(zip(conjugate, solution, strict=True)))
    return symbolic(
        {
            "trace part": value - (sp.eye(2).trace() - overlap.trace()) / 2,
            "determinant part": (sp.eye(2) + solution).det() * overlap.det() - 1,
        },
        "value of the exponent (137) at the saddle against 1/2 log det Q - 1/2 Tr Q + P/2",
    )


def _inverse_differences() -> dict[str, sp.Matrix]:
    q = symmetric("q", _INDICES)
    product = _multiply(_overlap(q), _inverse(q, _N), _N)
    # The block algebra itself, against matrices written out.
    rational = sp.Matrix([[sp.Rational(1, 3), sp.Rational(1, 7)], [sp.Rational(1, 7), sp.Rational(2, 5)]])
    differences = {"diagonal": product[0] - sp.eye(_INDICES), "off-diagonal": product[1]}
    for n in (1, 2, 3):
        written = _explicit(_overlap(rational), n).inv() - _explicit(_inverse(rational, sp.Integer(n)), n)
        differences[f"written out, n = {n}"] = written
    return differences


def check_141() -> CheckOutcome:
    """Diagonal blocks of the inverse: the sum of the two parts of the block form."""
    q = symmetric("q", _INDICES)
    resolvent, rest = _inverse(q, _N)
    stated = resolvent - (sp.eye(_INDICES) - q).inv() * q * (sp.eye(_INDICES) + _N * q).inv()
    differences = dict(_inverse_differences())
    differences["diagonal block"] = resolvent + rest - stated
    return symbolic(differences, "Q times the stated inverse against the identity, symbolic n, P = 2")


def check_142() -> CheckOutcome:
    """Off-diagonal blocks of the inverse."""
    return symbolic(_inverse_differences(), "Q times the stated inverse against the identity, symbolic n, P = 2")


def check_143() -> CheckOutcome:
    """Prove the determinant: the all-ones matrix has eigenvalue n + 1 once and 0 else."""
    q = symmetric("q", _INDICES)
    diagonal, off = _overlap(q)
    top = diagonal + (_N + 1) * off
    differences: dict[str, sp.Expr | sp.MatrixBase] = {"top block": top - (sp.eye(_INDICES) + _N * q)}
    x, scalar = sp.symbols("x s")
    for n in (1, 2, 3):
        ones = sp.ones(n + 1)
        differences[f"spectrum, n = {n}"] = ones.charpoly(x).as_expr() - x**n * (x - n - 1)
        single = _explicit((sp.Matrix([[1 - scalar]]), sp.Matrix([[scalar]])), n).det()
        differences[f"written out, P = 1, n = {n}"] = single - (1 - scalar) ** n * (1 + n * scalar)
    pair = _explicit(_overlap(q), 1).det(method="berkowitz")
    differences["written out, P = 2, n = 1"] = pair - (sp.eye(2) - q).det() * (sp.eye(2) + q).det()
    return symbolic(differences, "det Q against det(I - q)^n det(I + n q)")


def _slope_at_zero(expr: sp.Expr) -> sp.Expr:
    return sp.diff(expr, _N).subs(_N, 0)


def check_144() -> CheckOutcome:
    """First order in n of the prior part, and its two forms."""
    q = symmetric("q", _INDICES)
    one = sp.eye(_INDICES)
    log_det = _N * sp.log((one - q).det()) + sp.log((one + _N * q).det())
    value = (sp.log((one - q).det()) + q.trace()) / 2
    solution = conjugate_of(q)
    infimum_traces = (-(q * solution).trace() + solution.trace()) / 2
    return symbolic(
        {
            "order n^0": log_det.subs(_N, 0),
            "order n^1": _slope_at_zero(log_det) / 2 - value,
            "traces of the infimum": infimum_traces - q.trace() / 2,
            "determinant of the infimum": (one + solution).det() * (one - q).det() - 1,
            "prior potential": prior_potential(sp.zeros(_INDICES)),
        },
        "1/2 log det Q at small n against the infimum of (10), P = 2",
    )


def check_146() -> CheckOutcome:
    """Prove that the quadratic form of three replicas inverts their covariance."""
    q, n = symmetric("q", _INDICES), 2
    form = _explicit(_inverse(q, sp.Integer(n)), n)
    # Multiply by the determinants first: a polynomial identity is cheaper than a rational one.
    scale = (sp.eye(_INDICES) - q).det() * (sp.eye(_INDICES) + n * q).det()
    cleared = form.applyfunc(lambda entry: sp.cancel(entry * scale))
    difference = (_explicit(_overlap(q), n) * cleared - scale * sp.eye(3 * _INDICES)).applyfunc(sp.expand)
    return symbolic({"form": difference}, "Q times the quadratic form against the identity, n = 2, P = 2")


def check_147() -> CheckOutcome:
    """Hubbard-Stratonovich: the square in the exponent as an average over xi."""
    k = sp.Symbol("k", positive=True)
    xi, total = sp.symbols("xi s", real=True)
    integral = sp.integrate(
        sp.exp(-(xi**2) / 2 + sp.sqrt(k) * xi * total) / sp.sqrt(2 * sp.pi), (xi, -sp.oo, sp.oo), manual=True
    )
    return symbolic({"average": integral - sp.exp(k * total**2 / 2)}, "Gaussian average over xi against the square")


def check_148() -> CheckOutcome:
    """h^a = q^{1/2} xi + (I - q)^{1/2} z^a has covariance Q, and so is that Gaussian, for every n."""
    root, rest = matrix("S", _INDICES, _INDICES), matrix("R", _INDICES, _INDICES)
    xi = matrix("xi", _INDICES, 1)
    noise = [matrix(f"z{a}", _INDICES, 1) for a in range(3)]
    replicas = [root * xi + rest * z for z in noise]
    gaussians = [symbol for block in (xi, *noise) for symbol in block]
    q, complement = root * root.T, rest * rest.T
    differences = {}
    for a in range(3):
        for b in range(3):
            stated = q + complement if a == b else q
            differences[f"replicas {a}{b}"] = covariance(replicas[a], replicas[b], gaussians) - stated
    differences["mean"] = sp.Matrix([average(entry, gaussians) for entry in replicas[0]])
    return symbolic(differences, "covariance of q^{1/2} xi + (I - q)^{1/2} z^a against the replica-symmetric Q")


def check_149() -> CheckOutcome:
    """Diagonal blocks of the inverse as n -> 0: exactly the identity."""
    q = symmetric("q", _INDICES)
    resolvent, rest = _inverse(q, sp.S.Zero)
    return symbolic({"block": resolvent + rest - sp.eye(_INDICES)}, "(141) at n = 0 against the identity, P = 2")


def check_150() -> CheckOutcome:
    """Off-diagonal blocks of the inverse as n -> 0."""
    q = symmetric("q", _INDICES)
    rest = _inverse(q, _N)[1].subs(_N, 0)
    stated = -(sp.eye(_INDICES) - q).inv() * q
    return symbolic({"block": rest - stated}, "(142) at n = 0 against -(I - q)^{-1} q, P = 2")


def check_151() -> CheckOutcome:
    """Expand the determinant to first order in n."""
    q = symmetric("q", _INDICES)
    log_det = _N * sp.log((sp.eye(_INDICES) - q).det()) + sp.log((sp.eye(_INDICES) + _N * q).det())
    stated = sp.log((sp.eye(_INDICES) - q).det()) + q.trace()
    return symbolic(
        {"order 0": log_det.subs(_N, 0), "order 1": _slope_at_zero(log_det) - stated},
        "log det Q to first order in n, P = 2",
    )


def _labels() -> tuple[sp.Expr, sp.Expr]:
    """Sum over three labels of Z^{n+1}, and of Z log Z, for generic probabilities."""
    p, r = sp.symbols("p r", positive=True)
    weights = (p, r, 1 - p - r)
    return sum(z ** (_N + 1) for z in weights), sum(z * sp.log(z) for z in weights)


def check_156() -> CheckOutcome:
    """Z^{n+1} to first order in n."""
    z = sp.Symbol("Z", positive=True)
    power = z ** (_N + 1)
    return symbolic(
        {"order 0": power.subs(_N, 0) - z, "order 1": _slope_at_zero(power) - z * sp.log(z)},
        "Z^{n+1} against Z + n Z log Z",
    )


def check_157() -> CheckOutcome:
    """Sum over labels of Z^{n+1} to first order in n."""
    power, entropy = _labels()
    return symbolic(
        {"order 0": power.subs(_N, 0) - 1, "order 1": _slope_at_zero(power) - entropy},
        "sum over labels of Z^{n+1} against 1 + n sum Z log Z",
    )


def check_158() -> CheckOutcome:
    """Its logarithm to first order in n."""
    power, entropy = _labels()
    return symbolic(
        {"order 0": sp.log(power.subs(_N, 0).expand()), "order 1": _slope_at_zero(sp.log(power)) - entropy},
        "logarithm of the channel part against n times the output potential",
    )
