"""The operator (15) where E[G_ab G_cd] is known in closed form."""

import itertools
from collections.abc import Callable, Sequence

import sympy as sp

Pair = Callable[[int, int, int, int], sp.Expr]


def pair_operator(
    pair: Pair, entries: Sequence[int], indices: int, tokens: int, learned: Sequence[int] = ()
) -> sp.Matrix:
    """Operator from E[G_ab G_cd] over some entries, where y says nothing of the others.

    Parameters
    ----------
    pair : callable
        E[G_ab G_cd] of the places a, b, c, d among `entries`.
    entries : sequence of int
        Entries of h that the output holds, counted token by token; none of them is known.
    indices, tokens : int
        P and M.
    learned : sequence of int
        Indices that are known.

    Returns
    -------
    sympy.Matrix
        On the orthonormal basis of symmetric matrices of the other indices.

    References
    ----------
    troiani2025, (15).
    """
    rest = [i for i in range(indices) if i not in learned]
    token, index = [k // indices for k in entries], [rest.index(k % indices) for k in entries]
    places = range(len(entries))
    image: dict[tuple[int, int, int, int], sp.Expr] = {}
    for a, b, c, d in itertools.product(places, repeat=4):
        if token[a] == token[c] and token[b] == token[d] and (value := pair(a, b, c, d)) != 0:
            key = index[a], index[c], index[b], index[d]
            image[key] = image.get(key, sp.S.Zero) + value
    basis = symmetric_basis(len(rest))
    operator = sp.zeros(len(basis), len(basis))
    for (p, q, r, s), value in image.items():
        rows = [(i, e[p, q]) for i, e in enumerate(basis) if e[p, q] != 0]
        columns = [(j, e[r, s]) for j, e in enumerate(basis) if e[r, s] != 0]
        for (i, x), (j, y) in itertools.product(rows, columns):
            operator[i, j] += value * x * y
    return operator.applyfunc(sp.expand)


def fixed_pair(a: int, b: int, c: int, d: int) -> sp.Expr:
    """E[G_ab G_cd] where y fixes h h^T: the fourth moments of the normal law."""
    return sp.Integer((a == c) * (b == d) + (a == d) * (b == c))


def radial_pair(count: int) -> Pair:
    """E[G_ab G_cd] where y fixes the sum of the squares of n entries alone: G = (s/n - 1) I, E (s/n - 1)^2 = 2/n."""
    return lambda a, b, c, d: sp.Rational(2, count) if a == b and c == d else sp.S.Zero


def direction_pair(direction: Sequence[sp.Expr]) -> Pair:
    """E[G_ab G_cd] where y fixes u^2 of one unit direction: G = (u^2 - 1) a a^T, E (u^2 - 1)^2 = 2."""
    return lambda a, b, c, d: 2 * sp.Mul(*(direction[k] for k in (a, b, c, d)))


def group_pair(maps: Sequence[sp.Matrix]) -> Pair:
    """E[G_ab G_cd] where y fixes h up to a group of orthogonal maps T: G = mean_T T (h h^T - I) T^T."""
    size = maps[0].shape[0]
    mean: dict[tuple[int, int], sp.Matrix] = {}
    for a, b in itertools.product(range(size), repeat=2):
        total = sum((t[a, :].T * t[b, :] for t in maps), sp.zeros(size, size)) / len(maps)
        # h h^T is symmetric.
        mean[a, b] = (total + total.T) / 2
    return lambda a, b, c, d: sp.expand(2 * (mean[a, b] * mean[c, d]).trace())


def symmetric_basis(size: int) -> list[sp.Matrix]:
    """Orthonormal basis of the symmetric matrices."""
    basis = []
    for i in range(size):
        for j in range(i, size):
            e = sp.zeros(size, size)
            e[i, j] = e[j, i] = 1 if i == j else 1 / sp.sqrt(2)
            basis.append(e)
    return basis
