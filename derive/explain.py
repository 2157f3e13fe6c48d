"""What the theory says about one architecture, as plain text, LaTeX or a record: `attnlimits explain`.

The mixing recursion and the link are written as layered definitions between named matrices, so that a page stays
short at any depth.  They are SymPy matrix expressions, printed by SymPy; the readout, the triangular form and the
thresholds are the derived expressions themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sympy as sp
from sympy.printing.latex import LatexPrinter
from sympy.printing.str import StrPrinter

from . import symbols
from .architecture import Architecture, IndexBlock
from .fibres import fibre, fibre_dimension
from .inversion import invert, readout_jacobian, softmax_readout
from .linearization import single_layer_threshold
from .mixing import activate_score, pair_layer
from .sequence_inversion import missing_dimensions

__all__ = ["Activated", "Definition", "Symmetry", "definitions", "explain", "explain_record", "symmetries"]

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
        return f"{sp.latex(self.name)} = {sp.latex(self.value)}"


def _text(value: Any) -> str:
    value = value.tolist() if isinstance(value, sp.MatrixBase) else value
    return str(sp.sstr(value)).replace("**", "^")


def _block_symbol(model: Architecture, block: IndexBlock) -> sp.MatrixSymbol:
    where = f"{block.layer}" if model.heads == 1 else f"{block.layer},{block.head}{block.block}"
    return sp.MatrixSymbol(f"{block.role}_{where}", block.rank, model.tokens)


def _named(model: Architecture, letter: str, *places: object) -> sp.MatrixSymbol:
    first, *rest = places
    name = f"{letter}_{first}" + ("," + "".join(map(str, rest)) if rest else "")
    return sp.MatrixSymbol(name, model.tokens, model.tokens)


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
                weight = sp.Symbol(f"o_{layer},{a}{e}", real=True)
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


@dataclass(frozen=True)
class Symmetry:
    """A change of the indices that the output does not feel, or follows.

    Attributes
    ----------
    layer, head : int or None
        Where it acts, counted from 1; None for all.
    group : {"sign", "O(r)", "scale", "GL(r)", "shift", "permutation"}
        What it is.
    text, latex : str
        The change, in words and formulas.
    """

    layer: int | None
    head: int | None
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
            place = f"_{layer}" if model.heads == 1 else f"_{layer},{head}b"
            tex = f"_{{{place[1:]}}}"
            every = "" if model.heads == 1 else ", every block b"
            if model.tied:
                group = "sign" if rank == 1 else "O(r)"
                change = f"h{place} -> -h{place}" if rank == 1 else f"h{place} -> U h{place}, U in O({rank})"
                latex = rf"h{tex}\to -h{tex}" if rank == 1 else rf"h{tex}\to U h{tex},\ U\in O({rank})"
            else:
                group = "scale" if rank == 1 else "GL(r)"
                if rank == 1:
                    change = f"k{place} -> s k{place}, q{place} -> q{place}/s, s != 0"
                    latex = rf"k{tex}\to s\,k{tex},\ q{tex}\to q{tex}/s,\ s\ne0"
                else:
                    change = f"k{place} -> A k{place}, q{place} -> A^-T q{place}, A in GL({rank})"
                    latex = rf"k{tex}\to A\,k{tex},\ q{tex}\to A^{{-\top}} q{tex},\ A\in GL({rank})"
            found.append(Symmetry(layer, head, group, change + every, latex))
            if not model.tied and model.activation == "softmax":
                change = f"q{place} -> q{place} + t 1^T, t in R^{rank}{every}"
                latex = rf"q{tex}\to q{tex}+t\,1^\top,\ t\in\mathbb R^{{{rank}}}"
                found.append(Symmetry(layer, head, "shift", change, latex))
    output = "y -> Pi^T y Pi" if model.heads == 1 else "every M x M block of y -> Pi^T (block) Pi"
    tex_output = r"y\to\Pi^\top y\,\Pi" + ("" if model.heads == 1 else r"\ \text{block by block}")
    permutation = f"permutation of the tokens, h -> h Pi: {output}"
    found.append(Symmetry(None, None, "permutation", permutation, rf"h\to h\,\Pi:\ {tex_output}"))
    return tuple(found)


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
    return _Line(f"{name} = {_text(value)}", f"{latex_name} = {sp.latex(value)}")


def _headline(model: Architecture) -> str:
    kind = "tied" if model.tied else "untied"
    heads = "one head" if model.heads == 1 else f"{model.heads} heads"
    layers = "one layer" if model.layers == 1 else f"{model.layers} layers"
    ranks = ", ".join(map(str, model.rank_vector))
    output = "last attention matrix observed" if model.output == "last" else "output sequence observed"
    return (
        f"{kind} attention, {heads}, {layers} of rank {ranks}, {model.tokens} tokens, "
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
        rf"$\sigma$ acts entry by entry, $\sigma(z) = {sp.latex(value)}$",
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
                "latex": sp.latex(symbol),
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
            r"in the modes $vp, vm = (v_1\pm v_2)/\sqrt2$ of a row $v = h_l B_{l-1}^\top$ (rank 1) $cI+S_l$ is "
            "triangular:",
        ),
        _Line(
            f"c I + S_l -> {_text(layer.matrix)}",
            rf"c I + S_l \to {sp.latex(layer.matrix)}",
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
    latex = r";\ ".join(sp.latex(name) for name in names)
    return [_Line(f"y = ({text}), {size}", rf"y = \left({latex}\right)")]


def _symmetry_section(model: Architecture) -> _Section:
    lines = []
    for item in symmetries(model):
        where = "" if item.layer is None else f"layer {item.layer}"
        where += f", head {item.head}" if item.layer is not None and model.heads > 1 else ""
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
        text = (
            "every head's attention matrix gives its scores as for one head; its keys and queries are sums over blocks "
            "of coordinates, so that no single index is fixed"
        )
        return _Section(title, [_say(text)])
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
        tex_kept = ", ".join(sp.latex(entry) for entry in found.kept)
        lines.append(_equal(f"|d({kept})/d v|", rf"\left|\partial({tex_kept})/\partial v\right|", found.jacobian))
        lines.append(_Line(f"range: {_text(found.slack)} > 0", rf"{sp.latex(found.slack)} > 0"))
        return lines
    _, y = symbols.readout_symbols(model.tokens)
    lines.append(_equal("v", "v", softmax_readout(y, model.beta)))
    entries, jacobian = readout_jacobian(model)
    kept, tex_kept = ", ".join(map(str, entries)), ", ".join(sp.latex(entry) for entry in entries)
    lines.append(_equal(f"|d({kept})/d v|", rf"\left|\partial({tex_kept})/\partial v\right|", jacobian))
    return lines


def _fibre_readout(model: Architecture) -> list[_Line]:
    found = fibre(model)
    free = fibre_dimension(model)
    name = "v = h_L B_{L-1}^T" if model.tied else "v = (k_L B_{L-1}^T above q_L B_{L-1}^T)"
    tex = r"v = h_L B_{L-1}^\top" if model.tied else r"v = (k_L B_{L-1}^\top;\ q_L B_{L-1}^\top)"
    names = (*found.variables, *(f"{sign} = +-1" for sign in found.signs))
    tex_names = (*map(sp.latex, found.variables), *(rf"{sp.latex(sign)} = \pm1" for sign in found.signs))
    lines = [
        _say(
            f"y leaves {free} continuous variable(s) of {name} free: {', '.join(map(str, names))}",
            rf"$y$ leaves {free} continuous variable(s) of ${tex}$ free: {', '.join(f'${v}$' for v in tex_names)}",
        )
    ]
    lines += [_equal(str(symbol), sp.latex(symbol), value) for symbol, value in found.data]
    if sp.count_ops(found.readout) <= _LARGEST_FORMULA:
        lines.append(_equal("v", "v", found.readout))
    else:
        lines.append(_say(f"v is a formula of {sp.count_ops(found.readout)} operations in these: derive.fibres.fibre"))
    return lines


def _sequence_readout(model: Architecture) -> list[_Line]:
    last = model.layers
    before = "" if last == 1 else f" B_{last - 1}^-1"
    tex_before = "" if last == 1 else rf"\,B_{{{last - 1}}}^{{-1}}"
    skip, tex_skip = _text(model.skip), sp.latex(model.skip)
    lines = [_Line(f"S_{last} = y{before} - {skip} I", rf"S_{{{last}}} = y{tex_before} - {tex_skip}\,I")]
    lacking = missing_dimensions(model)
    if last > 1 and lacking:
        text = (
            f"the attention matrices of the last layer miss {lacking} dimension(s) of this: y puts as many equations "
            "on the earlier indices"
        )
    else:
        text = "every such matrix in the range of sigma is an attention matrix of the last layer"
    lines.append(_say(text))
    alone = Architecture(
        layers=model.layers, tokens=model.tokens, ranks=model.ranks, activation=model.activation, tied=model.tied
    )
    lines.append(_say(f"given S_{last}, {fibre_dimension(alone)} continuous variable(s) of the last indices stay free"))
    return lines


def _channel_section(model: Architecture) -> _Section:
    title = "Output channel at (omega, V)"
    full = model.indices * model.tokens
    plain = _Line(
        "Z_out(y; omega, V) = Int dh prod_m N(h_m; omega_m, V) delta(y - g(h))",
        r"Z_{\rm out}(y;\omega,V) = \int dh\,\prod_m\mathcal N(h_m;\omega_m,V)\,\delta(y-g(h))",
    )
    lines = [plain]
    if model.heads > 1 or callable(model.activation) or model.output == "sequence":
        lines.append(_say(f"an integral over {full} variables with the delta function of the output"))
        return _Section(title, lines)
    rows = sum(block.rank for block in model.index_blocks if block.layer < model.layers)
    power = model.rank_vector[-1] * (1 if model.tied else 2)
    inner = "Int dh_1 .. dh_{L-1} " if model.layers > 1 else ""
    tex_inner = r"\int dh_1\cdots dh_{L-1}\ " if model.layers > 1 else ""
    exponent = "" if power == 1 else f"^{power}"
    tex_exponent = "" if power == 1 else f"^{{{power}}}"
    left = rows * model.tokens + fibre_dimension(model)
    lines.append(
        _Line(
            f"Z_out = {inner}sum_v N((h_1, .., v B_{{L-1}}^-T); omega, V) / (J |det B_{{L-1}}|{exponent})",
            rf"Z_{{\rm out}} = {tex_inner}\sum_{{v}}\frac{{\mathcal N\left((h_1,\dots,v B_{{L-1}}^{{-\top}});"
            rf"\omega,V\right)}}{{J\,|\det B_{{L-1}}|{tex_exponent}}}",
        )
    )
    free = ", an integral over the free variables" if fibre_dimension(model) else ""
    with_free = " and the free variables" if fibre_dimension(model) else ""
    lines.append(
        _say(
            f"the sum runs over all v that give y{free}, J is the Jacobian of y{with_free} in v; {left} of {full} "
            "variables are left to integrate"
        )
    )
    lines.append(
        _Line("g_out = V^-1 (E[h | y] - omega)", r"g_{\rm out} = V^{-1}\left(\mathbb E[h\mid y]-\omega\right)")
    )
    return _Section(title, lines)


def _threshold(model: Architecture) -> tuple[sp.Expr | None, str]:
    """Exact threshold of the model, or a sentence on why there is none."""
    if model.heads > 1:
        return None, "no closed form is known here for several heads"
    if model.layers > 1:
        return None, "no closed form is known here for more than one layer"
    if callable(model.activation):
        return None, "no closed form in general; where sigma is one-to-one it is that of the linear activation"
    try:
        value = single_layer_threshold(model.tokens, model.rank_vector[0], str(model.activation), tied=model.tied)
    except ValueError as error:
        return None, f"no closed form: {error}"
    return value, ""


def _threshold_section(model: Architecture, value: sp.Expr | None, why: str) -> _Section:
    lines = [
        _Line(
            "1/alpha_c = max over PSD M, |M| = 1, of |E_y sum_{mm'} G_mm' M G_mm'^T|, G = E[h h^T | y] - I at (0, I)",
            r"\alpha_c^{-1} = \max_{M\succeq0,\,\|M\|=1}\left\|\mathbb E_y\sum_{mm'}G_{mm'}MG_{mm'}^\top\right\|,"
            r"\quad G = \mathbb E[hh^\top\mid y]-I\ \text{at}\ (0, I)",
        )
    ]
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
        "latex": None if value is None else str(sp.latex(value)),
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
