"""The verb `aim threshold`: perfect recovery at a width, or weak recovery at small width."""

import argparse
from dataclasses import replace

import attnlimits as al

from ...aim.checks import ACTIVATIONS
from ...core.decimals import pm
from ...core.results import as_dict
from ..verbs import Outcome, Verbs, add_verb
from .flags import channel_flags, channel_of, heads_flag, heads_of, name_of

__all__ = ["add", "run"]

# Digits of weak recovery where noise is shared between heads.
_SHARED = 15


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "threshold",
        run,
        "perfect recovery at a width, or weak recovery in the limit of small width",
        "attnlimits aim threshold --activation hardmax --digits 20",
        nested=True,
    )
    channel_flags(parser)
    heads_flag(parser)
    parser.add_argument("--rho", help="width r/d, exactly as 0.1 or 1/3; without it, weak recovery at small width")
    parser.add_argument(
        "--digits",
        type=int,
        help="significant digits (default: 15; at most 10 for weak recovery of hardmax of more than two tokens)",
    )


def run(args: argparse.Namespace) -> Outcome:
    """Threshold of what the flags describe."""
    output, heads = channel_of(args), heads_of(args)
    digits = 15 if args.digits is None else args.digits
    if args.rho is None:
        width, found = None, _weak(args, output)
    else:
        width = heads * al.aim.exact_number("rho", args.rho, "rho = r/d")
        found = al.aim.perfect_recovery(width, output, digits=digits)
    record = as_dict(found) | {
        "quantity": _quantity(found.quantity, heads),
        "model": name_of(args, args.rho),
        "mmse": 1.0 if width is None else 0.0,
        "converged": True,
        "status": _status(found, output),
    }
    lines = [str(record["model"]), f"{record['quantity']}: {found.value}"]
    if found.value == "inf":
        # As of links: no number, and the symbol of infinity where that is proved.
        record |= {"value": None, "exact": "oo"}
    if found.value == "inf" and width is not None:
        error = "MMSE" if heads == 1 else "MMSE of the sum"
        if isinstance(output, al.aim.Noisy):
            falls = al.aim.noisy_tail(float(width), output)
            lines.append(f"alpha {error} at large alpha: {pm(falls.value, falls.error)}")
            record["tail"] = as_dict(falls)
        elif output.name == "hardmax":
            tail = al.aim.hardmax_tail(width, tokens=args.tokens, digits=min(digits, 15))
            lines.append(f"at large alpha {error} = {tail}/alpha^2")
            record["tail"] = tail
    elif found.exact is None:
        lines.append(f"error {found.error:.1e} ({found.how})")
    else:
        lines.append(f"exactly {found.exact}")
    return record, "\n".join(lines), True


def _status(found: "al.aim.Threshold", output: "al.aim.Channel") -> str:
    """How the number is known, or why there is none."""
    if found.value == "inf" and "perfect" in found.quantity:
        return "infinite: samples fix no linear function of S, and the error vanishes only as alpha grows"
    if found.value == "inf":
        return "infinite: F(0) = 0, as outputs of an even function do not depend on the sign of the scores"
    if found.exact is not None or found.how == "rigorous":
        return "closed form"
    if output.name not in ACTIVATIONS:
        return "quadrature over outputs"
    return "sum over all labels" if found.how == "estimated" else "mean over sampled labels"


def _weak(args: argparse.Namespace, output: "al.aim.Channel") -> "al.aim.Threshold":
    """Weak recovery; the share that each head has of the noise is rounded to float64."""
    if heads_of(args) == 1 or not args.noise:
        return al.aim.weak_recovery(output, digits=args.digits)
    if args.digits is not None and args.digits > _SHARED:
        shared = "with --noise and --heads, whose share of it is in float64"
        raise ValueError(f"--digits must be <= {_SHARED} {shared}, got {args.digits}")
    found = al.aim.weak_recovery(output, digits=args.digits)
    return replace(found, exact=None, error=found.error + 2.0**-52 * float(found.value))


def _quantity(said: str, heads: int) -> str:
    """What the number is, with several heads: of their sum, and the width that of all."""
    if heads == 1:
        return said
    weak = said.replace("alpha/rho", f"alpha/({heads} rho)")
    return weak if weak != said else f"{said}, of the sum of the heads"
