"""Template of ``posterior64.py``: posterior moments (12) of a two-layer channel, summed over a list of nodes.

The loops inline the package's own `undo`, so they belong to the compile unit of the kernel; they are the same
text for every package.
"""

from __future__ import annotations

__all__ = ["render"]

_MOMENTS = [(p, q) for p in range(1, 5) for q in range(p, 5)]

_HEAD = """
from numba import njit

from ..fastmath import FLAGS, exp_fast
from .numba64 import undo

# Sums over nodes may be taken in any order.
_OPTIONS = {"error_model": "numpy", "fastmath": FLAGS | {"reassoc"}, "cache": True}
_VECTOR = "float64[::1]"
"""

_NOTES = """
    Adds to `out` the sums of w, w z_i and w z_i z_j (i <= j, row by row) over the nodes (xp[k], xm[k]),
    k < n, where
    z = ((xp - w1p) i1, (xm - w1m) i1, (a' - w2p - slope (xp - w1p)) i2, (b' - w2m - slope (xm - w1m)) i2),
    w = exp((shift - |z|^2)/2) inv_det, {branches}.
    parameters = (vp, vm, c, beta, w1p, w1m, w2p, w2m, i1, slope, i2, shift): with i1 = V_11^{{-1/2}},
    slope = V_12/V_11 and i2 = (V_22 - V_12^2/V_11)^{{-1/2}}, z is h - omega whitened, first layer first.
    n must be at most the length of xp and xm.

    References
    ----------
    troiani2025, (12), (163)-(170).
"""


def _function(
    name: str, arguments: str, signature: str, summary: str, branches: str, weight: list[str], sign: str
) -> str:
    lines = [
        f'@njit(f"void({signature})", **_OPTIONS)',
        f"def {name}({arguments}):",
        f'    """{summary}',
        _NOTES.format(branches=branches).rstrip(),
        '    """',
        "    w1p, w1m, w2p, w2m = parameters[4], parameters[5], parameters[6], parameters[7]",
        "    i1, slope, i2, shift = parameters[8], parameters[9], parameters[10], parameters[11]",
        "    c, beta = parameters[2], parameters[3]",
        f"    vp, vm = {sign}parameters[0], {sign}parameters[1]",
        "    s = 0.0",
        *(f"    s{p} = 0.0" for p in range(1, 5)),
        *(f"    s{p}{q} = 0.0" for p, q in _MOMENTS),
        "    for k in range(n):",
        "        a, b, inv_det = undo(xp[k], xm[k], vp, vm, c, beta)",
        "        dp = xp[k] - w1p",
        "        dm = xm[k] - w1m",
        "        z1 = dp*i1",
        "        z2 = dm*i1",
        *(f"        {line}" for line in weight),
        *(f"    out[{k}] += {total}" for k, total in enumerate(_totals())),
    ]
    return "\n".join(lines) + "\n"


def _totals() -> list[str]:
    return ["s", *(f"s{p}" for p in range(1, 5)), *(f"s{p}{q}" for p, q in _MOMENTS)]


def _single() -> list[str]:
    lines = [
        "z3 = (a - w2p - slope*dp)*i2",
        "z4 = (b - w2m - slope*dm)*i2",
        "w = exp_fast(0.5*(shift - z1*z1 - z2*z2 - z3*z3 - z4*z4))*inv_det",
        "s += w",
    ]
    lines += [f"e{p} = w*z{p}" for p in range(1, 5)]
    lines += [f"s{p} += e{p}" for p in range(1, 5)]
    lines += [f"s{p}{q} += e{p}*z{q}" for p, q in _MOMENTS]
    return lines


def _pair() -> list[str]:
    lines = [
        "hp = w2p + slope*dp",
        "hm = w2m + slope*dm",
        "t = shift - z1*z1 - z2*z2",
        "z3 = (a - hp)*i2",
        "z4 = (b - hm)*i2",
        "w = exp_fast(0.5*(t - z3*z3 - z4*z4))*inv_det",
        "y3 = (-a - hp)*i2",
        "y4 = (-b - hm)*i2",
        "x = exp_fast(0.5*(t - y3*y3 - y4*y4))*inv_det",
        "e = w + x",
        "e1 = e*z1",
        "e2 = e*z2",
        "w3 = w*z3",
        "w4 = w*z4",
        "x3 = x*y3",
        "x4 = x*y4",
        "e3 = w3 + x3",
        "e4 = w4 + x4",
        "s += e",
    ]
    lines += [f"s{p} += e{p}" for p in range(1, 5)]
    lines += [f"s1{q} += e{q}*z1" for q in range(1, 5)] + [f"s2{q} += e{q}*z2" for q in range(2, 5)]
    lines += ["s33 += w3*z3 + x3*y3", "s34 += w3*z4 + x3*y4", "s44 += w4*z4 + x4*y4"]
    return lines


def render() -> str:
    """Return the source of the module, without its header."""
    vectors = "{_VECTOR}, {_VECTOR}, {_VECTOR}, int64"
    return "\n\n".join(
        [
            _HEAD,
            _function(
                "branch_moments",
                "parameters, xp, xm, n, sign, out",
                f"{vectors}, float64, {{_VECTOR}}",
                "Posterior sums of one branch h_2 = sign undo(v).",
                "(a', b') = (a, b) of the branch sign (vp, vm)",
                _single(),
                "sign*",
            ),
            _function(
                "pair_moments",
                "parameters, xp, xm, n, out",
                f"{vectors}, {{_VECTOR}}",
                "Posterior sums of both branches h_2 = +-undo(v).",
                "summed over (a', b') = +-(a, b)",
                _pair(),
                "",
            ),
        ]
    )
