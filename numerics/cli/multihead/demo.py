"""The verb `multihead demo`: a random layer learned from its examples."""

import argparse

from ..verbs import Outcome, Verbs, add_verb
from .report import counted, learned, lines_of, record_of
from .teacher import instance_of, judged, method_flags, teacher_flags

__all__ = ["add", "run"]


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "demo",
        run,
        "learn a random layer from its examples",
        "attnlimits multihead demo --heads 2 --seq 2 --dim 8 --samples 1000",
        nested=True,
    )
    teacher_flags(parser)
    method_flags(parser)
    parser.add_argument(
        "--blind", action="store_true", help="let the learner estimate both the number of heads and noise"
    )


def run(args: argparse.Namespace) -> Outcome:
    """Learn the layer, and compare it with the true one."""
    theta, w, made = instance_of(args)
    if args.blind and args.method == "sculpt":
        raise ValueError("--blind selects the number of heads, which --method sculpt must be told; take auto")
    found = learned(args, made.X, made.Y, "auto" if args.blind else args.heads, None if args.blind else made.noise_std)
    about = judged(args, found, theta, w)
    value, error, how, on = (about[name] for name in ("test_error", "error", "how", "test_inputs"))
    distance = about["parameter_error"]
    record = record_of("demo", found) | about
    scatter = "" if how == "estimated" else f" +- {error:.1g}"
    lines = [
        f"{args.family} layer, m={args.heads}, k={args.seq}, d={args.dim}",
        f"{args.samples} samples, noise {args.noise:g}",
        f"{found.method}, {counted(found.heads, 'head')}: test error {value:.1e}{scatter} on {on} inputs",
        f"parameter error: {'none, for the numbers of heads differ' if distance is None else f'{distance:.1e}'}",
    ]
    return record, "\n".join([*lines, *lines_of(found)]), found.converged
