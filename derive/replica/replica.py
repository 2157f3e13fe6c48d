"""The algebra of replica-symmetric matrices (140)-(143), (149)-(151), for a symbolic number of replicas and any P.

N replicas of P indices have a covariance of N x N blocks; replica symmetry leaves two, one on the diagonal and one off
it.  With J the all-ones matrix of size N, e = J/N is a projector of trace one, so that every such matrix is

    (1 - e) (x) A + e (x) S,

and sums, products, inverses and determinants act on the pair (A, S) alone: A is what the N - 1 differences between
replicas see, S what their mean sees.  Nothing here asks that N be an integer: that is the continuation in n = N - 1.

Blocks are SymPy expressions in symbols that need not commute, or matrices.  Where all blocks are functions of one
matrix q, they may be written with one commuting symbol for it: an identity between rational functions holds for every
matrix at which their denominators are invertible, at any P, and log det f(q) = Tr log f(q).
"""

from dataclasses import dataclass
from typing import TypeAlias

import sympy as sp

from ..proof import ProofError, prove_equal, reduces_to_zero

__all__ = [
    "ReplicaSymmetric",
    "extra_replicas",
    "overlap",
    "overlap_matrix",
    "prove_algebra",
    "prove_determinant",
    "prove_inverse",
    "prove_zero_replicas",
    "slope",
]

Block: TypeAlias = sp.Expr | sp.Matrix

#: n = N - 1: how many replicas there are beside the target. Real, so that it can go to zero.
extra_replicas = sp.Symbol("n", nonnegative=True)
#: The overlap q, where all blocks are functions of it.
overlap = sp.Symbol("q", positive=True)


@dataclass(frozen=True)
class ReplicaSymmetric:
    """(1 - e) (x) apart + e (x) together, e = J/N, J all ones.

    Attributes
    ----------
    apart, together : sympy.Expr or sympy.Matrix
        The blocks A and S, P x P.
    replicas : sympy.Expr
        N.
    """

    apart: Block
    together: Block
    replicas: sp.Expr

    @classmethod
    def of_blocks(cls, diagonal: Block, off: Block, replicas: sp.Expr) -> "ReplicaSymmetric":
        """Return the matrix with these blocks on the diagonal and off it."""
        return cls(diagonal - off, diagonal + (replicas - 1) * off, replicas)

    @property
    def off(self) -> Block:
        """Block off the diagonal."""
        return (self.together - self.apart) / self.replicas

    @property
    def diagonal(self) -> Block:
        """Block on the diagonal."""
        return self.apart + self.off

    def __add__(self, other: "ReplicaSymmetric") -> "ReplicaSymmetric":
        """Sum."""
        return ReplicaSymmetric(self.apart + other.apart, self.together + other.together, self.replicas)

    def __mul__(self, other: "ReplicaSymmetric") -> "ReplicaSymmetric":
        """Return the product: e and 1 - e are orthogonal projectors, so that A and S multiply apart."""
        return ReplicaSymmetric(self.apart * other.apart, self.together * other.together, self.replicas)

    def inverse(self) -> "ReplicaSymmetric":
        """Inverse, where A and S have one."""
        return ReplicaSymmetric(self.apart**-1, self.together**-1, self.replicas)

    def determinant(self) -> sp.Expr:
        """Return det A^{N-1} det S: in a basis that begins with the vector of ones the matrix is (S, A, .., A)."""
        apart, together = (b.det() if isinstance(b, sp.MatrixBase) else b for b in (self.apart, self.together))
        return apart ** (self.replicas - 1) * together

    def log_determinant(self) -> sp.Expr:
        """(N - 1) log A + log S of blocks that are functions of q: its trace over the P indices is log det."""
        return (self.replicas - 1) * sp.log(self.apart) + sp.log(self.together)

    def written_out(self) -> sp.Matrix:
        """Return the whole matrix, for an integer N."""
        size = int(self.replicas)
        one, ones = sp.eye(size), sp.ones(size)
        diagonal, off = (b if isinstance(b, sp.MatrixBase) else sp.Matrix([[b]]) for b in (self.diagonal, self.off))
        return sp.Matrix(sp.kronecker_product(one, diagonal - off) + sp.kronecker_product(ones, off))


def overlap_matrix(q: Block = overlap, replicas: sp.Expr = extra_replicas + 1) -> ReplicaSymmetric:
    """Return the replica-symmetric covariance (140) of the indices: I on the diagonal, q off it."""
    one = sp.eye(q.rows) if isinstance(q, sp.MatrixBase) else sp.S.One
    return ReplicaSymmetric.of_blocks(one, q, replicas)


def slope(expr: sp.Expr) -> sp.Expr:
    """Return the first-order coefficient in n at n = 0."""
    return sp.diff(expr, extra_replicas).subs(extra_replicas, 0)


def _prove_blocks_equal(left: ReplicaSymmetric, right: ReplicaSymmetric, what: str) -> None:
    """Prove two matrices equal whose blocks are polynomials in symbols that do not commute, and their inverses."""
    for name, a, b in (("apart", left.apart, right.apart), ("together", left.together, right.together)):
        rest = sp.expand(a - b)
        if rest != 0:
            raise ProofError(f"{what}: the blocks {name} differ by {rest}")


def prove_algebra() -> None:
    """Prove that pairs (A, S) multiply, invert and sum as the matrices do, at any P and any N.

    Raises
    ------
    ProofError
        If an identity fails.

    Notes
    -----
    The projector: J^2 = N J and Tr J = N, for an all-ones matrix of symbolic size. Blocks: symbols that do not commute.
    For N = 1, 2, 3 the products are compared with matrices that are written out, with generic 2 x 2 blocks.
    """
    size = sp.Symbol("N", integer=True, positive=True)
    ones = sp.OneMatrix(size, size)
    if (ones * ones).doit() != (size * ones).doit():
        raise ProofError("the all-ones matrix J of size N: J^2 is not N J")
    prove_equal(sp.trace(ones).doit(), size, "trace of the all-ones matrix")

    a, s, b, t = sp.symbols("A S B T", commutative=False)
    first, second = ReplicaSymmetric(a, s, size), ReplicaSymmetric(b, t, size)
    # In blocks: (I (x) a0 + J (x) a1)(I (x) b0 + J (x) b1), with J^2 = N J.
    a1, b1 = first.off, second.off
    a0, b0 = first.diagonal - a1, second.diagonal - b1
    off = a0 * b1 + a1 * b0 + size * a1 * b1
    in_blocks = ReplicaSymmetric.of_blocks(a0 * b0 + off, off, size)
    _prove_blocks_equal(first * second, in_blocks, "product of two replica-symmetric matrices")
    _prove_blocks_equal(
        first * first.inverse(), ReplicaSymmetric(sp.S.One, sp.S.One, size), "a matrix times its inverse"
    )
    for number in (1, 2, 3):
        pair = [
            ReplicaSymmetric.of_blocks(
                sp.Matrix(2, 2, sp.symbols(f"{name}_1:5")),
                sp.Matrix(2, 2, sp.symbols(f"{name}_5:9")),
                sp.Integer(number),
            )
            for name in "xy"
        ]
        prove_equal(
            (pair[0] * pair[1]).written_out(),
            pair[0].written_out() * pair[1].written_out(),
            f"product written out, N = {number}",
        )
        prove_equal(
            (pair[0] + pair[1]).written_out(),
            pair[0].written_out() + pair[1].written_out(),
            f"sum written out, N = {number}",
        )


def prove_inverse(stated: ReplicaSymmetric | None = None) -> None:
    """Prove (141)-(142) for symbolic n and any P, and for matrices written out.

    Parameters
    ----------
    stated : ReplicaSymmetric, optional
        What is claimed to be the inverse of the overlap matrix; by default what (141)-(142) state.

    Raises
    ------
    ProofError
        If it is not the inverse.
    """
    n, q = extra_replicas, overlap
    if stated is None:
        off = -q / ((1 - q) * (1 + n * q))
        stated = ReplicaSymmetric.of_blocks(1 / (1 - q) + off, off, n + 1)
    product = overlap_matrix() * stated
    prove_equal(product.apart, sp.S.One, "(141)-(142), differences between replicas")
    prove_equal(product.together, sp.S.One, "(141)-(142), mean of the replicas")
    rational = sp.Matrix([[sp.Rational(1, 3), sp.Rational(1, 7)], [sp.Rational(1, 7), sp.Rational(2, 5)]])
    for number in (2, 3, 4):
        whole = overlap_matrix(rational, sp.Integer(number))
        prove_equal(whole.inverse().written_out(), whole.written_out().inv(), f"inverse written out, N = {number}")


def prove_determinant() -> None:
    """Prove (143): det Q = det(I - q)^n det(I + n q), for symbolic n; and against determinants written out.

    Raises
    ------
    ProofError
        If an identity fails.
    """
    n, q = extra_replicas, overlap
    whole = overlap_matrix()
    prove_equal(whole.apart, 1 - q, "(143), block of multiplicity n")
    prove_equal(whole.together, 1 + n * q, "(143), block of multiplicity one")
    for number in (1, 2, 3, 4):
        one = overlap_matrix(q, sp.Integer(number))
        prove_equal(one.written_out().det(method="berkowitz"), one.determinant(), f"P = 1, N = {number}")
    # Blocks that do not commute: the determinant of the pair, not that of a function of one matrix.
    diagonal, off = sp.Matrix(2, 2, sp.symbols("d_1:5")), sp.Matrix(2, 2, sp.symbols("o_1:5"))
    two = ReplicaSymmetric.of_blocks(diagonal, off, sp.Integer(2))
    prove_equal(two.written_out().det(method="berkowitz"), two.determinant(), "P = 2, N = 2, generic blocks")


def prove_zero_replicas() -> None:
    """Prove (149)-(151): the inverse at n = 0, and log det Q to first order in n, at any P.

    Raises
    ------
    ProofError
        If an identity fails.
    """
    q = overlap
    inverse = overlap_matrix().inverse()
    at_zero = {extra_replicas: 0}
    prove_equal(inverse.diagonal.subs(at_zero), sp.S.One, "(149)")
    prove_equal(inverse.off.subs(at_zero), -q / (1 - q), "(150)")
    log_det = overlap_matrix().log_determinant()
    if not reduces_to_zero(log_det.subs(at_zero)):
        raise ProofError("(151): log det Q does not vanish at n = 0")
    prove_equal(slope(log_det), sp.log(1 - q) + q, "(151)")
