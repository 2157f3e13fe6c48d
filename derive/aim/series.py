"""Expansions of the denoiser's error MMSE_rho(Delta), exact to any order, from the third root of the Stieltjes cubic.

On the support two roots g are conjugate and the third, v, is real; the product of all three is sqrt(rho)/Delta.  Hence
MMSE = Delta - Delta^2 int rho_Y |g|^2 = Delta (1 - sqrt(rho) int rho_Y(x) / v(x) dx).  Where Delta is large or small,
1/v is a series in it with coefficients that are polynomial in x or in 1/x, so that moments of Y, or residues at x = 0,
are all that is left.
"""

from functools import cache

import sympy as sp

from .laurent import FIELD, Laurent, add, derivative, element, expression, multiply, scale
from .spectrum import moments, position, stieltjes_cubic
from .symbols import g, noise, root, width, z

__all__ = [
    "critical_coefficient",
    "infinite_width",
    "large_noise_series",
    "projection_series",
    "recovery_slope",
    "small_noise_series",
]

#: No cut in the second variable.
_ANY = 10**6


@cache
def large_noise_series(order: int) -> sp.Expr:
    """MMSE_rho(Delta) for Delta -> infinity, to the given power of 1/Delta.

    Parameters
    ----------
    order : int
        Highest power of 1/Delta, >= 0.

    Returns
    -------
    sympy.Expr
        Polynomial in 1/Delta, coefficients in sqrt(rho).

    References
    ----------
    boncoraglio2025, (19).
    """
    # Series in e and y, where Delta = 1/e^2 and x = y/e; v = s + shift, shift (v + e^2/v - e y) = e^2 s^2.
    top = (2 * order + 2, _ANY)
    shift: Laurent = {}
    inverse: Laurent = {}
    for _ in range(top[0] + 1):
        inverse = scale(add({(0, 0): element(1)}, scale(multiply(inverse, shift, top), -1)), 1 / root)
        rest = add(shift, scale(inverse, 1, (2, 0)), {(1, 1): element(-1)})
        shift = scale(add({(2, 0): element(width)}, scale(multiply(shift, rest, top), -1)), 1 / root)
    mean: Laurent = {}
    for n, moment in enumerate(moments(max(j for _, j in inverse))):
        # e^n m_n, m_n a polynomial in Delta = 1/e^2.
        scaled = {(n - 2 * k, 0): element(moment.coeff(noise, k)) for k in range(n // 2 + 1)}
        power = {(i, 0): value for (i, j), value in inverse.items() if j == n}
        mean = add(mean, multiply(power, scaled, top))
    found = add({(0, 0): element(1)}, scale(mean, -root))
    return sum((expression(value) * noise ** (1 - sp.Rational(i, 2)) for (i, _), value in found.items()), sp.S.Zero)


def infinite_width() -> sp.Expr:
    """MMSE for rho -> infinity, Delta / (1 + Delta): less its mean sqrt(rho), Y is then a semicircle.

    z(g) - sqrt(rho) tends to 1/g + (1 + Delta) g, a quadratic whose conjugate roots have the product |g|^2 all over the
    support.

    References
    ----------
    boncoraglio2025, (19).
    """
    centred = sp.limit(sp.cancel(sp.together(position() - root)), root, sp.oo)
    quadratic = sp.Poly(sp.numer(sp.together(centred - z)), g)
    return sp.cancel(noise - noise**2 * quadratic.TC() / quadratic.LC())


def projection_series(order: int, at: sp.Rational) -> sp.Expr:
    """Return the same expansion from the projection of S on the polynomials of degree <= order in Y.

    Q - MMSE is the squared norm of E[S|Y]; the part outside those polynomials is of higher order in 1/Delta.

    Parameters
    ----------
    order : int
        Highest power of 1/Delta.
    at : sympy.Rational
        Value of sqrt(rho); a number, since the moments are inverted as a matrix.
    """
    known = [m.subs(root, at) for m in moments(2 * order + 1)]
    # tau(S (x - Y)^-1) = x g - Delta g^2 - 1: the coefficients are tau(S Y^n).
    with_signal = [
        known[n + 1] - noise * sum((known[k] * known[n - 1 - k] for k in range(n)), sp.S.Zero) for n in range(order + 1)
    ]
    hankel = sp.Matrix(order + 1, order + 1, lambda i, j: known[i + j])
    right = sp.Matrix(with_signal)
    norm = sp.cancel((right.T * hankel.adjugate() * right)[0] / hankel.det())
    small = sp.Symbol("epsilon", positive=True)
    rest = sp.cancel((1 + at**2 - norm).subs(noise, 1 / small))
    return sp.series(rest, small, 0, order + 1).removeO().subs(small, 1 / noise)


def _at_origin(top: tuple[int, int]) -> Laurent:
    """Root of the cubic that is regular at z = 0, as a series in Delta and z."""
    cubic = stieltjes_cubic()
    # The linear term at Delta = z = 0 is (1 - rho) g: what is left of the equation is of first order.
    parts = [sp.Poly(c, noise, z) for c in reversed(cubic.all_coeffs())]
    slope = 1 - width
    value: Laurent = {}
    for _ in range(sum(top) + 1):
        total: Laurent = {}
        power: Laurent = {(0, 0): element(1)}
        for part in parts:
            factor = {powers: element(c) for powers, c in part.terms()}
            total = add(total, multiply(factor, power, top))
            power = multiply(power, value, top)
        value = add(value, scale(total, -1 / slope))
    return value


def _from_pole(order: int) -> Laurent:
    """Physical g around the atom of weight 1 - rho at z = 0, as a series in Delta and z with poles in z."""
    weight, reach = 1 - width, 4 * order
    # Without noise: g = weight/z + r, with weight r = weight s - s + s z r - z r^2 the quadratic of S.
    regular: Laurent = {}
    for _ in range(reach + 1):
        square = multiply(regular, regular, (0, reach))
        constant = {(0, 0): element(weight * root - root)}
        rest = add(constant, scale(regular, root, (0, 1)), scale(square, -1, (0, 1)))
        regular = {powers: value for powers, value in scale(rest, 1 / weight).items() if powers[1] <= reach}
    value = add({(0, -1): element(weight)}, regular)
    # With noise: dg/dDelta + g dg/dz = 0, one power of Delta after the other; each costs two powers of z.
    for k in range(order - 1):
        flow = multiply(value, derivative(value), (k, reach - 2 * k - 2))
        value = add(value, {(i + 1, j): -c / (k + 1) for (i, j), c in flow.items() if i == k})
    return value


def _inverse(series: Laurent, top: tuple[int, int]) -> Laurent:
    """1 / series in nonnegative powers; the constant term must not vanish."""
    first = series[0, 0]
    rest = {powers: -value / first for powers, value in series.items() if powers != (0, 0)}
    found: Laurent = {}
    for _ in range(sum(top) + 1):
        found = add({(0, 0): 1 / first}, multiply(found, rest, top))
    return found


@cache
def small_noise_series(order: int, wide: bool) -> sp.Expr:
    """MMSE_rho(Delta) for Delta -> 0, to the given power of Delta, on one side of rho = 1.

    Parameters
    ----------
    order : int
        Highest power of Delta, >= 1.
    wide : bool
        True for rho > 1, where S has no kernel; False for rho < 1, where noise turns the kernel into a component of the
        support of its own.

    Returns
    -------
    sympy.Expr
        Polynomial in Delta, coefficients rational in sqrt(rho).

    References
    ----------
    boncoraglio2025, (20)-(21).
    """
    top = (order - 1, 2 * order)
    # On the bulk i = 1/v = Delta/z + .. solves i (z - i + rho i / (1 - s i)) = Delta.
    bulk: Laurent = {}
    for _ in range(order):
        power, rest = bulk, scale(bulk, -1)
        for k in range(order):
            rest = add(rest, scale(power, width * root**k))
            power = multiply(power, bulk, top)
        bulk = add({(1, -1): element(1)}, scale(multiply(bulk, rest, top), -1, (0, -1)))
    regular = _at_origin(top)
    if wide:
        branch, integrand = regular, bulk
    else:
        # Around the bulk: a large circle, which gives nothing, less one around z = 0; around the kernel: the latter.
        branch = _from_pole(order)
        integrand = add(bulk, scale(_inverse(regular, top), -1))
    product = multiply(branch, integrand, (order - 1, -1))
    one = element(1)
    means = [-product.get((k, -1), FIELD.zero) * element(root) for k in range(order)]
    terms = [(one if k == 0 else FIELD.zero) - mean for k, mean in enumerate(means)]
    return sum((expression(value) * noise ** (k + 1) for k, value in enumerate(terms)), sp.S.Zero)


def recovery_slope(wide: bool) -> sp.Expr:
    """D_rho, the limit of MMSE_rho(Delta) / Delta for Delta -> 0: twice the parameters of S per d^2.

    Parameters
    ----------
    wide : bool
        Whether rho > 1.

    References
    ----------
    boncoraglio2025, (20).
    """
    return sp.expand(small_noise_series(1, wide) / noise)


@cache
def critical_coefficient() -> sp.Expr:
    """Coefficient c of MMSE_1(Delta) = Delta (1 - c Delta^(2/3) + ..), exactly.

    At rho = 1 and x = Delta^(2/3) X, g = Delta^(-1/3) G the equation becomes X = G - 1/G^2.  On the support X is real:
    2 Re G = -P^2 with P = |G|^2, so that Im G = sqrt(P - P^4/4), X = 1/P - P^2, and the integral of P Im G over X is
    one over P.

    References
    ----------
    boncoraglio2025, (22).
    """
    place = _critical_place()
    p, t = sp.symbols("p t", positive=True)
    # P^3 = 4 t turns the integral into Euler's; sqrt(p - p^4/4) = p^(1/2) sqrt(1 - p^3/4).
    inner = (4 * t) ** sp.Rational(1, 3)
    jacobian = sp.diff(inner, t)
    integrand = sp.expand(sp.powsimp(sp.expand(p ** sp.Rational(3, 2) * -sp.diff(place(p), p))))
    total = sp.S.Zero
    for term in sp.Add.make_args(integrand):
        coefficient, power = sp.powdenest(term.subs(p, inner) * jacobian, force=True).as_coeff_exponent(t)
        total += coefficient * sp.gamma(power + 1) * sp.gamma(sp.Rational(3, 2)) / sp.gamma(power + sp.Rational(5, 2))
    return sp.gammasimp(total / sp.pi)


def _critical_place() -> sp.Lambda:
    """X as a function of P = |G|^2 on the support of the equation that remains at the origin for rho = 1."""
    scale, value, place = sp.Symbol("k", positive=True), sp.Symbol("G"), sp.Symbol("X")
    cubic = stieltjes_cubic().as_expr().subs(root, 1)
    # Delta = k^3; what is left of the cubic as k -> 0.
    scaled = sp.expand(cubic.subs({g: value / scale, z: scale**2 * place, noise: scale**3}, simultaneous=True))
    left = scaled.subs(scale, 0)
    where = sp.solve(left, place)[0]
    a, p = sp.symbols("a p", real=True)
    b2 = p - a**2
    b = sp.Symbol("b", positive=True)
    at = sp.expand(sp.expand(where.subs(value, a + sp.I * b), complex=True))
    real, imaginary = (sp.cancel(sp.together(part(at)).subs(b, sp.sqrt(b2))) for part in (sp.re, sp.im))
    re_part = sp.solve(sp.numer(sp.together(sp.cancel(imaginary / sp.sqrt(b2)))), a)
    found = sp.cancel(sp.expand(real.subs(a, re_part[0])))
    return sp.Lambda(p, found)
