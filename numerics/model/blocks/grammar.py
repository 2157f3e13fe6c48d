"""Lists of blocks as text: "attention(causal) | residual | norm | mlp(3, tanh) | attention(rank=2)"."""

from collections.abc import Callable

import numpy as np

from .attention import Attention
from .mlp import MLP
from .norm import Norm
from .protocol import Block
from .readout import Output, Readout
from .residual import Residual

__all__ = ["read_blocks"]

_Words = tuple[list[str], dict[str, str]]


def read_blocks(text: str) -> tuple[Block, ...]:
    """Blocks of a text, separated by bars; each is a name with its words in brackets.

    Raises
    ------
    ValueError
        A block or a word of it is not known; the message has what is.

    Examples
    --------
    >>> [block.text() for block in read_blocks("attention(causal) | residual(2) | norm | attention(rank=2)")]
    ['attention(causal)', 'residual(2)', 'norm', 'attention(rank=2)']
    """
    return tuple(_block(part.strip()) for part in _split(text, "|"))


def _split(text: str, mark: str) -> list[str]:
    """Parts of a text between marks that are in no bracket."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == mark and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    if depth:
        raise ValueError(f"blocks: brackets do not match in {text!r}")
    return parts


def _block(text: str) -> Block:
    name, bracket, rest = text.partition("(")
    name = name.strip()
    if name not in _READ or (bracket and not rest.rstrip().endswith(")")):
        raise ValueError(f"blocks: expected one of {', '.join(_READ)}, with its words in brackets; got {text!r}")
    words = [word.strip() for word in _split(rest.rstrip()[:-1], ",")] if bracket else []
    plain = [word for word in words if word and "=" not in word]
    named = {k.strip(): v.strip() for k, v in (word.split("=", 1) for word in words if "=" in word)}
    block = _READ[name]((plain, named))
    if plain or named:
        raise ValueError(f"blocks: {name} does not know {', '.join([*plain, *named])}; see `attnlimits explain --help`")
    return block


def _number(name: str, text: str, kind: type) -> float:
    try:
        return float(kind(text))
    except ValueError:
        raise ValueError(
            f"blocks: {name} must be {'an integer' if kind is int else 'a number'}, got {text!r}"
        ) from None


def _whole(words: _Words, name: str, usual: int | None) -> int | None:
    plain, named = words
    if name in named:
        return int(_number(name, named.pop(name), int))
    if plain and plain[0].lstrip("-").isdigit():
        return int(plain.pop(0))
    return usual


def _flag(words: _Words, name: str) -> bool:
    if name in words[0]:
        words[0].remove(name)
        return True
    return False


def _attention(words: _Words) -> Block:
    plain, named = words
    mask: object = None
    if "mask" in named:
        text = named.pop("mask")
        mask = _rows(text) if set(text) <= set("01/") else text
    for word in list(plain):
        if word in ("causal", "full") or word.startswith("window:"):
            plain.remove(word)
            mask = word
    rank = int(_number("rank", named.pop("rank", "1"), int))
    beta = _number("beta", named.pop("beta", "1"), float)
    activation = named.pop("activation", "softmax")
    return Attention(rank, not _flag(words, "untied"), beta, activation, mask)  # type: ignore[arg-type]


def _rows(text: str) -> np.ndarray:
    """Rows of a mask as 0 and 1, between slashes."""
    rows = text.split("/")
    if len({len(row) for row in rows}) > 1:
        raise ValueError(f"blocks: the rows of mask={text} differ in length")
    return np.array([[letter == "1" for letter in row] for row in rows])


def _residual(words: _Words) -> Block:
    plain, named = words
    over = int(_number("over", named.pop("over", "1"), int))
    strength = named.pop("strength", None) or (plain.pop(0) if plain else "1")
    return Residual(_number("the strength of a residual", strength, float), over)


def _norm(words: _Words) -> Block:
    return Norm(words[0].pop(0) if words[0] else "rms")


def _mlp(words: _Words) -> Block:
    width = _whole(words, "width", 1)
    bare = _flag(words, "bare")
    activation = words[1].pop("activation", None) or (words[0].pop(0) if words[0] else "linear")
    assert width is not None
    return MLP(width, activation, bare=bare)


def _readout(words: _Words) -> Block:
    plain, _ = words
    reads = plain.pop(0) if plain else "linear"
    token = int(_number("token", words[1].pop("token"), int)) if "token" in words[1] else None
    width = _whole(words, "width", 2 if reads == "softmax" else 1)
    activation = words[1].pop("activation", None) or (plain.pop(0) if plain else "linear")
    assert width is not None
    return Readout(reads, width, activation, token)


def _output(words: _Words) -> Block:
    if _flag(words, "last"):
        raise ValueError("blocks: leave output(last) out: the attention of the last block is what is observed")
    _flag(words, "sequence")
    token = int(_number("token", words[1].pop("token"), int)) if "token" in words[1] else None
    return Output(token)


_READ: dict[str, Callable[[_Words], Block]] = {
    "attention": _attention,
    "residual": _residual,
    "norm": _norm,
    "mlp": _mlp,
    "readout": _readout,
    "output": _output,
}
