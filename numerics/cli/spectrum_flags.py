"""The flag of the covariance of the inputs, the same for every verb that has one."""

import argparse
from functools import cache
from typing import TYPE_CHECKING

from .parser import Flags

if TYPE_CHECKING:
    from ..priors import Spectrum

__all__ = ["spectrum_flag", "spectrum_given"]


def spectrum_flag(group: Flags) -> None:
    """Add the flag."""
    group.add_argument(
        "--spectrum",
        metavar="LAW",
        help="eigenvalues of the covariance of the inputs, scaled to mean 1: mp:GAMMA (Marchenko-Pastur of aspect "
        "gamma), power:A (as i^-A; power:A:D of D coordinates), points:V,V@SHARE,.., data:X.npy (sample covariance), "
        "or a FILE of eigenvalues, .npy or .txt (default: all 1)",
    )


def spectrum_given(args: argparse.Namespace) -> "Spectrum | None":
    """Spectrum of the flag, None without it."""
    given = getattr(args, "spectrum", None)
    return None if given is None else _read(given)


@cache
def _read(text: str) -> "Spectrum":
    """Spectrum as it is written; a verb asks for it several times, and the covariance of a file may take long."""
    from ..priors import as_spectrum  # NumPy

    return as_spectrum(text)
