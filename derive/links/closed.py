"""Thresholds of a whole link in closed form, of the first step and of the later ones, and its entry in the table."""

import itertools
from collections.abc import Sequence
from functools import cache

import sympy as sp

from ..closed_forms import TABLE
from .exact import discrete_operator, linear_information, operator_threshold, pair_operator
from .form import Matrix, Part, entries_of
from .parser import index_symbol, parse
from .separate import separated

__all__ = ["steps", "table_entry", "threshold"]

# Steps of the grand staircase in closed form: for links no larger than this.
_MOST_INDICES_STEPS, _MOST_REGIONS_STEPS = 4, 64
_MOST_INDICES_TABLE = 4


def threshold(
    parts: Sequence[Part],
    outputs: Sequence[sp.Expr],
    coordinates: Sequence[sp.Symbol],
    indices: int,
    noise: sp.Rational,
) -> tuple[sp.Expr | None, str, Matrix]:
    """Return the threshold of a link, why it holds, and its eigenvector; None if no closed form is known."""
    discrete = [discrete_operator(part.regions, coordinates, indices) for part in parts]
    fixed = [_closed(part, coordinates, indices) for part in parts]
    known = operator_threshold([b if a is None else a for a, b in zip(discrete, fixed, strict=True)])
    # Gaussians around different values are linearly independent: noise keeps what vanishes and what does not.
    if known is not None and (noise == 0 or known[0] in (sp.S.Zero, sp.oo)):
        found, direction = known
        boxes = "Gaussian integrals over boxes"
        reasons = [boxes if any(one is not None for one in discrete) else "", *(part.why for part in parts)]
        kind = {sp.S.Zero: boxes, sp.oo: "E[h h^T | y] = I for every y"}
        return found, kind.get(found, ", ".join(dict.fromkeys(filter(None, reasons)))), direction
    if reason := linear_information(outputs, coordinates):
        return sp.S.Zero, reason, ()
    return None, "", ()


def _closed(
    part: Part, coordinates: Sequence[sp.Symbol], indices: int, learned: Sequence[int] = ()
) -> sp.Matrix | None:
    entries = [coordinates.index(h) for h in part.entries]
    if part.pair is None or any(k % indices in learned for k in entries):
        return None
    return pair_operator(part.pair, entries, indices, len(coordinates) // indices, learned)


def steps(
    parts: Sequence[Part], coordinates: Sequence[sp.Symbol], indices: int
) -> dict[tuple[int, ...], tuple[sp.Expr, Matrix]]:
    """Return thresholds and eigenvectors of the other indices once some are known, where they have a closed form."""
    if indices > _MOST_INDICES_STEPS or sum(len(part.regions) for part in parts) > _MOST_REGIONS_STEPS:
        return {}
    found = {}
    for count in range(1, indices):
        for learned in itertools.combinations(range(indices), count):
            operators: list[sp.Matrix | sp.Expr | None] = []
            for part in parts:
                # What is known says nothing more.
                if all(coordinates.index(h) % indices in learned for h in part.entries):
                    continue
                one = discrete_operator(part.regions, coordinates, indices, learned)
                operators.append(_closed(part, coordinates, indices, learned) if one is None else one)
            exact = operator_threshold(operators) if operators else (sp.oo, ())
            if exact is not None:
                found[tuple(i + 1 for i in learned)] = exact[0], _embedded(exact[1], indices, learned)
    return found


def _embedded(matrix: Matrix, indices: int, learned: Sequence[int]) -> Matrix:
    """Put a matrix over the other indices into one over all."""
    if not matrix:
        return ()
    rest = [i for i in range(indices) if i not in learned]
    at = {(i, j): matrix[a][b] for a, i in enumerate(rest) for b, j in enumerate(rest)}
    return tuple(tuple(at.get((i, j), 0.0) for j in range(indices)) for i in range(indices))


@cache
def _table() -> dict[tuple[sp.Expr, ...], str]:
    """Links of the table of closed forms, as `separated` writes them."""
    texts = [text for entry in TABLE.values() for text in entry.expressions]
    return {tuple(part for output in parse(text) for part in separated(output)): text for text in texts}


def table_entry(outputs: tuple[sp.Expr, ...], coordinates: Sequence[sp.Symbol], indices: int) -> str:
    """Return the same link as the table writes it, its indices in some order; empty if it is not there."""
    used = [coordinates[k] for k, h in enumerate(coordinates) if h in entries_of(outputs)]
    if len(coordinates) > indices or len(used) > _MOST_INDICES_TABLE:
        return ""
    for order in itertools.permutations(range(1, len(used) + 1)):
        renamed = dict(zip(used, (index_symbol(p, 1) for p in order), strict=True))
        same = tuple(output.xreplace(renamed) for output in outputs)
        if same in _table():
            return _table()[same]
    return ""
