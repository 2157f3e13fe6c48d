"""The verb `multihead hardness`: how well methods learn layers that carry a hidden parity."""

import argparse

import attnlimits as al

from ...core.progress import Bar
from ...core.results import as_dict
from ..verbs import Outcome, Verbs, add_verb, shown
from .report import counted

__all__ = ["add", "run"]


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "hardness",
        run,
        "how well methods learn layers that carry a hidden parity",
        "attnlimits multihead hardness --bits 1 3 --methods lm --dim 8",
        nested=True,
    )
    parser.add_argument(
        "--bits", type=int, nargs="+", default=[1, 2, 3], metavar="n", help="of the parity (default: 1 2 3)"
    )
    parser.add_argument("--dim", type=int, default=10, metavar="d", help="dimension (default: %(default)s)")
    parser.add_argument("--samples", type=int, default=20000, help="examples (default: %(default)s)")
    parser.add_argument("--methods", nargs="+", metavar="METHOD", help="adam, lbfgs, lm, sculpt (default: all)")
    parser.add_argument("--starts", type=int, default=3, help="of each method at most (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")


def run(args: argparse.Namespace) -> Outcome:
    """Run every method on every parity."""
    if args.seed < 0:
        raise ValueError(f"--seed must be >= 0, got {args.seed}")
    bar = Bar("hardness", show=shown(args))
    found = al.multihead.hardness(
        args.bits,
        dim=args.dim,
        samples=args.samples,
        methods=args.methods or al.multihead.METHODS,
        starts=args.starts,
        rng=args.seed,
        progress=bar.to,
    )
    bar.close()
    last = found.points[-1]
    record = as_dict(found) | {
        "verb": "multihead hardness",
        "value": f"{last.error:.6g}",
        "quantity": f"mean squared error of {last.method} on the parity of {last.n} bits; 1 of the trivial predictor",
        "error": as_dict(last.deviation),
        "how": "monte-carlo",
        "test_error": last.error,
        "method": last.method,
        # Every run is made; what it has learned is the answer.
        "converged": True,
    }
    lines = [f"hidden parity of n of {args.dim - 1} bits; mean squared error on it, 1 of the trivial predictor"]
    for p in found.points:
        told = f"refuses, {p.refused}" if p.refused else f"{p.error:.3f} +- {p.deviation:.1g}"
        lines.append(f"n = {p.n}, {counted(p.heads, 'head')}, {p.method}: {told}")
    lines.append(
        "exact: the concepts have correlations 0"
        if all(c.pairwise == 0 and c.low_degree == 0 for c in found.correlations)
        else "exact: some concepts are correlated"
    )
    return record, "\n".join([*lines, found.status]), True
