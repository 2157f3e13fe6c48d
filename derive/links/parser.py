"""Read a link written as text: a strict grammar, exact numbers, and errors that point at the token."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import sympy as sp

from .functions import FUNCTIONS, LISTS, PRINTED, SoftmaxEntry
from .tokens import MOST_INDEX_DIGITS, LinkError, Token, closing_brackets, index_symbol, read_index, tokenize

__all__ = ["LinkError", "index_symbol", "parse", "read_index"]

_KNOWN = ", ".join([*FUNCTIONS, *LISTS, "softmax", "Piecewise"])
_AFTER_CONDITION = (")", ",", "&", "|", "and", "or")
_RELATIONS: dict[str, Callable[[sp.Expr, sp.Expr], sp.Basic]] = {
    "<": sp.StrictLessThan,
    ">": sp.StrictGreaterThan,
    "<=": sp.LessThan,
    ">=": sp.GreaterThan,
    "==": sp.Eq,
    "!=": sp.Ne,
}
# Beyond these, exact arithmetic on the constants of a text could take for ever: exponents as they are written and as
# they multiply up, exponents of ten, bits of numerators and denominators.
_LARGEST_POWER, _LARGEST_DEGREE = 64, 4096
_LARGEST_EXPONENT = 300
# Characters of a number: exact arithmetic with more is slow, and float64 has 17 digits.
_LONGEST_NUMBER = 1000
_LARGEST_NUMBER = 4096
# Of a text: characters, and brackets and signs within one another.
_LONGEST = 10_000
_DEEPEST = 60


def _bits(number: sp.Rational) -> int:
    return max(abs(number.p), number.q).bit_length()


class _Parser:
    """Recursive descent over the tokens; every method reads one rule of the grammar."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.closing = closing_brackets(self.tokens)
        self.place = 0
        self.depth = 0

    @property
    def now(self) -> Token:
        return self.tokens[self.place]

    def fail(self, expected: str, token: Token | None = None) -> NoReturn:
        token = token or self.now
        raise LinkError(f"link: expected {expected}, got {token.text!r} at position {token.at + 1} of {self.text!r}")

    def take(self, *texts: str) -> Token | None:
        if self.now.kind != "end" and self.now.text in texts:
            self.place += 1
            return self.tokens[self.place - 1]
        return None

    def need(self, text: str) -> Token:
        return self.take(text) or self.fail(f"{text!r}")

    @contextmanager
    def deeper(self) -> Iterator[None]:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise LinkError(f"link: nested deeper than {_DEEPEST} at position {self.now.at + 1} of {self.text!r}")
        yield
        self.depth -= 1

    def bounded(self, made: sp.Expr, token: Token) -> sp.Expr:
        """The expression, if exact arithmetic on the numbers that stand in front of it stays cheap."""
        number = made if made.is_Rational else made.as_coeff_Mul()[0]
        degree = made.exp if made.is_Pow else sp.S.One
        if number.is_Rational and _bits(number) > _LARGEST_NUMBER:
            raise LinkError(f"link: the number at position {token.at + 1} of {self.text!r} is too large")
        if degree.is_Rational and max(abs(degree.p), degree.q) > _LARGEST_DEGREE:
            raise LinkError(
                f"link: the powers at position {token.at + 1} of {self.text!r} multiply up to {degree}; at most "
                f"{_LARGEST_DEGREE} is supported"
            )
        return made

    def outputs(self) -> tuple[sp.Expr, ...]:
        listed = self.take("[")
        values = self.output()
        while self.take("," if listed else ";"):
            values += self.output()
        if listed:
            self.need("]")
        if self.now.kind != "end":
            self.fail("an operator or the end")
        return tuple(values)

    def output(self) -> list[sp.Expr]:
        """One output, or all entries of a softmax."""
        start = self.place
        if self.take("softmax"):
            values = self.several()
            if self.now.kind == "end" or self.now.text in (",", ";", "]"):
                return [SoftmaxEntry(k, *values) for k in range(1, len(values) + 1)]
            self.place = start
        return [self.value()]

    def value(self) -> sp.Expr:
        """A real expression."""
        token = self.now
        made = self.sum()
        if self.now.text in _RELATIONS:
            self.fail("a value; relations belong into the conditions of Piecewise")
        # Singular constants, as 1/0 or log(0), and constants that are not real.
        if made.has(sp.zoo, sp.nan, sp.oo, -sp.oo, sp.I):
            raise LinkError(
                f"link: the expression at position {token.at + 1} of {self.text!r} is not a finite real number"
            )
        return made

    def sum(self) -> sp.Expr:
        made = self.product()
        while sign := self.take("+", "-"):
            other = self.product()
            made = self.bounded(made + other if sign.text == "+" else made - other, sign)
        return made

    def product(self) -> sp.Expr:
        made = self.signed()
        while sign := self.take("*", "/"):
            other = self.signed()
            if sign.text == "/" and other.is_zero:
                raise LinkError(f"link: division by zero at position {sign.at + 1} of {self.text!r}")
            made = self.bounded(made * other if sign.text == "*" else made / other, sign)
        return made

    def signed(self) -> sp.Expr:
        with self.deeper():
            if self.take("-"):
                return -self.signed()
            return self.signed() if self.take("+") else self.power()

    def power(self) -> sp.Expr:
        base = self.atom()
        if not self.take("**"):
            return base
        token = self.now
        exponent = self.signed()
        if not exponent.is_Rational or max(abs(exponent.p), exponent.q) > _LARGEST_POWER:
            raise LinkError(
                f"link: the exponent at position {token.at + 1} of {self.text!r} must be a number of size at most "
                f"{_LARGEST_POWER}, got {exponent}; write other powers with exp and log"
            )
        front = base if base.is_Rational else base.as_coeff_Mul()[0]
        if front.is_Rational and front not in (1, -1) and _bits(front) * abs(exponent) > _LARGEST_NUMBER:
            raise LinkError(f"link: the power at position {token.at + 1} of {self.text!r} is too large a number")
        if base.is_zero and exponent.is_negative:
            raise LinkError(f"link: division by zero at position {token.at + 1} of {self.text!r}")
        return self.bounded(base**exponent, token)

    def atom(self) -> sp.Expr:
        token = self.now
        self.place += 1
        if token.kind == "number":
            return self.number(token)
        if token.text == "(" and token.kind == "op":
            made = self.sum()
            self.need(")")
            return made
        if token.kind == "name":
            return self.named(token)
        self.fail("a number, h[p, m], a function or '('", token)

    def number(self, token: Token) -> sp.Expr:
        _, _, exponent = token.text.lower().partition("e")
        long = len(token.text) > _LONGEST_NUMBER or len(exponent) > MOST_INDEX_DIGITS
        if long or (exponent and abs(int(exponent)) > _LARGEST_EXPONENT):
            shown = token.text if len(token.text) <= 40 else f"{token.text[:30]}... ({len(token.text)} digits)"
            raise LinkError(f"link: the number {shown} at position {token.at + 1} is out of range")
        return sp.Rational(token.text)

    def named(self, token: Token) -> sp.Expr:
        name = PRINTED.get(token.text, token.text)
        if name == "pi":
            return sp.pi
        if name == "h" and self.take("["):
            index, where = self.integer(), 1
            if self.take(","):
                where = self.integer()
            self.need("]")
            return index_symbol(index, where)
        entry = read_index(name)
        if entry is not None:
            if min(entry) < 1:
                self.fail("indices and tokens counted from 1", token)
            return index_symbol(*entry)
        if name in FUNCTIONS:
            self.need("(")
            argument = self.sum()
            self.need(")")
            return FUNCTIONS[name](argument)
        if name in LISTS:
            return LISTS[name](*self.several())
        if name == "softmax":
            return self.softmax()
        if name == "Piecewise":
            return self.piecewise()
        self.fail(f"h[p, m], pi or one of the functions {_KNOWN}", token)

    def integer(self) -> int:
        token = self.now
        known = token.kind == "number" and token.text.isdigit() and len(token.text) <= MOST_INDEX_DIGITS
        if not known or int(token.text) < 1:
            self.fail("an integer >= 1 (indices and tokens are counted from 1)")
        self.place += 1
        return int(token.text)

    def several(self) -> list[sp.Expr]:
        start = self.place
        self.need("(")
        listed = self.take("[")
        values = [self.sum()]
        while self.take(","):
            values.append(self.sum())
        if listed:
            self.need("]")
        self.need(")")
        if len(values) < 2:
            name = self.tokens[start - 1]
            raise LinkError(
                f"link: {name.text} at position {name.at + 1} of {self.text!r} needs at least two values to choose from"
            )
        return values

    def softmax(self) -> sp.Expr:
        """One entry of a softmax."""
        values = self.several()
        if not self.take("["):
            self.fail("'[k]' after softmax(..): one entry, counted from 1; alone, an output is all of them")
        token, number = self.now, self.integer()
        self.need("]")
        if number > len(values):
            self.fail(f"an entry from 1 to {len(values)}", token)
        return SoftmaxEntry(number, *values)

    def piecewise(self) -> sp.Expr:
        self.need("(")
        pairs = []
        while True:
            self.need("(")
            value = self.sum()
            self.need(",")
            pairs.append((value, self.either()))
            self.need(")")
            if not self.take(","):
                break
        self.need(")")
        return sp.Piecewise(*pairs, evaluate=False)

    def either(self) -> sp.Basic:
        made = self.both()
        while self.take("|", "or"):
            made = sp.Or(made, self.both())
        return made

    def both(self) -> sp.Basic:
        made = self.condition()
        while self.take("&", "and"):
            made = sp.And(made, self.condition())
        return made

    def condition(self) -> sp.Basic:
        with self.deeper():
            if self.take("~", "not"):
                return sp.Not(self.condition())
            if self.take("True"):
                return sp.true
            if self.opens_condition():
                self.need("(")
                made = self.either()
                self.need(")")
                return made
            return self.relation()

    def opens_condition(self) -> bool:
        """Whether "(" is that of a condition: what follows its ")" then goes on with no value and no relation."""
        if self.now.text != "(":
            return False
        after = self.tokens[self.closing.get(self.place, len(self.tokens) - 2) + 1]
        return after.kind == "end" or after.text in _AFTER_CONDITION

    def relation(self) -> sp.Basic:
        left = self.sum()
        if self.now.text not in _RELATIONS:
            self.fail("one of < > <= >= == !=")
        relation = _RELATIONS[self.now.text]
        self.place += 1
        return relation(left, self.sum())


def parse(text: str) -> tuple[sp.Expr, ...]:
    """Read a link.

    Parameters
    ----------
    text : str
        One output, several separated by ``;``, or a list in brackets. Entries of h are ``h[p, m]`` with index p
        and token m counted from 1; ``h[p]`` and ``h_p`` stand for token 1, ``h`` for the only entry of all.
        Numbers are exact: decimals become fractions. Functions: sign, abs, exp, log, sqrt, tanh, sinh, cosh, sin,
        cos, erf, relu (the positive part), step (1 where its argument is positive, else 0), max, min, argmax (of two
        or more values, counted from 1), ``softmax(z_1, .., z_n)[k]`` (entry k, counted from 1; without ``[k]`` an
        output stands for all n entries) and ``Piecewise((value, condition), .., (value, True))``. At most 10 000
        characters, nested at most 60 deep.

    Returns
    -------
    tuple of sympy.Expr
        One expression per output, in the symbols of `index_symbol`, entries of a softmax as `SoftmaxEntry`.

    Raises
    ------
    LinkError
        With the position and the token where the text left the grammar.

    Examples
    --------
    >>> parse("h[1]**2 + sign(h[1]*h[2])")
    (h_1_1**2 + sign(h_1_1*h_2_1),)
    """
    if not text.strip():
        raise LinkError("link: the text is empty; write for example sign(h[1]*h[2])")
    if len(text) > _LONGEST:
        raise LinkError(f"link: the text has {len(text)} characters, at most {_LONGEST} are read")
    return _Parser(text).outputs()
