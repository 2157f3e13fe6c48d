"""Masks of attention: which tokens the row of each token sees."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["Mask", "as_mask"]

Mask = tuple[tuple[bool, ...], ...]


def as_mask(given: str | ArrayLike | None, tokens: int) -> Mask | None:
    """Return a mask over M tokens as it was given; None where every row sees all tokens.

    Parameters
    ----------
    given : {"full", "causal", "window:k"}, array_like or None
        Of a causal mask row m sees the tokens up to m, of a window the k last of these; or an M x M array of booleans
        (0 and 1), true where a row sees a token.
    tokens : int

    Raises
    ------
    ValueError
        Another name, another shape, entries that are no booleans, or a row that sees nothing.

    Examples
    --------
    >>> as_mask("window:2", 3)
    ((True, False, False), (True, True, False), (False, True, True))
    """
    if given is None or (isinstance(given, str) and given == "full"):
        return None
    made = _named(given, tokens) if isinstance(given, str) else np.asarray(given)
    if made.shape != (tokens, tokens):
        raise ValueError(f"mask must have shape (M, M) = ({tokens}, {tokens}), got {made.shape}")
    if made.dtype.kind not in "biuf" or not np.isin(made, (0, 1)).all():
        raise ValueError("mask must hold booleans, or 0 and 1, true where the row of a token sees another")
    seen = made.astype(bool)
    empty = np.flatnonzero(~seen.any(axis=1))
    if len(empty):
        raise ValueError(f"mask must let every row see a token, but row {empty[0] + 1} sees none")
    return None if seen.all() else tuple(tuple(bool(x) for x in row) for row in seen)


def _named(name: str, tokens: int) -> np.ndarray:
    kind, _, size = name.partition(":")
    if kind == "causal" and not size:
        return np.tri(tokens, dtype=bool)
    if kind == "window" and size.isdigit() and int(size) > 0:
        return np.tri(tokens, dtype=bool) & ~np.tri(tokens, k=-int(size), dtype=bool)
    raise ValueError(f'mask must be "full", "causal", "window:k" with k >= 1, or an M x M array, got {name!r}')


def described(mask: Sequence[Sequence[bool]]) -> str:
    """A mask in words: its name if it has one, else its rows as 0 and 1."""
    tokens = len(mask)
    for name in ("causal", *(f"window:{k}" for k in range(1, tokens))):
        if as_mask(name, tokens) == tuple(map(tuple, mask)):
            return name
    return "mask=" + "/".join("".join("1" if x else "0" for x in row) for row in mask)
