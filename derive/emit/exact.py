"""Print the exact thresholds as plain Python: values in an mpmath context, formulas at given integers."""

import hashlib
import textwrap

import sympy as sp

from .. import symbols
from ..architecture import ACTIVATIONS
from ..closed_forms import TABLE, ClosedForm, pair_rank
from ..linearization import single_layer_direction
from .ir import canonical

__all__ = ["PRINTED", "files", "render"]

#: Entries of the table that are printed, each as ``<name>_value`` and ``<name>_formula``.
PRINTED = ("tied_softmax", "tied_softmax_wide", "tied_linear", "untied_softmax", "untied_linear")

_RUNTIME = '''
def _surd(rational, factor, radicand):
    """Write rational + factor sqrt(radicand) with a square-free radicand."""
    root, k = 1, 2
    while k * k <= radicand:
        while radicand % (k * k) == 0:
            root, radicand = root * k, radicand // (k * k)
        k += 1
    factor *= root
    if radicand == 1:
        return str(rational + factor)
    over = f"/{factor.denominator}" if factor.denominator > 1 else ""
    times = f"{factor.numerator}*" if factor.numerator != 1 else ""
    return f"{rational} + {times}sqrt({radicand}){over}"


def _over_double_factorial(integral, M):
    """Write integral/(M - 2)!!^2 for even M and 2 integral/(pi (M - 2)!!^2) for odd M."""
    square = math.prod(range(M - 2, 0, -2)) ** 2
    factors = ["pi"] * (M % 2) + [str(square)] * (square > 1)
    over = "*".join(factors)
    return ("2*" if M % 2 else "") + integral + (f"/({over})" if len(factors) > 1 else f"/{over}" if factors else "")


def _ratio_integral(ctx, power):
    """Integrate x^power K_1(x)^2/K_0(x) over (0, oo), power >= 2.

    Two trapezoidal rules on analytic functions: K_n(x) = int exp(-x cosh t) cosh(n t) dt over t > 0, and
    x = exp(s - exp(-s)), which ends doubly exponentially on both sides. Both integrands are analytic and small in the
    strip |Im| < pi/2, so a step h leaves an error exp(-pi^2/h), times what the power grows by towards its edge.
    """
    digits = ctx.prec * ctx.ln(2) + 3 * power
    step = ctx.mpf(3) / 4 * ctx.pi**2 / digits
    cosh = [ctx.one]
    total = ctx.zero
    for n in range(-int(ctx.ln(digits) / step) - 1, int(ctx.ln(2 * digits + 8 * power) / step) + 2):
        s = n * step
        slope = ctx.exp(-s)
        x = ctx.exp(s - slope)
        # exp(x) K_0(x) and exp(x) K_1(x)
        k_0 = k_1 = step / 2
        for m in range(1, int(ctx.acosh(1 + digits / x) / step) + 2):
            if m == len(cosh):
                cosh.append(ctx.cosh(m * step))
            weight = step * ctx.exp(x * (1 - cosh[m]))
            k_0 += weight
            k_1 += weight * cosh[m]
        total += step * (1 + slope) * x ** (power + 1) * ctx.exp(-x) * k_1**2 / k_0
    return total
'''


def _mp(expr: sp.Expr) -> str:
    """Print an expression as calls of an mpmath context named ctx."""
    if isinstance(expr, sp.Symbol):
        return expr.name
    if isinstance(expr, sp.Integer):
        return str(int(expr))
    if isinstance(expr, sp.Rational):
        return f"ctx.mpf({expr.p})/{expr.q}"
    if expr == sp.pi:
        return "ctx.pi"
    if isinstance(expr, sp.Add | sp.Mul):
        sign = " + " if isinstance(expr, sp.Add) else "*"
        return sign.join(_mp(arg) if arg.is_Symbol else f"({_mp(arg)})" for arg in expr.args)
    if isinstance(expr, sp.Pow):
        base, exponent = expr.args
        if exponent.is_Integer:
            text = base.name if base.is_Symbol else f"({_mp(base)})"
            return f"{text}**{int(exponent)}" if exponent > 0 else f"{text}**({int(exponent)})"
        return f"ctx.sqrt({_mp(base)})" if exponent == sp.Rational(1, 2) else f"ctx.power({_mp(base)}, {_mp(exponent)})"
    if isinstance(expr, sp.gamma | sp.besselk):
        return f"ctx.{expr.func.__name__}({', '.join(_mp(arg) for arg in expr.args)})"
    if isinstance(expr, sp.Integral) and len(expr.limits) == 1 and tuple(expr.limits[0][1:]) == (0, sp.oo):
        x = expr.limits[0][0]
        power = sp.powsimp(expr.function * sp.besselk(0, x) / sp.besselk(1, x) ** 2).as_base_exp()
        if power[0] == x:
            return f"_ratio_integral(ctx, {_mp(power[1])})"
    raise TypeError(f"no printed form for {expr}")


def _fraction(expr: sp.Expr) -> str:
    """Print a rational function of integers as an exact fraction."""
    numerator, denominator = sp.fraction(sp.cancel(expr))
    return f"Fraction({sp.expand(numerator)}, {sp.expand(denominator)})"


def _formula(entry: ClosedForm) -> str:
    """Print the expression that builds the formula's text."""
    formula = entry.formula
    if formula.has(sp.Integral):
        return _integral_formula(formula)
    roots = formula.atoms(sp.Pow) & {p for p in formula.atoms(sp.Pow) if p.exp == sp.Rational(1, 2)}
    if not roots:
        return f"str({_fraction(formula)})"
    (root,) = roots
    expanded = sp.collect(sp.expand(formula), root)
    factor = expanded.coeff(root)
    rest = sp.cancel(expanded - factor * root)
    return f"_surd({_fraction(rest)}, {_fraction(factor)}, {root.base})"


def _integral_formula(formula: sp.Expr) -> str:
    """Print 1/(polynomial + constant integral), whose constant is _over_double_factorial(M)."""
    (integral,) = formula.atoms(sp.Integral)
    denominator = 1 / formula
    constant = denominator.coeff(integral)
    _prove_constant(constant)
    rest = denominator - constant * integral
    x = integral.limits[0][0]
    power = sp.powsimp(integral.function * sp.besselk(0, x) / sp.besselk(1, x) ** 2).as_base_exp()[1]
    # The printed code puts integers for what is in braces; the text stays one expression of SymPy.
    shown = integral.subs(power, sp.Symbol(f"{{{power}}}", positive=True))
    return f"""f"1/({{{rest}}} + {{_over_double_factorial(f'{shown}', M)}})\""""


def _prove_constant(constant: sp.Expr) -> None:
    """Hold the constant against 1/(M - 2)!!^2 for even M and 2/(pi (M - 2)!!^2) for odd M."""
    k = sp.Symbol("k", integer=True, positive=True)
    even = constant.subs(symbols.tokens, 2 * k) * (2 ** (k - 1) * sp.gamma(k)) ** 2
    odd = constant.subs(symbols.tokens, 2 * k + 1) * (2**k * sp.gamma(k + sp.Rational(1, 2))) ** 2 / 2
    if sp.powsimp(sp.expand(even)) != 1 or sp.powsimp(sp.expand(odd)) != 1:
        raise ValueError(f"the constant {constant} of the integral is not 1/(M - 2)!!^2 or 2/(pi (M - 2)!!^2)")


def _function(entry: ClosedForm) -> str:
    arguments = "M, r" if pair_rank in entry.formula.free_symbols else "M"
    closed = not entry.formula.has(sp.Integral)
    # A difference of nearly equal numbers for large M becomes a sum in the denominator.
    value = entry.formula if closed is False else sp.Mul(*[1 / sp.radsimp(1 / f) for f in entry.formula.args])
    kind = "Exact" if closed else "Integral form of the"
    return textwrap.dedent(f'''

        def {entry.name}_value(ctx, {arguments}):
            """Threshold of {entry.link}; {entry.conditions}."""
            {arguments} = {", ".join(f"ctx.mpf({name})" for name in arguments.split(", "))}
            return {_mp(value)}


        def {entry.name}_formula({arguments}):
            """{kind} threshold of `{entry.name}_value` as a text that SymPy parses."""
            return {_formula(entry)}
        ''').strip("\n")


def _direction(activation: str) -> str:
    """Print the unstable direction of an untied layer: the diagonal entries of keys and of queries."""
    matrix = single_layer_direction(activation=activation, tied=False)
    return textwrap.dedent(f'''

        def untied_{activation}_direction(ctx, M):
            """Diagonal (keys, queries) of the unit eigenvector that belongs to `untied_{activation}_value`."""
            M = ctx.mpf(M)
            return {_mp(matrix[0, 0])}, {_mp(matrix[1, 1])}
        ''').strip("\n")


def _as_it_stands(formula: sp.Expr) -> str:
    """Print a formula with its terms as they stand: SymPy's own order takes the value of every integral in it."""
    return str(sp.sstr(formula, order="none"))


def _links() -> tuple[list[ClosedForm], str]:
    """Return the entries that are one expression in the indices, and the two tables that hold them."""
    entries = [entry for entry in TABLE.values() if entry.expressions]
    formulas, values = [], []
    for entry in entries:
        for expression in entry.expressions:
            formulas.append(f'    "{expression.replace(" ", "")}": ("{entry.name}", "{_as_it_stands(entry.formula)}"),')
        if entry.formula not in (0, sp.oo):
            values.append(f'    "{entry.name}": lambda ctx: {_mp(entry.formula)},')
    return entries, "\n".join(
        [
            "# Name and threshold of links of one token; 0: E[h|y] is not zero; oo: no quadratic information.",
            "LINKS = {",
            *formulas,
            "}",
            "",
            "# Values of those between.",
            "VALUES = {",
            *values,
            "}",
        ]
    )


def render() -> str:
    """Derive the printed entries and return the text of ``generated/exact.py``."""
    entries = [TABLE[name] for name in PRINTED]
    functions = [*(_function(entry) for entry in entries), *(_direction(name) for name in ACTIVATIONS)]
    body = "\n\n\n".join(functions)
    links, tables = _links()
    entries += links
    trees = (f"{entry.name}: {canonical(entry.formula)}" for entry in entries)
    digest = hashlib.sha256("\n".join(trees).encode()).hexdigest()
    operations = sum(int(sp.count_ops(entry.formula)) for entry in entries)
    header = "\n".join(
        [
            "# generated by `make derive`; do not edit",
            "# source: attnlimits.derive.closed_forms",
            "# equations: troiani2025 (15), (16)",
            f"# derivation: sha256 {digest}",
            f"# operations: {operations}",
            "# domain: M >= 2 tokens, rank r >= 1, both integers; each function states its own",
            f"# sympy: {sp.__version__}",
        ]
    )
    return (
        f'{header}\n"""Exact weak-recovery thresholds of one attention layer and of links of one token."""\n\n'
        f"import math\nfrom fractions import Fraction\n\n{_RUNTIME}\n\n{body}\n\n\n{tables}\n"
    )


def files() -> dict[str, str]:
    """Return the text of each written file by its path below the output folder."""
    return {"exact.py": render()}
