"""The user's own link: what it is, what is provable about it, and the kernel that the numerics load.

The module can be called: ``attnlimits.derive.link(expr)`` is `link`.
"""

from __future__ import annotations

import hashlib
import random
import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import sympy as sp

from . import link_exact
from .emit.ir import canonical
from .link_branches import Region, invert, split
from .link_parser import ArgMax, LinkError, index_symbol, parse, read_index

__all__ = ["Branches", "Link", "LinkError", "link"]

_MOST_ENTRIES = 8
_ALLOWED = (
    *(sp.sign, sp.Abs, sp.exp, sp.log, sp.tanh, sp.sinh, sp.cosh, sp.sin, sp.cos, sp.erf, sp.Max, sp.Min, ArgMax),
    *(sp.Piecewise, sp.functions.elementary.piecewise.ExprCondPair, sp.Add, sp.Mul, sp.Pow, sp.Symbol, sp.Number),
    *(sp.NumberSymbol, sp.core.relational.Relational, sp.logic.boolalg.Boolean),
)
# Strictly monotone on all reals: y and its image say the same about h.
_INJECTIVE = (sp.exp, sp.tanh, sp.sinh, sp.erf, sp.atan, sp.asinh)
_TRIALS = 12


@dataclass(frozen=True)
class Branches:
    """Solutions of y = g(h) for one entry of h on one region.

    Attributes
    ----------
    unknown : sympy.Symbol
    solutions : tuple of sympy.Expr
        In ``y`` and the other entries; to be dropped where not real, outside the region, or no solution.
    slope : sympy.Expr
        dg/d unknown: the Jacobian of a branch is its absolute value.
    """

    unknown: sp.Symbol
    solutions: tuple[sp.Expr, ...]
    slope: sp.Expr


@dataclass(frozen=True)
class Link:
    """A link y = g(h) + sqrt(noise) z, with what was derived about it.

    Attributes
    ----------
    outputs : tuple of sympy.Expr
        g(h), in the symbols ``h_<p>_<m>``. Without noise an outer strictly monotone function is left out: it says
        the same about h.
    indices, tokens : int
        P and M.
    noise : sympy.Rational
        Variance of the Gaussian noise of each output, 0 for none.
    regions : tuple of Region
        Where the link is smooth, see `split`.
    kind : {"discrete", "real", "mixed"}
        Whether the outputs take finitely many values, vary everywhere, or both.
    values : tuple of tuple of sympy.Expr
        Values taken on whole regions.
    branches : tuple of tuple of Branches
        For each region, one for each entry of h that can be solved for; empty if none is needed.
    flips : tuple of tuple of int
        Sign changes of the entries of h that leave the link as it is.
    exact : sympy.Expr or None
        alpha_c where it was found in closed form: 0, oo, or a number.
    reason : str
        Why `exact` holds.
    """

    outputs: tuple[sp.Expr, ...]
    indices: int
    tokens: int
    noise: sp.Rational
    regions: tuple[Region, ...]
    kind: str
    values: tuple[tuple[sp.Expr, ...], ...]
    branches: tuple[tuple[Branches, ...], ...]
    flips: tuple[tuple[int, ...], ...]
    exact: sp.Expr | None
    reason: str

    @property
    def coordinates(self) -> tuple[sp.Symbol, ...]:
        """All entries of h, token by token."""
        return tuple(index_symbol(p + 1, m + 1) for m in range(self.tokens) for p in range(self.indices))

    @property
    def odd(self) -> bool:
        """Whether g(-h) = -g(h), provably."""
        negated = {h: -h for h in self.coordinates}
        return all(sp.expand(output.xreplace(negated) + output) == 0 for output in self.outputs)

    @property
    def even(self) -> bool:
        """Whether g(-h) = g(h), provably; then E[h | y] = 0."""
        return (-1,) * len(self.coordinates) in self.flips

    @property
    def zero_mean(self) -> tuple[int, ...]:
        """Numbers of the entries with E[h_i | y] = 0 by parity."""
        return tuple(i for i in range(len(self.coordinates)) if any(signs[i] < 0 for signs in self.flips))

    @property
    def zero_second(self) -> tuple[tuple[int, int], ...]:
        """Pairs i < j of entries with E[h_i h_j | y] = 0 by parity."""
        size = len(self.coordinates)
        pairs = ((i, j) for i in range(size) for j in range(i + 1, size))
        return tuple((i, j) for i, j in pairs if any(signs[i] != signs[j] for signs in self.flips))

    @cached_property
    def hash(self) -> str:
        """Return the sha256 of everything that the kernel depends on."""
        from .emit.link_source import FORMAT

        lines = [
            f"format {FORMAT} P={self.indices} M={self.tokens} noise={canonical(self.noise)}",
            *map(canonical, self.outputs),
        ]
        for region, solved in zip(self.regions, self.branches, strict=True):
            lines += [f"region {canonical(sp.Tuple(*region.outputs, *region.conditions))}"]
            lines += [f"{s.name} {lo} {hi}" for s, (lo, hi) in sorted(region.bounds.items(), key=lambda b: b[0].name)]
            lines += [f"{b.unknown.name} {canonical(sp.Tuple(*b.solutions, b.slope))}" for b in solved]
        lines += [str(self.exact), self.reason, str(self.flips)]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def source(self) -> str:
        """Return the source of the kernel module."""
        from .emit.link_source import render

        return render(self)

    def write(self, folder: Path) -> Path:
        """Write the kernel as ``<hash>.py`` into a folder, whole or not at all; return its path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.hash}.py"
        part = path.with_suffix(".part")
        part.write_text(self.source(), encoding="utf-8", newline="\n")
        part.replace(path)
        return path


def link(
    expr: str | sp.Expr | Sequence[Any], tokens: int | None = None, indices: int | None = None, noise: Any = 0
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

    Returns
    -------
    Link

    Raises
    ------
    LinkError
        Naming the part that cannot be read, is not real, or cannot be solved.

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
    coordinates = tuple(index_symbol(p + 1, m + 1) for m in range(tokens) for p in range(indices))
    _check_real(outputs, coordinates)
    if delta == 0:
        outputs = tuple(_without_outer(output) for output in outputs)
    # Constants say nothing, and neither does an output said twice, unless each has noise of its own.
    telling = tuple(o for o in outputs if o.free_symbols)
    outputs = (tuple(dict.fromkeys(telling)) if delta == 0 else telling) or outputs[:1]
    regions = split(outputs)
    constant = [region.constant for region in regions]
    kind = "discrete" if all(constant) else "mixed" if any(constant) else "real"
    even = link_exact.flips(outputs, coordinates)
    exact, reason = _exact(outputs, regions, coordinates, indices, delta, even)
    # Noise smears the branches out, and a closed form needs none.
    solvable = delta == 0 and kind != "discrete"
    branches = tuple(_branches(r, len(outputs), exact is not None) if solvable else () for r in regions)
    _check_branches(regions, branches)
    return Link(
        outputs=outputs,
        indices=indices,
        tokens=tokens,
        noise=delta,
        regions=regions,
        kind=kind,
        values=tuple(dict.fromkeys(r.outputs for r in regions if r.constant)),
        branches=branches,
        flips=even,
        exact=exact,
        reason=reason,
    )


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
        if isinstance(output, sp.Pow) and output.exp.is_Integer and output.exp % 2 and output.exp > 0:
            output = output.base
            continue
        _, rest = output.as_independent(*output.free_symbols, as_Add=isinstance(output, sp.Add))
        if rest in (output, 0, 1):
            return output
        output = rest


def _check_real(outputs: Sequence[sp.Expr], coordinates: Sequence[sp.Symbol]) -> None:
    rng = random.Random(0)
    for _ in range(_TRIALS):
        point = {h: sp.Rational(rng.randint(-3000, 3000), 1009) for h in coordinates}
        for output in outputs:
            regions = split([output.xreplace(point)])
            value = sp.N(regions[0].outputs[0], 30)
            if not (value.is_real and value.is_finite):
                at = ", ".join(f"{h} = {v}" for h, v in point.items() if h in output.free_symbols)
                raise LinkError(
                    f"link: {output} is not a finite real number at {at}; use Piecewise or abs to define it everywhere"
                )


def _exact(
    outputs: Sequence[sp.Expr],
    regions: Sequence[Region],
    coordinates: Sequence[sp.Symbol],
    indices: int,
    noise: sp.Rational,
    even: Sequence[tuple[int, ...]],
) -> tuple[sp.Expr | None, str]:
    found = link_exact.discrete_threshold(regions, coordinates, indices)
    # Gaussians around different values are linearly independent: noise keeps what vanishes and what does not.
    if found is not None and (noise == 0 or found[0] in (sp.S.Zero, sp.oo)):
        kind = {sp.S.Zero: "E[h | y] does not vanish", sp.oo: "E[h h^T | y] = I for every y"}
        return found[0], kind.get(found[0], "Gaussian integrals over boxes")
    if link_exact.polynomial_correlation(outputs, coordinates):
        return sp.S.Zero, "E[h | y] does not vanish"
    if noise == 0 and link_exact.second_moment_fixed(outputs, regions, coordinates):
        tokens = len(coordinates) // indices
        return link_exact.threshold_of_fixed_second_moment(indices, tokens), "y fixes h h^T"
    return None, ""


def _branches(region: Region, outputs: int, known: bool) -> tuple[Branches, ...]:
    """Solve on one region for every entry that can be solved for."""
    if region.constant:
        return ()
    if outputs > 1:
        if known:
            return ()
        raise LinkError(
            f"link: the outputs ({'; '.join(map(str, region.outputs))}) could not be solved for h: several real "
            "outputs are served where they fix h up to its sign; add output noise (--noise DELTA), which needs no "
            "branches"
        )
    value = sp.Symbol("y", real=True)
    expr = region.outputs[0]
    found, failures = [], []
    for unknown in sorted(expr.free_symbols, key=lambda s: s.name):
        try:
            found.append(Branches(unknown, invert(expr, unknown, value), sp.diff(expr, unknown)))
        except LinkError as error:
            failures.append(str(error))
    if not found and not known:
        where = ""
        if region.bounds or region.conditions:
            parts = [f"{lo} < {s} < {hi}" for s, (lo, hi) in region.bounds.items()]
            where = f" where {', '.join([*parts, *(f'{c} > 0' for c in region.conditions)])}"
        raise LinkError(
            f"link: the branches of y = {expr}{where} could not be solved: {'; '.join(failures)}. "
            "Rewrite that part, or add output noise (--noise DELTA), which needs no branches"
        )
    return tuple(found)


def _check_branches(regions: Sequence[Region], branches: Sequence[Sequence[Branches]]) -> None:
    """At random points one branch must give back the entry that made y: none may be missing."""
    rng = random.Random(1)
    value = sp.Symbol("y", real=True)
    for region, solved in zip(regions, branches, strict=True):
        for one in solved:
            for _ in range(_TRIALS):
                point = {s: sp.Rational(rng.randint(-3000, 3000), 1009) for s in region.outputs[0].free_symbols}
                y = sp.N(region.outputs[0].xreplace(point), 40)
                if not y.is_real:
                    continue  # outside the region
                others = {s: v for s, v in point.items() if s != one.unknown} | {value: y}
                errors = [abs(sp.N(_plain(s).xreplace(others), 40) - point[one.unknown]) for s in one.solutions]
                if not any(error.is_finite and error < sp.Float("1e-25") for error in errors):
                    if _inside(region, point):
                        raise LinkError(f"link: a branch of y = {region.outputs[0]} in {one.unknown} is missing")


def _plain(expr: sp.Expr) -> sp.Expr:
    from .primitives import elementary

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
