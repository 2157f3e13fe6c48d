"""Template of ``posterior64.py``: posterior moments (12) of a two-layer channel, summed over a list of nodes.

The loops inline the package's own `undo_node`, so they belong to the compile unit of the kernel; they are the same text
for every package, up to whether its `undo_node` wants an exponential. Each is a few short loops over the same buffer,
with the exponentials in loops of their own: in one long loop body every iteration would wait for its own chain of
exponential, division and exponential, and run out of registers.
"""

from collections.abc import Container
from typing import NamedTuple

__all__ = ["render"]

_MOMENTS = [(p, q) for p in range(1, 5) for q in range(p, 5)]

_HEAD = """
from numba import njit

from ..fastmath import FLAGS, exp_fast
from .numba64 import {names}

# Rows of the node buffer: four of input and five of scratch.
BUFFER_ROWS = 9

# Sums over nodes may be taken in any order.
_OPTIONS = {"error_model": "numpy", "fastmath": FLAGS | {"reassoc"}, "cache": True}
_VECTOR = "float64[::1]"
_NODES = "float64[:, ::1]"
"""

_NOTES = """
    Adds to `out` the sums of w, w z_i and w z_i z_j (i <= j, row by row) over the first n nodes, where
    z = ((xp - w1p) i1, (xm - w1m) i1, (a' - w2p - slope (xp - w1p)) i2, (b' - w2m - slope (xm - w1m)) i2),
    w = exp((shift - |z|^2)/2) inv_det, {branches}.
    nodes has shape (BUFFER_ROWS, at least n): rows xp, xm and `undo_row`(xm), then scratch.
    parameters = (vp, vm, c, beta, w1p, w1m, w2p, w2m, i1, slope, i2, shift): with i1 = V_11^{{-1/2}},
    slope = V_12/V_11 and i2 = (V_22 - V_12^2/V_11)^{{-1/2}}, z is h - omega whitened, first layer first.

    References
    ----------
    troiani2025, (12), (163)-(170).
"""

_ROWS = '''
@njit("void(float64[::1], float64[:, ::1], int64)", **_OPTIONS)
def undo_rows(parameters, rows, n):
    """Fill rows 1 and 2 of `rows` with `undo_row` of row 0, for the first n columns."""
    c, beta = parameters[2], parameters[3]
    xm, row1, row2 = rows[0], rows[1], rows[2]
    for k in range(n):
        row1[k], row2[k] = undo_row(xm[k], c, beta)
'''

_WHITENED = ["dp = xp[k] - w1p", "dm = xm[k] - w1m", "z1 = dp*i1", "z2 = dm*i1"]


def _loop(lines: list[str]) -> list[str]:
    return ["    for k in range(n):", *(f"        {line}" for line in lines)]


def _totals() -> list[str]:
    return ["s", *(f"s{p}" for p in range(1, 5)), *(f"s{p}{q}" for p, q in _MOMENTS)]


class _Moments(NamedTuple):
    """A function of the module: its signature, what it sums, and the lines of its loops.

    Attributes
    ----------
    name, arguments, signature, summary, branches : str
    sign : str
        Factor of vp and vm.
    weights : str
        Names of the weights, a letter each.
    weight, terms : list of str
        Lines of the loop over exponents, and of that over sums.
    """

    name: str
    arguments: str
    signature: str
    summary: str
    branches: str
    sign: str
    weights: str
    weight: list[str]
    terms: list[str]


def _function(made: _Moments, undo: list[str]) -> str:
    buffers = ", ".join(["a, b, inv_det", *made.weights])
    rows = ", ".join(f"nodes[{k}]" for k in range(4, 7 + len(made.weights)))
    lines = [
        f'@njit(f"void({made.signature})", **_OPTIONS)',
        f"def {made.name}({made.arguments}):",
        f'    """{made.summary}',
        _NOTES.format(branches=made.branches).rstrip(),
        '    """',
        "    w1p, w1m, w2p, w2m = parameters[4], parameters[5], parameters[6], parameters[7]",
        "    i1, slope, i2, shift = parameters[8], parameters[9], parameters[10], parameters[11]",
        "    c, beta = parameters[2], parameters[3]",
        f"    vp, vm = {made.sign}parameters[0], {made.sign}parameters[1]",
        "    xp, xm, row1, row2 = nodes[0], nodes[1], nodes[2], nodes[3]",
        f"    {buffers} = {rows}",
        *undo,
        *_loop([*_WHITENED, *made.weight]),
        *(line for name in made.weights for line in _loop([f"{name}[k] = exp_fast({name}[k])*inv_det[k]"])),
        *(f"    {total} = 0.0" for total in _totals()),
        *_loop([*_WHITENED, *made.terms]),
        *(f"    out[{k}] += {total}" for k, total in enumerate(_totals())),
    ]
    return "\n".join(lines) + "\n"


def _single() -> _Moments:
    second = ["z3 = (a[k] - w2p - slope*dp)*i2", "z4 = (b[k] - w2m - slope*dm)*i2"]
    weight = [*second, "w[k] = 0.5*(shift - z1*z1 - z2*z2 - z3*z3 - z4*z4)"]
    terms = [*second, "e = w[k]", "s += e"]
    terms += [f"e{p} = e*z{p}" for p in range(1, 5)]
    terms += [f"s{p} += e{p}" for p in range(1, 5)]
    terms += [f"s{p}{q} += e{p}*z{q}" for p, q in _MOMENTS]
    return _Moments(
        name="branch_moments",
        arguments="parameters, nodes, n, sign, out",
        signature="{_VECTOR}, {_NODES}, int64, float64, {_VECTOR}",
        summary="Posterior sums of one branch h_2 = sign undo(v).",
        branches="(a', b') = (a, b) of the branch sign (vp, vm)",
        sign="sign*",
        weights="w",
        weight=weight,
        terms=terms,
    )


def _pair() -> _Moments:
    second = [
        "hp = w2p + slope*dp",
        "hm = w2m + slope*dm",
        "z3 = (a[k] - hp)*i2",
        "z4 = (b[k] - hm)*i2",
        "y3 = (-a[k] - hp)*i2",
        "y4 = (-b[k] - hm)*i2",
    ]
    weight = [
        *second,
        "t = shift - z1*z1 - z2*z2",
        "w[k] = 0.5*(t - z3*z3 - z4*z4)",
        "x[k] = 0.5*(t - y3*y3 - y4*y4)",
    ]
    terms = [
        *second,
        "e = w[k] + x[k]",
        "e1 = e*z1",
        "e2 = e*z2",
        "w3 = w[k]*z3",
        "w4 = w[k]*z4",
        "x3 = x[k]*y3",
        "x4 = x[k]*y4",
        "e3 = w3 + x3",
        "e4 = w4 + x4",
        "s += e",
    ]
    terms += [f"s{p} += e{p}" for p in range(1, 5)]
    terms += [f"s1{q} += e{q}*z1" for q in range(1, 5)] + [f"s2{q} += e{q}*z2" for q in range(2, 5)]
    terms += ["s33 += w3*z3 + x3*y3", "s34 += w3*z4 + x3*y4", "s44 += w4*z4 + x4*y4"]
    return _Moments(
        name="pair_moments",
        arguments="parameters, nodes, n, out",
        signature="{_VECTOR}, {_NODES}, int64, {_VECTOR}",
        summary="Posterior sums of both branches h_2 = +-undo(v).",
        branches="summed over (a', b') = +-(a, b)",
        sign="",
        weights="wx",
        weight=weight,
        terms=terms,
    )


def _undo(exponential: bool) -> list[str]:
    """Loops that fill a, b and inv_det; w is scratch until the weights are taken."""
    if not exponential:
        return _loop(["a[k], b[k], inv_det[k] = undo_node(xp[k], xm[k], row1[k], row2[k], vp, vm, c, beta)"])
    return [
        *_loop(["w[k] = exp_fast(undo_exponent(xp[k], xm[k], beta)[0])"]),
        *_loop(["a[k], b[k], inv_det[k] = undo_node(xp[k], xm[k], row1[k], row2[k], w[k], vp, vm, c, beta)"]),
    ]


def render(names: Container[str]) -> str:
    """Return the source of the module, without its header, for a package with kernels of these names."""
    undo = _undo("undo_exponent" in names)
    imported = ("undo_exponent", "undo_node", "undo_row") if "undo_exponent" in names else ("undo_node", "undo_row")
    head = _HEAD.replace("{names}", ", ".join(imported))
    return "\n\n".join([head, _ROWS, _function(_single(), undo), _function(_pair(), undo)])
