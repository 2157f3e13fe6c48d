"""The verb `cite`: what to cite, as BibTeX."""

import argparse

import attnlimits as al

from .verbs import Outcome, Verbs, add_verb

__all__ = ["add", "run"]


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs, "cite", run, "print what to cite, as BibTeX: this software and papers", "attnlimits cite boncoraglio2025"
    )
    parser.add_argument(
        "papers", nargs="*", metavar="CITEKEY", help="troiani2025, boncoraglio2025 or chen2024 (default: troiani2025)"
    )


def run(args: argparse.Namespace) -> Outcome:
    """BibTeX of the software and of the papers."""
    text = al.cite(*args.papers)
    return {"papers": args.papers, "bibtex": text}, text, True
