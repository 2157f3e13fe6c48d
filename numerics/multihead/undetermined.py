"""Parameters that the inputs leave open whatever the layer is: coordinates that are zero, constant, or repeated."""

from typing import NamedTuple

import numpy as np

from ..learning.blocks import Array

__all__ = ["Open", "open_directions"]


class Open(NamedTuple):
    """Directions of token space that the inputs do not have.

    Attributes
    ----------
    absent : ndarray, shape (p, d)
        Combinations of coordinates that are zero in every token.
    constant : ndarray, shape (q, d)
        Further ones that are the same for all tokens of an example.
    scale : ndarray, shape (d,)
        Root mean square of every coordinate; 1 where it is zero.
    """

    absent: Array
    constant: Array
    scale: Array

    def sentences(self, heads: int) -> list[str]:
        """What is not determined, and why; rows, columns, coordinates and heads are numbered from 0."""
        thetas = ", ".join(f"Theta_{i}" for i in range(heads))
        values = ", ".join(f"W_{i}" for i in range(heads))
        said = []
        for vector in self.absent:
            where, what = _named(vector, ("zero", "equal", "opposite"))
            lines = f"row{where.plural} {where.text} and column{where.plural} {where.text} of {thetas} and " + (
                f"row{where.plural} {where.text} of {values}"
            )
            how = "are not determined" if where.single else "are determined together alone"
            said.append(f"{lines} {how}: {what}")
        for vector in self.constant:
            where, what = _named(vector, ("constant", "apart by a constant", "of a constant sum"))
            how = "is not determined" if where.single else "are determined together alone"
            shared = f", and of row{where.plural} {where.text} of {values} their sum alone" if heads > 1 else ""
            said.append(f"column{where.plural} {where.text} of {thetas} {how}{shared}: {what}")
        return said


class _Where(NamedTuple):
    text: str
    single: bool

    @property
    def plural(self) -> str:
        return "" if self.single else "s"


def _named(vector: Array, words: tuple[str, str, str]) -> tuple[_Where, str]:
    """The coordinates of a null vector, and what they are."""
    one, same, other = words
    order = np.argsort(-np.abs(vector))
    total = float(vector @ vector)
    first, second = int(order[0]), int(order[1]) if len(order) > 1 else int(order[0])
    # A null vector is named by one or two coordinates if the others hold less than this share of its square.
    rest = 1e-8
    if total - vector[first] ** 2 <= rest * total:
        return _Where(str(first), True), f"coordinate {first} of X is {one}"
    if total - vector[first] ** 2 - vector[second] ** 2 <= rest * total:
        a, b = sorted((first, second))
        ratio = -vector[b] / vector[a]
        if abs(abs(ratio) - 1) < 1e-6:
            return _Where(f"{a}, {b}", False), f"coordinates {a} and {b} of X are {same if ratio > 0 else other}"
        return _Where(f"{a}, {b}", False), f"coordinates {a} and {b} of X are proportional up to what is {one}"
    taken = sorted(int(i) for i in order if vector[i] ** 2 > rest * total)
    text = ", ".join(map(str, taken))
    return _Where(text, False), f"a combination of coordinates {text} of X is {one}"


def open_directions(X: Array) -> Open:
    """Combinations of coordinates that are zero, or the same for all tokens of an example.

    Parameters
    ----------
    X : ndarray, shape (n, k, d)

    Notes
    -----
    Scores are x_r^T Theta x_j up to what does not depend on j, and values X W: with v^T x = 0 for all tokens v drops
    out of both, and with v^T x_j the same for all j the columns Theta v drop out of the softmax, while the rows v^T W_i
    enter by their sum alone.
    """
    d = X.shape[2]
    tokens = X.reshape(-1, d)
    scale = np.sqrt(np.mean(tokens**2, axis=0))
    scale[scale == 0] = 1.0
    centred = (X - X.mean(axis=1, keepdims=True)).reshape(-1, d)
    absent = _null(tokens / scale)
    both = _null(centred / scale)
    constant = _basis(both - both @ absent.T @ absent) if len(absent) else both
    return Open(_readable(absent) / scale, _readable(constant) / scale, scale)


def _null(rows: Array) -> Array:
    """Orthonormal directions, as rows, in which no row is longer than rounding."""
    values, right = np.linalg.svd(np.linalg.qr(rows, mode="r"), full_matrices=True)[1:]
    size = np.sqrt(len(rows))
    # Singular values below this, of coordinates in units of their root mean square, are zero: rounding is 1e-16.
    zero = 1e-7
    kept = np.concatenate([values, np.zeros(right.shape[0] - len(values))]) <= zero * size
    return np.asarray(right[kept])


def _basis(vectors: Array) -> Array:
    """Orthonormal rows that span these."""
    if not len(vectors):
        return vectors
    _, values, right = np.linalg.svd(vectors, full_matrices=False)
    return np.asarray(right[values > 1e-6])


def _readable(vectors: Array) -> Array:
    """The same span by vectors with as few coordinates as elimination gives, one leading coordinate each.

    Which basis of the span it is given is a matter of rounding; the reduced echelon form is one of the span itself.
    """
    found = vectors.copy()
    # Of the largest entry that is left: an entry of at least this is a leading one.
    leading = 0.1
    for row in range(len(found)):
        left = np.abs(found[row:])
        column = int(np.argmax(left.max(axis=0) >= leading * left.max()))
        pivot = row + int(np.argmax(left[:, column]))
        found[[row, pivot]] = found[[pivot, row]]
        found[row] /= found[row, column]
        for other in range(len(found)):
            if other != row:
                found[other] -= found[other, column] * found[row]
    found[np.abs(found) < 1e-9] = 0.0
    return found
