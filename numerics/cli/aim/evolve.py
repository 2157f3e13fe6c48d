"""The verb `aim evolve`: errors of estimation and of prediction at one alpha or several."""

import argparse

import attnlimits as al

from ...core.decimals import pm, recorded
from ...core.progress import Bar
from ...core.results import as_dict
from ..verbs import Outcome, Verbs, add_verb, shown
from .flags import channel_flags, channel_of, head_of, heads_flag, heads_of, name_of, predicted, said_of, width_of

__all__ = ["add", "run"]


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "evolve",
        run,
        "errors of estimation and of prediction at one alpha or along a range of it",
        "attnlimits aim evolve --activation softmax --rho 0.5 --alpha 0.1",
        nested=True,
    )
    channel_flags(parser)
    heads_flag(parser)
    alphas = "n/d^2, one or several; alpha/rho where --rho is 0, rho that of all heads"
    parser.needs(
        parser.add_argument("--alpha", "-a", type=float, nargs="+", help=alphas),
        parser.add_argument("--rho", type=float, help="width r/d; 0 is the limit of small width"),
    )
    parser.check = channel_of


def run(args: argparse.Namespace) -> Outcome:
    """Errors of estimation and of prediction along alpha."""
    output, width, heads = channel_of(args), width_of(args), heads_of(args)
    name = name_of(args, f"{args.rho:g}" if args.rho else 0)
    bar = Bar("aim evolve", show=shown(args))
    errors: list[al.aim.PredictionErrors | None] = []

    def tick(point: "al.aim.EvolutionPoint") -> None:
        # The published formula is no model, and predicts nothing.
        model = output.name != "hardmax_published"
        errors.append(al.aim.prediction_errors(point.mmse, width, output) if model else None)
        bar.to(len(errors), len(args.alpha))

    points = al.aim.curve(args.alpha, width, output, progress=tick)
    bar.close()
    last = points[-1]
    records = [as_dict(point) | predicted(found) for point, found in zip(points, errors, strict=True)]
    if heads > 1:
        records = [
            r | {"heads": heads, "rho": args.rho, "head": as_dict(head_of(args, point.mmse))}
            for r, point in zip(records, points, strict=True)
        ]
    record = records[-1] | {
        "value": recorded(last.mmse.value, last.mmse.error),
        "error": float(last.mmse.error),
        "how": last.mmse.how,
        "model": name,
    }
    if len(points) > 1:
        record["points"] = records
    letter = "alpha" if args.rho else "alpha/rho" if heads == 1 else f"alpha/({heads} rho)"
    lines = [name]
    for p, found in zip(points, errors, strict=True):
        said = "" if found is None else f"; {said_of(found)}"
        if heads > 1:
            one = head_of(args, p.mmse)
            said = f" (sum of the heads), {pm(one.value, one.error)} (each head){said}"
        lines.append(f"{letter} = {p.alpha:g}: MMSE = {pm(p.mmse.value, p.mmse.error)}{said}")
    return record, "\n".join([*lines, last.status]), all(p.converged for p in points)
