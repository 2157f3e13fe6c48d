"""Flags of data that the verbs of the attention-indexed model share: instances of a teacher, or files."""

import argparse
import math
from pathlib import Path
from typing import Literal

import attnlimits as al

from ...core.array_files import write_array
from ...core.decimals import pm
from ...core.destinations import output_file
from ...core.results import as_dict
from ..asked import asked_sizes, run_at
from ..data import Array, Data
from ..parser import Parser
from ..verbs import Outcome, Record
from .flags import channel_flags, channel_of, heads_of

__all__ = [
    "check_data",
    "data_channel",
    "data_flags",
    "finished",
    "summary_of",
    "take_whole_sizes",
    "width_of_data",
]


def _width(text: str) -> float | str:
    """A width, or "estimate"."""
    try:
        return float(text)
    except ValueError:
        if text == "estimate":
            return text
        raise argparse.ArgumentTypeError(f'expected a number or "estimate", got {text!r}') from None


def data_flags(parser: Parser) -> None:
    """Add the flags of the channel, of its width, which may be unknown, and of data."""
    channel_flags(parser)
    parser.needs(parser.add_argument("--rho", type=_width, help="width r/d, or estimate, from --x and --y"))
    parser.check = channel_of
    parser.add_argument("--alpha", "-a", type=float, help="n/d^2, of instances of a teacher")
    parser.add_argument("--dimension", type=int, metavar="d", help="of instances of a teacher")
    parser.add_argument("--seeds", type=int, default=4, help="instances (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="first seed (default: %(default)s)")
    parser.add_argument("--x", type=Path, metavar="FILE", help="tokens (n, T, d), .npy, or a folder of blocks of rows")
    parser.add_argument("--y", type=Path, metavar="FILE", help="outputs (n, T, T), .npy, or a folder where --x is one")
    parser.add_argument(
        "--log-outputs", action="store_true", help="--y holds log y of softmax, which does not underflow"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the estimate there, as .npy")


def check_data(args: argparse.Namespace) -> bool:
    """Refuse flags that do not go together; whether the data are the user's own."""
    own = args.x is not None or args.y is not None
    if own:
        for flag in ("x", "y"):
            if getattr(args, flag) is None:
                raise ValueError(f"--{flag} is missing: --x and --y go together")
        for flag in ("alpha", "dimension"):
            if getattr(args, flag) is not None:
                raise ValueError(f"--{flag} describes instances of a teacher; leave it out where --x and --y are given")
        if args.log_outputs and args.activation != "softmax":
            raise ValueError(f"--log-outputs is for softmax outputs, got --activation {args.activation}")
        args.out = output_file(args.out, ".npy")
        return True
    if args.rho == "estimate":
        raise ValueError("--rho estimate is for data of --x and --y; a teacher needs its width as a number")
    if args.log_outputs:
        raise ValueError("--log-outputs describes --y; instances of a teacher are given in logarithms anyway")
    if args.alpha is None or args.dimension is None:
        raise ValueError("give --alpha and --dimension for instances of a teacher, or --x and --y for your data")
    if not (math.isfinite(args.alpha) and args.alpha > 0):
        raise ValueError(f"--alpha must be finite and > 0, got {args.alpha:g}")
    for flag, least in (("seeds", 1), ("seed", 0), ("dimension", 2)):
        if getattr(args, flag) < least:
            raise ValueError(f"--{flag} must be >= {least}, got {getattr(args, flag)}")
    if args.out is not None:
        raise ValueError("--out is for the estimate from --x and --y; instances of a teacher are summarised")
    return False


def take_whole_sizes(args: argparse.Namespace, *, scalar: bool) -> None:
    """Refuse instances that do not fit into memory; --alpha and --rho become those of whole samples and columns."""
    what = f"--dimension {args.dimension} at --alpha {args.alpha:g} with --tokens {args.tokens}"
    al.aim.refuse_size(args.alpha, args.dimension, args.tokens, what, scalar=scalar)
    alpha, rho = al.aim.whole_sizes(args.alpha, args.rho, args.dimension)
    run_at(args, "alpha", alpha)
    run_at(args, "rho", rho)


def data_channel(args: argparse.Namespace, own: bool) -> "al.aim.Channel":
    """Return the output channel of the data; instances come with log y, which does not underflow at any beta."""
    return channel_of(args, logarithms=args.activation == "softmax" and (args.log_outputs or not own))


def width_of_data(
    args: argparse.Namespace,
    x: Data,
    y: Array | None,
    output: "al.aim.Channel",
    covariance: Literal["gram", "scalar"] = "gram",
) -> "al.aim.WidthEstimate | None":
    """Estimate the width where --rho asks for it, and put that of each head in its place; None where it is given."""
    if args.rho != "estimate":
        return None
    found = al.aim.estimate_rho(x, y, output, covariance=covariance)
    args.rho = found.rho / heads_of(args)
    return found


def finished(
    args: argparse.Namespace,
    record: Record,
    lines: list[str],
    found: "al.aim.AMPResult | al.aim.DescentResult",
    width: "al.aim.WidthEstimate | None",
) -> Outcome:
    """Outcome of an estimate from data: written where --out says and left out of the record then; with its width."""
    if args.out is not None:
        write_array(args.out, found.estimate)
        del record["estimate"]
        record["out"] = str(args.out)
        lines.append(f"wrote {args.out}")
    if width is None:
        return record, "\n".join(lines), found.converged
    said = pm(width.rho, width.error) if width.error is not None else f"{width.rho:.3g}, error not known"
    what = "width rho" if heads_of(args) == 1 else "width of the sum of the heads"
    lines.insert(1, f"{what}, from the data: {said} ({width.status})")
    record["width"] = as_dict(width)
    return record, "\n".join(lines), found.converged and width.converged


def summary_of(args: argparse.Namespace, converged: list[bool], remedy: str) -> Record:
    """What the record of instances ends with: how many converged, and the flags."""
    count, done = len(converged), sum(converged)
    status = f"converged: {done} of {count} instances"
    if done < count:
        status = f"not converged: {count - done} of {count} instances; {remedy}"
    return {
        "converged": done == count,
        "status": status,
        "alpha": args.alpha,
        "rho": args.rho,
        **asked_sizes(args),
        "dimension": args.dimension,
        "seeds": count,
        "seed": args.seed,
    }
