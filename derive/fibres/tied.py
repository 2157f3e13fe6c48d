"""The fibre of a tied layer: a point of m spheres and, for softmax with r >= M, what moves every token alike."""

import sympy as sp

from ..architecture import Architecture
from .frames import exact_inverse, orthogonal_frame, upper_cholesky
from .level_set import LINE, Fibre, Observed, Range


def gram_symbols(size: int) -> sp.Matrix:
    """Return the Gram matrix C of the pivot vectors as symbols."""

    def entry(i: int, j: int) -> sp.Symbol:
        return sp.Symbol(f"C_{min(i, j) + 1}_{max(i, j) + 1}", positive=True if i == j else None, real=True)

    return sp.Matrix(size, size, entry)


def cross_symbols(size: int, others: int) -> sp.Matrix:
    """Return the products X of the pivot vectors with the other tokens as symbols."""
    return sp.Matrix(size, others, lambda i, j: sp.Symbol(f"X_{i + 1}_{j + 1}", real=True))


def tied_readout(
    model: Architecture, pivots: list[int], root: sp.Matrix, cross: sp.Matrix, origin: int | None = None
) -> tuple[sp.Matrix, tuple[sp.Symbol, ...], tuple[Range, ...], tuple[sp.Symbol, ...], sp.Expr]:
    """Return v from the Cholesky factor and the cross products, with variables, ranges, signs and log of dO."""
    rank, tokens, size = model.rank_vector[-1], model.tokens, len(pivots)
    softmax = model.activation == "softmax"
    origin = tokens - 1 if origin is None else origin
    others = [t for t in range(tokens) if t not in pivots]
    frame, angles, ranges, signs, weight = orthogonal_frame(rank, size)
    span = frame[:, :size]
    first = span * root
    # f^T g = X has the solution g = O R^{-T} X, up to what is orthogonal to f.
    second = span * root.T.lower_triangular_solve(cross) if others else sp.zeros(rank, 0)
    shift = sp.Matrix(
        rank - size if others else 0, len(others), lambda i, j: sp.Symbol(f"n_{i + 1}_{j + 1}", real=True)
    )
    if len(shift):
        second += frame[:, size:] * shift
    columns = {b: second[:, j] for j, b in enumerate(others)}
    for i, a in enumerate(pivots):
        columns[a] = first[:, i] + columns[origin] if softmax else first[:, i]
    readout = sp.Matrix.hstack(*[columns[t] for t in range(tokens)])
    return readout, (*angles, *shift), (*ranges, *([LINE] * len(shift))), signs, weight


def tied_fibre(observed: Observed) -> Fibre:
    """Derive the fibre from the Gram matrix of the pivot vectors and their products with the other tokens."""
    model, coordinate, pivots, origin = observed.model, observed.coordinate, observed.pivots, observed.origin
    rank, tokens, beta = model.rank_vector[-1], model.tokens, model.beta
    others = observed.others
    size = len(pivots)
    softmax = origin >= 0
    gram, cross = gram_symbols(size), cross_symbols(size, len(others))
    coordinates, data = [], []
    for i, a in enumerate(pivots):
        for j, b in enumerate(pivots[i:], start=i):
            coordinates.append(coordinate(a, b))
            # v_a (v_b - v_z) - v_z (v_b - v_z) for softmax.
            value = coordinate(a, b) - coordinate(origin, b) if softmax else coordinate(a, b)
            data.append((gram[i, j], value / beta))
        for j, b in enumerate(others):
            # Softmax has the differences in its columns; the other outputs are symmetric.
            coordinates.append(coordinate(b, a) if softmax else coordinate(a, b))
            data.append((cross[i, j], coordinates[-1] / beta))
    readout, variables, ranges, signs, weight = tied_readout(model, pivots, upper_cholesky(gram), cross, origin)
    exponent = sp.Rational(rank - tokens - 1, 2)
    measure = weight - size * sp.log(2) + exponent * sp.log(gram.det(method="berkowitz"))
    log_density = measure - len(coordinates) * sp.log(beta)
    dependent = _dependent(observed, gram, cross)
    y = observed.output
    return Fibre(model, y, tuple(coordinates), tuple(data), dependent, variables, ranges, signs, readout, log_density)


def _dependent(observed: Observed, gram: sp.Matrix, cross: sp.Matrix) -> tuple[tuple[sp.Expr, sp.Expr], ...]:
    """Return the scores below the diagonal of the pivots, and those of two tokens outside the span's pivots.

    ``v_a . v_b = (f^T v_a)^T C^{-1} (f^T v_b)`` where f spans all tokens, which is so wherever it is used.
    """
    beta, coordinate, origin = observed.model.beta, observed.coordinate, observed.origin
    pivots, others = observed.pivots, observed.others
    place = {b: j for j, b in enumerate(others)}
    shift = cross[:, place[origin]] if origin >= 0 else sp.zeros(len(pivots), 1)
    found = []
    for i, a in enumerate(pivots):
        # Scores with pivot j against the reference: f_j . v_a.
        found += [(coordinate(a, pivots[j]), beta * (gram[i, j] + shift[j])) for j in range(i)]
    if origin < 0:
        found += [(coordinate(b, a), beta * cross[i, j]) for i, a in enumerate(pivots) for j, b in enumerate(others)]
    rest = [b for b in others if b != origin]
    if not rest:
        return tuple(found)
    along = {b: cross[:, j] for b, j in place.items()}
    rows = others
    if origin >= 0:
        along |= {a: gram[:, i] + shift for i, a in enumerate(pivots)}
        rows = sorted(along)
    inverse = exact_inverse(gram)
    for b in rest:
        dual = inverse * (along[b] - shift)
        found += [(coordinate(a, b), beta * along[a].dot(dual)) for a in rows]
    return tuple(found)
