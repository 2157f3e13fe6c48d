"""What the masked attention of one index shows of it: v up to signs, or up to coordinates that the mask leaves open.

Row i of a softmax shows d_ij = v_i (v_j - v_i) for the tokens j that it sees, itself among them. From v_i these follow
as v_j = v_i + d_ij/v_i. Where a row i sees two tokens j and k, and row j sees k, |v_i| itself follows:

    d_jk = v_j (v_k - v_j) = (1 + d_ij/v_i^2) (d_ik - d_ij).

A token that nobody known sees follows from two tokens that it sees, v_m (v_k - v_l) = d_mk - d_ml, or from one by a
quadratic equation. Linear attention shows v_i v_j, with v_i^2 among them.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import sympy as sp

from ..architecture import Architecture
from ..attention import Mask
from ..fibres import Range

__all__ = ["MaskedFibre", "masked_fibre"]

_LINE: Range = (-sp.oo, sp.oo)


class MaskedFibre(NamedTuple):
    """All v of one index that give one output of a masked attention.

    Attributes
    ----------
    output : sympy.Matrix
        Symbols of y, M x M; those of tokens that a row does not see stand for zeros.
    data : tuple of (sympy.Symbol, sympy.Expr)
        What y fixes, each as a function of y.
    variables, signs : tuple of sympy.Symbol
        What it leaves open, over the real line and in +1, -1.
    readout : sympy.Matrix
        v, 1 x M, of all these.
    log_density : sympy.Expr
        log |dv / d(data, variables)|.
    conditions : tuple of sympy.Expr
        All of them are > 0.
    """

    output: sp.Matrix
    data: tuple[tuple[sp.Symbol, sp.Expr], ...]
    variables: tuple[sp.Symbol, ...]
    signs: tuple[sp.Symbol, ...]
    readout: sp.Matrix
    log_density: sp.Expr
    conditions: tuple[sp.Expr, ...]

    def shown(self, v: sp.Matrix) -> list[sp.Expr]:
        """Return the data, variables and signs of a readout."""
        return [_read(s, v) for s in (*(s for s, _ in self.data), *self.variables, *self.signs)]


def _read(symbol: sp.Symbol, v: sp.Matrix) -> sp.Expr:
    """Return the value that a symbol stands for, which its name says."""
    kind, i, j = symbol.name.split("_")
    a, b = v[int(i) - 1], v[int(j) - 1]
    if kind == "a":  # v_i, with the sign of v_j taken off
        return a * b / sp.sqrt(b**2) if i != j else sp.sqrt(a**2)
    if kind == "d":
        return a * (b - a)
    if kind == "x":
        return a
    # Which of two roots, or the sign of the component.
    return b / sp.sqrt(b**2) if kind == "s" else (2 * a - b) / sp.sqrt((2 * a - b) ** 2)


@dataclass
class _Search:
    """Tokens as they become known."""

    model: Architecture
    mask: Mask
    output: sp.Matrix
    known: dict[int, sp.Expr] = field(default_factory=dict)
    data: list[tuple[sp.Symbol, sp.Expr]] = field(default_factory=list)
    variables: list[sp.Symbol] = field(default_factory=list)
    signs: list[sp.Symbol] = field(default_factory=list)
    weight: sp.Expr = sp.S.Zero
    conditions: list[sp.Expr] = field(default_factory=list)

    def sees(self, i: int) -> list[int]:
        """Tokens that a row sees beside its own."""
        return [j for j in range(self.model.tokens) if j != i and self.mask[i][j]]

    def difference(self, i: int, j: int) -> sp.Expr:
        """v_i (v_j - v_i) as y shows it."""
        return sp.log(self.output[i, j] / self.output[i, i]) / self.model.beta

    def datum(self, i: int, j: int) -> sp.Symbol:
        """The same as a datum of its own."""
        symbol = sp.Symbol(f"d_{i + 1}_{j + 1}", real=True)
        self.data.append((symbol, self.difference(i, j)))
        return symbol


def masked_fibre(model: Architecture, mask: Mask) -> MaskedFibre:
    """Derive what a masked attention shows of the tokens' index.

    Parameters
    ----------
    model : Architecture
        One tied layer of rank 1, softmax or linear.
    mask : sequence of sequences of bool
        Every token sees itself.

    Raises
    ------
    ValueError
        Several indices, keys and queries, a token that does not see itself, another activation; or a mask that shows
        more than its triangles of tokens.
    """
    if not model.tied or model.rank_vector != (1,) or model.activation not in ("softmax", "linear"):
        raise ValueError(
            "what a masked attention leaves open has coordinates for tied weights of rank 1, softmax or linear; give "
            "the output noise, with which every mask is served"
        )
    if not all(mask[i][i] for i in range(model.tokens)):
        raise ValueError(
            "what a masked attention leaves open has coordinates where every token sees itself; give the output noise, "
            "with which every mask is served"
        )
    output = sp.Matrix(model.tokens, model.tokens, lambda i, j: sp.Symbol(f"y{i + 1}{j + 1}", positive=True))
    search = _Search(model, mask, output)
    (_linear if model.activation == "linear" else _softmax)(search)
    if _rank(search) != len(search.data):
        raise ValueError(
            "the mask fixes the index by a circle of tokens that is no triangle; give the output noise, with which "
            "every mask is served"
        )
    readout = sp.Matrix([[search.known[m] for m in range(model.tokens)]])
    return MaskedFibre(
        output,
        tuple(search.data),
        tuple(search.variables),
        tuple(search.signs),
        readout,
        search.weight,
        tuple(search.conditions),
    )


def _rank(search: _Search) -> int:
    """How many independent numbers the output shows: the rank of its Jacobian at a point of general position."""
    v = sp.symbols(f"v1:{search.model.tokens + 1}", real=True)
    linear = search.model.activation == "linear"
    pairs = [(i, j) for i in range(len(v)) for j in ([i] if linear else []) + search.sees(i)]
    shown = sp.Matrix([v[i] * v[j] if linear else v[i] * (v[j] - v[i]) for i, j in pairs])
    if not len(shown):
        return 0
    place = {symbol: sp.Rational(7 * n * n + 3, 5 * n + 11) for n, symbol in enumerate(v)}
    return int(shown.jacobian(v).xreplace(place).rank())


def _linear(search: _Search) -> None:
    """Sizes are on the diagonal, and signs follow from token to token."""
    tokens, y, beta = search.model.tokens, search.output, search.model.beta
    for root in range(tokens):
        if root in search.known:
            continue
        sign = sp.Symbol(f"s_{root + 1}_{root + 1}", real=True)
        search.signs.append(sign)
        size = sp.sqrt(y[root, root] / beta)
        values, waiting = {root: size}, [root]
        while waiting:
            i = waiting.pop(0)
            for j in range(tokens):
                if j not in values and j != i and (search.mask[i][j] or search.mask[j][i]):
                    values[j] = (y[i, j] if search.mask[i][j] else y[j, i]) / (beta * values[i])
                    waiting.append(j)
        for j, value in values.items():
            symbol = sp.Symbol(f"a_{j + 1}_{root + 1}", positive=True if j == root else None, real=True)
            search.data.append((symbol, value))
            search.known[j] = sign * symbol


def _softmax(search: _Search) -> None:
    tokens = search.model.tokens
    while len(search.known) < tokens:
        triangle = _triangle(search)
        if triangle is not None:
            _determined(search, *triangle)
        else:
            _rooted(search)


def _triangle(search: _Search) -> tuple[int, int, int] | None:
    """Rows i and j, and a token k, i perhaps: i sees j and k, j sees k; of tokens of which none is known."""
    for i in reversed(range(search.model.tokens)):
        if i in search.known:
            continue
        for j in search.sees(i):
            for k in [i, *search.sees(i)]:
                if k != j and k in search.sees(j) and not {j, k} & search.known.keys():
                    return i, j, k
    return None


def _determined(search: _Search, i: int, j: int, k: int) -> None:
    """Tokens whose v follow up to one sign, from the triangle on."""
    first, second, third = search.difference(i, j), search.difference(i, k), search.difference(j, k)
    size = 1 / sp.sqrt((third / (second - first) - 1) / first)
    found = {i: size}
    grown = True
    while grown:
        grown = False
        for a in range(search.model.tokens):
            if a in search.known:
                continue
            if a in found:
                for b in search.sees(a):
                    if b not in found and b not in search.known:
                        found[b], grown = found[a] + search.difference(a, b) / found[a], True
            else:
                seen = [b for b in search.sees(a) if b in found]
                if len(seen) > 1:
                    b, c = seen[:2]
                    gap = search.difference(a, b) - search.difference(a, c)
                    found[a], grown = gap / (found[b] - found[c]), True
    sign = sp.Symbol(f"s_{i + 1}_{i + 1}", real=True)
    search.signs.append(sign)
    for b, value in found.items():
        symbol = sp.Symbol(f"a_{b + 1}_{i + 1}", positive=True if b == i else None, real=True)
        search.data.append((symbol, value))
        search.known[b] = sign * symbol
    _by_roots(search)


def _rooted(search: _Search) -> None:
    """Tokens from one whose v is a coordinate."""
    root = max(m for m in range(search.model.tokens) if m not in search.known)
    variable = sp.Symbol(f"x_{root + 1}_{root + 1}", real=True)
    search.variables.append(variable)
    search.known[root] = variable
    waiting = [root]
    while waiting:
        i = waiting.pop(0)
        for j in search.sees(i):
            if j in search.known:
                continue
            search.known[j] = search.known[i] + search.datum(i, j) / search.known[i]
            search.weight -= sp.log(sp.Abs(search.known[i]))
            waiting.append(j)
    _by_roots(search)


def _by_roots(search: _Search) -> None:
    """Tokens that see one that is known and that no known one sees: v_m^2 - v_m v_k + d_mk = 0."""
    grown = True
    while grown:
        grown = False
        for m in range(search.model.tokens):
            if m in search.known:
                continue
            seen = [k for k in search.sees(m) if k in search.known]
            if not seen:
                continue
            k = seen[0]
            sign = sp.Symbol(f"p_{m + 1}_{k + 1}", real=True)
            square = search.known[k] ** 2 - 4 * search.datum(m, k)
            search.known[m] = (search.known[k] + sign * sp.sqrt(square)) / 2
            search.signs.append(sign)
            search.conditions.append(square)
            search.weight -= sp.log(square) / 2
            grown = True
