"""The verb `aim threshold`: perfect recovery at a width, or weak recovery at small width."""

import argparse

import attnlimits as al

from ...core.decimals import pm
from ...core.results import as_dict
from ..verbs import Outcome, Verbs, add_verb
from .flags import channel_flags, channel_of, name_of

__all__ = ["add", "run"]


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
    parser.add_argument("--rho", help="width r/d, exactly as 0.1 or 1/3; without it, weak recovery at small width")
    parser.add_argument(
        "--digits",
        type=int,
        help="significant digits (default: 15; at most 10 for weak recovery of hardmax of more than two tokens)",
    )


def run(args: argparse.Namespace) -> Outcome:
    """Threshold of what the flags describe."""
    output = channel_of(args)
    name = name_of(args, args.rho)
    weak = args.rho is None
    digits = 15 if args.digits is None else args.digits
    found = (
        al.aim.weak_recovery(output, digits=args.digits)
        if weak
        else al.aim.perfect_recovery(args.rho, output, digits=digits)
    )
    status = "sum over all labels" if found.exact is None else "closed form"
    record = as_dict(found) | {"model": name, "mmse": 1.0 if weak else 0.0, "converged": True, "status": status}
    lines = [name, f"{found.quantity}: {found.value}"]
    if found.value == "inf":
        # As of links: no number, and the symbol of infinity where that is proved.
        record |= {"value": None, "exact": "oo"}
        if isinstance(output, al.aim.Noisy):
            falls = al.aim.noisy_tail(float(al.aim.exact_number("rho", args.rho, "rho = r/d")), output)
            lines.append(f"alpha MMSE at large alpha: {pm(falls.value, falls.error)}")
            record["tail"] = as_dict(falls)
        elif output.name == "hardmax":
            tail = al.aim.hardmax_tail(args.rho, tokens=args.tokens, digits=min(digits, 15))
            lines.append(f"at large alpha MMSE = {tail}/alpha^2")
            record["tail"] = tail
    elif found.exact is None:
        lines.append(f"error {found.error:.1e} ({found.how})")
    else:
        lines.append(f"exactly {found.exact}")
    return record, "\n".join(lines), True
