"""The verb `completion`: a script by which a shell completes verbs and flags."""

import argparse
from collections.abc import Callable
from importlib import import_module

from .verbs import Outcome, Verbs, add_verb

__all__ = ["add", "run"]

_SHELLS = ("bash", "zsh", "tcsh")


def add(verbs: Verbs, command: Callable[[], argparse.ArgumentParser]) -> None:
    """Add the verb and its flags; `command` makes the parser of all verbs."""
    parser = add_verb(
        verbs,
        "completion",
        run,
        "print the script by which a shell completes verbs and flags (needs shtab)",
        'eval "$(attnlimits completion bash)"',
    )
    parser.needs(parser.add_argument("shell", choices=_SHELLS))
    parser.set_defaults(command=command)


def run(args: argparse.Namespace) -> Outcome:
    """Write the script."""
    try:
        shtab = import_module("shtab")
    except ImportError as error:
        raise ValueError(f"completion needs shtab ({error}): pip install 'attnlimits[completion]'") from None
    text = shtab.complete(args.command(), args.shell)
    return {"shell": args.shell, "script": text}, text, True
