"""Own symbolic functions that are differentiated exactly and printed stably.

SymPy's ``exp`` merges (``exp(a)*exp(b) -> exp(a + b)``) and its quotients of exponentials overflow once
they are turned into float64.  The nodes below stay as they are written.  They come in two levels:

* basic nodes, which every printer knows: `Exp`, `Expm1`, `Log1p`, `CopySign`, `Magnitude`, `Largest`,
  `Smallest`, `Guard`;
* composed nodes, which `stable` rewrites into basic ones in a form that is free of overflow and of
  cancellation:
  `Expit`, `LogExpit`, `LogSumExp`, `Softmax`.

`elementary` turns both into plain SymPy functions, which is what proofs use.
"""

from typing import TypeVar

import sympy as sp

__all__ = [
    "CopySign",
    "Exp",
    "Expit",
    "Expm1",
    "Guard",
    "Largest",
    "Log1p",
    "LogExpit",
    "LogSumExp",
    "Magnitude",
    "Primitive",
    "Smallest",
    "Softmax",
    "elementary",
    "softmax_rows",
    "stable",
]


class Primitive(sp.Function):
    """Base of the own nodes: knows its elementary and its stable form."""

    def elementary(self) -> sp.Expr:
        """Return the same value in plain SymPy functions."""
        raise NotImplementedError(f"{type(self).__name__} has no elementary form")

    def stable(self) -> sp.Expr:
        """Return the same value in basic nodes; a basic node returns itself."""
        return self


class _RealAtReal(Primitive):
    """A node that is real where all its arguments are."""

    def _eval_is_real(self) -> bool | None:
        return True if all(arg.is_real for arg in self.args) else None


class _RealAtExtended(Primitive):
    """A node that is real where all its arguments are real or infinite."""

    def _eval_is_real(self) -> bool | None:
        return True if all(arg.is_extended_real for arg in self.args) else None


class Exp(Primitive):
    """exp(x), never merged with other exponentials."""

    nargs = 1

    @classmethod
    def eval(cls, x: sp.Expr) -> sp.Expr | None:
        return sp.S.One if x.is_zero else None

    def _eval_is_positive(self) -> bool | None:
        return True if self.args[0].is_extended_real else None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return self

    def elementary(self) -> sp.Expr:
        return sp.exp(self.args[0])


class Expm1(_RealAtExtended):
    """exp(x) - 1 with full relative accuracy near x = 0."""

    nargs = 1

    @classmethod
    def eval(cls, x: sp.Expr) -> sp.Expr | None:
        return sp.S.Zero if x.is_zero else None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return Exp(self.args[0])

    def elementary(self) -> sp.Expr:
        return sp.exp(self.args[0]) - 1


class Log1p(Primitive):
    """log(1 + x) with full relative accuracy near x = 0; domain x > -1."""

    nargs = 1

    @classmethod
    def eval(cls, x: sp.Expr) -> sp.Expr | None:
        return sp.S.Zero if x.is_zero else None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return 1 / (1 + self.args[0])

    def elementary(self) -> sp.Expr:
        return sp.log(1 + self.args[0])


class CopySign(Primitive):
    """The sign of x as +1 or -1; +1 at x = 0 (a float printer keeps the sign of a zero)."""

    nargs = 1

    @classmethod
    def eval(cls, x: sp.Expr) -> sp.Expr | None:
        if x.is_number and x.is_extended_real:
            return -sp.S.One if x.is_negative else sp.S.One
        return None

    def _eval_is_real(self) -> bool | None:
        return True

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return sp.S.Zero

    def elementary(self) -> sp.Expr:
        x = self.args[0]
        return sp.Piecewise((sp.S.One, x >= 0), (-sp.S.One, True))


class Magnitude(Primitive):
    """|x|; not SymPy's ``Abs``, which searches nested arguments for signs it could take out."""

    nargs = 1

    @classmethod
    def eval(cls, x: sp.Expr) -> sp.Expr | None:
        if x.is_Number:
            return abs(x)
        # One of x and -x stands for both, so that they share a subtree.
        return cls(-x) if x.could_extract_minus_sign() else None

    def _eval_is_real(self) -> bool | None:
        return True

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return CopySign(self.args[0])

    def elementary(self) -> sp.Expr:
        return sp.Abs(self.args[0])


class Largest(_RealAtReal):
    """The largest argument; not SymPy's ``Max``, which compares nested arguments symbolically."""

    def elementary(self) -> sp.Expr:
        return sp.Max(*self.args)


class Smallest(_RealAtReal):
    """The smallest argument; see `Largest`."""

    def elementary(self) -> sp.Expr:
        return sp.Min(*self.args)


class Guard(_RealAtReal):
    """``Guard(exact, bounded)``: the exact value, and what a float printer uses in its place.

    Float64 exponents end at +-709, arbitrary precision has no such limit.  The two arguments may differ only
    where the difference is below half an ulp of every output in float64; each use states why that is so.
    """

    nargs = 2

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        # The exact value carries the derivative: d Guard / d exact = 1.
        return sp.S.One if argindex == 1 else sp.S.Zero

    def elementary(self) -> sp.Expr:
        return self.args[0]


class Expit(Primitive):
    """1/(1 + exp(-x)), the logistic function."""

    nargs = 1

    @classmethod
    def eval(cls, x: sp.Expr) -> sp.Expr | None:
        return sp.Rational(1, 2) if x.is_zero else None

    def _eval_is_positive(self) -> bool | None:
        return True if self.args[0].is_extended_real else None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        # Not f (1 - f), which cancels for large x.
        return Expit(self.args[0]) * Expit(-self.args[0])

    def elementary(self) -> sp.Expr:
        return 1 / (1 + sp.exp(-self.args[0]))

    def stable(self) -> sp.Expr:
        x = self.args[0]
        return Exp(Smallest(x, 0)) / (1 + Exp(-Magnitude(x)))


class LogExpit(_RealAtExtended):
    """log of `Expit`: -log(1 + exp(-x))."""

    nargs = 1

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return Expit(-self.args[0])

    def elementary(self) -> sp.Expr:
        return -sp.log(1 + sp.exp(-self.args[0]))

    def stable(self) -> sp.Expr:
        x = self.args[0]
        return Smallest(x, 0) - Log1p(Exp(-Magnitude(x)))


class LogSumExp(_RealAtExtended):
    """log(sum_j exp(z_j)) for one or more arguments."""

    @classmethod
    def eval(cls, *z: sp.Expr) -> sp.Expr | None:
        if not z:
            raise ValueError("LogSumExp needs at least one argument")
        return z[0] if len(z) == 1 else None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return Softmax(argindex - 1, *self.args)

    def elementary(self) -> sp.Expr:
        return sp.log(sp.Add(*[sp.exp(z) for z in self.args]))

    def stable(self) -> sp.Expr:
        largest = Largest(*self.args)
        return largest + sp.log(sp.Add(*[Exp(z - largest) for z in self.args]))


class Softmax(Primitive):
    """``Softmax(k, z_0, .., z_{n-1})`` = exp(z_k) / sum_j exp(z_j), with the integer k counted from 0."""

    @classmethod
    def eval(cls, k: sp.Expr, *z: sp.Expr) -> sp.Expr | None:
        if not (k.is_Integer and 0 <= int(k) < len(z)):
            raise ValueError(f"Softmax needs an integer entry 0 <= k < {len(z)}, got {k}")
        if len(z) == 1:
            return sp.S.One
        # Two entries are a logistic function of the difference: one exponential and no cancellation.
        return Expit(z[int(k)] - z[1 - int(k)]) if len(z) == 2 else None

    def _eval_is_positive(self) -> bool | None:
        return True if all(z.is_extended_real for z in self.args[1:]) else None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        if argindex == 1:
            raise ValueError("Softmax has no derivative with respect to its entry number")
        k, z = int(self.args[0]), self.args[1:]
        other = argindex - 2
        if other != k:
            return -self * Softmax(other, *z)
        # 1 - p_k as the sum of the others: no cancellation when p_k is close to one.
        return self * sp.Add(*[Softmax(j, *z) for j in range(len(z)) if j != k])

    def elementary(self) -> sp.Expr:
        k, z = int(self.args[0]), self.args[1:]
        return sp.exp(z[k]) / sp.Add(*[sp.exp(value) for value in z])

    def stable(self) -> sp.Expr:
        k, z = int(self.args[0]), self.args[1:]
        largest = Largest(*z)
        return Exp(z[k] - largest) / sp.Add(*[Exp(value - largest) for value in z])


_Nodes = TypeVar("_Nodes", sp.Expr, sp.Matrix)
_COMPOSED = (Expit, LogExpit, LogSumExp, Softmax)


def _rewrite(expr: _Nodes, node: type | tuple[type, ...], form: str) -> _Nodes:
    # Nested layers share most of their subtrees, so each distinct one is rewritten once.
    done: dict[sp.Basic, sp.Basic] = {}

    def walk(part: sp.Basic) -> sp.Basic:
        if not part.args:
            return part
        if part not in done:
            arguments = [walk(argument) for argument in part.args]
            same = all(new is old for new, old in zip(arguments, part.args, strict=True))
            made = part if same else part.func(*arguments)
            done[part] = getattr(made, form)() if isinstance(made, node) else made
        return done[part]

    return expr.applyfunc(walk) if isinstance(expr, sp.MatrixBase) else walk(sp.sympify(expr))


def elementary(expr: _Nodes) -> _Nodes:
    """Return ``expr`` (an expression or a matrix) with every own node in plain SymPy functions."""
    return _rewrite(expr, Primitive, "elementary")


def stable(expr: _Nodes) -> _Nodes:
    """Return ``expr`` (an expression or a matrix) with every composed node in basic nodes.

    The result neither overflows nor loses relative accuracy in float64 for arguments of any magnitude, up to
    the rounding of the arguments themselves.
    """
    return _rewrite(expr, _COMPOSED, "stable")


def softmax_rows(scores: sp.Matrix) -> sp.Matrix:
    """Return the row-wise softmax of a matrix of scores.

    Parameters
    ----------
    scores : sympy.Matrix
        Any shape (n, M) with M >= 1.

    Returns
    -------
    sympy.Matrix
        Same shape; each row sums to one.

    References
    ----------
    troiani2025, (2)-(3): the activation of every attention layer.
    """
    rows, columns = scores.shape
    return sp.Matrix(rows, columns, lambda i, j: Softmax(j, *[scores[i, k] for k in range(columns)]))
