"""Where a readout lies on its fibre: the data and the fibre variables as functions of the readout."""

import sympy as sp

from ..matrix_program import Names
from .level_set import Fibre

__all__ = ["data_of_readout", "variables_of_readout"]


def data_of_readout(found: Fibre, readout: sp.Matrix) -> list[sp.Expr]:
    """Return the products of tokens that the output fixes, in the order of `Fibre.data`.

    Parameters
    ----------
    found : Fibre
    readout : sympy.Matrix
        v, of the shape of `Fibre.readout`.
    """
    pivots, origin = _pivots(found)
    rank = readout.rows // (1 if found.model.tied else 2)
    others = [t for t in range(found.model.tokens) if t not in pivots]
    keys, queries = readout[:rank, :], readout[-rank:, :]
    values = []
    for symbol, _ in found.data:
        kind, i, j = symbol.name.split("_")[:3]
        first, second = int(i) - 1, int(j) - 1
        if kind == "C":
            values.append(_from(readout, pivots[first], origin).dot(_from(readout, pivots[second], origin)))
        elif kind == "X":
            values.append(_from(readout, pivots[first], origin).dot(readout[:, others[second]]))
        else:
            values.append(keys[:, first].dot(_from(queries, second, origin)))
    return values


def variables_of_readout(
    found: Fibre, readout: sp.Matrix, names: Names, suffix: str
) -> tuple[list[sp.Expr], list[sp.Expr]]:
    """Return the continuous variables of the fibre, without the shift of the queries, and the signs.

    Parameters
    ----------
    found : Fibre
    readout : sympy.Matrix
        v, of the shape of `Fibre.readout`.
    names : Names
        Gets assignments, whose names end with `suffix`.
    """
    if found.model.tied:
        return _rotation(found, readout, names, suffix)
    _, origin = _pivots(found)
    rank = readout.rows // 2
    keys, queries = readout[:rank, :], readout[rank:, :]
    values = []
    for symbol in found.variables:
        kind, i, j = symbol.name.split("_")[:3]
        row, token = int(i) - 1, int(j) - 1
        values.append(keys[row, token] if kind == "k" else _from(queries, token, origin)[row])
    return values, []


def _pivots(found: Fibre) -> tuple[list[int], int]:
    """Return the tokens that span the readout, counted from 0, and the reference token, -1 if there is none."""
    tokens = found.model.tokens
    origin = tokens - 1 if found.model.activation == "softmax" else -1
    size = min(found.model.rank_vector[-1], tokens - 1 if origin >= 0 else tokens)
    return [t for t in range(tokens) if t != origin][:size], origin


def _from(vectors: sp.Matrix, token: int, origin: int) -> sp.Matrix:
    """Return the vector of a token, taken from that of the reference token if there is one."""
    return vectors[:, token] - vectors[:, origin] if origin >= 0 else vectors[:, token]


def _rotation(found: Fibre, readout: sp.Matrix, names: Names, suffix: str) -> tuple[list[sp.Expr], list[sp.Expr]]:
    """Return the angles of the frame of a tied readout, its shift, and the sign of the frame."""
    pivots, origin = _pivots(found)
    rank, size = readout.rows, len(pivots)
    columns = [names.matrix(f"f{suffix}_{a + 1}", _from(readout, a, origin)) for a in pivots]
    rest = readout[:, origin] if origin >= 0 and rank > size else None
    angles: list[sp.Expr] = []
    signs: list[sp.Expr] = []
    for number in range(size):
        # What is left of the vectors has number rows less: the spheres before have been turned to the pole.
        part = columns[number]
        if part.rows == 1:
            signs.append(part[0] / sp.sqrt(part[0] ** 2))
            break
        later = columns[number + 1 :] + ([] if rest is None else [rest])
        new, turned = _turned(part, later, names, f"{suffix}_{number + 1}")
        angles += new
        columns[number + 1 :] = turned[: len(columns) - number - 1]
        rest = None if rest is None else turned[-1]
    shift = [] if rest is None else list(rest)
    return [*angles, *shift], signs


def _turned(
    vector: sp.Matrix, others: list[sp.Matrix], names: Names, suffix: str
) -> tuple[list[sp.Expr], list[sp.Matrix]]:
    """Return the spherical angles of a vector, and the others in the frame where it is the first axis, without it."""
    angles: list[sp.Expr] = []
    moved = [list(other) for other in others]
    left = list(vector)
    lengths = [names.put(f"l{suffix}_{k + 1}", sp.sqrt(sp.Add(*[x**2 for x in left[k:]]))) for k in range(len(left))]
    for k in range(len(left) - 1):
        if k < len(left) - 2:
            angles.append(sp.acos(left[k] / lengths[k]))
        else:
            # The angle of the last circle, in (-pi, pi).
            angles.append(2 * sp.atan(left[k + 1] / (lengths[k] + left[k])))
    # The rotation that takes the axis to the vector is a product of turns of neighbouring axes, the last one first.
    for n, other in enumerate(moved):
        tail = other[-1]
        found = []
        for k in range(len(left) - 2, -1, -1):
            cosine = left[k] / lengths[k]
            sine = (left[k + 1] if k == len(left) - 2 else lengths[k + 1]) / lengths[k]
            found.append(names.put(f"m{suffix}_{n + 1}_{k + 1}", -sine * other[k] + cosine * tail))
            tail = names.put(f"p{suffix}_{n + 1}_{k + 1}", cosine * other[k] + sine * tail)
        moved[n] = found[::-1]
    return angles, [sp.Matrix(other) for other in moved]
