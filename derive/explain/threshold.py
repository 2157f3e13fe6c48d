"""The weak-recovery threshold: the eigenvalue problem, and its solution where it is known exactly."""

import sympy as sp

from ..architecture import Architecture
from ..linearization import single_layer_threshold
from .lines import Line, Section, equality, say


def exact_threshold(model: Architecture) -> tuple[sp.Expr | None, str]:
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


def threshold_section(model: Architecture, value: sp.Expr | None, why: str) -> Section:
    """Write the eigenvalue problem of alpha_c, and its solution or why none is known."""
    alpha, tex_alpha = ("alpha_c", r"\alpha_c") if model.heads == 1 else ("(H alpha_c)", r"(H\alpha_c)")
    lines = [
        Line(
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
        lines.append(say(text, tex.replace("and M", "and $M$")))
        if value is not None and model.output == "sequence":
            lines.append(say("of the heads b for which o_1,ab is not zero for some a; the others are never seen"))
    if model.single and set(model.rank_vector) == {1}:
        lines.append(
            Line(
                "1/alpha_c = max_l E_y |E[h_l^T h_l | y] - I|^2",
                r"\alpha_c^{-1} = \max_l\,\mathbb E_y\left\|\mathbb E[h_l^\top h_l\mid y]-I\right\|_F^2",
            )
        )
    lines.append(equality("alpha_c", r"\alpha_c", value) if value is not None else say(why))
    return Section("Weak-recovery threshold", lines)
