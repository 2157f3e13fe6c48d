"""What a chart consists of (`derive.charts`), and the fibre of one readout as a part of it."""

from dataclasses import dataclass, replace

import sympy as sp

from .fibres import Fibre, Range
from .straightline import Assignment, Described

__all__ = ["Chart", "is_shift", "named_fibre"]


@dataclass(frozen=True)
class Chart:
    """Coordinates on the indices that share an output, both ways, as straight-line programs.

    Attributes
    ----------
    model : Architecture, or a list of blocks
    data : tuple of sympy.Symbol
        What y fixes.
    output : sympy.Matrix
        The symbols of y, in the shape of the link.
    given : tuple of sympy.Expr
        The data as functions of y.
    hidden : tuple of sympy.Symbol
        The coordinates that are entries of h themselves, in the order of the rows of h.
    variables : tuple of sympy.Symbol
        The coordinates of the readout's fibre.
    ranges : tuple of (sympy.Expr, sympy.Expr)
        Ranges of `variables`; (0, 2 pi) is a full circle.
    signs : tuple of sympy.Symbol
        Each summed over +1 and -1.
    h : sympy.Matrix
        All indices, P x M, in the names of `body`, the coordinates and the data.
    log_weight : sympy.Expr
    conditions : tuple of sympy.Expr
        The weight counts only where all of them are > 0.
    body : tuple of (sympy.Symbol, sympy.Expr)
    shown : tuple of sympy.Expr
        The data as functions of the entries of h, in the names of `reading`.
    coordinates : tuple of sympy.Expr
        `variables` and then `signs`, likewise.
    reading : tuple of (sympy.Symbol, sympy.Expr)
    entries : sympy.Matrix
        The symbols of h, P x M, that `shown` and `coordinates` are functions of.
    free : tuple of int
        Rows of h, counted from 0, whose mean over the tokens y does not depend on.
    deviation : sympy.Symbol, optional
        Of the noise, whose rows then follow those of the indices (`derive.noisy_chart`).
    of_scores : bool
        Whether `output` holds the scores of the last layer, of which an activation of one's own is a monotone function.
    least : float
        It is a chart where all constants of the model exceed this.
    equations : tuple of int
        Numbers of those in troiani2025 that it solves.
    """

    model: Described
    data: tuple[sp.Symbol, ...]
    output: sp.Matrix
    given: tuple[sp.Expr, ...]
    hidden: tuple[sp.Symbol, ...]
    variables: tuple[sp.Symbol, ...]
    ranges: tuple[Range, ...]
    signs: tuple[sp.Symbol, ...]
    h: sp.Matrix
    log_weight: sp.Expr
    conditions: tuple[sp.Expr, ...]
    body: tuple[Assignment, ...]
    shown: tuple[sp.Expr, ...]
    coordinates: tuple[sp.Expr, ...]
    reading: tuple[Assignment, ...]
    entries: sp.Matrix
    free: tuple[int, ...]
    deviation: sp.Symbol | None = None
    of_scores: bool = False
    least: float = 0.5
    equations: tuple[int, ...] = (6, 163, 164, 165)


def is_shift(symbol: sp.Symbol) -> bool:
    """Return whether a variable of a fibre is the common shift of the queries."""
    return str(symbol.name).startswith("u_")


def named_fibre(found: Fibre, name: str = "") -> Fibre:
    """Return a fibre without the shift of its queries, its symbols named after a head or a layer."""
    place: dict[sp.Expr, sp.Expr] = {s: sp.S.Zero for s in found.variables if is_shift(s)}
    if name:
        named = [
            *found.output,
            *(s for s, _ in found.data),
            *(s for s in found.variables if s not in place),
            *found.signs,
        ]
        place |= {s: sp.Symbol(f"{s.name}_{name}", **s.assumptions0) for s in named}
    kept = [(s, pair) for s, pair in zip(found.variables, found.ranges, strict=True) if not is_shift(s)]
    return replace(
        found,
        output=found.output.xreplace(place),
        coordinates=tuple(value.xreplace(place) for value in found.coordinates),
        data=tuple((s.xreplace(place), value.xreplace(place)) for s, value in found.data),
        variables=tuple(s.xreplace(place) for s, _ in kept),
        ranges=tuple(pair for _, pair in kept),
        signs=tuple(s.xreplace(place) for s in found.signs),
        readout=found.readout.xreplace(place),
        log_density=found.log_density.xreplace(place),
    )
