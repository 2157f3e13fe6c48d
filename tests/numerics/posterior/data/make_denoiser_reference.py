"""Make denoiser_reference.json: log Z, g_out and d g_out of a seeded set, to 21 digits.

    python tests/numerics/posterior/data/make_denoiser_reference.py

Every entry is first computed in extended precision, which shares with `denoise_mp` the cut of the plane into rectangles
and the Gauss-Legendre nodes, and nothing else: it works in tokens, builds B_1 = c I + sigma(beta h_1^T h_1) as a matrix
and solves for h_2. Then `denoise_mp` replaces it, and the difference of the two is kept as `check`. An interrupted run
goes on where it stopped.
"""

import json
import math
from pathlib import Path

import flint
import mpmath
import numpy as np
from tqdm import tqdm

from attnlimits.numerics.arithmetic.ball import ball, working_bits
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.precise import denoiser as precise
from attnlimits.numerics.posterior.precise.cut import cut_plane
from attnlimits.numerics.posterior.precise.integrand import Integrand
from attnlimits.numerics.posterior.precise.sum import _rule

PATH = Path(__file__).with_name("denoiser_reference.json")
SEED = 20250202
LONG = np.longdouble
EXTENDED_DIGITS = 17
# Two summations agree to this.
EXTENDED_ERROR = 2e-16
MP_DIGITS = 21

NEAR = 0.9999
CATEGORIES = {
    "half": [[1.0, 0.0], [0.0, 0.5]],
    "small second": [[0.7, 0.0], [0.0, 0.01]],
    "V_22 = 1e-3": [[0.6, 0.0], [0.0, 1e-3]],
    "V_11 = 1e-3": [[1e-3, 0.0], [0.0, 0.8]],
    "near-singular": [[0.5, -0.5 * NEAR], [-0.5 * NEAR, 0.5]],
    "correlated": [[0.6, 0.3], [0.3, 0.5]],
    "omega = 5": [[0.8, -0.1], [-0.1, 0.4]],
    "omega = 0": [[1.0, 0.0], [0.0, 1.0]],
    "omega_1 = 0": [[1.0, 0.0], [0.0, 0.3]],
    "unlikely y": [[0.3, 0.05], [0.05, 0.2]],
}


def entries():
    """Yield the seeded set: every activation, c, beta and category once."""
    rng = np.random.default_rng(SEED)
    for activation in ("softmax", "linear"):
        for skip in (0.05, 0.3, 1.0, 5.0):
            for beta in (0.2, 1.0, 5.0):
                for category, covariance in CATEGORIES.items():
                    model = Network(2, 2, 1, skip, beta, activation)
                    V = np.array(covariance)
                    omega = rng.standard_normal((2, 2))
                    if category == "omega = 5":
                        omega = 5.0 * np.sign(omega)
                    elif category == "omega = 0":
                        omega[:] = 0.0
                    elif category == "omega_1 = 0":
                        omega[0] = 0.0
                    if category == "near-singular" and beta == 1.0:
                        V[0, 1], V[1, 0] = -V[0, 1], -V[1, 0]
                    centre = omega if category != "unlikely y" else 1.5 * rng.standard_normal((2, 2))
                    spread = np.linalg.cholesky(V) @ rng.standard_normal((2, 2))
                    # A softmax of scores beyond 700 has entries that are no doubles.
                    while (model.link(centre + spread) < (1e-280 if activation == "softmax" else -np.inf)).any():
                        centre[1] *= 0.7
                    yield {
                        "activation": activation,
                        "skip": skip,
                        "beta": beta,
                        "category": category,
                        "y": model.link(centre + spread).tolist(),
                        "omega": omega.tolist(),
                        "V": V.tolist(),
                    }


def _long(number):
    return LONG(number.str(25, radius=False))


def _second_indices(model, v, x1, x2):
    """Tokens of h_2 = B_1^{-1} v and log(1/|det B_1|), B_1 written as a matrix."""
    c, beta = LONG(model.skip), LONG(model.beta)
    if model.activation == "softmax":
        e1, e2 = beta * x1 * (x1 - x2), beta * x2 * (x2 - x1)
        s11, s12 = 1 / (1 + np.exp(-e1)), 1 / (1 + np.exp(e1))
        s22, s21 = 1 / (1 + np.exp(-e2)), 1 / (1 + np.exp(e2))
    else:
        s11, s12, s21, s22 = beta * x1 * x1, beta * x1 * x2, beta * x1 * x2, beta * x2 * x2
    b11, b22 = c + s11, c + s22
    det = b11 * b22 - s12 * s21
    return (b22 * v[0] - s12 * v[1]) / det, (b11 * v[1] - s21 * v[0]) / det, -np.log(det)


def extended(entry):
    """Log Z, g_out, d g_out, the error shown and the number of nodes, in 64-bit mantissas."""
    model = Network(2, 2, 1, entry["skip"], entry["beta"], entry["activation"])
    with working_bits(120):
        return _extended(model, *(np.vectorize(ball, otypes=[object])(entry[key]) for key in ("y", "omega", "V")))


def _extended(model, y, omega, V):
    v, log_jacobian = precise._invert(model, y, ball(model.beta))
    root = flint.arb(0.5).sqrt()
    slope = V[0, 1] / V[0, 0]
    i1, i2 = V[0, 0].rsqrt(), (V[1, 1] - slope * V[0, 1]).rsqrt()
    rows = [
        number for row in (v, omega[0], omega[1]) for number in ((row[0] + row[1]) * root, (row[0] - row[1]) * root)
    ]
    exact = (*rows[:2], model.skip, model.beta, *rows[2:], i1, slope, i2)
    cut = cut_plane(Integrand(model, tuple(map(float, exact)), EXTENDED_DIGITS))
    boxes, orders = cut.boxes, np.stack([cut.along_p.max(axis=1), cut.along_m], axis=1)
    middle = _long(rows[2]), _long(rows[3])
    v, w1, w2 = ([_long(number) for number in row] for row in (v, omega[0], omega[1]))
    k, i1, i2 = _long(slope), _long(i1), _long(i2)
    pairs = [(i, j) for i in range(4) for j in range(i, 4)]

    def log_weights(box, order):
        tp, cp = (np.array([_long(n) for n in part.balls()]) for part in _rule(int(order[0]), 3)[:2])
        tm, cm = (np.array([_long(n) for n in part.balls()]) for part in _rule(int(order[1]), 3)[:2])
        half = LONG(1) / 2
        xp = (middle[0] + LONG(box[0]) + LONG(box[2]) * tp)[:, None]
        xm = (middle[1] + LONG(box[1]) + LONG(box[3]) * tm)[None, :]
        x1, x2 = (xp + xm) * np.sqrt(half), (xp - xm) * np.sqrt(half)
        h1, h2, log_det = _second_indices(model, v, x1, x2)
        area = cp[:, None] * cm[None, :] * LONG(box[2]) * LONG(box[3])
        z1, z2 = (x1 - w1[0]) * i1, (x2 - w1[1]) * i1
        for sign in (1, -1):
            z3 = (sign * h1 - w2[0] - k * (x1 - w1[0])) * i2
            z4 = (sign * h2 - w2[1] - k * (x2 - w1[1])) * i2
            yield area, log_det - (z1 * z1 + z2 * z2 + z3 * z3 + z4 * z4) / 2, (z1, z2, z3, z4)

    def moments(orders, shift):
        out = np.zeros(15, LONG)
        for box, order in zip(boxes, orders, strict=True):
            for area, log_w, z in log_weights(box, order):
                w = area * np.exp(log_w + shift)
                wz = [w * entry for entry in z]
                out += [w.sum(), *(part.sum() for part in wz), *((wz[i] * z[j]).sum() for i, j in pairs)]
        return out

    shift = -max(part[1].max() for box in boxes for part in log_weights(box, (9, 9)))
    error, after = math.inf, moments(orders, shift)
    while error > EXTENDED_ERROR:
        if orders.max() > 400:
            raise SystemExit(f"no convergence: {model.describe()}, V = {V}")
        before = after
        orders = np.ceil(1.1 * orders).astype(int) + 1
        after = moments(orders, shift)
        error = float((np.abs(after - before) / np.maximum(after[0], np.abs(after))).max())
    first = after[1:5] / after[0]
    second = np.empty((4, 4), LONG)
    for n, (i, j) in enumerate(pairs):
        second[i, j] = second[j, i] = after[5 + n] / after[0]
    covariance = second - first[:, None] * first[None, :] - np.eye(4, dtype=LONG)
    # Rows of z are (index, token): V^{-1} (h - omega) = W^T z with W = [[i1, 0], [-slope i2, i2]].
    back = np.zeros((4, 4), LONG)
    for token in range(2):
        back[token, token], back[token, 2 + token], back[2 + token, 2 + token] = i1, -k * i2, i2
    log_z = np.log(after[0]) - shift - 2 * np.log(2 * _long(flint.arb.pi())) + 2 * np.log(i1 * i2) - _long(log_jacobian)
    return log_z, back @ first, (back @ covariance @ back.T).ravel(), error, int(orders.prod(axis=1).sum())


def _texts(numbers):
    return [np.format_float_scientific(number, precision=19, unique=False) for number in numbers]


def _save(data):
    part = PATH.with_suffix(".part")
    part.write_text(json.dumps(data, indent=0) + "\n")
    part.replace(PATH)


def _by_denoise_mp(entry):
    """The entry with its values by `denoise_mp`, and their difference to those it has."""
    model = Network(2, 2, 1, entry["skip"], entry["beta"], entry["activation"])
    exact = precise.denoise_mp(model, entry["y"], entry["omega"], entry["V"], digits=MP_DIGITS)
    g, dg = exact.g_out.ravel(), exact.dg_out.ravel()
    convert = exact.log_z.context.mpf
    off = [abs(exact.log_z - convert(entry["log_z"]))]
    for new, old in ((g, entry["g_out"]), (dg, entry["dg_out"])):
        off.append(max(abs(a - convert(b)) for a, b in zip(new, old, strict=True)) / max(1, *map(abs, new)))
    return entry | {
        "log_z": mpmath.nstr(exact.log_z, 22),
        "g_out": [mpmath.nstr(number, 22) for number in g],
        "dg_out": [mpmath.nstr(number, 22) for number in dg],
        "error": exact.error,
        "nodes": exact.nodes,
        "how": "mp",
        "check": float(max(off)),
    }


def main():
    data = json.loads(PATH.read_text()) if PATH.exists() else []
    for number, entry in enumerate(tqdm(list(entries()), desc="extended precision")):
        if number < len(data):
            if [data[number][key] for key in entry] != list(entry.values()):
                raise SystemExit(f"{PATH.name} is of another set: remove it")
            continue
        log_z, g, dg, error, nodes = extended(entry)
        result = {"log_z": _texts([log_z])[0], "g_out": _texts(g), "dg_out": _texts(dg), "error": error, "nodes": nodes}
        data.append(entry | result | {"how": "extended"})
        _save(data)
    left = [number for number, entry in enumerate(data) if entry["how"] != "mp"]
    for number in tqdm(sorted(left, key=lambda number: data[number]["nodes"]), desc="denoise_mp"):
        data[number] = _by_denoise_mp(data[number])
        _save(data)


if __name__ == "__main__":
    main()
