"""The fibre of an untied layer: an element of GL(r), and for softmax the common shift of the queries."""

import sympy as sp

from .frames import exact_inverse
from .level_set import LINE, Fibre, Observed

_Part = tuple[sp.Matrix, sp.Matrix, tuple[sp.Symbol, ...], sp.Expr, list[tuple[int, int]]]


def untied_fibre(observed: Observed) -> Fibre:
    """Derive the fibre from T = k^T p, of which the output shows every entry or every difference."""
    model, coordinate, pivots, origin = observed.model, observed.coordinate, observed.pivots, observed.origin
    rank, tokens, beta = model.rank_vector[-1], model.tokens, model.beta
    columns = [t for t in range(tokens) if t != origin]
    fixed = sp.Matrix(tokens, len(columns), lambda a, b: sp.Symbol(f"T_{a + 1}_{columns[b] + 1}", real=True))
    shift = sp.Matrix(rank if origin >= 0 else 0, 1, lambda i, _: sp.Symbol(f"u_{i + 1}", real=True))
    if rank <= len(columns):
        keys, differences, variables, measure, kept = _square_keys(rank, tokens, columns, fixed, pivots)
    else:
        keys, differences, variables, measure, kept = _wide_keys(rank, tokens, columns, fixed)
    queries = sp.zeros(rank, tokens)
    for j, b in enumerate(columns):
        queries[:, b] = differences[:, j]
    if origin >= 0:
        queries += shift * sp.ones(1, tokens)
    coordinates = tuple(coordinate(a, columns[j]) for a, j in kept)
    data = tuple((fixed[a, j], value / beta) for (a, j), value in zip(kept, coordinates, strict=True))
    variables = (*variables, *shift)
    return Fibre(
        model,
        observed.output,
        coordinates,
        data,
        _dependent(observed, fixed, columns) if rank < len(columns) else (),
        variables,
        (LINE,) * len(variables),
        (),
        sp.Matrix.vstack(keys, queries),
        measure - len(coordinates) * sp.log(beta),
    )


def _dependent(observed: Observed, fixed: sp.Matrix, columns: list[int]) -> tuple[tuple[sp.Expr, sp.Expr], ...]:
    """Return the scores that follow since T has rank r: ``T_JB = T_JA T_IA^{-1} T_IB`` with the pivots in I and A."""
    model, coordinate, pivots, others = observed.model, observed.coordinate, observed.pivots, observed.others
    keep = [columns.index(t) for t in pivots]
    rest = [j for j in range(len(columns)) if j not in keep]
    value = fixed[others, :][:, keep] * exact_inverse(fixed[pivots, :][:, keep]) * fixed[pivots, :][:, rest]
    return tuple(
        (coordinate(a, columns[b]), model.beta * value[i, j]) for i, a in enumerate(others) for j, b in enumerate(rest)
    )


def _square_keys(rank: int, tokens: int, columns: list[int], fixed: sp.Matrix, pivots: list[int]) -> _Part:
    """Rank r <= N: the keys of r pivot tokens are the fibre variables, an element of GL(r)."""
    others = [t for t in range(tokens) if t not in pivots]
    keep = [columns.index(t) for t in pivots]
    block = sp.Matrix(rank, rank, lambda i, j: sp.Symbol(f"k_{i + 1}_{pivots[j] + 1}", real=True))
    core = fixed[pivots, :][:, keep]
    differences = exact_inverse(block).T * fixed[pivots, :]
    keys = sp.zeros(rank, tokens)
    for j, a in enumerate(pivots):
        keys[:, a] = block[:, j]
    if others:
        # k_J^T p = T_J on the pivot columns, where p = k_I^{-T} T_I.
        found = block * (fixed[others, :][:, keep] * exact_inverse(core)).T
        for j, a in enumerate(others):
            keys[:, a] = found[:, j]
    kept = [(a, j) for a in pivots for j in range(len(columns))] + [(a, j) for a in others for j in keep]
    # dT_I = |det k_I|^N dp, and dT_J = |det p_pivots|^(M - r) dk_J.
    measure = (tokens - rank - len(columns)) * sp.log(sp.Abs(block.det(method="berkowitz")))
    measure -= (tokens - rank) * sp.log(sp.Abs(core.det(method="berkowitz")))
    return keys, differences, tuple(block), measure, kept


def _wide_keys(rank: int, tokens: int, columns: list[int], fixed: sp.Matrix) -> _Part:
    """Rank r > N: p and the last r - N rows of k are free, k_1 = p_1^{-T} (T^T - p_2^T k_2)."""
    width = len(columns)
    differences = sp.Matrix(rank, width, lambda i, j: sp.Symbol(f"p_{i + 1}_{columns[j] + 1}", real=True))
    lower = sp.Matrix(rank - width, tokens, lambda i, j: sp.Symbol(f"k_{width + i + 1}_{j + 1}", real=True))
    top, bottom = differences[:width, :], differences[width:, :]
    upper = exact_inverse(top).T * (fixed.T - bottom.T * lower)
    kept = [(a, j) for a in range(tokens) for j in range(width)]
    measure = -tokens * sp.log(sp.Abs(top.det(method="berkowitz")))
    return sp.Matrix.vstack(upper, lower), differences, (*differences, *lower), measure, kept
