"""The verb `aim free-energy`: the free entropy at the fixed point of the state evolution, or at errors of one's own."""

import argparse

import attnlimits as al

from ...core.decimals import pm, recorded
from ...core.results import as_dict
from ..verbs import Outcome, Verbs, add_verb
from .flags import channel_flags, channel_of, heads_flag, name_of, width_of

__all__ = ["add", "run"]


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "free-energy",
        run,
        "free entropy per d^2 at the fixed point of the state evolution, where it is stationary",
        "attnlimits aim free-energy --rho 0.5 --alpha 0.1 --error 0.3 0.5",
        nested=True,
    )
    channel_flags(parser)
    heads_flag(parser)
    parser.needs(
        parser.add_argument("--rho", type=float, help="width r/d"),
        parser.add_argument("--alpha", "-a", type=float, help="n/d^2"),
    )
    parser.check = channel_of
    parser.add_argument(
        "--error", type=float, nargs="+", metavar="V", help="errors V in (0, 1) at which to have it, too"
    )


def run(args: argparse.Namespace) -> Outcome:
    """Free entropy at the fixed point, and at errors that are asked for."""
    output, width = channel_of(args), width_of(args)
    name = name_of(args, f"{args.rho:g}")
    found = al.aim.free_entropy_at(args.alpha, width, output)
    value = found.free_entropy
    record = as_dict(found) | {
        "value": recorded(value.value, value.error),
        "quantity": "free entropy per d^2"
        + ("" if output.name == "hardmax" else ", up to a constant times alpha that does not depend on q"),
        "error": value.error,
        "how": value.how,
        "converged": True,
        "model": name,
    }
    lines = [
        name,
        f"alpha = {args.alpha:g}: free entropy per d^2 {pm(value.value, value.error)}",
        f"at MMSE = {pm(found.mmse.value, found.mmse.error)}, qhat = {found.q_hat:.10g}",
        f"Psi_out = {pm(found.psi_out.value, found.psi_out.error)}, I(S; Y)/d^2 = "
        f"{pm(found.information.value, found.information.error)}",
    ]
    if args.error is not None:
        rows = [(V, al.aim.free_entropy(args.alpha, V, width, output)) for V in args.error]
        record["landscape"] = [{"mmse": V, "free_entropy": as_dict(f)} for V, f in rows]
        lines += [f"at V = {V:g}: {pm(f.value, f.error)}" for V, f in rows]
    lines.append(f"{found.status}; it is stationary to {abs(found.residual):.0e} of qhat/4")
    return record, "\n".join(lines), True
