"""The tokens of a link written as text, its brackets, and the names of the entries of h."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import sympy as sp

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<op>\*\*|<=|>=|==|!=|[-+*/()\[\],;<>&|~]))"
)
_INDEX = re.compile(r"h_(\d+)(?:_(\d+))?\Z")
# Digits of an index, of a token and of an exponent.
MOST_INDEX_DIGITS = 9


class LinkError(ValueError):
    """A link that cannot be read, or a part of it that cannot be solved; the message names the part."""


def index_symbol(index: int, token: int) -> sp.Symbol:
    """Return the symbol of h[p, m], both counted from 1."""
    return sp.Symbol(f"h_{index}_{token}", real=True)


def read_index(name: str) -> tuple[int, int] | None:
    """Return (p, m) of a name ``h``, ``h_p`` or ``h_p_m``, or None if it is no such name."""
    if name == "h":
        return 1, 1
    match = _INDEX.match(name)
    if match is None or max(map(len, match.groups(""))) > MOST_INDEX_DIGITS:
        return None
    return int(match[1]), int(match[2] or 1)


@dataclass(frozen=True)
class Token:
    """A number, a name, an operator or the end, and where it stands in the text."""

    kind: str
    text: str
    at: int


def tokenize(text: str) -> list[Token]:
    """Cut a text into tokens, or name the character that belongs to none."""
    found: list[Token] = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            hint = "; write powers as **" if text[at] == "^" else "; write relations as ==" if text[at] == "=" else ""
            raise LinkError(f"link: unexpected character {text[at]!r} at position {at + 1} of {text!r}{hint}")
        kind = str(match.lastgroup)
        found.append(Token(kind, match[kind], match.start(kind)))
        at = match.end()
    return [*found, Token("end", "the end", len(text))]


def closing_brackets(tokens: Sequence[Token]) -> dict[int, int]:
    """Place of the bracket that closes each ``(``."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for place, token in enumerate(tokens):
        if token.text == "(":
            opened.append(place)
        elif token.text == ")" and opened:
            found[opened.pop()] = place
    return found
