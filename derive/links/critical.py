"""Critical points of a link where it is a polynomial: where densities of the output are not smooth."""

import sympy as sp

from .branches import Region

__all__ = ["critical_values", "nondegenerate"]

# Total degree up to which critical points are solved for, and entries.
_DEGREE, _ENTRIES = 4, 3


def critical_values(region: Region, output: int) -> tuple[tuple[float, ...], dict[sp.Symbol, tuple[float, ...]]]:
    """Values of a polynomial output at its critical points, also on the faces of the region, and the points' entries.

    The density of y and its moments are not smooth there. Links that are no polynomial of low degree get none; the
    numerics find what is left by refinement.
    """
    expr = region.outputs[output]
    symbols = _symbols(expr)
    if not _low(expr, symbols):
        return (), {}
    values: set[float] = set()
    entries: dict[sp.Symbol, set[float]] = {s: set() for s in symbols}
    faces: list[dict[sp.Symbol, sp.Expr]] = [{}]
    for s in symbols:
        ends = [end for end in region.bounds.get(s, ()) if end.is_finite]
        faces += [{**face, s: end} for face in faces for end in ends]
    for face in faces:
        here = expr.xreplace(face)
        free = _symbols(here)
        try:
            points = sp.solve([sp.diff(here, s) for s in free], free, dict=True) if free else [{}]
        except NotImplementedError:
            continue
        for point in points:
            value = sp.expand(here.subs(point))
            if not value.free_symbols and value.is_real:
                values.add(float(value))
            for s, at in {**face, **point}.items():
                if not at.free_symbols and at.is_real:
                    entries[s].add(float(at))
    return tuple(sorted(values)), {s: tuple(sorted(found)) for s, found in entries.items() if found}


def nondegenerate(region: Region) -> bool:
    """Whether the one output is a polynomial on the whole space, with a regular Hessian wherever its slopes vanish.

    The slopes and the determinant then have no zero in common, not even a complex one: their Groebner basis is 1.

    Examples
    --------
    >>> x, y = sp.symbols("x y")
    >>> [nondegenerate(Region((f,))) for f in (x * y, x**3 + y**2, x + y**2, sp.tanh(x) * y)]
    [True, False, True, False]
    """
    if len(region.outputs) != 1 or region.bounds or region.conditions:
        return False
    expr = region.outputs[0]
    symbols = _symbols(expr)
    if not _low(expr, symbols):
        return False
    slopes = [sp.diff(expr, s) for s in symbols]
    determinant = sp.hessian(expr, symbols).det(method="berkowitz")
    basis = sp.groebner([*slopes, sp.expand(determinant)], *symbols, order="grevlex")
    return bool(basis.exprs == [1])


def _symbols(expr: sp.Expr) -> list[sp.Symbol]:
    return sorted(expr.free_symbols, key=lambda s: s.name)


def _low(expr: sp.Expr, symbols: list[sp.Symbol]) -> bool:
    """Whether it is a polynomial of low degree in few entries."""
    few = 1 <= len(symbols) <= _ENTRIES and expr.is_polynomial(*symbols)
    return bool(few and sp.total_degree(expr, *symbols) <= _DEGREE)
