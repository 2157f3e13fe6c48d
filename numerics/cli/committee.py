"""What `attnlimits committee` does."""

import argparse

import attnlimits as al

from ..core.decimals import pm, recorded
from ..core.results import Estimate, versions
from .verbs import Outcome, Record, Verbs, add_verb

__all__ = ["add", "run"]

# Half a minute; alpha/(L - 1) then differs from its limit by 1e-6.
_MOST = 1_000_000
# Nodes grow as 1/beta and as beta: a quarter of a minute at both ends.
_BETA = (0.1, 20.0)


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "committee",
        run,
        "strong skips: thresholds of the hidden layers and the last one, at any depth",
        "attnlimits committee --layers 101 --skip 400 --alpha 40",
    )
    group = parser.add_argument_group("model")
    group.add_argument("--layers", "-L", type=int, default=3, metavar="L", help="depth, from 2 (default: %(default)s)")
    group.add_argument(
        "--beta", "-b", type=float, default=1.0, help="inverse temperature, 0.1 to 20 (default: %(default)s)"
    )
    group.add_argument(
        "--skip", "-c", type=float, metavar="C", help="strength c > L - 1 of the skip connection, for finite c"
    )
    parser.add_argument(
        "--alpha", "-a", type=float, help="also compute the overlaps at these samples per dimension, N/D >= 1/2"
    )


def run(args: argparse.Namespace) -> Outcome:
    """Thresholds of both parts of the network, and the fixed point at one alpha."""
    if args.layers > _MOST:
        raise ValueError(
            f"--layers must be from 2 to {_MOST}, got {args.layers}: beyond, alpha/(L - 1) is its limit of many layers"
        )
    if args.beta > 0 and not _BETA[0] <= args.beta <= _BETA[1]:
        raise ValueError(
            f"--beta must be from {_BETA[0]:g} to {_BETA[1]:g}, got {args.beta:g}: beyond, it takes minutes"
        )
    # First what takes no time: a skip strength out of range is then refused at once.
    last = None if args.skip is None else al.committee.last_layer_threshold(args.layers, args.skip, beta=args.beta)
    found = al.committee.committee_threshold(args.layers, beta=args.beta)
    limit = al.committee.limit_threshold(args.beta)
    record: Record = {"verb": "committee", "layers": args.layers, "beta": args.beta, "skip": args.skip}
    record |= {
        "value": recorded(found.alpha.value, found.alpha.error),
        "error": found.alpha.error,
        "how": found.alpha.how,
    }
    record |= {"committee": found, "limit_per_layer": limit, "versions": versions()}
    lines = [
        f"tied softmax attention, L={args.layers}, M=2, rank 1, beta={args.beta:g}, to leading order in 1/c",
        f"hidden layers: alpha = {_text(found.alpha)}; q_L = 1 - rho/c^2, rho = {_text(found.remainder)}",
        f"many layers: alpha/(L - 1) = {_text(limit)}",
    ]
    if last is not None:
        rho = found.remainder
        at_skip = Estimate(1 - rho.value / args.skip**2, rho.error / args.skip**2, rho.how)
        record |= {"last_layer": last, "last_overlap_at_threshold": at_skip}
        lines.append(
            f"c = {args.skip:g}: last layer from alpha = {_text(last)}; "
            f"1 - q_L = {rho.value / args.skip**2:.3g} where they start"
        )
    if args.alpha is not None:
        state = al.committee.committee_evolution(args.layers, args.alpha, beta=args.beta)
        record["state"] = state
        lines.append(
            f"alpha = {args.alpha:g}: hidden overlaps {_text(state.hidden_overlap)}, rho = {_text(state.remainder)}, "
            f"free entropy {_text(state.free_entropy)} above zero overlap ({state.status})"
        )
    return record, "\n".join(lines), True


def _text(told: Estimate) -> str:
    return pm(told.value, told.error)
