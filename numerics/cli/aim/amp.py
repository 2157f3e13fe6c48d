"""The verb `aim amp`: S estimated from data by approximate message passing."""

import argparse
import math
from pathlib import Path
from typing import Any

import attnlimits as al

from ...core.array_files import read_array, write_array
from ...core.decimals import pm, recorded
from ...core.destinations import output_file
from ...core.progress import Bar
from ...core.results import as_dict
from ..flags import damping
from ..verbs import Outcome, Verbs, add_verb, shown
from .flags import channel_flags, channel_of, name_of

__all__ = ["add", "run"]


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "amp",
        run,
        "S estimated from data by approximate message passing, of a random teacher or of your own",
        "attnlimits aim amp --rho 0.5 --alpha 0.1 --dimension 60 --seeds 2",
        nested=True,
    )
    channel_flags(parser)
    parser.needs(parser.add_argument("--rho", type=float, help="width r/d"))
    parser.check = channel_of
    parser.add_argument("--alpha", "-a", type=float, help="n/d^2, of instances of a teacher")
    parser.add_argument("--dimension", type=int, metavar="d", help="of instances of a teacher")
    parser.add_argument("--seeds", type=int, default=4, help="instances (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="first seed (default: %(default)s)")
    parser.add_argument("--x", type=Path, metavar="FILE", help="tokens (n, T, d), a .npy file")
    parser.add_argument("--y", type=Path, metavar="FILE", help="outputs (n, T, T), a .npy file")
    parser.add_argument(
        "--log-outputs", action="store_true", help="--y holds log y of softmax, which does not underflow"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the estimate there, as .npy")
    parser.add_argument("--damping", type=damping, default="adaptive", help="in [0, 1), or adaptive (default)")
    parser.add_argument(
        "--covariance", choices=("gram", "scalar"), default="gram", help="of each sample, or its limit (default: gram)"
    )
    parser.add_argument("--max-iter", type=int, default=200, help="iterations (default: %(default)s)")
    parser.add_argument("--tol", type=float, default=1e-5, help="on the step ||dS||^2/d (default: %(default)s)")


def _check(args: argparse.Namespace) -> bool:
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


def run(args: argparse.Namespace) -> Outcome:
    """Run instances of a teacher, or estimate S from files."""
    own = _check(args)
    output = channel_of(args)
    if args.activation == "softmax" and (args.log_outputs or not own):
        # Instances come with log y, which does not underflow at any beta.
        output = al.aim.Softmax(args.tokens, args.beta, logarithms=True)
    settings = {
        "damping": args.damping,
        "covariance": args.covariance,
        "max_iter": args.max_iter,
        "tol": args.tol,
    }
    name = name_of(args, f"{args.rho:g}")
    return _own(args, output, name, settings) if own else _instances(args, output, name, settings)


def _own(args: argparse.Namespace, output: "al.aim.Channel", name: str, settings: dict[str, Any]) -> Outcome:
    x, y = read_array("--x", args.x), read_array("--y", args.y)
    bar = Bar("aim amp", show=shown(args))

    def tick(step: "al.aim.AMPStep") -> None:
        bar.to(step.iteration, args.max_iter)

    found = al.aim.amp(x, y, output, args.rho, callback=tick, **settings)
    bar.close()
    record = as_dict(found) | {
        "value": recorded(found.predicted, found.predicted_error),
        "quantity": "error ||S - Shat||^2/d that the algorithm states of itself",
        "error": found.predicted_error,
        "model": name,
    }
    own = "not known" if found.predicted_error is None else pm(found.predicted, found.predicted_error)
    lines = [
        name,
        f"alpha = {found.alpha:g}, d = {len(found.estimate)}",
        f"error ||S - Shat||^2/d that the algorithm states of itself: {own}",
        f"V = {found.V:.6g}",
        found.status,
    ]
    if args.out is not None:
        write_array(args.out, found.estimate)
        del record["estimate"]
        record["out"] = str(args.out)
        lines.append(f"wrote {args.out}")
    return record, "\n".join(lines), found.converged


def _instances(args: argparse.Namespace, output: "al.aim.Channel", name: str, settings: dict[str, Any]) -> Outcome:
    asked = f"--dimension {args.dimension} at --alpha {args.alpha:g} with --tokens {args.tokens}"
    al.aim.refuse_size(args.alpha, args.dimension, args.tokens, asked, scalar=args.covariance == "scalar")
    expected = al.aim.evolve(args.alpha, args.rho, output)
    bar = Bar("aim amp", show=shown(args))
    found = al.aim.amp_instances(
        args.alpha, args.rho, args.dimension, output, count=args.seeds, seed=args.seed, progress=bar.to, **settings
    )
    bar.close()
    errors = [r.mmse for r in found.results]
    count = len(errors)
    done = sum(r.converged for r in found.results)
    status = f"converged: {done} of {count} instances"
    if done < count:
        status = f"not converged: {count - done} of {count} instances; raise --max-iter or --tol"
    record = {
        "value": recorded(found.error, found.error_of_error),
        "error": found.error_of_error,
        "how": "monte-carlo",
        "mmse": found.error,
        "state_evolution": as_dict(expected.mmse),
        "errors": errors,
        "predicted": [r.predicted for r in found.results],
        "predicted_error": [r.predicted_error for r in found.results],
        "n_iter": [r.n_iter for r in found.results],
        "converged": done == count,
        "status": status,
        "alpha": args.alpha,
        "rho": args.rho,
        "dimension": args.dimension,
        "seeds": count,
        "seed": args.seed,
        "model": name,
        "versions": found.results[0].versions,
    }
    lines = [
        name,
        f"alpha = {args.alpha:g}, d = {args.dimension}, {count} instances",
        f"error: {pm(found.error, found.error_of_error)} (state evolution: {expected.mmse.value:.4g})",
        status,
    ]
    return record, "\n".join(lines), done == count
