"""The user's own link: what it is, what is provable about it, and the kernel that the numerics load.

The module can be called: ``attnlimits.derive.links.link(expr)`` is `link`.
"""

from __future__ import annotations

import itertools
import random
import sys
import types
from collections.abc import Sequence
from functools import cache
from typing import Any

import sympy as sp

from . import exact as link_exact
from .branches import Region, invert, split
from .form import Branches, Link, Matrix, Part, coordinates_of, entries_of
from .parser import ArgMax, LinkError, index_symbol, parse, read_index

__all__ = ["Branches", "Link", "LinkError", "Part", "link", "rotated"]

_MOST_ENTRIES = 8
# Steps of the grand staircase in closed form: for links no larger than this.
_MOST_INDICES_STEPS, _MOST_REGIONS_STEPS = 4, 64
_MOST_INDICES_TABLE = 4
_ALLOWED = (
    *(sp.sign, sp.Abs, sp.exp, sp.log, sp.tanh, sp.sinh, sp.cosh, sp.sin, sp.cos, sp.erf, sp.Max, sp.Min, ArgMax),
    *(sp.Piecewise, sp.functions.elementary.piecewise.ExprCondPair, sp.Add, sp.Mul, sp.Pow, sp.Symbol, sp.Number),
    *(sp.NumberSymbol, sp.core.relational.Relational, sp.logic.boolalg.Boolean),
)
# Strictly monotone where they are defined: y and its image say the same about h. All but the logarithm are real and
# finite where their argument is.
_ENTIRE = (sp.exp, sp.tanh, sp.sinh, sp.erf, sp.atan, sp.asinh)
_INJECTIVE = (*_ENTIRE, sp.log)
_TRIALS = 12
_DIGITS = 600


def link(
    expr: str | sp.Expr | Sequence[Any],
    tokens: int | None = None,
    indices: int | None = None,
    noise: Any = 0,
    *,
    reduced: bool = True,
) -> Link:
    """Derive what the numerics need of a link of one's own.

    Parameters
    ----------
    expr : str, sympy.Expr or a sequence of outputs
        The link in h[p, m], index p and token m counted from 1: a text (see `link_parser.parse`), or SymPy
        expressions in ``IndexedBase("h")`` or in symbols named ``h_<p>`` or ``h_<p>_<m>``.
    tokens, indices : int, optional
        M and P; by default the largest that occur. M = 1 is a multi-index model. P M <= 8.
    noise : number, optional
        Variance Delta >= 0 of Gaussian noise on every output.
    reduced : bool, optional
        Without noise, leave out outer strictly monotone functions and repeated outputs, which tell nothing more about
        h. False keeps every output as it is with noise.

    Returns
    -------
    Link

    Raises
    ------
    LinkError
        Naming the part that cannot be read, is not real, or cannot be solved.

    Notes
    -----
    What the numerics make of a link without noise: a closed form where one is derived here (finitely many values on
    boxes along orthogonal directions; h h^T, the square along one direction or |h| fixed by y; two polynomials of two
    entries that fix h up to orthogonal maps; a vanishing threshold by a moment, by monotonicity, or by interval
    bounds of E[h_i f(y)] over at most 3 entries); otherwise a quadrature, for each group of outputs that share
    entries of h, where at
    most one output varies at a time, at most 3 entries are coupled (beside known entries 1), and one of them has a
    closed inverse or is the only one. With noise the quadrature takes at most 2 outputs and 3 entries in a group, and
    a deviation that it can resolve. All else is sampled, to 2 or 3 digits, if a group has at most 3 outputs and known
    entries.

    Limits: P M <= 8; at most 512 regions; noise is Gaussian, of the same variance on all outputs, and independent;
    an operator that vanishes to rounding gives a lower bound unless a closed form proves that it vanishes; sines
    are inverted for |h| <= 10; a power of a sum with more than 2000 terms is not multiplied out, so
    that symmetries that show only then are not used; a sampled E[h | y] that is zero to its error counts as zero.

    References
    ----------
    troiani2025, (1), (9).

    Examples
    --------
    >>> link("sign(h[1]*h[2])").exact
    pi**2/4
    """
    outputs = _read(expr)
    indices, tokens = _shape(outputs, indices, tokens)
    delta = _noise(noise)
    coordinates = coordinates_of(indices, tokens)
    _check_real(outputs, coordinates)
    reduced = reduced and delta == 0
    if reduced:
        outputs = tuple(_without_outer(output) for output in outputs)
    # Constants say nothing, and neither does an output said twice, unless each has noise of its own.
    telling = tuple(o for o in outputs if _varies(o))
    if not telling:
        raise LinkError(
            f"link: {'; '.join(map(str, outputs))} takes the same value for every h: there is nothing to learn from it"
        )
    outputs = tuple(dict.fromkeys(telling)) if reduced else telling
    parts = tuple(_part(numbers, outputs, delta) for numbers in _components(outputs))
    constant = [not o.free_symbols for part in parts for region in part.regions for o in region.outputs]
    exact, reason, direction = _exact(parts, outputs, coordinates, indices, delta)
    steps = _steps(parts, coordinates, indices) if delta == 0 else {}
    return Link(
        outputs=outputs,
        indices=indices,
        tokens=tokens,
        noise=delta,
        parts=parts,
        kind="discrete" if all(constant) else "mixed" if any(constant) else "real",
        flips=link_exact.flips(outputs, coordinates),
        exact=exact,
        reason=reason,
        steps={learned: alpha for learned, (alpha, _) in steps.items()},
        directions={(): direction} | {learned: matrix for learned, (_, matrix) in steps.items()},
        table=_table_entry(outputs, coordinates, indices) if delta == 0 else "",
    )


def rotated(made: Link, vectors: Sequence[Sequence[int]]) -> Link:
    """Derive a link in other orthonormal axes: its new index k is along the k-th vector.

    Parameters
    ----------
    made : Link
    vectors : sequence of P sequences of P integers
        Orthogonal; their lengths do not matter.

    Raises
    ------
    LinkError
        The vectors are not orthogonal; and as `link`.

    Examples
    --------
    >>> rotated(link("sign(h[1]**2 - h[2]**2)"), [(1, 1), (1, -1)]).exact
    pi**2/4
    """
    axes = sp.Matrix(vectors)
    squares = axes * axes.T
    if axes.shape != (made.indices,) * 2 or not squares.is_diagonal() or any(d == 0 for d in squares.diagonal()):
        raise LinkError(f"vectors must be {made.indices} orthogonal ones of that length, got {vectors}")
    unit = sp.diag(*[1 / sp.sqrt(d) for d in squares.diagonal()]) * axes
    images = {
        index_symbol(p + 1, m + 1): sum(unit[k, p] * index_symbol(k + 1, m + 1) for k in range(made.indices))
        for p in range(made.indices)
        for m in range(made.tokens)
    }
    # The largest does not change with what is added to all.
    outputs = [
        output.xreplace(images).replace(ArgMax, lambda *args: ArgMax(*(sp.expand(arg - args[0]) for arg in args)))
        for output in made.outputs
    ]
    return link(outputs, made.tokens, made.indices, made.noise)


def _varies(output: sp.Expr) -> bool:
    """Whether an output depends on h at all: it has several values, or a slope at a random point."""
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


def _components(outputs: Sequence[sp.Expr]) -> list[tuple[int, ...]]:
    """Numbers of the outputs, grouped so that no two groups share an entry of h."""
    groups: list[tuple[set[int], set[sp.Symbol]]] = []
    for number, output in enumerate(outputs):
        numbers, symbols = {number}, set(output.free_symbols)
        for group in [g for g in groups if g[1] & symbols]:
            groups.remove(group)
            numbers, symbols = numbers | group[0], symbols | group[1]
        groups.append((numbers, symbols))
    return sorted(tuple(sorted(numbers)) for numbers, _ in groups)


def _part(numbers: tuple[int, ...], outputs: Sequence[sp.Expr], noise: sp.Rational) -> Part:
    own = tuple(outputs[number] for number in numbers)
    regions = split(own)
    fixed = noise == 0 and link_exact.second_moment_fixed(own, regions, entries_of(own))
    direction: tuple[sp.Expr, ...] = ()
    if noise == 0 and not fixed and (single := link_exact.single_direction(own, entries_of(own))) is not None:
        axis, along, u = single
        if link_exact.second_moment_fixed(along, split(along), (u,)):
            fixed, direction = True, axis
    branches = tuple(_branches(region) if noise == 0 else () for region in regions)
    _check_branches(regions, branches)
    pair, why = _pair(own, regions, fixed, direction) if noise == 0 else (None, "")
    return Part(numbers, own, regions, branches, fixed, direction, pair, why)


def _pair(
    own: tuple[sp.Expr, ...], regions: Sequence[Region], fixed: bool, direction: tuple[sp.Expr, ...]
) -> tuple[link_exact.Pair | None, str]:
    """E[G_ab G_cd] of a part in closed form, and what y says there."""
    entries = entries_of(own)
    if direction:
        return link_exact.direction_pair(direction), "y fixes |u| of one direction u"
    if fixed:
        return link_exact.fixed_pair, "y fixes h h^T"
    if link_exact.radial(own, entries):
        return link_exact.radial_pair(len(entries)), "y fixes |h| alone"
    maps = link_exact.symmetry_maps(own, regions, entries)
    # The mean of T h over the group is E[h | y]: without the reflection it need not vanish.
    if maps and sum(maps, sp.zeros(*maps[0].shape)).is_zero_matrix:
        return link_exact.group_pair(maps), f"y fixes h up to {len(maps)} orthogonal maps"
    return None, ""


def _read(expr: Any) -> tuple[sp.Expr, ...]:
    if isinstance(expr, str):
        return parse(expr)
    values = tuple(expr) if isinstance(expr, (list, tuple, sp.Tuple, sp.MatrixBase)) else (expr,)
    if not values:
        raise LinkError("link: no output was given")
    return tuple(_canonical_symbols(parse(v)[0] if isinstance(v, str) else sp.sympify(v)) for v in values)


def _canonical_symbols(expr: Any) -> sp.Expr:
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
    made = expr.xreplace(names)
    for part in sp.preorder_traversal(made):
        if not isinstance(part, _ALLOWED):
            raise LinkError(f"link: {type(part).__name__} in {expr} is not supported; see link_parser.parse")
    return made


def _shape(outputs: Sequence[sp.Expr], indices: int | None, tokens: int | None) -> tuple[int, int]:
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


def _noise(noise: Any) -> sp.Rational:
    try:
        delta = sp.Rational(str(noise)) if isinstance(noise, (str, float)) else sp.sympify(noise)
    except (TypeError, ValueError, sp.SympifyError):
        delta = None
    if delta is None or not delta.is_Rational or delta < 0:
        raise LinkError(f"noise must be a finite number >= 0 (the variance of the output noise), got {noise!r}")
    return delta


def _without_outer(output: sp.Expr) -> sp.Expr:
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


def _check_real(outputs: Sequence[sp.Expr], coordinates: Sequence[sp.Symbol]) -> None:
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


def _exact(
    parts: Sequence[Part],
    outputs: Sequence[sp.Expr],
    coordinates: Sequence[sp.Symbol],
    indices: int,
    noise: sp.Rational,
) -> tuple[sp.Expr | None, str, Matrix]:
    """Threshold, why it holds, and its eigenvector."""
    discrete = [link_exact.discrete_operator(part.regions, coordinates, indices) for part in parts]
    fixed = [_closed(part, coordinates, indices) for part in parts]
    known = link_exact.operator_threshold([b if a is None else a for a, b in zip(discrete, fixed, strict=True)])
    # Gaussians around different values are linearly independent: noise keeps what vanishes and what does not.
    if known is not None and (noise == 0 or known[0] in (sp.S.Zero, sp.oo)):
        found, direction = known
        boxes = "Gaussian integrals over boxes"
        reasons = [boxes if any(one is not None for one in discrete) else "", *(part.why for part in parts)]
        kind = {sp.S.Zero: boxes, sp.oo: "E[h h^T | y] = I for every y"}
        return found, kind.get(found, ", ".join(dict.fromkeys(filter(None, reasons)))), direction
    if reason := link_exact.linear_information(outputs, coordinates):
        return sp.S.Zero, reason, ()
    return None, "", ()


def _closed(
    part: Part, coordinates: Sequence[sp.Symbol], indices: int, learned: Sequence[int] = ()
) -> sp.Matrix | None:
    entries = [coordinates.index(h) for h in part.entries]
    if part.pair is None or any(k % indices in learned for k in entries):
        return None
    return link_exact.pair_operator(part.pair, entries, indices, len(coordinates) // indices, learned)


def _steps(
    parts: Sequence[Part], coordinates: Sequence[sp.Symbol], indices: int
) -> dict[tuple[int, ...], tuple[sp.Expr, Matrix]]:
    """Thresholds and eigenvectors of the other indices once some are known, where they have a closed form."""
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
                one = link_exact.discrete_operator(part.regions, coordinates, indices, learned)
                operators.append(_closed(part, coordinates, indices, learned) if one is None else one)
            exact = link_exact.operator_threshold(operators) if operators else (sp.oo, ())
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
    """Links of the table of closed forms, without outer functions."""
    from ..closed_forms import TABLE

    texts = [text for entry in TABLE.values() for text in entry.expressions]
    return {tuple(_without_outer(output) for output in parse(text)): text for text in texts}


def _table_entry(outputs: tuple[sp.Expr, ...], coordinates: Sequence[sp.Symbol], indices: int) -> str:
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


def _branches(region: Region) -> tuple[Branches, ...]:
    """Solve on one region every output for each of its entries; no solutions where there is no closed form."""
    value = sp.Symbol("y", real=True)
    found = []
    for number, expr in enumerate(region.outputs):
        for unknown in sorted(expr.free_symbols, key=lambda s: s.name):
            try:
                solutions = invert(expr, unknown, value)
            except LinkError:
                solutions = ()
            found.append(Branches(number, unknown, solutions, sp.diff(expr, unknown)))
    return tuple(found)


def _check_branches(regions: Sequence[Region], branches: Sequence[Sequence[Branches]]) -> None:
    """At random points one branch must give back the entry that made y: none may be missing."""
    rng = random.Random(1)
    value = sp.Symbol("y", real=True)
    for region, solved in zip(regions, branches, strict=True):
        for one in (b for b in solved if b.solutions):
            expr = region.outputs[one.output]
            for _ in range(_TRIALS):
                point = {s: sp.Rational(rng.randint(-3000, 3000), 1009) for s in expr.free_symbols | {one.unknown}}
                # A small term beside a huge one takes many digits to survive.
                y = sp.N(expr.xreplace(point), _DIGITS)
                if not y.is_real or not _inside(region, point):
                    continue
                others = {s: v for s, v in point.items() if s != one.unknown} | {value: y}
                errors = [abs(sp.N(_plain(s).xreplace(others), 40) - point[one.unknown]) for s in one.solutions]
                if not any(error.is_finite and error < sp.Float("1e-25") for error in errors):
                    raise LinkError(
                        f"link: the branches of y = {expr} in {one.unknown} miss {one.unknown} = "
                        f"{point[one.unknown]}; write that part otherwise, or add output noise (--noise DELTA)"
                    )


def _plain(expr: sp.Expr) -> sp.Expr:
    from ..primitives import elementary

    return elementary(expr)


def _inside(region: Region, point: dict[sp.Symbol, sp.Rational]) -> bool:
    return all((s not in point) or (lo < point[s] < hi) for s, (lo, hi) in region.bounds.items()) and all(
        sp.N(c.xreplace(point)) > 0 for c in region.conditions if c.free_symbols <= set(point)
    )


class _Callable(types.ModuleType):
    """Makes the module stand for its main function."""

    def __call__(self, *args: Any, **kwargs: Any) -> Link:
        """See `link`."""
        return link(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
