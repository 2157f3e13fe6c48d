"""Flags of a link of one's own and of its noise, and what they say."""

import argparse
from fractions import Fraction

from ..core.decimals import check_size
from ..core.validation import within
from ..model.link import Link

__all__ = ["link_flags", "link_of", "noise_of", "number_of"]


def link_flags(parser: argparse.ArgumentParser, *, labels: bool = True) -> None:
    """Add the flags of a link of one's own, which replaces the model; with that of label noise or without."""
    group = parser.add_argument_group("a link of your own, instead of a model")
    group.add_argument(
        "--link",
        metavar="EXPR",
        help='y = g(h) in h[p, m] or h[p], such as "sign(h[1]*h[2])"; its first derivation may take 20 s of processor '
        "time (ATTNLIMITS_DERIVE_SECONDS)",
    )
    group.add_argument(
        "--noise",
        type=_exact,
        default="0",
        metavar="DELTA",
        help="variance of Gaussian noise on y; on the scores of a softmax that is observed (default: 0)",
    )
    if labels:
        group.add_argument(
            "--label-noise",
            type=_exact,
            default="0",
            metavar="EPS",
            help="probability that a discrete output is replaced by another of its values, each as likely (default: 0)",
        )


def link_of(args: argparse.Namespace) -> Link:
    """Return the link of the flags."""
    number_of(args, "label-noise")
    return Link(args.link, args.noise, label_noise=getattr(args, "label_noise", "0"))


def noise_of(args: argparse.Namespace) -> float:
    """Variance of the noise of the flags, 0 for a verb that has none."""
    noise = number_of(args, "noise")
    within("noise", max(noise, 0.0), "--noise")
    return noise


def number_of(args: argparse.Namespace, name: str) -> float:
    """A flag that is read exactly, 0 for a verb that has none."""
    text = getattr(args, name.replace("-", "_"), "0")
    try:
        return float(Fraction(text))
    except (ValueError, ZeroDivisionError, OverflowError):
        raise ValueError(f"--{name} must be a number >= 0 in decimal or as a fraction, got {text!r}") from None


def _exact(text: str) -> str:
    """A number that is kept as it is spelled, and read exactly by the derivations."""
    try:
        check_size("the number", text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text
