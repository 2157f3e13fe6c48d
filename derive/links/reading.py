"""From what a user gives to the outputs of a link: read, checked, and without what tells nothing about h."""

import random
from collections.abc import Sequence

import sympy as sp

from .branches import split
from .functions import ArgMax, SoftmaxEntry
from .parser import LinkError, index_symbol, parse, read_index

__all__ = ["check_real", "noise_of", "outputs_of", "shape_of", "varies", "without_outer"]

_MOST_ENTRIES = 8
_ALLOWED = (
    *(
        sp.sign,
        sp.Abs,
        sp.exp,
        sp.log,
        sp.tanh,
        sp.sinh,
        sp.cosh,
        sp.sin,
        sp.cos,
        sp.erf,
        sp.Max,
        sp.Min,
        ArgMax,
        SoftmaxEntry,
    ),
    *(sp.Piecewise, sp.functions.elementary.piecewise.ExprCondPair, sp.Add, sp.Mul, sp.Pow, sp.Symbol, sp.Number),
    *(sp.NumberSymbol, sp.core.relational.Relational, sp.logic.boolalg.Boolean),
)
# Strictly monotone where they are defined: y and its image say the same about h. All but the logarithm are real and
# finite where their argument is.
_ENTIRE = (sp.exp, sp.tanh, sp.sinh, sp.erf, sp.atan, sp.asinh)
_INJECTIVE = (*_ENTIRE, sp.log)
_TRIALS = 12


def outputs_of(expr: object) -> tuple[sp.Expr, ...]:
    """Return the outputs of a text, an expression or a sequence of them, in the symbols h_p_m."""
    if isinstance(expr, str):
        return parse(expr)
    values = tuple(expr) if isinstance(expr, (list, tuple, sp.Tuple, sp.MatrixBase)) else (expr,)
    if not values:
        raise LinkError("link: no output was given")
    read = [parse(value) if isinstance(value, str) else (sp.sympify(value),) for value in values]
    return tuple(_canonical_symbols(output) for outputs in read for output in outputs)


def _canonical_symbols(expr: object) -> sp.Expr:
    if not isinstance(expr, sp.Expr):
        raise LinkError(f"link: an output must be a SymPy expression, got {expr!r}")
    names: dict[sp.Basic, sp.Expr] = {}
    for item in expr.atoms(sp.Indexed):
        if str(item.base) != "h" or not all(i.is_Integer and i >= 1 for i in item.indices) or len(item.indices) > 2:
            raise LinkError(f"link: expected h[p] or h[p, m] with integers from 1, got {item}")
        names[item] = index_symbol(*[int(i) for i in (*item.indices, 1)][:2])
    for symbol in expr.free_symbols - {s for item in names for s in item.free_symbols}:
        entry = read_index(symbol.name)
        if entry is None:
            raise LinkError(f"link: expected the symbols h, h_p or h_p_m, got {symbol}")
        names[symbol] = index_symbol(*entry)
    for number in expr.atoms(sp.Float):
        names[number] = sp.Rational(str(number))
    made = expr.xreplace(names).replace(sp.Heaviside, lambda argument, *_: (1 + sp.sign(argument)) / 2)
    for part in sp.preorder_traversal(made):
        if not isinstance(part, _ALLOWED):
            raise LinkError(f"link: {type(part).__name__} in {expr} is not supported; see link_parser.parse")
    return made


def shape_of(outputs: Sequence[sp.Expr], indices: int | None, tokens: int | None) -> tuple[int, int]:
    """Return P and M as given, or the largest index and token that occur."""
    entries = [read_index(s.name) for o in outputs for s in o.free_symbols]
    used = [entry for entry in entries if entry is not None]
    if not used:
        raise LinkError(f"link: {', '.join(map(str, outputs))} does not depend on h: there is nothing to learn from it")
    sizes = []
    for name, given, largest in zip(
        ("indices", "tokens"), (indices, tokens), (max(e) for e in zip(*used, strict=True)), strict=True
    ):
        if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < largest):
            raise LinkError(f"{name} must be an integer >= {largest} for this link, got {given!r}")
        sizes.append(largest if given is None else given)
    if sizes[0] * sizes[1] > _MOST_ENTRIES:
        raise LinkError(f"link: P M = {sizes[0]} x {sizes[1]} entries of h, at most {_MOST_ENTRIES} are supported")
    return sizes[0], sizes[1]


def noise_of(noise: object) -> sp.Rational:
    """Return the variance of the output noise as a rational number."""
    try:
        delta = sp.Rational(str(noise)) if isinstance(noise, (str, float)) else sp.sympify(noise)
    except (TypeError, ValueError, sp.SympifyError):
        delta = None
    if delta is None or not delta.is_Rational or delta < 0:
        raise LinkError(f"noise must be a finite number >= 0 (the variance of the output noise), got {noise!r}")
    return delta


def check_real(outputs: Sequence[sp.Expr], coordinates: Sequence[sp.Symbol]) -> None:
    """Raise `LinkError` unless every output is a finite real number at random points."""
    rng = random.Random(0)
    for _ in range(_TRIALS):
        point = {h: sp.Rational(rng.randint(-3000, 3000), 1009) for h in coordinates}
        for output in outputs:
            inner = output
            while isinstance(inner, _ENTIRE):  # towers of exponentials are finite numbers that nothing can hold
                inner = inner.args[0]
            regions = split([inner.xreplace(point)])
            value = sp.N(regions[0].outputs[0], 30)
            if not (value.is_real and value.is_finite):
                at = ", ".join(f"{h} = {v}" for h, v in point.items() if h in output.free_symbols)
                raise LinkError(
                    f"link: {output} is not a finite real number at {at}; use Piecewise or abs to define it everywhere"
                )


def varies(output: sp.Expr) -> bool:
    """Return whether an output depends on h at all: it has several values, or a slope at a random point."""
    if not output.free_symbols:
        return False
    regions = split([output])
    if len({region.outputs for region in regions}) > 1:
        return True
    (value,) = regions[0].outputs
    rng = random.Random(3)
    for _ in range(_TRIALS):
        point = {h: sp.Rational(rng.randint(-2000, 2000), 1009) for h in value.free_symbols}
        # 30 digits: what is no larger than their rounding is an identity such as sin^2 + cos^2 = 1.
        if any(abs(sp.N(sp.diff(value, h).xreplace(point), 30, maxn=400)) > 1e-25 for h in value.free_symbols):
            return True
    return False


def without_outer(output: sp.Expr) -> sp.Expr:
    """Return an output without outer strictly monotone functions, constant factors and constant terms."""
    while True:
        if isinstance(output, _INJECTIVE):
            output = output.args[0]
            continue
        if isinstance(output, sp.Pow) and output.exp.is_Rational:
            # A root is real where its base is not negative: there it is strictly monotone.
            if output.exp.p % 2 or not output.exp.is_Integer:
                output = output.base
                continue
            output = output.base**2  # all even powers say the same
        _, rest = output.as_independent(*output.free_symbols, as_Add=isinstance(output, sp.Add))
        if rest in (output, 0, 1):
            return output
        output = rest
