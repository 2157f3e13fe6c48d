"""Flags of the attention-indexed model that its verbs share, and the output channel they describe."""

import argparse

import attnlimits as al

from ...aim.checks import ACTIVATIONS
from ...core.decimals import pm
from ...core.results import Estimate, as_dict
from ..verbs import Record

__all__ = [
    "channel_flags",
    "channel_of",
    "head_of",
    "heads_flag",
    "heads_of",
    "name_of",
    "predicted",
    "said_of",
    "width_of",
]

# Activations that have no temperature.
_SCALE_FREE = ("hardmax", "hardmax_published", "linear")


def channel_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the output channel."""
    parser.add_argument(
        "--activation",
        default="softmax",
        help=f"{', '.join(ACTIVATIONS)}, or a function of z such as tanh(z), entry by entry (default: softmax)",
    )
    parser.add_argument("--tokens", "-M", type=int, default=2, metavar="T", help="tokens (default: %(default)s)")
    parser.add_argument(
        "--beta", "-b", type=float, default=1.0, help="inverse temperature of softmax, factor of z (default: 1)"
    )
    parser.add_argument(
        "--noise",
        type=float,
        default=0.0,
        help="on the scores, on outputs of a function of z; variance over 1 + delta_ab (default: 0)",
    )


def heads_flag(parser: argparse.ArgumentParser) -> None:
    """Add the number of heads, for verbs that serve several."""
    parser.add_argument(
        "--heads",
        type=int,
        default=1,
        metavar="L",
        help="heads, each of width --rho, whose scores are added; errors are those of their sum (default: 1)",
    )


def heads_of(args: argparse.Namespace) -> int:
    """Heads of the flags; one of verbs that have no such flag."""
    return int(getattr(args, "heads", 1))


def width_of(args: argparse.Namespace) -> float:
    """Width of the sum of the heads."""
    return heads_of(args) * float(args.rho)


def head_of(args: argparse.Namespace, mmse: Estimate) -> Estimate:
    """Error of each head, from that of the sum."""
    return al.aim.head_error(heads_of(args), mmse)


def channel_of(args: argparse.Namespace, *, logarithms: bool = False) -> "al.aim.Channel":
    """Return the output channel of the flags."""
    # Also where the channel would not use it.
    al.aim.above_zero("beta", args.beta, "softmax")
    heads = heads_of(args)
    if heads == 1:
        return al.aim.channel(args.activation, args.tokens, args.beta, args.noise, logarithms=logarithms)
    return al.aim.heads_channel(args.activation, heads, args.tokens, args.beta, args.noise, logarithms=logarithms)


def name_of(args: argparse.Namespace, rho: object) -> str:
    """Name of the model at a width."""
    width = "small width" if rho == 0 or rho is None else f"rho={rho}"
    noise = f", noise={args.noise:g}" if args.noise else ""
    # Of softmax errors of estimation and thresholds are the same at all temperatures, those of prediction are not.
    beta = f", beta={args.beta:g}" if args.activation not in _SCALE_FREE and args.beta != 1 else ""
    heads = f", heads={heads_of(args)}" if heads_of(args) > 1 else ""
    return f"attention-indexed model, {args.activation}, T={args.tokens}{heads}, {width}{beta}{noise}"


def predicted(errors: "al.aim.PredictionErrors | None") -> Record:
    """Errors of prediction for a record, by the names of `evolve`; null where the channel is no model."""
    mean, plug = (None, None) if errors is None else (as_dict(errors.posterior_mean), as_dict(errors.plug_in))
    return {"prediction_error": mean, "plugin_error": plug}


def said_of(errors: "al.aim.PredictionErrors") -> str:
    """Errors of prediction for a line of text."""
    mean, plug = (pm(found.value, found.error) for found in (errors.posterior_mean, errors.plug_in))
    return f"prediction error {mean} (posterior mean), {plug} (plug-in)"
