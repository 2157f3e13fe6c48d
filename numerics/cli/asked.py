"""Sizes that are whole numbers of samples or columns: what is run takes the place of what was asked."""

import argparse

from .verbs import Record

__all__ = ["asked_sizes", "run_at", "said"]


def run_at(args: argparse.Namespace, name: str, value: float) -> None:
    """Put the value that is run in the place of that of a flag, which is kept where it differs."""
    if value != getattr(args, name):
        setattr(args, f"{name}_asked", getattr(args, name))
        setattr(args, name, value)


def asked_sizes(args: argparse.Namespace) -> Record:
    """Entries `alpha_asked` and `rho_asked` of a record, where what is run differs."""
    names = ("alpha_asked", "rho_asked")
    return {name: getattr(args, name) for name in names if hasattr(args, name)}


def said(args: argparse.Namespace, name: str = "alpha") -> str:
    """The value that is run for a line of text, with the one that was asked where it differs."""
    kept = getattr(args, f"{name}_asked", None)
    return f"{getattr(args, name):g}" + ("" if kept is None else f" ({kept:g} asked)")
