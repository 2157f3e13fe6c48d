"""Balls of the sums of many digits: numbers from the model, matrices from columns."""

from collections.abc import Iterable
from typing import Any

from flint import arb_mat

from . import ball as exact

__all__ = ["Ball", "Balls", "ball", "matrix"]

Ball = Any  # python-flint ships no types for arithmetic between its classes
Balls = list[Ball]


def ball(value: float) -> Ball:
    """Number of the model as the decimal that was written: 0.1 is 1/10, not the binary fraction nearest to it."""
    return exact.ball(repr(float(value)))


def matrix(rows: int, columns: int, entries: Iterable[Ball]) -> arb_mat:
    """Matrix of balls, row by row."""
    return arb_mat(rows, columns, list(entries))
