"""The verb `evolve`: the fixed point of the state evolution."""

import argparse
import itertools
import math

import attnlimits as al

from ..core.decimals import pm, recorded
from ..core.results import Estimate, EvolutionResult, as_dict
from .flags import (
    NODES,
    check_link,
    check_model,
    check_output,
    check_sampling,
    dask_flag,
    link_flags,
    model_flags,
    network_of,
    sampling,
    sampling_flags,
)
from .link import evolve as link_evolve
from .plot import check_plot, plot_flag, plotted
from .prior_flags import check_prior, prior_flags, prior_of, side_flags
from .verbs import Outcome, Record, Verbs, add_verb

__all__ = ["add", "run"]


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "evolve",
        run,
        "fixed point of the state evolution",
        "attnlimits evolve --layers 2 --tokens 2 --skip 1 --alpha 0.5 --json",
    )
    model_flags(parser)
    link_flags(parser)
    parser.needs(parser.add_argument("--alpha", "-a", type=float, help="samples per dimension, N/D"))
    parser.check = check_model("evolve")
    parser.add_argument("--start", choices=["uninformed", "informed"], default="uninformed")
    prior_flags(parser)
    side_flags(parser)
    parser.add_argument("--tol", type=float, default=1e-5, help="on max |F(q) - q| (default: %(default)s)")
    parser.add_argument("--max-iter", type=int, default=200, help="evaluations (default: %(default)s)")
    parser.add_argument(
        "--nodes",
        type=int,
        help="points of each sampled posterior (default: 2048, on charts 512; or as many as an accuracy takes)",
    )
    parser.add_argument(
        "--accuracy",
        type=float,
        help="of the overlaps by quadrature (default: 1e-2; two layers of two tokens: 1e-3, relative), or by as many "
        "samples as it takes (default: 1e-2 on a chart, else --samples); of a link absolute (default: none); exit "
        "status 1 where it is not reached",
    )
    plot_flag(parser, "the overlaps over the iteration")
    sampling_flags(parser, samples=None)
    dask_flag(parser, "to which the parts of each average go that do not need each other")


def run(args: argparse.Namespace) -> Outcome:
    """Fixed point of what the flags describe."""
    check_sampling(args)
    # Checked before the compiled kernels load, which takes a second.
    for flag, value, least in (("alpha", args.alpha, 0.0), ("tol", args.tol, 1e-12)):
        if not (math.isfinite(value) and value >= least):
            raise ValueError(f"--{flag} must be finite and >= {least:g}, got {value:g}")
    check_output(args)
    if args.max_iter < 1:
        raise ValueError(f"--max-iter must be >= 1, got {args.max_iter}")
    check_link(args)
    check_prior(args)
    check_plot(args)
    if args.link is not None:
        args.nodes = NODES if args.nodes is None else args.nodes
        return _outcome(*link_evolve(args), args)
    model = network_of(args, "evolve")
    result = al.evolve(
        model,
        args.alpha,
        heads=args.heads,
        output=args.output,
        start=args.start,
        accuracy=args.accuracy,
        tol=args.tol,
        max_iter=args.max_iter,
        nodes=args.nodes,
        client=args.dask,
        prior=prior_of(args),
        **sampling(args),
    )
    name = model.describe()
    if args.heads != model.heads:
        name += f", H={args.heads}"
    if model.chain is None and args.output != model.output:
        name += ", output B_1"
    return _outcome(result, {"model": name}, args)


def _outcome(result: EvolutionResult, about: Record, args: argparse.Namespace) -> Outcome:
    record = as_dict(result) | {
        "value": recorded(float(result.overlap[-1, -1]), float(result.overlap_error[-1, -1])),
        "error": float(result.overlap_error[-1, -1]),
        "how": result.estimation_error.how,
    }
    lines = [str(about["model"]), f"alpha = {result.alpha:g}"]
    size = len(result.overlap)
    for i, j in [*((k, k) for k in range(size)), *itertools.combinations(range(size), 2)]:
        q, error = result.overlap[i, j], result.overlap_error[i, j]
        if i == j or q or error:
            lines.append(f"q_{i + 1}{j + 1} = {pm(q, error)}")
    lines += [
        f"prediction error: {_pm(result.prediction_error)} (posterior mean), {_pm(result.plugin_error)} (plug-in)",
        result.status,
    ]
    # Where the error is larger than was asked for, the status states it.
    return record | about, plotted(args, result.plot, "\n".join(lines)), bool(result.reached)


def _pm(estimate: Estimate) -> str:
    return pm(estimate.value, estimate.error)
