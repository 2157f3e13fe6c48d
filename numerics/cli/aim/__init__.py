"""The verb `aim`: attention of extensive width, with a verb of its own in each file."""

import argparse

from ..figure import add_aim_figure
from ..verbs import Outcome, Verbs, add_nested, add_verb
from . import amp, denoise, descend, evolve, free_energy, spectrum, threshold

__all__ = ["add", "run"]


def add(verbs: Verbs) -> None:
    """Add the verb with its own verbs, each with its flags."""
    parser = add_verb(
        verbs,
        "aim",
        run,
        "attention of extensive width: errors, thresholds, free energy, matrix denoiser, message passing, descent",
        "attnlimits aim evolve --activation softmax --rho 0.5 --alpha 0.1",
    )
    own = add_nested(parser, "aim")
    for verb in (evolve, threshold, free_energy, denoise, spectrum, amp, descend):
        verb.add(own)
    add_aim_figure(own)


def run(args: argparse.Namespace) -> Outcome:
    """Say which verbs there are: the parser asks for one, and each has its own function."""
    raise ValueError("aim needs a verb: evolve, threshold, free-energy, denoise, spectrum, amp, descend or figure")
