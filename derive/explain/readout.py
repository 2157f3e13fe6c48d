"""The readout of the last layer as a function of the output, where it can be solved for."""

from collections.abc import Iterable

import sympy as sp

from .. import symbols
from ..architecture import Architecture
from ..fibres import fibre, fibre_dimension
from ..readout import invert, readout_jacobian, softmax_readout
from .dimensions import one_head, sequence_counts
from .lines import Line, Section, counted, equality, say, to_latex, to_text

# A readout with more operations than this is described and not printed: it would fill pages.
_LARGEST_FORMULA = 160


def readout_section(model: Architecture) -> Section:
    """Solve the last layer for its readout row, where that is possible."""
    title = "From the output back to the last layer"
    if callable(model.activation):
        text = (
            "sigma is a function given by the user: where it is one-to-one, its inverse gives the scores of the output"
        )
        return Section(title, [say(text)])
    if model.heads > 1:
        return Section(title, _head_readout(model))
    if model.output == "sequence":
        return Section(title, _sequence_readout(model))
    if model.single and model.rank_vector[-1] == 1 and (model.tokens == 2 or model.activation == "softmax"):
        return Section(title, _row_readout(model))
    return Section(title, _fibre_readout(model))


def _row_readout(model: Architecture) -> list[Line]:
    row, tex_row = f"v = h_{model.layers} B_{model.layers - 1}^T", rf"v = h_{{{model.layers}}}"
    tex_row += rf" B_{{{model.layers - 1}}}^\top"
    lines = [say(f"y fixes {row} up to its sign (B_0 = I):", f"$y$ fixes ${tex_row}$ up to its sign ($B_0 = I$):")]
    if model.tokens == 2:
        found = invert(model)
        lines.append(equality("v", "v", found.branches[0]))
        kept = ", ".join(map(str, found.kept))
        tex_kept = ", ".join(to_latex(entry) for entry in found.kept)
        lines.append(equality(f"|d({kept})/d v|", rf"\left|\partial({tex_kept})/\partial v\right|", found.jacobian))
        lines.append(Line(f"range: {to_text(found.slack)} > 0", rf"{to_latex(found.slack)} > 0"))
        return lines
    _, y = symbols.readout_symbols(model.tokens)
    lines.append(equality("v", "v", softmax_readout(y, model.beta)))
    entries, jacobian = readout_jacobian(model)
    kept, tex_kept = ", ".join(map(str, entries)), ", ".join(to_latex(entry) for entry in entries)
    lines.append(equality(f"|d({kept})/d v|", rf"\left|\partial({tex_kept})/\partial v\right|", jacobian))
    return lines


def _listed(names: Iterable[str]) -> str:
    text = ", ".join(names)
    return f": {text}" if text else ""


def _head_readout(model: Architecture) -> list[Line]:
    last, free = model.layers, fibre_dimension(one_head(model))
    lines = []
    if model.output == "sequence":
        before, tex = ("", "") if last == 1 else (f" B_{last - 1}^-1", rf"\,B_{{{last - 1}}}^{{-1}}")
        weight = f"o_{last},ab"
        lines += [
            Line(
                f"block ab of y{before} - {to_text(model.skip)} I = {weight} S_{last},b",
                rf"\left[y{tex} - {to_latex(model.skip)}\,I\right]_{{ab}} = o_{{{last},ab}}\,S_{{{last},b}}",
            ),
            say(
                f"so that y gives the attention matrix of head b where {weight} is not zero for some a"
                + ("" if last == 1 else ", and puts equations on the earlier indices: the blocks of a column agree")
            ),
        ]
    if last == 1:
        names = ("h_1,aa", "h_{1,aa}") if model.tied else ("k_1,aa above q_1,aa", r"k_{1,aa};\ q_{1,aa}")
        lines.append(
            say(
                f"S_1,a fixes the indices {names[0]} as those of one head, each head by itself, and leaves "
                f"{counted(free, 'continuous variable')} of them free",
                f"$S_{{1,a}}$ fixes the indices ${names[1]}$ as those of one head, each head by itself, and leaves "
                f"{counted(free, 'continuous variable')} of them free",
            )
        )
        return lines
    return [
        *lines,
        say(
            f"S_{last},a fixes the sum over the blocks of coordinates of its indices times B_{last - 1},ab^T as the "
            f"readout of one head, and leaves {counted(free, 'continuous variable')} of the sum free; no block by "
            "itself is fixed",
            rf"$S_{{{last},a}}$ fixes the sum over the blocks of coordinates of its indices times "
            rf"$B_{{{last - 1},ab}}^\top$ as the readout of one head, and leaves "
            f"{counted(free, 'continuous variable')} of the sum free; no block by itself is fixed",
        ),
    ]


def _fibre_readout(model: Architecture) -> list[Line]:
    found = fibre(model)
    free = fibre_dimension(model)
    name = "v = h_L B_{L-1}^T" if model.tied else "v = (k_L B_{L-1}^T above q_L B_{L-1}^T)"
    tex = r"v = h_L B_{L-1}^\top" if model.tied else r"v = (k_L B_{L-1}^\top;\ q_L B_{L-1}^\top)"
    names = (*found.variables, *(f"{sign} = +-1" for sign in found.signs))
    tex_names = (*map(to_latex, found.variables), *(rf"{to_latex(sign)} = \pm1" for sign in found.signs))
    lines = [
        say(
            f"y leaves {counted(free, 'continuous variable')} of {name} free{_listed(map(str, names))}",
            rf"$y$ leaves {counted(free, 'continuous variable')} of ${tex}$ free{_listed(f'${v}$' for v in tex_names)}",
        )
    ]
    lines += [equality(str(symbol), to_latex(symbol), value) for symbol, value in found.data]
    if sp.count_ops(found.readout) <= _LARGEST_FORMULA:
        lines.append(equality("v", "v", found.readout))
    else:
        lines.append(say(f"v is a formula of {sp.count_ops(found.readout)} operations in these: derive.fibres.fibre"))
    return lines


def _sequence_readout(model: Architecture) -> list[Line]:
    last = model.layers
    before = "" if last == 1 else f" B_{last - 1}^-1"
    tex_before = "" if last == 1 else rf"\,B_{{{last - 1}}}^{{-1}}"
    skip, tex_skip = to_text(model.skip), to_latex(model.skip)
    lines = [Line(f"S_{last} = y{before} - {skip} I", rf"S_{{{last}}} = y{tex_before} - {tex_skip}\,I")]
    found = sequence_counts(model)
    if last == 1:
        lines.append(say("this is the attention matrix of the layer, as if it were observed"))
    elif found.on_earlier:
        entries = "equation" if found.on_earlier == 1 else "equations"
        text = (
            f"not every matrix is an attention matrix of the last layer: y puts {found.on_earlier} {entries} on the "
            "earlier indices"
        )
        if found.on_output:
            text += f", and lies itself on a surface of codimension {found.on_output}"
        lines.append(say(text, text.replace(": y", ": $y$")))
    else:
        lines.append(
            say(
                "the attention matrices of the last layer fill all matrices of their kind: y puts no equation on the "
                "earlier indices",
                "the attention matrices of the last layer fill all matrices of their kind: $y$ puts no equation on the "
                "earlier indices",
            )
        )
    if found.on_earlier:
        lines += _attention_equations(model)
    number = fibre_dimension(one_head(model))
    free = f"{counted(number, 'continuous variable')} of the last indices {'stays' if number < 2 else 'stay'} free"
    lines.append(say(f"given S_{last}, {free}", f"given $S_{{{last}}}$, {free}"))
    return lines


def _attention_equations(model: Architecture) -> list[Line]:
    """Equations that make a matrix S an attention matrix of the last layer, if they are short."""
    found = fibre(one_head(model))
    equations = found.dependent
    if not equations or sum(sp.count_ops(value) for _, value in (*found.data, *equations)) > _LARGEST_FORMULA:
        return []
    last = model.layers
    entries = {entry: sp.Symbol(f"S_{entry.name[1:]}", positive=True) for entry in found.output}
    lines = [
        say(
            f"with S_ab the entries of S_{last}, an attention matrix obeys",
            f"with $S_{{ab}}$ the entries of $S_{{{last}}}$, an attention matrix obeys",
        )
    ]
    for shown, follows in equations:
        left, right = (sp.factor(side.subs(dict(reversed(found.data))).subs(entries)) for side in (shown, follows))
        lines.append(Line(f"  {to_text(left)} = {to_text(right)}", f"{to_latex(left)} = {to_latex(right)}"))
    return lines
