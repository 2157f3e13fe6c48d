"""The verb `aim evolve`: the estimation error at one alpha or several."""

import argparse
import itertools

import attnlimits as al

from ...core.decimals import pm, recorded
from ...core.progress import Bar
from ...core.results import as_dict
from ..verbs import Outcome, Verbs, add_verb, shown
from .flags import channel_flags, channel_of, name_of

__all__ = ["add", "run"]


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "evolve",
        run,
        "estimation error at one alpha or along a range of it",
        "attnlimits aim evolve --activation softmax --rho 0.5 --alpha 0.1",
        nested=True,
    )
    channel_flags(parser)
    alphas = "n/d^2, one or several; alpha/rho where --rho is 0"
    parser.needs(
        parser.add_argument("--alpha", "-a", type=float, nargs="+", help=alphas),
        parser.add_argument("--rho", type=float, help="width r/d; 0 is the limit of small width"),
    )
    parser.check = channel_of


def run(args: argparse.Namespace) -> Outcome:
    """Estimation error along alpha."""
    output = channel_of(args)
    name = name_of(args, f"{args.rho:g}" if args.rho else 0)
    bar = Bar("aim evolve", show=shown(args))
    done = itertools.count(1)
    points = al.aim.curve(args.alpha, args.rho, output, progress=lambda _: bar.to(next(done), len(args.alpha)))
    bar.close()
    last = points[-1]
    record = as_dict(last) | {
        "value": recorded(last.mmse.value, last.mmse.error),
        "error": float(last.mmse.error),
        "how": last.mmse.how,
        "model": name,
    }
    if len(points) > 1:
        record["points"] = as_dict(points)
    letter = "alpha" if args.rho else "alpha/rho"
    lines = [name]
    for p in points:
        lines.append(f"{letter} = {p.alpha:g}: MMSE = {pm(p.mmse.value, p.mmse.error)}")
    return record, "\n".join([*lines, last.status]), all(p.converged for p in points)
