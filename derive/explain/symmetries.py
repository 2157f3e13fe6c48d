"""Symmetries of the link, up to which estimates are defined."""

from dataclasses import dataclass

from ..architecture import Architecture
from .lines import Section, say, to_latex
from .notation import subscript, token_matrix


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
            place = "_" + subscript(model, layer, *last)
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
        place = subscript(model, 1, head, head)
        names = [f"{role}_{place}" for role in (("h",) if model.tied else ("k", "q"))]
        change = ", ".join(f"{name} -> {name} Pi" for name in names)
        tex_names = [f"{name[0]}_{{{place}}}" for name in names]
        tex_change = r",\ ".join(rf"{name}\to {name}\Pi" for name in tex_names)
        attention = token_matrix(model, "S", 1, head)
        text = f"permutation of the tokens of block {head} alone, {change}: {attention} -> Pi^T {attention} Pi"
        latex = rf"{tex_change}:\ {to_latex(attention)}\to\Pi^\top {to_latex(attention)}\,\Pi"
        found.append(Symmetry(1, head, head, "permutation", text, latex))
    return found


def symmetry_section(model: Architecture) -> Section:
    """Write the symmetries, one per line."""
    lines = []
    for item in symmetries(model):
        where = "" if item.layer is None else f"layer {item.layer}"
        where += f", head {item.head}" if item.head is not None and model.heads > 1 else ""
        prefix = f"{where}: " if where else ""
        lines.append(say(prefix + item.text, f"{prefix}${item.latex}$"))
    if not model.tied:
        lines.append(say("the Gaussian prior keeps the orthogonal ones of these (the sign at rank 1)"))
    return Section("Symmetries of the link", lines)
