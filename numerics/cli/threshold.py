"""The verb `threshold`: weak recovery of a layer, or of a link of one's own."""

import argparse

import attnlimits as al

from ..core.progress import Bar
from ..core.results import ThresholdResult, as_dict
from ..model.network import Network
from .flags import (
    MODEL_DEFAULTS,
    attention,
    check_accuracy,
    check_link,
    check_sampling,
    is_attention,
    link_flags,
    model_flags,
    noise_of,
    refuse_model_flags,
    sampling,
    sampling_flags,
)
from .link import threshold as link_threshold
from .prior_flags import check_prior, prior_flags
from .spectrum_flags import spectrum_given
from .verbs import Outcome, Verbs, add_verb, shown

__all__ = ["add", "run"]


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "threshold",
        run,
        "weak-recovery threshold of a layer, or of a link of your own",
        "attnlimits threshold --layers 2 --tokens 2 --skip 1 --digits 12 --json",
    )
    model_flags(parser)
    link_flags(parser)
    parser.add_argument(
        "--digits",
        type=int,
        help="significant digits (default: 12 for the last layer, up to 50 at depth 2; of a link what is cheap)",
    )
    parser.add_argument(
        "--rigorous",
        action="store_true",
        help="prove the digits: two softmax layers, two tokens; a minute or more",
    )
    parser.add_argument("--layer", type=int, help="which layer (default: the last one)")
    parser.add_argument(
        "--given",
        choices=["self-consistent", "perfect"],
        help="for a layer before the last, and for --staircase: what is learned before, at its fixed point at the same "
        "alpha (default), or known exactly",
    )
    parser.add_argument(
        "--staircase", action="store_true", help="with --link: all steps, each given what is learned before it"
    )
    parser.add_argument(
        "--accuracy",
        type=float,
        help="with --staircase: of every threshold, absolute, instead of --digits; status 1 where it is not reached",
    )
    prior_flags(parser)
    sampling_flags(parser, samples=None)


def run(args: argparse.Namespace) -> Outcome:
    """Threshold of what the flags describe."""
    check_prior(args)
    if args.row_covariance is not None and args.link is None:
        raise ValueError("--row-covariance is for --link: thresholds of networks are of independent rows")
    if args.prior != "gaussian" and not args.staircase:
        raise ValueError("--prior is for --staircase: weak-recovery thresholds are the same for all priors (15)")
    if args.spectrum is not None and args.rigorous:
        raise ValueError("--rigorous is of white inputs, and --spectrum divides their threshold; leave one of them out")
    check_accuracy(args)
    if args.accuracy is not None and not args.staircase:
        raise ValueError("--accuracy is for --staircase; a threshold has --digits")
    if args.accuracy is not None and args.digits is not None:
        raise ValueError("--digits are an accuracy; leave --accuracy or --digits out")
    if args.link is not None:
        refuse_model_flags(args, MODEL_DEFAULTS | {"layer": None, "rigorous": False})
        return link_threshold(args)
    check_link(args)
    check_sampling(args)
    if args.staircase:
        raise ValueError("--staircase belongs to --link EXPR; attention models have none")
    if args.rigorous:
        return _proved(args)
    if args.layers == 1 and not noise_of(args) and not is_attention(args):
        return _one_layer(args)
    model = attention(args, "threshold")
    layer = model.layers if args.layer is None else args.layer
    if not 1 <= layer <= model.layers:
        raise ValueError(f"--layer must be from 1 to --layers {model.layers}, got {layer}")
    if layer == model.layers and args.given is not None:
        raise ValueError("--given is for a layer before the last one; the last layer is learned from nothing")
    bar = Bar("threshold", show=shown(args))
    result = al.threshold(
        model,
        layer=layer,
        given=args.given,
        digits=args.digits,
        progress=bar.to,
        spectrum=spectrum_given(args),
        **sampling(args),
    )
    bar.close()
    return _outcome(result, layer, model.describe())


def _proved(args: argparse.Namespace) -> Outcome:
    model = attention(args, "threshold")
    if args.layer not in (None, model.layers):
        raise ValueError(f"--rigorous is for the last layer, got --layer {args.layer} of {model.layers}")
    result, enclosure = al.prove(model, digits=12 if args.digits is None else args.digits, progress=shown(args))
    record, text, converged = _outcome(result, model.layers, model.describe())
    return record | {"enclosure": as_dict(enclosure)}, text, converged


def _one_layer(args: argparse.Namespace) -> Outcome:
    """One layer, untied, of several heads, or with its tokens as output, which tell as much as its attention."""
    if args.layer not in (None, 1):
        raise ValueError(f"--layer must be 1 for one layer, got {args.layer}")
    model = Network(1, args.tokens, args.rank, activation=args.activation, tied=not args.untied)
    result = al.threshold(
        model,
        heads=args.heads,
        output=args.output,
        digits=args.digits,
        spectrum=spectrum_given(args),
        **sampling(args),
    )
    kind = "untied" if args.untied else "tied"
    output = ", output B_1" if args.output == "sequence" else ""
    heads = "" if args.heads == 1 else f", H={args.heads}"
    name = f"{kind} {args.activation} attention, L=1, M={args.tokens}{heads}, rank {args.rank}{output}"
    return _outcome(result, 1, name)


def _outcome(result: ThresholdResult, layer: int, name: str) -> Outcome:
    record = as_dict(result) | {"layer": layer, "model": name}
    exact = f" = {result.exact}{' exactly' if result.how == 'rigorous' else ''}" if result.exact else ""
    text = (
        f"{name}\nalpha({result.subspace}) = {result.value}{exact}\n"
        f"error {result.error:.1e} ({result.how}); {result.status}"
    )
    return record, text, result.converged
