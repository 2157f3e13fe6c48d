"""The indices h of a network: which rows belong to which layer, head and block of coordinates."""

from typing import TypedDict

from ..architecture import Architecture
from .lines import Section, say, to_latex
from .notation import block_symbol

_ROLES = {"h": "the tied weights", "k": "the key weights", "q": "the query weights"}


class IndexRows(TypedDict):
    """Rows of h that belong to one index block; `rows` are the first and the last, counted from 1."""

    name: str
    latex: str
    rows: list[int]
    shape: list[int]
    meaning: str


def index_rows(model: Architecture) -> list[IndexRows]:
    """Return the rows of h that belong to each index block, in their order."""
    rows: list[IndexRows] = []
    for block in model.index_blocks:
        symbol = block_symbol(model, block)
        where = f"layer {block.layer}"
        if model.heads > 1:
            where += f", head {block.head}, on block {block.block} of the coordinates"
        rows.append(
            {
                "name": str(symbol),
                "latex": to_latex(symbol),
                "rows": [block.start + 1, block.start + block.rank],
                "shape": [block.rank, model.tokens],
                "meaning": f"the tokens projected on {_ROLES[block.role]} of {where}",
            }
        )
    return rows


def indices_section(model: Architecture) -> Section:
    """Write which rows of h belong to which layer, head and block of coordinates."""
    scale = "sqrt(D)" if model.heads == 1 else "sqrt(D/H)"
    tex_scale = r"\sqrt D" if model.heads == 1 else r"\sqrt{D/H}"
    lines = [
        say(
            f"the rows of h = W x / {scale}, P x M = {model.indices} x {model.tokens}, are in this order:",
            rf"the rows of $h = W x / {tex_scale}$, $P\times M = {model.indices}\times {model.tokens}$, are in this "
            "order:",
        )
    ]
    for row in index_rows(model):
        first, last = row["rows"]
        span = f"row {first}" if first == last else f"rows {first}-{last}"
        shape = f"{row['shape'][0]} x {row['shape'][1]}"
        lines.append(
            say(
                f"{span}: {row['name']} ({shape}), {row['meaning']}",
                rf"{span}: ${row['latex']}$ (${row['shape'][0]}\times {row['shape'][1]}$), {row['meaning']}",
            )
        )
    if model.heads > 1:
        lines.append(
            say(
                "a head of the first layer sees its own block alone (B_0 = I): the rows of layer 1 that belong to head "
                "a and block b != a do not enter the output",
                "a head of the first layer sees its own block alone ($B_0 = I$): the rows of layer 1 that belong to "
                "head $a$ and block $b\\ne a$ do not enter the output",
            )
        )
    return Section("Indices", lines)
