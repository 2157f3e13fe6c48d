"""What the theory says about one architecture, as plain text, LaTeX or a record: `attnlimits explain`.

The mixing recursion and the link are written as layered definitions between named matrices, so that a page stays
short at any depth.  They are SymPy matrix expressions, printed by SymPy; the readout, the triangular form and the
thresholds are the derived expressions themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy as sp
from sympy.printing.latex import LatexPrinter
from sympy.printing.str import StrPrinter

from .. import symbols
from ..architecture import Architecture, IndexBlock
from ..fibres import fibre, fibre_dimension
from ..inversion import invert, readout_jacobian, softmax_readout
from ..linearization import single_layer_threshold
from ..mixing import activate_score, pair_layer
from ..sequence_inversion import missing_dimensions

__all__ = [
    "Activated",
    "Definition",
    "Symmetry",
    "committee_form",
    "definitions",
    "explain",
    "explain_record",
    "symmetries",
]

FORMATS = ("text", "latex", "json")

# A readout with more operations than this is described and not printed: it would fill pages.
_LARGEST_FORMULA = 160


class Activated(sp.MatrixExpr):
    """The activation sigma of a matrix of scores, kept as a name.

    Parameters
    ----------
    scores : sympy.MatrixExpr
        beta times the scores.
    """

    def __new__(cls, scores: sp.MatrixExpr) -> Activated:
        """Keep the scores unevaluated."""
        return sp.Basic.__new__(cls, scores)

    @property
    def scores(self) -> sp.MatrixExpr:
        """What sigma acts on."""
        return self.args[0]

    @property
    def shape(self) -> tuple[sp.Expr, sp.Expr]:
        """Shape of the scores."""
        return self.scores.shape

    def _sympystr(self, printer: StrPrinter) -> str:
        return f"sigma({printer._print(self.scores)})"

    def _latex(self, printer: LatexPrinter) -> str:
        return rf"\sigma\left({printer._print(self.scores)}\right)"


@dataclass(frozen=True)
class Definition:
    """One line of the layered form: ``name = value``.

    Attributes
    ----------
    name : sympy.MatrixSymbol
        Matrix that the line defines.
    value : sympy.MatrixExpr
        In matrices of earlier lines, indices and constants.
    """

    name: sp.MatrixSymbol
    value: sp.MatrixExpr

    @property
    def text(self) -> str:
        """The line as plain text."""
        return f"{self.name} = {_text(self.value)}"

    @property
    def latex(self) -> str:
        """The line as LaTeX, without delimiters."""
        return f"{_tex(self.name)} = {_tex(self.value)}"


def _text(value: Any) -> str:
    value = value.tolist() if isinstance(value, sp.MatrixBase) else value
    return str(sp.sstr(value)).replace("**", "^")


def _tex(value: Any) -> str:
    return str(sp.latex(value, symbol_names=symbols.LATEX))


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}" if number < 2 else f"{number} {noun}s"


def _place(model: Architecture, layer: object, *heads: object) -> str:
    """Return the subscript of a symbol; numbers of two digits need a mark between them."""
    return f"{layer}," + ("." if model.heads > 9 else "").join(map(str, heads)) if heads else f"{layer}"


def _block_symbol(model: Architecture, block: IndexBlock) -> sp.MatrixSymbol:
    heads = () if model.heads == 1 else (block.head, block.block)
    return sp.MatrixSymbol(f"{block.role}_{_place(model, block.layer, *heads)}", block.rank, model.tokens)


def _readout_weight(model: Architecture, layer: int, a: int, b: int) -> sp.Symbol:
    return sp.Symbol(f"o_{_place(model, layer, a, b)}", real=True)


def _named(model: Architecture, letter: str, layer: int, *heads: int) -> sp.MatrixSymbol:
    return sp.MatrixSymbol(f"{letter}_{_place(model, layer, *heads)}", model.tokens, model.tokens)


def _before(model: Architecture, layer: int, a: int, b: int) -> sp.MatrixExpr:
    """Return block (a, b) of B_{l-1}, which is the identity before the first layer."""
    if layer == 1:
        return sp.Identity(model.tokens) if a == b else sp.ZeroMatrix(model.tokens, model.tokens)
    return _named(model, "B", layer - 1) if model.heads == 1 else _named(model, "B", layer - 1, a, b)


def _sum(terms: Iterable[sp.MatrixExpr]) -> sp.MatrixExpr:
    return sp.MatAdd(*terms).doit()


def _seen(model: Architecture, layer: int, head: int, role: str) -> list[sp.MatrixExpr]:
    """Terms of the indices of one head seen through the earlier layers: ``k^(a,b) B^{(ab)T}`` for every block b."""
    terms = [
        sp.MatMul(_block_symbol(model, block), sp.Transpose(_before(model, layer, head, block.block))).doit()
        for block in model.index_blocks
        if (block.layer, block.head, block.role) == (layer, head, role)
    ]
    return [term for term in terms if not term.is_ZeroMatrix]


def _attention(model: Architecture, layer: int, head: int) -> list[Definition]:
    """Definitions of the attention matrix of one head, with its keys and queries where these are sums of blocks."""
    name = _named(model, "S", layer) if model.heads == 1 else _named(model, "S", layer, head)
    lines: list[Definition] = []
    factors = []
    for role, letter in (("h", "V"),) if model.tied else (("k", "K"), ("q", "Q")):
        terms = _seen(model, layer, head, role)
        if len(terms) > 1:
            total = sp.MatrixSymbol(f"{letter}_{layer},{head}", terms[0].shape[0], model.tokens)
            lines.append(Definition(total, _sum(terms)))
            factors.append(total)
        else:
            factors.append(terms[0])
    keys, queries = factors[0], factors[-1]
    scores = sp.MatMul(model.beta, sp.Transpose(keys), queries).doit()
    return [*lines, Definition(name, Activated(scores))]


def _mixing(model: Architecture, layer: int) -> list[Definition]:
    """Definitions of the blocks of B_l."""
    if model.heads == 1:
        attention = sp.MatAdd(sp.MatMul(model.skip, sp.Identity(model.tokens)), _named(model, "S", layer))
        value = sp.MatMul(attention, _before(model, layer, 1, 1)).doit(deep=False)
        return [Definition(_named(model, "B", layer), value)]
    lines = []
    heads = range(1, model.heads + 1)
    for a in heads:
        for b in heads:
            terms = [sp.MatMul(model.skip, _before(model, layer, a, b)).doit()]
            for e in heads:
                weight = _readout_weight(model, layer, a, e)
                terms.append(sp.MatMul(weight, _named(model, "S", layer, e), _before(model, layer, e, b)).doit())
            kept = [term for term in terms if not term.is_ZeroMatrix]
            lines.append(Definition(_named(model, "B", layer, a, b), _sum(kept)))
    return lines


def definitions(model: Architecture) -> tuple[Definition, ...]:
    """Return the layered form of the link: attention and mixing matrices, layer by layer.

    Parameters
    ----------
    model : Architecture

    Returns
    -------
    tuple of Definition
        Each in terms of earlier ones, of the indices (``h_l``, or ``k_l`` and ``q_l``; with several heads
        ``k_l,ab`` of head a on block b) and of the constants. The output is S_L, the blocks S_L,a of all heads, or
        the blocks of B_L.

    References
    ----------
    troiani2025, (5)-(6), (21)-(23), (25)-(26), (31)-(32).
    """
    lines: list[Definition] = []
    for layer in range(1, model.layers + 1):
        for head in range(1, model.heads + 1):
            lines += _attention(model, layer, head)
        if layer < model.layers or model.output == "sequence":
            lines += _mixing(model, layer)
    return tuple(lines)


def _committee_layers(model: Architecture) -> range:
    """Layers that mix the tokens; none where a single one does, whose first order is the whole."""
    if model.layers == 1:
        return range(0)
    return range(1, model.layers + (1 if model.output == "sequence" else 0))


def _of_head(model: Architecture, layer: int, head: int) -> dict[tuple[str, int], sp.MatrixSymbol]:
    """Index blocks of one head, by role and block of coordinates."""
    return {
        (block.role, block.block): _block_symbol(model, block)
        for block in model.index_blocks
        if (block.layer, block.head) == (layer, head)
    }


def committee_form(model: Architecture) -> tuple[Definition, ...]:
    """Return the first order in epsilon = 1/c of the network in units of c: a committee, and the output made of it.

    Parameters
    ----------
    model : Architecture
        Two layers or more.

    Returns
    -------
    tuple of Definition
        ``C``, the sum over the layers of their attention matrices at B = I, block by block for several heads; then the
        output with the error O(epsilon^2) left out: ``S_L``, one per head, or ``B_L``. Empty for one layer.

    References
    ----------
    troiani2025, (46)-(54); several heads and untied layers are an extension.
    """
    layers, heads, epsilon = _committee_layers(model), range(1, model.heads + 1), symbols.inverse_skip
    if not layers:
        return ()
    keys, queries = ("h", "h") if model.tied else ("k", "q")
    single = model.heads == 1

    def block(a: int, b: int) -> sp.MatrixSymbol:
        name = "C" if single else f"C_{_place(model, '', a, b)[1:]}"
        return sp.MatrixSymbol(name, model.tokens, model.tokens)

    lines = []
    for a in heads:
        for b in heads:
            terms = []
            for layer in layers:
                own = _of_head(model, layer, b)
                scores = sp.MatMul(model.beta, sp.Transpose(own[keys, b]), own[queries, b]).doit()
                weight = () if single else (_readout_weight(model, layer, a, b),)
                terms.append(sp.MatMul(*weight, Activated(scores)).doit(deep=False))
            lines.append(Definition(block(a, b), sp.MatAdd(*terms).doit(deep=False)))
    if model.output == "sequence":
        for a in heads:
            for b in heads:
                name = _named(model, "B", model.layers, *(() if single else (a, b)))
                start = [sp.Identity(model.tokens)] if a == b else []
                value = sp.MatAdd(*start, sp.MatMul(epsilon, block(a, b))).doit(deep=False)
                lines.append(Definition(name, value))
        return tuple(lines)
    for a in heads:
        own = _of_head(model, model.layers, a)
        plain = sp.MatMul(sp.Transpose(own[keys, a]), own[queries, a])
        seen = [sp.MatMul(block(a, b), sp.Transpose(own[keys, b]), own[queries, a]) for b in heads]
        seen += [sp.MatMul(sp.Transpose(own[keys, a]), own[queries, b], sp.Transpose(block(a, b))) for b in heads]
        scores = sp.MatMul(model.beta, sp.MatAdd(plain, sp.MatMul(epsilon, sp.MatAdd(*seen))))
        name = _named(model, "S", model.layers, *(() if single else (a,)))
        lines.append(Definition(name, Activated(scores)))
    return tuple(lines)


@dataclass(frozen=True)
class Symmetry:
    """A change of the indices that the output does not feel, or follows.

    Attributes
    ----------
    layer, head, block : int or None
        Where it acts, counted from 1; None for all. `block` is the block of coordinates.
    group : {"sign", "O(r)", "scale", "GL(r)", "shift", "free", "permutation"}
        What it is; "free" is any change at all.
    text, latex : str
        The change, in words and formulas.
    """

    layer: int | None
    head: int | None
    block: int | None
    group: str
    text: str
    latex: str


def symmetries(model: Architecture) -> tuple[Symmetry, ...]:
    """Return the symmetries of the link; estimates are defined up to these.

    Tied weights are known up to a rotation of their rows (a sign at rank 1), untied ones up to an invertible matrix
    that moves from keys to queries (a scale at rank 1). Softmax rows do not feel a shift of the queries that is
    common to all tokens. The Gaussian prior breaks the scale, GL(r) and the shift, not the rotations.

    Parameters
    ----------
    model : Architecture

    Returns
    -------
    tuple of Symmetry

    References
    ----------
    troiani2025, (5), (21), (32), (184); derived.
    """
    found: list[Symmetry] = []
    for layer, rank in enumerate(model.rank_vector, start=1):
        for head in range(1, model.heads + 1):
            # B_0 = I: a head of the first layer sees its own block of coordinates and no other.
            own = model.heads > 1 and layer == 1
            last = () if model.heads == 1 else (head, head if own else "b")
            place = "_" + _place(model, layer, *last)
            block = head if own else None
            found.append(_rotation(model, (layer, head, block), place, rank))
            if not model.tied and model.activation == "softmax":
                mark = "_b" if model.heads > 1 and not own else ""
                every = ", its own t_b for every block b" if mark else ""
                change = f"q{place} -> q{place} + t{mark} 1^T, t{mark} in R^{rank}{every}"
                tex = f"q_{{{place[1:]}}}"
                latex = rf"{tex}\to {tex}+t{mark}\,1^\top,\ t{mark}\in\mathbb R^{{{rank}}}"
                found.append(Symmetry(layer, head, block, "shift", change, latex))
    if model.heads > 1:
        roles = ("h",) if model.tied else ("k", "q")
        names = " and ".join(f"{role}_1,ab" for role in roles)
        tex_names = r",\ ".join(f"{role}_{{1,ab}}" for role in roles)
        text = f"any change of {names} with a != b, which do not enter the output (B_0 = I)"
        latex = rf"{tex_names}\ (a\ne b)\ \text{{are free: they do not enter the output}}"
        found.append(Symmetry(1, None, None, "free", text, latex))
    return (*found, *_permutations(model))


def _rotation(model: Architecture, where: tuple[int, int, int | None], place: str, rank: int) -> Symmetry:
    """Symmetry of the rows of one head's weights: of tied ones a rotation, of untied ones an invertible matrix."""
    tex = f"_{{{place[1:]}}}"
    every = ", every block b" if place.endswith("b") else ""
    if model.tied:
        group = "sign" if rank == 1 else "O(r)"
        change = f"h{place} -> -h{place}" if rank == 1 else f"h{place} -> U h{place}, U in O({rank})"
        latex = rf"h{tex}\to -h{tex}" if rank == 1 else rf"h{tex}\to U h{tex},\ U\in O({rank})"
    elif rank == 1:
        group = "scale"
        change = f"k{place} -> s k{place}, q{place} -> q{place}/s, s != 0"
        latex = rf"k{tex}\to s\,k{tex},\ q{tex}\to q{tex}/s,\ s\ne0"
    else:
        group = "GL(r)"
        change = f"k{place} -> A k{place}, q{place} -> A^-T q{place}, A in GL({rank})"
        latex = rf"k{tex}\to A\,k{tex},\ q{tex}\to A^{{-\top}} q{tex},\ A\in GL({rank})"
    return Symmetry(*where, group, change + every, latex)


def _permutations(model: Architecture) -> list[Symmetry]:
    """Relabelled tokens: of the whole sample, and block by block where the heads do not meet."""
    if model.heads == 1:
        text = "permutation of the tokens, h -> h Pi: y -> Pi^T y Pi"
        return [Symmetry(None, None, None, "permutation", text, r"h\to h\,\Pi:\ y\to\Pi^\top y\,\Pi")]
    if model.layers > 1:
        text = "permutation of the tokens, h -> h Pi: every M x M block of y -> Pi^T (block) Pi"
        latex = r"h\to h\,\Pi:\ y\to\Pi^\top y\,\Pi\ \text{block by block}"
        return [Symmetry(None, None, None, "permutation", text, latex)]
    found = []
    for head in range(1, model.heads + 1):
        place = _place(model, 1, head, head)
        names = [f"{role}_{place}" for role in (("h",) if model.tied else ("k", "q"))]
        change = ", ".join(f"{name} -> {name} Pi" for name in names)
        tex_names = [f"{name[0]}_{{{place}}}" for name in names]
        tex_change = r",\ ".join(rf"{name}\to {name}\Pi" for name in tex_names)
        attention = _named(model, "S", 1, head)
        text = f"permutation of the tokens of block {head} alone, {change}: {attention} -> Pi^T {attention} Pi"
        latex = rf"{tex_change}:\ {_tex(attention)}\to\Pi^\top {_tex(attention)}\,\Pi"
        found.append(Symmetry(1, head, head, "permutation", text, latex))
    return found


@dataclass(frozen=True)
class _Line:
    """A formula (``latex`` goes into a display) or a sentence."""

    text: str
    latex: str
    formula: bool = True


@dataclass(frozen=True)
class _Section:
    title: str
    lines: Sequence[_Line]


def _say(text: str, latex: str | None = None) -> _Line:
    return _Line(text, text if latex is None else latex, formula=False)


def _equal(name: str, latex_name: str, value: Any) -> _Line:
    return _Line(f"{name} = {_text(value)}", f"{latex_name} = {_tex(value)}")


def _headline(model: Architecture) -> str:
    kind = "tied" if model.tied else "untied"
    heads = "one head" if model.heads == 1 else f"{model.heads} heads"
    layers = "one layer" if model.layers == 1 else f"{model.layers} layers"
    same = len(set(model.rank_vector)) == 1
    ranks = f"rank {model.rank_vector[0]}" if same else f"ranks {', '.join(map(str, model.rank_vector))}"
    output = "last attention matrix observed" if model.output == "last" else "output sequence observed"
    return (
        f"{kind} attention, {heads}, {layers} of {ranks}, {model.tokens} tokens, "
        f"{model.activation_name} activation, {output}"
    )


def _equations(model: Architecture) -> str:
    numbers = []
    if model.heads > 1:
        numbers.append("(27)-(45)")
    if not model.tied:
        numbers.append("(19)-(24)")
    if model.output == "sequence":
        numbers.append("(25)-(26)")
    return ", ".join(numbers) or "(2)-(7)"


def _activation(model: Architecture) -> _Line:
    if model.activation == "softmax":
        return _say("sigma is the row-wise softmax", r"$\sigma$ is the row-wise softmax")
    if model.activation == "linear":
        return _say("sigma is the identity", r"$\sigma$ is the identity")
    z = sp.Symbol("z", real=True)
    value = activate_score(model, z)
    return _say(
        f"sigma acts entry by entry, sigma(z) = {_text(value)}",
        rf"$\sigma$ acts entry by entry, $\sigma(z) = {_tex(value)}$",
    )


_ROLES = {"h": "the tied weights", "k": "the key weights", "q": "the query weights"}


def _indices(model: Architecture) -> list[dict[str, Any]]:
    rows = []
    for block in model.index_blocks:
        symbol = _block_symbol(model, block)
        where = f"layer {block.layer}"
        if model.heads > 1:
            where += f", head {block.head}, on block {block.block} of the coordinates"
        rows.append(
            {
                "name": str(symbol),
                "latex": _tex(symbol),
                "rows": [block.start + 1, block.start + block.rank],
                "shape": [block.rank, model.tokens],
                "meaning": f"the tokens projected on {_ROLES[block.role]} of {where}",
            }
        )
    return rows


def _indices_section(model: Architecture) -> _Section:
    scale = "sqrt(D)" if model.heads == 1 else "sqrt(D/H)"
    tex_scale = r"\sqrt D" if model.heads == 1 else r"\sqrt{D/H}"
    lines = [
        _say(
            f"the rows of h = W x / {scale}, P x M = {model.indices} x {model.tokens}, are in this order:",
            rf"the rows of $h = W x / {tex_scale}$, $P\times M = {model.indices}\times {model.tokens}$, are in this "
            "order:",
        )
    ]
    for row in _indices(model):
        first, last = row["rows"]
        span = f"row {first}" if first == last else f"rows {first}-{last}"
        shape = f"{row['shape'][0]} x {row['shape'][1]}"
        lines.append(
            _say(
                f"{span}: {row['name']} ({shape}), {row['meaning']}",
                rf"{span}: ${row['latex']}$ (${row['shape'][0]}\times {row['shape'][1]}$), {row['meaning']}",
            )
        )
    if model.heads > 1:
        lines.append(
            _say(
                "a head of the first layer sees its own block alone (B_0 = I): the rows of layer 1 that belong to head "
                "a and block b != a do not enter the output",
                "a head of the first layer sees its own block alone ($B_0 = I$): the rows of layer 1 that belong to "
                "head $a$ and block $b\\ne a$ do not enter the output",
            )
        )
    return _Section("Indices", lines)


def _mixing_section(model: Architecture) -> _Section:
    tokens = "X_l = B_l X_0" if model.heads == 1 else "X_l^(a) = sum_b B_l,ab X_0^(b)"
    tex = "X_l = B_l X_0" if model.heads == 1 else r"X_l^{(a)} = \sum_b B_{l,ab} X_0^{(b)}"
    lines = [
        _say(
            f"after l layers the tokens are {tokens}; c is the skip strength, beta the inverse temperature",
            rf"after $l$ layers the tokens are ${tex}$; $c$ is the skip strength, $\beta$ the inverse temperature",
        ),
        _activation(model),
    ]
    if model.readouts:
        lines.append(
            _say(
                "o_l,ab are the readout weights that recombine the heads, known constants",
                r"$o_{l,ab}$ are the readout weights that recombine the heads, known constants",
            )
        )
    lines += [_Line(line.text, line.latex) for line in definitions(model)]
    if _pairs(model) and model.layers > 1:
        lines += _triangular(model)
    return _Section("Mixing functions and link", [*lines, *_output(model)])


def _pairs(model: Architecture) -> bool:
    return model.single and model.tokens == 2 and model.activation == "softmax" and model.rank_vector[-1] == 1


def _triangular(model: Architecture) -> list[_Line]:
    layer = pair_layer(model, symbols.vp, symbols.vm)
    return [
        _say(
            "in the modes vp, vm = (v_1 +- v_2)/sqrt(2) of a row v = h_l B_{l-1}^T (rank 1) c I + S_l is triangular:",
            r"in the modes $v_\pm = (v_1\pm v_2)/\sqrt2$ of a row $v = h_l B_{l-1}^\top$ (rank 1) $cI+S_l$ is "
            "triangular:",
        ),
        _Line(
            f"c I + S_l -> {_text(layer.matrix)}",
            rf"c I + S_l \to {_tex(layer.matrix)}",
        ),
    ]


def _output(model: Architecture) -> list[_Line]:
    last = model.layers
    size = f"{model.heads * model.tokens} x {model.tokens}"
    if model.output == "sequence":
        name = f"B_{last}"
        return [
            _Line(f"y = {name}", rf"y = B_{{{last}}}"),
            _say(
                "the output sequence is X_L = B_L X_0; with X_0 known, B_L is what it tells",
                r"the output sequence is $X_L = B_L X_0$; with $X_0$ known, $B_L$ is what it tells",
            ),
        ]
    if model.heads == 1:
        return [_Line(f"y = S_{last}", rf"y = S_{{{last}}}")]
    names = [_named(model, "S", last, head) for head in range(1, model.heads + 1)]
    text = "; ".join(map(str, names))
    latex = r";\ ".join(_tex(name) for name in names)
    return [_Line(f"y = ({text}), {size}", rf"y = \left({latex}\right)")]


def _symmetry_section(model: Architecture) -> _Section:
    lines = []
    for item in symmetries(model):
        where = "" if item.layer is None else f"layer {item.layer}"
        where += f", head {item.head}" if item.head is not None and model.heads > 1 else ""
        prefix = f"{where}: " if where else ""
        lines.append(_say(prefix + item.text, f"{prefix}${item.latex}$"))
    if not model.tied:
        lines.append(_say("the Gaussian prior keeps the orthogonal ones of these (the sign at rank 1)"))
    return _Section("Symmetries of the link", lines)


def _readout_section(model: Architecture) -> _Section:
    """Solve the last layer for its readout row, where that is possible."""
    title = "From the output back to the last layer"
    if callable(model.activation):
        text = (
            "sigma is a function given by the user: where it is one-to-one, its inverse gives the scores of the output"
        )
        return _Section(title, [_say(text)])
    if model.heads > 1:
        return _Section(title, _head_readout(model))
    if model.output == "sequence":
        return _Section(title, _sequence_readout(model))
    if model.single and model.rank_vector[-1] == 1 and (model.tokens == 2 or model.activation == "softmax"):
        return _Section(title, _row_readout(model))
    return _Section(title, _fibre_readout(model))


def _row_readout(model: Architecture) -> list[_Line]:
    row, tex_row = f"v = h_{model.layers} B_{model.layers - 1}^T", rf"v = h_{{{model.layers}}}"
    tex_row += rf" B_{{{model.layers - 1}}}^\top"
    lines = [_say(f"y fixes {row} up to its sign (B_0 = I):", f"$y$ fixes ${tex_row}$ up to its sign ($B_0 = I$):")]
    if model.tokens == 2:
        found = invert(model)
        lines.append(_equal("v", "v", found.branches[0]))
        kept = ", ".join(map(str, found.kept))
        tex_kept = ", ".join(_tex(entry) for entry in found.kept)
        lines.append(_equal(f"|d({kept})/d v|", rf"\left|\partial({tex_kept})/\partial v\right|", found.jacobian))
        lines.append(_Line(f"range: {_text(found.slack)} > 0", rf"{_tex(found.slack)} > 0"))
        return lines
    _, y = symbols.readout_symbols(model.tokens)
    lines.append(_equal("v", "v", softmax_readout(y, model.beta)))
    entries, jacobian = readout_jacobian(model)
    kept, tex_kept = ", ".join(map(str, entries)), ", ".join(_tex(entry) for entry in entries)
    lines.append(_equal(f"|d({kept})/d v|", rf"\left|\partial({tex_kept})/\partial v\right|", jacobian))
    return lines


def _listed(names: Iterable[str]) -> str:
    text = ", ".join(names)
    return f": {text}" if text else ""


def _one_head(model: Architecture) -> Architecture:
    """Return the network of one head of the model, its last attention matrix observed."""
    return replace(model, heads=1, output="last")


def _head_readout(model: Architecture) -> list[_Line]:
    last, free = model.layers, fibre_dimension(_one_head(model))
    lines = []
    if model.output == "sequence":
        before, tex = ("", "") if last == 1 else (f" B_{last - 1}^-1", rf"\,B_{{{last - 1}}}^{{-1}}")
        weight = f"o_{last},ab"
        lines += [
            _Line(
                f"block ab of y{before} - {_text(model.skip)} I = {weight} S_{last},b",
                rf"\left[y{tex} - {_tex(model.skip)}\,I\right]_{{ab}} = o_{{{last},ab}}\,S_{{{last},b}}",
            ),
            _say(
                f"so that y gives the attention matrix of head b where {weight} is not zero for some a"
                + ("" if last == 1 else ", and puts equations on the earlier indices: the blocks of a column agree")
            ),
        ]
    if last == 1:
        names = ("h_1,aa", "h_{1,aa}") if model.tied else ("k_1,aa above q_1,aa", r"k_{1,aa};\ q_{1,aa}")
        lines.append(
            _say(
                f"S_1,a fixes the indices {names[0]} as those of one head, each head by itself, and leaves "
                f"{_count(free, 'continuous variable')} of them free",
                f"$S_{{1,a}}$ fixes the indices ${names[1]}$ as those of one head, each head by itself, and leaves "
                f"{_count(free, 'continuous variable')} of them free",
            )
        )
        return lines
    return [
        *lines,
        _say(
            f"S_{last},a fixes the sum over the blocks of coordinates of its indices times B_{last - 1},ab^T as the "
            f"readout of one head, and leaves {_count(free, 'continuous variable')} of the sum free; no block by "
            "itself is fixed",
            rf"$S_{{{last},a}}$ fixes the sum over the blocks of coordinates of its indices times "
            rf"$B_{{{last - 1},ab}}^\top$ as the readout of one head, and leaves "
            f"{_count(free, 'continuous variable')} of the sum free; no block by itself is fixed",
        ),
    ]


def _fibre_readout(model: Architecture) -> list[_Line]:
    found = fibre(model)
    free = fibre_dimension(model)
    name = "v = h_L B_{L-1}^T" if model.tied else "v = (k_L B_{L-1}^T above q_L B_{L-1}^T)"
    tex = r"v = h_L B_{L-1}^\top" if model.tied else r"v = (k_L B_{L-1}^\top;\ q_L B_{L-1}^\top)"
    names = (*found.variables, *(f"{sign} = +-1" for sign in found.signs))
    tex_names = (*map(_tex, found.variables), *(rf"{_tex(sign)} = \pm1" for sign in found.signs))
    lines = [
        _say(
            f"y leaves {_count(free, 'continuous variable')} of {name} free{_listed(map(str, names))}",
            rf"$y$ leaves {_count(free, 'continuous variable')} of ${tex}$ free{_listed(f'${v}$' for v in tex_names)}",
        )
    ]
    lines += [_equal(str(symbol), _tex(symbol), value) for symbol, value in found.data]
    if sp.count_ops(found.readout) <= _LARGEST_FORMULA:
        lines.append(_equal("v", "v", found.readout))
    else:
        lines.append(_say(f"v is a formula of {sp.count_ops(found.readout)} operations in these: derive.fibres.fibre"))
    return lines


def _sequence_readout(model: Architecture) -> list[_Line]:
    last = model.layers
    before = "" if last == 1 else f" B_{last - 1}^-1"
    tex_before = "" if last == 1 else rf"\,B_{{{last - 1}}}^{{-1}}"
    skip, tex_skip = _text(model.skip), _tex(model.skip)
    lines = [_Line(f"S_{last} = y{before} - {skip} I", rf"S_{{{last}}} = y{tex_before} - {tex_skip}\,I")]
    found = _sequence_counts(model)
    if last == 1:
        lines.append(_say("this is the attention matrix of the layer, as if it were observed"))
    elif found.on_earlier:
        entries = "equation" if found.on_earlier == 1 else "equations"
        text = (
            f"not every matrix is an attention matrix of the last layer: y puts {found.on_earlier} {entries} on the "
            "earlier indices"
        )
        if found.on_output:
            text += f", and lies itself on a surface of codimension {found.on_output}"
        lines.append(_say(text, text.replace(": y", ": $y$")))
    else:
        lines.append(
            _say(
                "the attention matrices of the last layer fill all matrices of their kind: y puts no equation on the "
                "earlier indices",
                "the attention matrices of the last layer fill all matrices of their kind: $y$ puts no equation on the "
                "earlier indices",
            )
        )
    if found.on_earlier:
        lines += _attention_equations(model)
    number = fibre_dimension(_one_head(model))
    free = f"{_count(number, 'continuous variable')} of the last indices {'stays' if number < 2 else 'stay'} free"
    lines.append(_say(f"given S_{last}, {free}", f"given $S_{{{last}}}$, {free}"))
    return lines


def _attention_equations(model: Architecture) -> list[_Line]:
    """Equations that make a matrix S an attention matrix of the last layer, if they are short."""
    found = fibre(_one_head(model))
    equations = found.dependent
    if not equations or sum(sp.count_ops(value) for _, value in (*found.data, *equations)) > _LARGEST_FORMULA:
        return []
    last = model.layers
    entries = {entry: sp.Symbol(f"S_{entry.name[1:]}", positive=True) for entry in found.output}
    lines = [
        _say(
            f"with S_ab the entries of S_{last}, an attention matrix obeys",
            f"with $S_{{ab}}$ the entries of $S_{{{last}}}$, an attention matrix obeys",
        )
    ]
    for shown, follows in equations:
        left, right = (sp.factor(side.subs(dict(reversed(found.data))).subs(entries)) for side in (shown, follows))
        lines.append(_Line(f"  {_text(left)} = {_text(right)}", f"{_tex(left)} = {_tex(right)}"))
    return lines


@dataclass(frozen=True)
class _Counts:
    """Dimensions of a sequence output: equations on the earlier indices and on y itself, variables left free."""

    on_earlier: int
    on_output: int
    left: int


def _sequence_counts(model: Architecture) -> _Counts:
    """Count what y = B_L fixes, at generic indices.

    Layer l moves y by its attention matrix, d_l = (entries of h_l) - (dimension of the fibre) degrees of freedom.  The
    product of all has as many as fit into the matrices of its kind: row sums are known for softmax, and L linear
    layers differ from c^L I by a matrix of rank R = r_1 + .. + r_L at most, which has R (2 M - R) degrees of freedom.
    What is over stays free beside the fibres.
    """
    tokens, fibres, moves = model.tokens, [], []
    for rank in model.rank_vector:
        one = replace(_one_head(model), layers=1, ranks=rank)
        fibres.append(fibre_dimension(one))
        moves.append((1 if model.tied else 2) * rank * tokens - fibres[-1])
    whole = moves[-1] + missing_dimensions(model)
    rank = min(tokens, sum(model.rank_vector))
    fitting = rank * (2 * tokens - rank) if model.activation == "linear" else whole
    outputs = min(sum(moves), fitting)
    return _Counts(on_earlier=outputs - moves[-1], on_output=whole - outputs, left=sum(fibres) + sum(moves) - outputs)


def _free_variables(model: Architecture) -> tuple[int, int]:
    """Return how many variables enter the channel, and how many of them the output leaves to integrate."""
    kinds = 1 if model.tied else 2
    if model.heads == 1:
        full = model.indices * model.tokens
        if model.output == "sequence":
            return full, _sequence_counts(model).left
        last = kinds * model.rank_vector[-1] * model.tokens
        return full, full - last + fibre_dimension(model)
    one = _one_head(model)
    unseen = kinds * model.rank_vector[0] * model.heads * (model.heads - 1) * model.tokens
    full = model.indices * model.tokens - unseen
    last = kinds * model.rank_vector[-1] * model.tokens
    return full, full - model.heads * (last - fibre_dimension(one))


def _channel_section(model: Architecture) -> _Section:
    title = "Output channel at (omega, V)"
    plain = _Line(
        "Z_out(y; omega, V) = Int dh prod_m N(h_m; omega_m, V) delta(y - g(h))",
        r"Z_{\rm out}(y;\omega,V) = \int dh\,\prod_m\mathcal N(h_m;\omega_m,V)\,\delta(y-g(h))",
    )
    full, left = _free_variables(model)
    which = "" if model.heads == 1 else " that enter"
    of_full = f"{left} of {_count(full, 'variable')}{which} {'is' if left == 1 else 'are'} left to integrate"
    one_to_one = "where sigma is one-to-one, " if callable(model.activation) else ""
    lines = [plain]
    if model.heads > 1:
        lines += _head_channel(model, one_to_one, of_full)
    elif model.output == "sequence" or callable(model.activation):
        lines.append(_say(f"{one_to_one}{of_full}: y fixes the others", f"{one_to_one}{of_full}: $y$ fixes the others"))
        if model.output == "sequence" and not callable(model.activation) and _sequence_counts(model).on_earlier:
            lines += _surface_integral(left)
    else:
        lines += _reduced_channel(model, of_full)
    lines.append(
        _Line("g_out = V^-1 (E[h | y] - omega)", r"g_{\rm out} = V^{-1}\left(\mathbb E[h\mid y]-\omega\right)")
    )
    return _Section(title, lines)


def _surface_integral(left: int) -> list[_Line]:
    """Form of the channel on the surface of the equations, by the co-area formula."""
    over, tex_over = (
        ("sum over the points of", r"\sum_{F=0}") if left == 0 else ("Int d(surface) over", r"\int_{F=0}d\mathcal H")
    )
    return [
        _Line(
            f"Z_out = {over} {{F(h_1 .. h_{{L-1}}, y) = 0}} prod_m N(h_m; omega_m, V) W / sqrt(det(E E^T)), E = dF/dh",
            rf"Z_{{\rm out}} = {tex_over}\ \frac{{W\,\prod_m\mathcal N(h_m;\omega_m,V)}}{{\sqrt{{\det(E E^\top)}}}},"
            r"\qquad E = \partial F/\partial(h_1,\dots,h_{L-1})",
        ),
        _say(
            "F = 0 are these equations, 1/W is the Jacobian of y in the last indices, and the sum over signs and the "
            "integral over variables that S_L leaves free are understood; all are programs in h and y: "
            "derive.sequence_inversion.sequence_channel"
        ),
    ]


def _head_channel(model: Architecture, one_to_one: str, of_full: str) -> list[_Line]:
    if model.layers == 1:
        return [
            _Line(
                "Z_out = prod_a Z_a(S_1,a; omega_aa, V_aa)",
                r"Z_{\rm out} = \prod_a Z_a(S_{1,a};\omega_{aa},V_{aa})",
            ),
            _say(
                f"Z_a is the channel of one head, in the rows of head a on block a; {one_to_one}{of_full}",
                f"$Z_a$ is the channel of one head, in the rows of head $a$ on block $a$; {one_to_one}{of_full}",
            ),
        ]
    if model.output == "sequence":
        full, _ = _free_variables(model)
        return [_say(f"an integral over the {full} variables that enter, with the delta function of the output")]
    return [_say(f"{one_to_one}{of_full}: y fixes the others", f"{one_to_one}{of_full}: $y$ fixes the others")]


def _reduced_channel(model: Architecture, of_full: str) -> list[_Line]:
    power = model.rank_vector[-1] * (1 if model.tied else 2)
    inner = "Int dh_1 .. dh_{L-1} " if model.layers > 1 else ""
    tex_inner = r"\int dh_1\cdots dh_{L-1}\ " if model.layers > 1 else ""
    exponent = "" if power == 1 else f"^{power}"
    tex_exponent = "" if power == 1 else f"^{{{power}}}"
    free = ", an integral over the free variables" if fibre_dimension(model) else ""
    with_free = " and the free variables" if fibre_dimension(model) else ""
    return [
        _Line(
            f"Z_out = {inner}sum_v N((h_1, .., v B_{{L-1}}^-T); omega, V) / (J |det B_{{L-1}}|{exponent})",
            rf"Z_{{\rm out}} = {tex_inner}\sum_{{v}}\frac{{\mathcal N\left((h_1,\dots,v B_{{L-1}}^{{-\top}});"
            rf"\omega,V\right)}}{{J\,|\det B_{{L-1}}|{tex_exponent}}}",
        ),
        _say(f"the sum runs over all v that give y{free}, J is the Jacobian of y{with_free} in v; {of_full}"),
    ]


def _depth_sections(model: Architecture) -> list[_Section]:
    """Return the expansion in 1/c, if a layer mixes."""
    layers = _committee_layers(model)
    if not layers:
        return []
    lines = [
        _say(
            "epsilon = 1/c; with the tokens after l layers in units of c^l and beta c^(-2(l-1)) for the inverse "
            "temperature of layer l, up to O(epsilon^2) at fixed depth"
            + (", where sigma has two derivatives:" if callable(model.activation) else ":"),
            r"$\epsilon = 1/c$; with the tokens after $l$ layers in units of $c^l$ and $\beta c^{-2(l-1)}$ for the "
            r"inverse temperature of layer $l$, up to $O(\epsilon^2)$ at fixed depth"
            + (r", where $\sigma$ has two derivatives:" if callable(model.activation) else ":"),
        )
    ]
    lines += [_Line(line.text, line.latex) for line in committee_form(model)]
    if len(layers) > 1:
        who = f"the layers 1 {'and' if layers[-1] == 2 else 'to'} {layers[-1]}"
        same = len(set(model.rank_vector[: layers[-1]])) == 1
        text = f"C is a sum over {who}: a committee, which does not tell their order"
        text += "" if same else " (layers of equal rank may change places)"
        lines.append(_say(text, text.replace("C is", "$C$ is")))
    return [_Section("Large depth", lines)]


def _threshold(model: Architecture) -> tuple[sp.Expr | None, str]:
    """Exact threshold of the model, or a sentence on why there is none."""
    if model.layers > 1:
        side = "; with o = I the heads are networks of one head side by side, and alpha_c is that of one over H"
        return None, "no closed form is known here for more than one layer" + (side if model.heads > 1 else "")
    if callable(model.activation):
        return None, "no closed form in general; where sigma is one-to-one it is that of the linear activation"
    try:
        value = single_layer_threshold(model.tokens, model.rank_vector[0], str(model.activation), tied=model.tied)
    except ValueError as error:
        return None, f"no closed form: {error}"
    return value / model.heads, ""


def _threshold_section(model: Architecture, value: sp.Expr | None, why: str) -> _Section:
    alpha, tex_alpha = ("alpha_c", r"\alpha_c") if model.heads == 1 else ("(H alpha_c)", r"(H\alpha_c)")
    lines = [
        _Line(
            f"1/{alpha} = max over PSD M, |M| = 1, of |E_y sum_{{mm'}} G_mm' M G_mm'^T|, "
            "G = E[h h^T | y] - I at (0, I)",
            rf"{tex_alpha}^{{-1}} = \max_{{M\succeq0,\,\|M\|=1}}"
            r"\left\|\mathbb E_y\sum_{mm'}G_{mm'}MG_{mm'}^\top\right\|,"
            r"\quad G = \mathbb E[hh^\top\mid y]-I\ \text{at}\ (0, I)",
        )
    ]
    if model.heads > 1:
        text = (
            "the weights have D/H entries each, so that H alpha counts samples per entry; m, m' run over the tokens of "
            "all blocks, and M over the rows of the weights"
        )
        tex = text.replace("H alpha", r"$H\alpha$").replace("m, m'", "$m, m'$").replace("D/H", "$D/H$")
        lines.append(_say(text, tex.replace("and M", "and $M$")))
        if value is not None and model.output == "sequence":
            lines.append(_say("of the heads b for which o_1,ab is not zero for some a; the others are never seen"))
    if model.single and set(model.rank_vector) == {1}:
        lines.append(
            _Line(
                "1/alpha_c = max_l E_y |E[h_l^T h_l | y] - I|^2",
                r"\alpha_c^{-1} = \max_l\,\mathbb E_y\left\|\mathbb E[h_l^\top h_l\mid y]-I\right\|_F^2",
            )
        )
    lines.append(_equal("alpha_c", r"\alpha_c", value) if value is not None else _say(why))
    return _Section("Weak-recovery threshold", lines)


def _references(model: Architecture) -> list[str]:
    found = [f"model and link: troiani2025, {_equations(model)}"]
    found.append("channel and denoiser: troiani2025, (9), (12), (163)-(170)")
    if model.single and model.tokens == 2 and model.rank_vector[-1] == 1 and isinstance(model.activation, str):
        found.append(f"readout: troiani2025, {'(175)-(183)' if model.activation == 'softmax' else '(171)-(174)'}")
    elif model.heads == 1 and isinstance(model.activation, str):
        found.append("readout: derived here, beyond troiani2025, (171)-(183)")
    if _committee_layers(model):
        beyond = "" if model.single else ", beyond it for this architecture"
        found.append(f"large depth: troiani2025, (46)-(54){beyond}")
    numbers = "(15)-(16), (184)-(185)" if model.single else "(15)-(16)"
    found.append(f"threshold: troiani2025, {numbers}")
    return found


def _sections(model: Architecture, value: sp.Expr | None, why: str) -> list[_Section]:
    return [
        _indices_section(model),
        _mixing_section(model),
        _symmetry_section(model),
        _readout_section(model),
        _channel_section(model),
        *_depth_sections(model),
        _threshold_section(model, value, why),
        _Section("References", [_say(entry) for entry in _references(model)]),
    ]


def _as_text(model: Architecture, sections: Sequence[_Section]) -> str:
    headline = _headline(model)
    lines = [headline[0].upper() + headline[1:]]
    for section in sections:
        lines += ["", section.title]
        lines += [f"  {line.text}" if not line.formula else f"    {line.text}" for line in section.lines]
    return "\n".join(lines)


def _as_latex(model: Architecture, sections: Sequence[_Section]) -> str:
    headline = _escape(_headline(model))
    lines = [rf"\section*{{{headline[0].upper() + headline[1:]}}}"]
    for section in sections:
        lines += ["", rf"\subsection*{{{section.title}}}"]
        formulas: list[str] = []
        for line in (*section.lines, _say("")):
            if line.formula:
                formulas.append(line.latex)
                continue
            if formulas:
                # One display per run of formulas, aligned at the first relation.
                rows = [f"  &{formula}" for formula in formulas]
                lines += [r"\begin{align*}", " \\\\\n".join(rows), r"\end{align*}"]
                formulas = []
            if line.latex:
                lines.append(_escape(line.latex) + r"\par")
    return "\n".join(lines)


def _escape(text: str) -> str:
    """Escape underscores of plain words; formulas between dollars stay as they are."""
    parts = text.split("$")
    return "$".join(part if number % 2 else part.replace("_", r"\_") for number, part in enumerate(parts))


def explain_record(model: Architecture) -> dict[str, Any]:
    """Return what the theory says about an architecture, as a record for JSON.

    Parameters
    ----------
    model : Architecture
        Any architecture.

    Returns
    -------
    dict
        ``model`` (a sentence), ``P``, ``indices`` (name, rows, shape, meaning), ``definitions`` (name, text, latex),
        ``symmetries`` (layer, head, group, text, latex), ``sections`` (title and lines), ``threshold`` (text, latex;
        None with a ``reason`` where no closed form is known), ``references``, ``text`` and ``latex``.

    References
    ----------
    troiani2025, (2)-(7), (9), (12), (15)-(16), (19)-(45), (163)-(187).
    """
    value, why = _threshold(model)
    sections = _sections(model, value, why)
    threshold: dict[str, str | None] = {
        "text": None if value is None else _text(value),
        "latex": None if value is None else str(_tex(value)),
    }
    if why:
        threshold["reason"] = why
    return {
        "model": _headline(model),
        "P": model.indices,
        "indices": _indices(model),
        "definitions": [
            {"name": str(line.name), "text": line.text, "latex": line.latex} for line in definitions(model)
        ],
        "symmetries": [
            {"layer": s.layer, "head": s.head, "group": s.group, "text": s.text, "latex": s.latex}
            for s in symmetries(model)
        ],
        "sections": [
            {"title": s.title, "lines": [{"text": line.text, "latex": line.latex} for line in s.lines]}
            for s in sections
        ],
        "threshold": threshold,
        "references": _references(model),
        "text": _as_text(model, sections),
        "latex": _as_latex(model, sections),
    }


def explain(model: Architecture, fmt: str = "text") -> str:
    """Write what the theory says about an architecture: indices, mixing, link, symmetries, channel, threshold.

    Parameters
    ----------
    model : Architecture
        Any architecture.
    fmt : {"text", "latex", "json"}
        Plain text, a LaTeX fragment (needs amsmath and amssymb), or the record of `explain_record` as JSON.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        For another format.

    References
    ----------
    troiani2025, (2)-(7), (9), (12), (15)-(16), (19)-(45), (163)-(187).
    """
    if fmt not in FORMATS:
        raise ValueError(f"fmt must be one of {', '.join(FORMATS)}, got {fmt!r}")
    record = explain_record(model)
    return json.dumps(record, indent=2) if fmt == "json" else str(record[fmt])
