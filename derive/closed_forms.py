"""Weak-recovery thresholds that are known exactly, each derived from its link by SymPy.

A link is described by its level sets: for every output, coordinates that the output fixes, coordinates that it
leaves free (the fibre), and the branches h(known, free).  Integrating the Gaussian weight over the fibre gives
E[h|y] and E[h h^T|y], hence the operator (15) as a matrix on S_P, and its top eigenpair (16).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import sympy as sp

from . import symbols
from .linearization import gram_eigenvalue, scale_mean_square, single_layer_direction, single_layer_threshold

__all__ = [
    "TABLE",
    "Branch",
    "ClosedForm",
    "Output",
    "Threshold",
    "find",
    "linear_information",
    "operator_matrix",
    "pair_rank",
    "threshold_of_link",
    "top_eigenpair",
]

Range = tuple[sp.Symbol, sp.Expr, sp.Expr]


@dataclass(frozen=True)
class Branch:
    """One sheet of the level sets of a link.

    Attributes
    ----------
    h : sympy.Matrix
        P x M, in the known coordinates of its output and the free ones; with the two together it is a change of
        variables from R^{P M}.
    free : tuple of (Symbol, lower, upper)
        Coordinates along the fibre, in the order in which they are integrated out.
    weight : sympy.Expr
        Probability that this h gives this output: 1 unless the output is noisy.
    """

    h: sp.Matrix
    free: tuple[Range, ...] = ()
    weight: sp.Expr = sp.S.One


@dataclass(frozen=True)
class Output:
    """Outputs that share one description: a discrete value, or a family over the known coordinates.

    Attributes
    ----------
    branches : tuple of Branch
        All h that give this output; they do not overlap.
    known : tuple of (Symbol, lower, upper)
        Coordinates that the output determines.
    """

    branches: tuple[Branch, ...]
    known: tuple[Range, ...] = ()


@dataclass(frozen=True)
class Threshold:
    """An exact threshold.

    Attributes
    ----------
    alpha : sympy.Expr
        alpha_c of (16): zero if E[h|y] does not vanish, so that any number of samples per dimension suffices;
        infinite if the output carries no quadratic information either.
    eigenvector : sympy.Matrix
        P x P, positive semidefinite, Frobenius norm 1: the direction that becomes unstable. At alpha = 0 that of
        E[E[h|y] E[h|y]^T]; at alpha = oo the zero matrix.
    """

    alpha: sp.Expr
    eigenvector: sp.Matrix


@cache
def _integral(integrand: sp.Expr, symbol: sp.Symbol, lower: sp.Expr, upper: sp.Expr) -> sp.Expr:
    value = sp.integrate(sp.powsimp(integrand), (symbol, lower, upper))
    # Hyperbolic functions of one variable cancel at infinity only as exponentials.
    value = sp.expand(value.rewrite(sp.exp)) if value.has(sp.sinh, sp.cosh) else value
    if value.has(sp.Integral, sp.nan, sp.oo, sp.zoo):
        raise ValueError(f"SymPy finds no closed form of the integral of {integrand} over {symbol}")
    return value


def _integrate(expr: sp.Expr, ranges: Sequence[Range]) -> sp.Expr:
    """Integrate term by term, first range first."""
    for symbol, lower, upper in ranges:
        total = sp.S.Zero
        for term in sp.Add.make_args(sp.expand(expr)):
            factor, integrand = term.as_independent(symbol, as_Add=False)
            total += factor * _integral(integrand, symbol, lower, upper) if factor != 0 else 0
        expr = sp.expand(total)
    return expr


def _moments(output: Output) -> tuple[sp.Expr, sp.Matrix, sp.Matrix]:
    """Return Z, Z E[h|y] and Z E[h h^T|y] as densities in the known coordinates; h is stacked token by token."""
    size = output.branches[0].h.shape[0] * output.branches[0].h.shape[1]
    total, first, second = sp.S.Zero, sp.zeros(size, 1), sp.zeros(size, size)
    for branch in output.branches:
        h = branch.h.T.reshape(size, 1)
        coordinates = [entry[0] for entry in (*output.known, *branch.free)]
        if len(coordinates) != size:
            raise ValueError(f"a branch needs {size} coordinates, known and free, got {coordinates}")
        jacobian = sp.trigsimp(h.jacobian(coordinates).det(method="berkowitz"))
        norm = sp.trigsimp(sp.expand((h.T * h)[0]))
        density = sp.Abs(jacobian) * sp.exp(-norm / 2) * branch.weight / sp.sqrt(2 * sp.pi) ** size
        total += _integrate(density, branch.free)
        first += h.applyfunc(lambda entry, d=density, r=branch.free: _integrate(entry * d, r))
        second += sp.Matrix(
            size, size, lambda i, j, v=h, d=density, r=branch.free: _integrate(v[i] * v[j] * d, r) if i <= j else 0
        )
    upper = second.applyfunc(sp.factor_terms)
    return sp.factor_terms(total), first, sp.Matrix(size, size, lambda i, j: upper[min(i, j), max(i, j)])


def _mean(expr: sp.Expr, output: Output) -> sp.Expr:
    """Integrate a density over the known coordinates."""
    return sp.simplify(_integrate(expr, output.known)) if expr != 0 else sp.S.Zero


def linear_information(outputs: Sequence[Output]) -> sp.Matrix:
    """Return ``E_y sum_m E[h_m|y] E[h_m|y]^T``; weak recovery at any alpha > 0 where it is not zero.

    Parameters
    ----------
    outputs : sequence of Output
        All outputs of the link.

    Returns
    -------
    sympy.Matrix
        P x P.

    References
    ----------
    troiani2025, (12)-(15): at omega = 0, V = I the denoiser is E[h|y].
    """
    indices, tokens = outputs[0].branches[0].h.shape
    total = sp.zeros(indices, indices)
    for output in outputs:
        z, first, _ = _moments(output)
        rows = first.reshape(tokens, indices).T
        total += (rows * rows.T).applyfunc(lambda entry, o=output, d=z: _mean(sp.cancel(entry / d), o))
    return total


def _basis(indices: int) -> list[sp.Matrix]:
    """Return an orthonormal basis of the symmetric matrices, the diagonal ones first."""
    made = [sp.Matrix(indices, indices, lambda i, j, k=k: int(i == j == k)) for k in range(indices)]
    for a in range(indices):
        for b in range(a + 1, indices):
            made.append(sp.Matrix(indices, indices, lambda i, j, p={a, b}: int({i, j} == p)) / sp.sqrt(2))
    return made


def operator_matrix(outputs: Sequence[Output]) -> sp.Matrix:
    """Return the operator (15) as a symmetric matrix in an orthonormal basis of S_P.

    Parameters
    ----------
    outputs : sequence of Output
        All outputs of the link.

    Returns
    -------
    sympy.Matrix
        P (P + 1)/2 square; diagonal unit matrices first, then (E_ab + E_ba)/sqrt(2) for a < b.

    References
    ----------
    troiani2025, (15).
    """
    indices, tokens = outputs[0].branches[0].h.shape
    basis = _basis(indices)
    total = sp.zeros(len(basis), len(basis))
    for output in outputs:
        z, _, second = _moments(output)
        curvature = second - z * sp.eye(indices * tokens)
        block = {
            (m, n): curvature[m * indices : (m + 1) * indices, n * indices : (n + 1) * indices]
            for m in range(tokens)
            for n in range(tokens)
        }
        for i, left in enumerate(basis):
            for j, right in enumerate(basis[: i + 1]):
                trace = sum(((left * g * right * g.T).trace() for g in block.values()), sp.S.Zero)
                value = _mean(sp.cancel(sp.expand(trace) / z), output)
                total[i, j] += value
                if i != j:
                    total[j, i] += value
    return total.applyfunc(sp.simplify)


def top_eigenpair(matrix: sp.Matrix, at: dict[sp.Symbol, sp.Expr] | None = None) -> tuple[sp.Expr, sp.Matrix]:
    """Return the largest eigenvalue of an operator on S_P and its positive semidefinite eigenvector.

    The operator maps the cone of positive semidefinite matrices into itself and is self-adjoint, so the
    projection of the identity on the top eigenspace, the limit of the normalised powers of the (shifted)
    operator applied to I, lies in the cone; it is not zero as no semidefinite matrix is orthogonal to I.

    Parameters
    ----------
    matrix : sympy.Matrix
        As `operator_matrix` returns it.
    at : dict, optional
        Values of free symbols at which the eigenvalues are compared; they keep their order over the domain.

    Returns
    -------
    sympy.Expr, sympy.Matrix
        Eigenvalue; eigenvector P x P of Frobenius norm 1.
    """
    indices = int((sp.sqrt(1 + 8 * matrix.rows) - 1) / 2)
    spaces = matrix.eigenvects()
    value, _, vectors = max(spaces, key=lambda space: sp.N(space[0].subs(at or {}), 30))
    identity = sp.Matrix([1] * indices + [0] * (matrix.rows - indices))
    projected = sp.zeros(matrix.rows, 1)
    for vector in sp.GramSchmidt(vectors):
        projected += (vector.dot(identity) / vector.dot(vector)) * vector
    # A positive multiple is enough here: the first entry that is not zero becomes one, then the norm is taken.
    scale = next(entry for entry in projected if sp.simplify(entry) != 0)
    projected = (projected / scale).applyfunc(lambda entry: sp.radsimp(sp.simplify(entry)))
    norm = sp.sqrt(sp.factor_terms(sp.expand(projected.dot(projected))))
    entries = zip(projected, _basis(indices), strict=True)
    made = sum((entry * element for entry, element in entries), sp.zeros(indices, indices))
    return sp.simplify(value), made / norm


def threshold_of_link(outputs: Sequence[Output], at: dict[sp.Symbol, sp.Expr] | None = None) -> Threshold:
    """Derive the weak-recovery threshold of a link from its level sets.

    Parameters
    ----------
    outputs : sequence of Output
        All outputs of the link; the branches cover R^{P M} once.
    at : dict, optional
        Values of free symbols at which eigenvalues are compared.

    Returns
    -------
    Threshold

    Raises
    ------
    ValueError
        If SymPy leaves an integral undone, or the probabilities of the outputs do not sum to one.

    References
    ----------
    troiani2025, (15)-(16).
    """
    mass = sum((_mean(_moments(output)[0], output) for output in outputs), sp.S.Zero)
    if sp.simplify(mass - 1) != 0:
        raise ValueError(f"the outputs must cover all indices once, so that (9) sums to 1; got {mass}")
    linear = linear_information(outputs).applyfunc(sp.simplify)
    if not linear.is_zero_matrix:
        return Threshold(sp.S.Zero, linear / sp.sqrt((linear * linear.T).trace()))
    matrix = operator_matrix(outputs)
    if matrix.is_zero_matrix:
        indices = outputs[0].branches[0].h.shape[0]
        return Threshold(sp.oo, sp.zeros(indices, indices))
    value, vector = top_eigenpair(matrix, at)
    return Threshold(sp.radsimp(1 / value), vector)


# ---- the links, by their level sets ----------------------------------------------------------------------------------

_R = sp.Symbol("r", positive=True)
_U, _V, _W = sp.symbols("u v w", positive=True)
_S, _T = sp.symbols("s t", real=True)
_ANGLE = sp.Symbol("theta", real=True)
_LEVEL = sp.Symbol("t", positive=True)
_FLIP = sp.Symbol("epsilon", positive=True)
_HALF = (sp.S.Zero, sp.oo)
_LINE = (-sp.oo, sp.oo)
_CIRCLE = (-sp.pi, sp.pi)


def _column(*entries: sp.Expr) -> sp.Matrix:
    return sp.Matrix(list(entries))


def _both_signs(h: sp.Matrix, free: tuple[Range, ...] = ()) -> tuple[Branch, ...]:
    return Branch(h, free), Branch(-h, free)


def _orthant(signs: Sequence[int], weight: sp.Expr = sp.S.One) -> Branch:
    coordinates = (_U, _V, _W)[: len(signs)]
    h = _column(*[sign * x for sign, x in zip(signs, coordinates, strict=True)])
    return Branch(h, tuple((x, *_HALF) for x in coordinates), weight)


def _by_sign_pattern(count: int, label: Callable[[tuple[int, ...]], int]) -> list[Output]:
    """Return the outputs of a link that depends on the signs of h_1 .. h_count alone."""
    groups: dict[int, list[Branch]] = {}
    for code in range(2**count):
        signs = tuple(1 - 2 * (code >> k & 1) for k in range(count))
        groups.setdefault(label(signs), []).append(_orthant(signs))
    return [Output(tuple(branches)) for branches in groups.values()]


def _absolute() -> Threshold:
    return threshold_of_link([Output(_both_signs(_column(_R)), ((_R, *_HALF),))])


def _identity() -> Threshold:
    return threshold_of_link([Output((Branch(_column(_T)),), ((_T, *_LINE),))])


def _sign() -> Threshold:
    return threshold_of_link(_by_sign_pattern(1, lambda s: s[0]))


def _sign_product() -> Threshold:
    return threshold_of_link(_by_sign_pattern(2, lambda s: s[0] * s[1]))


def _sign_triple() -> Threshold:
    return threshold_of_link(_by_sign_pattern(3, lambda s: s[0] * s[1] * s[2]))


def _committee_two() -> Threshold:
    return threshold_of_link(_by_sign_pattern(2, sum))


def _committee_three() -> Threshold:
    return threshold_of_link(_by_sign_pattern(3, sum))


def _all_equal() -> Threshold:
    return threshold_of_link(_by_sign_pattern(3, lambda s: int(len(set(s)) == 1)))


def _noisy_sign_product() -> Threshold:
    kept = [(1, 1), (-1, -1)], [(1, -1), (-1, 1)]
    outputs = [
        Output(tuple(_orthant(s, 1 - _FLIP if s in same else _FLIP) for s in (*kept[0], *kept[1]))) for same in kept
    ]
    return threshold_of_link(outputs, {_FLIP: sp.Rational(1, 10)})


def _maximum() -> Threshold:
    # y = max(h_1, h_2): the smaller index lies anywhere below y; its truncated moments need erf, so the linear
    # information is shown by its sign, E[(h_1 + h_2) y] = E[(h_1 + h_2)|h_1 - h_2|]/2 + E[(h_1 + h_2)^2]/2 = 1 > 0.
    mean_square = _integrate((_S + _T) ** 2 / 2 * _gauss(_S, _T), ((_S, *_LINE), (_T, *_LINE)))
    odd = _integrate(_T * _R * 2 * _gauss(_T, _R), ((_T, *_LINE), (_R, *_HALF)))
    if not (mean_square + odd).is_positive:
        raise ValueError("the linear information of max(h_1, h_2) must be positive")
    return Threshold(sp.S.Zero, sp.ones(2, 2) / 2)


def _gauss(*variables: sp.Symbol) -> sp.Expr:
    return sp.exp(-sum(x**2 for x in variables) / 2) / sp.sqrt(2 * sp.pi) ** len(variables)


def _radial_two() -> Threshold:
    h = _R * _column(sp.cos(_ANGLE), sp.sin(_ANGLE))
    return threshold_of_link([Output((Branch(h, ((_ANGLE, *_CIRCLE),)),), ((_R, *_HALF),))])


def _radial() -> Threshold:
    # h^T h is the token matrix of one token: a tied linear layer of rank P at M = 1.
    count = sp.Symbol("P", integer=True, positive=True)
    return Threshold(1 / gram_eigenvalue(sp.S.One, count), sp.MatrixSymbol("I", count, count) / sp.sqrt(count))


def _line_of(direction: sp.Matrix) -> tuple[Branch, ...]:
    return _both_signs(_R * direction, ((_R, *_HALF),))


def _ratio() -> Threshold:
    direction = _column(sp.cos(_ANGLE), sp.sin(_ANGLE))
    return threshold_of_link([Output(_line_of(direction), ((_ANGLE, sp.S.Zero, sp.pi),))])


def _absolute_ratio() -> Threshold:
    cos, sin = sp.cos(_ANGLE), sp.sin(_ANGLE)
    branches = (*_line_of(_column(cos, sin)), *_line_of(_column(cos, -sin)))
    return threshold_of_link([Output(branches, ((_ANGLE, sp.S.Zero, sp.pi / 2),))])


def _direction_three() -> Threshold:
    polar, turn = sp.Symbol("p", positive=True), _ANGLE
    direction = _column(sp.sin(polar) * sp.cos(turn), sp.sin(polar) * sp.sin(turn), sp.cos(polar))
    # Half of the sphere: a line has one direction there.
    known = ((turn, *_CIRCLE), (polar, sp.S.Zero, sp.pi / 2))
    return threshold_of_link([Output(_line_of(direction), known)])


def _square_with_sign() -> Threshold:
    outputs = [Output(_both_signs(_column(_R, sign * _V), ((_V, *_HALF),)), ((_R, *_HALF),)) for sign in (1, -1)]
    return threshold_of_link(outputs)


def _largest(count: int) -> Threshold:
    # Given which index is the largest in absolute value, E[h h^T|y] - I is diagonal by the reflections: g for that
    # index and, as the mean over y vanishes, -g/(K - 1) for the others, so the top eigenvalue is g^2/(K - 1).
    # With T the largest of the others, E[h_1^2 - 1; |h_1| > T] = 2 E[T phi(T)], from (x phi(x))' = (1 - x^2) phi(x).
    density = _R * sp.exp(-(_R**2) / 2) / sp.sqrt(2 * sp.pi) * sp.erf(_R / sp.sqrt(2)) ** (count - 2)
    density *= 2 * (count - 1) * _gauss(_R)
    g = count * 2 * _integrate(density, ((_R, *_HALF),))
    return Threshold(sp.radsimp((count - 1) / g**2), sp.eye(count) / sp.sqrt(count))


def _largest_of_two() -> Threshold:
    quarter = sp.pi / 4
    polar = _column(_R * sp.cos(_ANGLE), _R * sp.sin(_ANGLE))
    sectors = [(-quarter, quarter), (quarter, 3 * quarter)]
    return threshold_of_link([Output(_both_signs(polar, ((_R, *_HALF), (_ANGLE, *sector)))) for sector in sectors])


def _largest_of_three() -> Threshold:
    return _largest(3)


def _door() -> Threshold:
    inside = Output((Branch(_column(_T), ((_T, -_LEVEL, _LEVEL),)),))
    outside = Output(_both_signs(_column(_R), ((_R, _LEVEL, sp.oo),)))
    return threshold_of_link([inside, outside], {_LEVEL: sp.S.One})


def _sector(lower: sp.Expr, upper: sp.Expr) -> Output:
    """Return one output of a link of one index on two tokens that is constant between two lines through zero."""
    h = sp.Matrix([[_R * sp.cos(_ANGLE), _R * sp.sin(_ANGLE)]])
    return Output(_both_signs(h, ((_R, *_HALF), (_ANGLE, lower, upper))))


def _hard_attention() -> Threshold:
    # At infinite beta row m of the attention matrix points at the token n with the largest h_m h_n.  Both tokens
    # attend to themselves where h_1 h_2 < 0; else both attend to the larger one.
    quarter = sp.pi / 4
    return threshold_of_link([_sector(-2 * quarter, 0), _sector(0, quarter), _sector(quarter, 2 * quarter)])


def _sign_attention() -> Threshold:
    # y_mn = sign(h_m h_n): E[h_m h_n|y] = y_mn E|z|^2 off the diagonal and 1 on it.
    product = _integrate(2 * _U * _gauss(_U), ((_U, *_HALF),)) ** 2
    return Threshold(1 / (symbols.tokens * (symbols.tokens - 1) * product**2), sp.eye(1))


def _even_attention() -> Threshold:
    # y fixes (h_m h_n)^2, hence every |h_m| and no sign: only the diagonal of h^T h - I is left.
    variance = _integrate((_T**2 - 1) ** 2 * _gauss(_T), ((_T, *_LINE),))
    return Threshold(1 / (symbols.tokens * variance), sp.eye(1))


def _attention(tied: bool, activation: str, wide: bool = False) -> Callable[[], Threshold]:
    rank = pair_rank if tied else 1

    def derive() -> Threshold:
        alpha = single_layer_threshold(symbols.tokens, rank, activation, tied=tied, wide=wide)
        return Threshold(alpha, single_layer_direction(symbols.tokens, rank, activation, tied=tied))

    return derive


#: Rank symbol of the tied formulas.
pair_rank = sp.Symbol("r", integer=True, positive=True)


def _product() -> Threshold:
    # The level set is (r, y/r): the two norms of an untied linear layer at M = 1.  In the direction I the operator
    # is E[(E[h_1^2|y] - 1)^2 + y^2] = E[a^2] - 1 + 1.
    return Threshold(1 / scale_mean_square(sp.S.One), sp.eye(2) / sp.sqrt(2))


def _absolute_product() -> Threshold:
    # |h_1 h_2| loses E[h_1 h_2|y] = y.
    return Threshold(1 / (scale_mean_square(sp.S.One) - 1), sp.eye(2) / sp.sqrt(2))


@dataclass(frozen=True)
class ClosedForm:
    """One exactly known threshold.

    Attributes
    ----------
    name : str
    link : str
        What is observed.
    conditions : str
        Where the formula holds.
    derivation : callable
        Derives it; nothing is stored.
    expressions : tuple of str
        The link as expressions in the indices h[p], p = 1 .. P, where it is one.
    """

    name: str
    link: str
    conditions: str
    derivation: Callable[[], Threshold]
    expressions: tuple[str, ...] = ()

    @property
    def threshold(self) -> Threshold:
        """Formula and eigenvector, derived at the first use."""
        return _derived(self.derivation)

    @property
    def formula(self) -> sp.Expr:
        """The threshold alpha_c; ``sympy.Integral`` where one integral over a known function is left."""
        return self.threshold.alpha

    @property
    def eigenvector(self) -> sp.Matrix:
        """Direction that becomes unstable, Frobenius norm 1."""
        return self.threshold.eigenvector


@cache
def _derived(derivation: Callable[[], Threshold]) -> Threshold:
    return derivation()


_ANY = "M = 1"
_ENTRIES = (
    ClosedForm("tied_softmax", "softmax(h^T h)", "M >= 2 tokens, rank r < M", _attention(True, "softmax")),
    ClosedForm(
        "tied_softmax_wide", "softmax(h^T h)", "M >= 2 tokens, rank r >= M", _attention(True, "softmax", wide=True)
    ),
    ClosedForm(
        "tied_linear",
        "h^T h, or any strictly monotone function of its entries",
        "M >= 2 tokens, any rank r",
        _attention(True, "linear"),
    ),
    ClosedForm("untied_softmax", "softmax(k^T q)", "M >= 2 tokens, rank 1", _attention(False, "softmax")),
    ClosedForm(
        "untied_linear",
        "k^T q, or any strictly monotone function of its entries",
        "M >= 2 tokens, rank 1; one integral is left",
        _attention(False, "linear"),
    ),
    ClosedForm("hard_attention", "softmax(beta h^T h) at beta = oo", "M = 2 tokens, rank 1", _hard_attention),
    ClosedForm("sign_attention", "sign(h^T h), entry by entry", "M >= 2 tokens, rank 1", _sign_attention),
    ClosedForm(
        "even_attention",
        "f(h^T h) entry by entry, f(z) = f(-z), f injective on z >= 0",
        "M >= 2 tokens, rank 1",
        _even_attention,
    ),
    ClosedForm(
        "absolute",
        "|h_1|, h_1^2 or any even power",
        _ANY,
        _absolute,
        (
            "abs(h[1])",
            "h[1]**2",
            "h[1]**4",
        ),
    ),
    ClosedForm(
        "identity",
        "h_1, h_1^3 or any odd power",
        _ANY,
        _identity,
        (
            "h[1]",
            "h[1]**3",
        ),
    ),
    ClosedForm("sign", "sign(h_1)", _ANY, _sign, ("sign(h[1])",)),
    ClosedForm("door", "sign(|h_1| - t)", "M = 1, t > 0", _door),
    ClosedForm(
        "sign_product",
        "sign(h_1 h_2)",
        _ANY,
        _sign_product,
        (
            "sign(h[1]*h[2])",
            "sign(h[1])*sign(h[2])",
        ),
    ),
    ClosedForm(
        "noisy_sign_product",
        "sign(h_1 h_2), flipped with probability epsilon",
        "M = 1, 0 <= epsilon < 1/2",
        _noisy_sign_product,
    ),
    ClosedForm(
        "sign_triple_product",
        "sign(h_1 h_2 h_3)",
        _ANY,
        _sign_triple,
        (
            "sign(h[1]*h[2]*h[3])",
            "sign(h[1])*sign(h[2])*sign(h[3])",
        ),
    ),
    ClosedForm("committee_two", "sign(h_1) + sign(h_2)", _ANY, _committee_two, ("sign(h[1]) + sign(h[2])",)),
    ClosedForm(
        "committee_three",
        "sign(h_1) + sign(h_2) + sign(h_3)",
        _ANY,
        _committee_three,
        ("sign(h[1]) + sign(h[2]) + sign(h[3])",),
    ),
    ClosedForm("all_equal", "whether sign(h_1) = sign(h_2) = sign(h_3)", _ANY, _all_equal),
    ClosedForm("maximum", "max(h_1, h_2)", _ANY, _maximum, ("max(h[1], h[2])",)),
    ClosedForm("radial", "h_1^2 + .. + h_P^2", _ANY, _radial),
    ClosedForm("radial_two", "h_1^2 + h_2^2", _ANY, _radial_two, ("h[1]**2 + h[2]**2",)),
    ClosedForm("ratio", "h_1/h_2", _ANY, _ratio, ("h[1]/h[2]",)),
    ClosedForm("absolute_ratio", "|h_1/h_2|, or h_1 h_2/(h_1^2 + h_2^2)", _ANY, _absolute_ratio, ("abs(h[1]/h[2])",)),
    ClosedForm("direction_three", "h_1 : h_2 : h_3", _ANY, _direction_three),
    ClosedForm("square_with_sign", "h_1^2 sign(h_1 h_2)", _ANY, _square_with_sign, ("h[1]**2*sign(h[1]*h[2])",)),
    ClosedForm("largest_of_two", "argmax(|h_1|, |h_2|)", _ANY, _largest_of_two, ("argmax([abs(h[1]), abs(h[2])])",)),
    ClosedForm(
        "largest_of_three",
        "argmax(|h_1|, |h_2|, |h_3|)",
        _ANY,
        _largest_of_three,
        ("argmax([abs(h[1]), abs(h[2]), abs(h[3])])",),
    ),
    ClosedForm(
        "product",
        "h_1 h_2, or h_1^2 - h_2^2",
        "M = 1; one integral is left",
        _product,
        (
            "h[1]*h[2]",
            "h[1]**2 - h[2]**2",
        ),
    ),
    ClosedForm("absolute_product", "|h_1 h_2|", "M = 1; one integral is left", _absolute_product, ("abs(h[1]*h[2])",)),
)

#: All entries by name.
TABLE: dict[str, ClosedForm] = {entry.name: entry for entry in _ENTRIES}


def find(name: str) -> ClosedForm:
    """Return the entry of that name.

    Raises
    ------
    ValueError
        If there is none; the message lists the names.

    Examples
    --------
    >>> find("sign_product").formula
    pi**2/4
    """
    if name not in TABLE:
        raise ValueError(f"no closed form is named {name!r}; there are {', '.join(TABLE)}")
    return TABLE[name]
