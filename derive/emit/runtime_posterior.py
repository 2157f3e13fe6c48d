"""Template of ``posterior64.py``: posterior moments (12) of a two-layer channel, summed along pieces of rows.

The loops inline the package's own `undo_node`, so they belong to the compile unit of the kernel; they are the same text
for every package, up to whether its `undo_node` wants exponentials. A lane is a piece of a row of equidistant nodes:
what depends on the row alone is computed once, the exponentials of `undo_node` are geometric along it, and the sums
stay in registers to its end.
"""

from collections.abc import Container
from typing import NamedTuple

__all__ = ["render"]

_MOMENTS = [(p, q) for p in range(1, 5) for q in range(p, 5)]
# Moments of the nodes' own numbers; those with z2 follow from them, as z2 is one number on a row.
_SUMS = ("s", "s1", "s3", "s4", "s11", "s13", "s14", "s33", "s34", "s44")

_HEAD = """
import math

from numba import njit

from ..fastmath import FLAGS{exponential}
from ..lanes import LANES, exp2_fast, fill, load, store, where_less
from .numba64 import {names}

# Rows of the list of pieces: what the caller fills in, and what `undo_rows` does.
PIECE_ROWS = {rows}
# Nodes of a piece, at most: powers of the ratio of a geometric sequence lose this many roundings.
LONGEST = 24

_OPTIONS = {"error_model": "numpy", "fastmath": FLAGS, "cache": True}
_VECTOR = "float64[::1]"
_MATRIX = "float64[:, ::1]"
# Weights are powers of two, of squares of z in units of this.
_UNIT = math.sqrt(0.5 / math.log(2.0))
"""

_NOTES = """
    Adds to the first 15 rows of `sums`, shape (30, LANES), and to the last 15 what the first n pieces have of w, w z_i
    and w z_i z_j (i <= j, row by row) times their shares in both, spread over LANES columns.
    A piece has the nodes xp = first, first + step, ..;
    z = ((xp - w1p) i1, (xm - w1m) i1, (a' - w2p - slope (xp - w1p)) i2, (b' - w2m - slope (xm - w1m)) i2),
    w = exp((shift - |z|^2)/2) inv_det, {branches}.
    pieces has shape (PIECE_ROWS, at least n): xm, first, the number of nodes, both shares, and what `undo_rows` fills
    in; n is a multiple of LANES, and the numbers of nodes do not grow from piece to piece.
    parameters = (vp, vm, c, beta, w1p, w1m, w2p, w2m, i1, slope, i2, shift): with i1 = V_11^{{-1/2}},
    slope = V_12/V_11 and i2 = (V_22 - V_12^2/V_11)^{{-1/2}}, z is h - omega whitened, first layer first.

    References
    ----------
    troiani2025, (12), (163)-(170).
"""

_ROWS = '''
@njit(f"void({_VECTOR}, {_MATRIX}, int64, float64)", **_OPTIONS)
def undo_rows(parameters, pieces, n, step):
    """Fill in rows 5 and on of the first n pieces: what `undo_node` wants of a row{what}."""
    c, beta = parameters[2], parameters[3]
    xm, first = pieces[0], pieces[1]
    row1, row2 = pieces[5], pieces[6]
    for k in range(n):
        row1[k], row2[k] = undo_row(xm[k], c, beta)
'''

_POWERS = """
    f1, f2, ratio1, ratio2 = pieces[7], pieces[8], pieces[9], pieces[10]
    for k in range(n):
        f1[k], f2[k] = undo_exponents(first[k], xm[k], beta)
    for k in range(n):
        ratio1[k], ratio2[k] = undo_ratios(step, xm[k], beta)
    for k in range(n):
        f1[k] = exp_fast(f1[k])
    for k in range(n):
        f2[k] = exp_fast(f2[k])
    for k in range(n):
        ratio1[k] = exp_fast(ratio1[k])
    for k in range(n):
        ratio2[k] = exp_fast(ratio2[k])
"""


class _Moments(NamedTuple):
    """A function of the module: its signature, what it sums, and the lines of its loop after `undo_node`."""

    name: str
    arguments: str
    signature: str
    summary: str
    branches: str
    sign: str
    terms: list[str]


def _node(exponential: bool) -> tuple[list[str], list[str]]:
    """Lines before the loop over nodes, and those at its head, which make a, b (in units of 1/i2) and inv_det."""
    if not exponential:
        return [], ["a, b, inv_det = undo_node(first + k*step, xm, row1, row2, vp, vm, c, beta)"]
    before = [f"{name} = load(pieces[{row}], t)" for row, name in enumerate(("f1", "f2", "ratio1", "ratio2"), 7)]
    return before, [
        "a, b, inv_det = undo_node(row1, row2, f1, f2, vp, vm, c, beta)",
        "f1 *= ratio1",
        "f2 *= ratio2",
    ]


def _indented(lines: list[str], depth: int) -> list[str]:
    return [" " * depth + line for line in lines]


def _function(made: _Moments, exponential: bool) -> str:
    before, node = _node(exponential)
    # Every moment from the sums of the nodes, in units of its own.
    sums = {"": "s", **{str(p): f"s{p}" for p in (1, 3, 4)}, "2": "s*z2", "12": "s1*z2", "22": "s*z2*z2"}
    sums |= {f"2{q}": f"s{q}*z2" for q in (3, 4)} | {name[1:]: name for name in _SUMS if len(name) == 3}
    wanted = ["", *map(str, range(1, 5)), *(f"{p}{q}" for p, q in _MOMENTS)]
    factors = ["1.0", "(1.0/_UNIT)", "(1.0/(_UNIT*_UNIT))"]
    lines = [
        f'@njit(f"void({made.signature})", **_OPTIONS)',
        f"def {made.name}({made.arguments}):",
        f'    """{made.summary}',
        _NOTES.format(branches=made.branches).rstrip(),
        '    """',
        "    w1p, w1m, w2p, w2m = parameters[4], parameters[5], parameters[6], parameters[7]",
        "    i1, i2, slope = parameters[8]*_UNIT, parameters[10]*_UNIT, parameters[9]",
        "    shift = parameters[11]*(_UNIT*_UNIT)",
        "    c, beta = parameters[2], parameters[3]",
        f"    vp, vm = {made.sign}parameters[0]*i2, {made.sign}parameters[1]*i2",
        "    step1, step2 = step*i1, step*slope*i2",
        "    for t in range(0, n, LANES):",
        *_indented(
            [
                "xm, first, count = load(pieces[0], t), load(pieces[1], t), load(pieces[2], t)",
                "row1, row2 = load(pieces[5], t), load(pieces[6], t)",
                *before,
                "z2 = (xm - w1m)*i1",
                "rest = shift - z2*z2",
                "start1, start2 = (first - w1p)*i1, (w2p + slope*(first - w1p))*i2",
                "hm = (w2m + slope*(xm - w1m))*i2",
                *(f"{name} = fill(0.0)" for name in _SUMS),
                "for k in range(int(pieces[2, t])):",
                *_indented(
                    [
                        *node,
                        "z1 = start1 + k*step1",
                        "hp = start2 + k*step2",
                        # Pieces that have ended: nothing beside 2^0 at the least |z|.
                        "q = where_less(float(k), count, rest - z1*z1, -1e4)",
                        *made.terms,
                    ],
                    4,
                ),
                "share1, share2 = load(pieces[3], t), load(pieces[4], t)",
                *(
                    line
                    for k, name in enumerate(wanted)
                    for line in (
                        f"total = {sums[name]}" + (f"*{factors[len(name)]}" if name else ""),
                        f"store(sums[{k}], 0, load(sums[{k}], 0) + total*share1)",
                        f"store(sums[{k + len(wanted)}], 0, load(sums[{k + len(wanted)}], 0) + total*share2)",
                    )
                ),
            ],
            8,
        ),
    ]
    return "\n".join(lines) + "\n"


_ENDS = ["s += e", "s1 += e1", "s3 += e3", "s4 += e4", "s11 += e1*z1", "s13 += e3*z1", "s14 += e4*z1"]


def _single() -> _Moments:
    return _Moments(
        name="branch_moments",
        arguments="parameters, pieces, n, step, sign, sums",
        signature="{_VECTOR}, {_MATRIX}, int64, float64, float64, {_MATRIX}",
        summary="Posterior sums of one branch h_2 = sign undo(v).",
        branches="(a', b') = (a, b) of the branch sign (vp, vm)",
        sign="sign*",
        terms=[
            *("z3 = a - hp", "z4 = b - hm"),
            "e = exp2_fast(q - z3*z3 - z4*z4)*inv_det",
            *("e1 = e*z1", "e3 = e*z3", "e4 = e*z4"),
            *_ENDS,
            *("s33 += e3*z3", "s34 += e3*z4", "s44 += e4*z4"),
        ],
    )


def _pair() -> _Moments:
    return _Moments(
        name="pair_moments",
        arguments="parameters, pieces, n, step, sums",
        signature="{_VECTOR}, {_MATRIX}, int64, float64, {_MATRIX}",
        summary="Posterior sums of both branches h_2 = +-undo(v).",
        branches="summed over (a', b') = +-(a, b)",
        sign="",
        terms=[
            # y3 and y4 are those of the branch minus, with the other sign.
            *("z3 = a - hp", "z4 = b - hm", "y3 = a + hp", "y4 = b + hm"),
            "w = exp2_fast(q - z3*z3 - z4*z4)*inv_det",
            "x = exp2_fast(q - y3*y3 - y4*y4)*inv_det",
            *("w3 = w*z3", "w4 = w*z4", "x3 = x*y3", "x4 = x*y4"),
            *("e = w + x", "e1 = e*z1", "e3 = w3 - x3", "e4 = w4 - x4"),
            *_ENDS,
            *("s33 += w3*z3 + x3*y3", "s34 += w3*z4 + x3*y4", "s44 += w4*z4 + x4*y4"),
        ],
    )


def render(names: Container[str]) -> str:
    """Return the source of the module, without its header, for a package with kernels of these names."""
    exponential = "undo_exponents" in names
    imported = ("undo_exponents", "undo_node", "undo_ratios", "undo_row") if exponential else ("undo_node", "undo_row")
    head = _HEAD.replace("{names}", ", ".join(imported)).replace("{rows}", "11" if exponential else "7")
    head = head.replace("{exponential}", ", exp_fast" if exponential else "")
    rows = _ROWS.replace("{what}", ", and its first node and their ratio" if exponential else "")
    rows = rows.rstrip("\n") + (_POWERS if exponential else "\n")
    if not exponential:
        rows = rows.replace("xm, first = pieces[0], pieces[1]", "xm = pieces[0]")
    return "\n\n".join([head, rows, _function(_single(), exponential), _function(_pair(), exponential)])
