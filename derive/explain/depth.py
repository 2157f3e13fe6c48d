"""The large-depth limit: the first order in 1/c, a committee of the layers."""

import sympy as sp

from .. import symbols
from ..architecture import Architecture
from .lines import Line, Section, say
from .notation import Activated, Definition, block_symbol, readout_weight, subscript, token_matrix


def committee_layers(model: Architecture) -> range:
    """Layers that mix the tokens; none where a single one does, whose first order is the whole."""
    if model.layers == 1:
        return range(0)
    return range(1, model.layers + (1 if model.output == "sequence" else 0))


def _of_head(model: Architecture, layer: int, head: int) -> dict[tuple[str, int], sp.MatrixSymbol]:
    """Index blocks of one head, by role and block of coordinates."""
    return {
        (block.role, block.block): block_symbol(model, block)
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
    layers, heads, epsilon = committee_layers(model), range(1, model.heads + 1), symbols.inverse_skip
    if not layers:
        return ()
    keys, queries = ("h", "h") if model.tied else ("k", "q")
    single = model.heads == 1

    def block(a: int, b: int) -> sp.MatrixSymbol:
        name = "C" if single else f"C_{subscript(model, '', a, b)[1:]}"
        return sp.MatrixSymbol(name, model.tokens, model.tokens)

    lines = []
    for a in heads:
        for b in heads:
            terms = []
            for layer in layers:
                own = _of_head(model, layer, b)
                scores = sp.MatMul(model.beta, sp.Transpose(own[keys, b]), own[queries, b]).doit()
                weight = () if single else (readout_weight(model, layer, a, b),)
                terms.append(sp.MatMul(*weight, Activated(scores)).doit(deep=False))
            lines.append(Definition(block(a, b), sp.MatAdd(*terms).doit(deep=False)))
    if model.output == "sequence":
        for a in heads:
            for b in heads:
                name = token_matrix(model, "B", model.layers, *(() if single else (a, b)))
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
        name = token_matrix(model, "S", model.layers, *(() if single else (a,)))
        lines.append(Definition(name, Activated(scores)))
    return tuple(lines)


def depth_sections(model: Architecture) -> list[Section]:
    """Return the expansion in 1/c, if a layer mixes."""
    layers = committee_layers(model)
    if not layers:
        return []
    lines = [
        say(
            "epsilon = 1/c; with the tokens after l layers in units of c^l and beta c^(-2(l-1)) for the inverse "
            "temperature of layer l, up to O(epsilon^2) at fixed depth"
            + (", where sigma has two derivatives:" if callable(model.activation) else ":"),
            r"$\epsilon = 1/c$; with the tokens after $l$ layers in units of $c^l$ and $\beta c^{-2(l-1)}$ for the "
            r"inverse temperature of layer $l$, up to $O(\epsilon^2)$ at fixed depth"
            + (r", where $\sigma$ has two derivatives:" if callable(model.activation) else ":"),
        )
    ]
    lines += [Line(line.text, line.latex) for line in committee_form(model)]
    if len(layers) > 1:
        who = f"the layers 1 {'and' if layers[-1] == 2 else 'to'} {layers[-1]}"
        same = len(set(model.rank_vector[: layers[-1]])) == 1
        text = f"C is a sum over {who}: a committee, which does not tell their order"
        text += "" if same else " (layers of equal rank may change places)"
        lines.append(say(text, text.replace("C is", "$C$ is")))
    return [Section("Large depth", lines)]
