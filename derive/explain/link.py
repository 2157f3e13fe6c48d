"""The layered form of the link: attention and mixing matrices, each defined in terms of earlier ones."""

from collections.abc import Iterable

import sympy as sp

from .. import symbols
from ..architecture import Architecture
from ..mixing import activate_score
from ..softmax_pair import pair_layer
from .lines import Line, Section, say, to_latex, to_text
from .notation import Activated, Definition, block_symbol, readout_weight, token_matrix


def _before(model: Architecture, layer: int, a: int, b: int) -> sp.MatrixExpr:
    """Return block (a, b) of B_{l-1}, which is the identity before the first layer."""
    if layer == 1:
        return sp.Identity(model.tokens) if a == b else sp.ZeroMatrix(model.tokens, model.tokens)
    return token_matrix(model, "B", layer - 1) if model.heads == 1 else token_matrix(model, "B", layer - 1, a, b)


def _sum(terms: Iterable[sp.MatrixExpr]) -> sp.MatrixExpr:
    return sp.MatAdd(*terms).doit()


def _seen(model: Architecture, layer: int, head: int, role: str) -> list[sp.MatrixExpr]:
    """Terms of the indices of one head seen through the earlier layers: ``k^(a,b) B^{(ab)T}`` for every block b."""
    terms = [
        sp.MatMul(block_symbol(model, block), sp.Transpose(_before(model, layer, head, block.block))).doit()
        for block in model.index_blocks
        if (block.layer, block.head, block.role) == (layer, head, role)
    ]
    return [term for term in terms if not term.is_ZeroMatrix]


def _attention(model: Architecture, layer: int, head: int) -> list[Definition]:
    """Definitions of the attention matrix of one head, with its keys and queries where these are sums of blocks."""
    name = token_matrix(model, "S", layer) if model.heads == 1 else token_matrix(model, "S", layer, head)
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
        attention = sp.MatAdd(sp.MatMul(model.skip, sp.Identity(model.tokens)), token_matrix(model, "S", layer))
        value = sp.MatMul(attention, _before(model, layer, 1, 1)).doit(deep=False)
        return [Definition(token_matrix(model, "B", layer), value)]
    lines = []
    heads = range(1, model.heads + 1)
    for a in heads:
        for b in heads:
            terms = [sp.MatMul(model.skip, _before(model, layer, a, b)).doit()]
            for e in heads:
                weight = readout_weight(model, layer, a, e)
                terms.append(sp.MatMul(weight, token_matrix(model, "S", layer, e), _before(model, layer, e, b)).doit())
            kept = [term for term in terms if not term.is_ZeroMatrix]
            lines.append(Definition(token_matrix(model, "B", layer, a, b), _sum(kept)))
    return lines


def definitions(model: Architecture) -> tuple[Definition, ...]:
    """Return the layered form of the link: attention and mixing matrices, layer by layer.

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


def link_section(model: Architecture) -> Section:
    """Write the tokens after l layers, the layered form of the link, and the output."""
    tokens = "X_l = B_l X_0" if model.heads == 1 else "X_l^(a) = sum_b B_l,ab X_0^(b)"
    tex = "X_l = B_l X_0" if model.heads == 1 else r"X_l^{(a)} = \sum_b B_{l,ab} X_0^{(b)}"
    lines = [
        say(
            f"after l layers the tokens are {tokens}; c is the skip strength, beta the inverse temperature",
            rf"after $l$ layers the tokens are ${tex}$; $c$ is the skip strength, $\beta$ the inverse temperature",
        ),
        _activation(model),
    ]
    if model.readouts:
        lines.append(
            say(
                "o_l,ab are the readout weights that recombine the heads, known constants",
                r"$o_{l,ab}$ are the readout weights that recombine the heads, known constants",
            )
        )
    lines += [Line(line.text, line.latex) for line in definitions(model)]
    if _pairs(model) and model.layers > 1:
        lines += _triangular(model)
    return Section("Mixing functions and link", [*lines, *_output(model)])


def _activation(model: Architecture) -> Line:
    if model.activation == "softmax":
        return say("sigma is the row-wise softmax", r"$\sigma$ is the row-wise softmax")
    if model.activation == "linear":
        return say("sigma is the identity", r"$\sigma$ is the identity")
    z = sp.Symbol("z", real=True)
    value = activate_score(model, z)
    return say(
        f"sigma acts entry by entry, sigma(z) = {to_text(value)}",
        rf"$\sigma$ acts entry by entry, $\sigma(z) = {to_latex(value)}$",
    )


def _pairs(model: Architecture) -> bool:
    return model.single and model.tokens == 2 and model.activation == "softmax" and model.rank_vector[-1] == 1


def _triangular(model: Architecture) -> list[Line]:
    layer = pair_layer(model, symbols.vp, symbols.vm)
    return [
        say(
            "in the modes vp, vm = (v_1 +- v_2)/sqrt(2) of a row v = h_l B_{l-1}^T (rank 1) c I + S_l is triangular:",
            r"in the modes $v_\pm = (v_1\pm v_2)/\sqrt2$ of a row $v = h_l B_{l-1}^\top$ (rank 1) $cI+S_l$ is "
            "triangular:",
        ),
        Line(
            f"c I + S_l -> {to_text(layer.matrix)}",
            rf"c I + S_l \to {to_latex(layer.matrix)}",
        ),
    ]


def _output(model: Architecture) -> list[Line]:
    last = model.layers
    size = f"{model.heads * model.tokens} x {model.tokens}"
    if model.output == "sequence":
        name = f"B_{last}"
        return [
            Line(f"y = {name}", rf"y = B_{{{last}}}"),
            say(
                "the output sequence is X_L = B_L X_0; with X_0 known, B_L is what it tells",
                r"the output sequence is $X_L = B_L X_0$; with $X_0$ known, $B_L$ is what it tells",
            ),
        ]
    if model.heads == 1:
        return [Line(f"y = S_{last}", rf"y = S_{{{last}}}")]
    names = [token_matrix(model, "S", last, head) for head in range(1, model.heads + 1)]
    text = "; ".join(map(str, names))
    latex = r";\ ".join(to_latex(name) for name in names)
    return [Line(f"y = ({text}), {size}", rf"y = \left({latex}\right)")]
