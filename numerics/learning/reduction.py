"""Sums over blocks in an order that their number alone determines, wherever the blocks are."""

from .blocks import Array

__all__ = ["FAN", "Sums"]

#: Consecutive terms that are added one after the other; such sums are added in the same way, up to a single one.
FAN = 8


class Sums:
    """Sums of arrays that are given one after the other: of `FAN` of them, of `FAN` such sums, and so on.

    A tree of additions on several machines that groups its terms likewise has the same value to the last bit.
    """

    def __init__(self) -> None:
        # Of every level of the tree the sums of the group that is not complete yet, and how many terms they have.
        self._levels: list[tuple[int, tuple[Array, ...]]] = []

    def add(self, *terms: Array) -> None:
        """Add the next term of each sum; the arrays are changed by those that follow."""
        self._add(0, terms)

    def _add(self, level: int, terms: tuple[Array, ...]) -> None:
        if level == len(self._levels):
            self._levels.append((0, ()))
        count, sums = self._levels[level]
        if count:
            for total, term in zip(sums, terms, strict=True):
                total += term
        else:
            sums = terms
        if count + 1 < FAN:
            self._levels[level] = (count + 1, sums)
        else:
            self._levels[level] = (0, ())
            self._add(level + 1, sums)

    def total(self) -> tuple[Array, ...]:
        """Return the sums of all terms so far, of which there must be one; no more can be added."""
        rest: tuple[Array, ...] = ()
        for count, sums in self._levels:
            if count:
                for total, term in zip(sums, rest, strict=bool(rest)):
                    total += term
                rest = sums
        return rest
