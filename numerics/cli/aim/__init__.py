"""The verb `aim`: attention of extensive width, with a verb of its own in each file."""

import argparse

from ..figure import add_aim_figure
from ..verbs import Outcome, Verbs, add_nested, add_verb
from . import amp, denoise, evolve, threshold

__all__ = ["add", "run"]


def add(verbs: Verbs) -> None:
    """Add the verb with its own verbs, each with its flags."""
    parser = add_verb(
        verbs,
        "aim",
        run,
        "attention of extensive width: estimation error, thresholds, matrix denoiser, message passing",
        "attnlimits aim evolve --activation softmax --rho 0.5 --alpha 0.1",
    )
    own = add_nested(parser, "aim")
    for verb in (evolve, threshold, denoise, amp):
        verb.add(own)
    add_aim_figure(own)


def run(args: argparse.Namespace) -> Outcome:
    """Say which verbs there are: the parser asks for one, and each has its own function."""
    raise ValueError("aim needs a verb: evolve, threshold, denoise, amp or figure")
