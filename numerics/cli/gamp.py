"""The verb `gamp`: weights estimated from data, of a teacher at random or of the user's own."""

import argparse
from dataclasses import replace
from typing import Any

import numpy as np

import attnlimits as al

from ..core.array_files import read_array
from ..core.decimals import pm, recorded
from ..core.progress import Bar
from ..core.results import as_dict
from ..core.shown import overlap_entries
from ..model.described import Model, of_data
from .asked import asked_sizes, said
from .data import (
    STARTS,
    Array,
    check_data,
    check_iteration,
    data_flags,
    instances_of,
    iteration_flags,
    keep,
    read_data,
    start_of,
    take_whole_samples,
)
from .flags import damping, dask_flag, model_of
from .plot import check_plot, plot_flag, plotted
from .prior_flags import check_prior, known_file, law_of, prior_flags, prior_of, shares_of, side_flags
from .verbs import Outcome, Verbs, add_verb, shown

__all__ = ["add", "run"]


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "gamp",
        run,
        "weights estimated from data by approximate message passing (GAMP)",
        "attnlimits gamp --layers 1 --tokens 2 --alpha 0.8 --dimension 500 --seeds 4",
    )
    data_flags(parser)
    group = parser.add_argument_group("iteration")
    group.add_argument(
        "--damping", type=damping, default=0.3, help='share of the old estimate, or "adaptive" (default: %(default)s)'
    )
    group.add_argument("--max-iter", type=int, default=500, help="iterations (default: %(default)s)")
    group.add_argument(
        "--variance",
        choices=("slope", "nishimori"),
        default="slope",
        help="covariance from the slopes of the scores, or from their squares, which may settle next to an onset where "
        "slopes do not (default: %(default)s)",
    )
    group.add_argument(
        "--solver",
        choices=("damped", "double-loop"),
        default="damped",
        help="iterate with damping to the end, or go over to two loops once that oscillates, the estimate moving "
        "slowly and the term of Onsager following it (default: %(default)s)",
    )
    prior_flags(group)
    side_flags(group, file=True)
    iteration_flags(group, STARTS, "the relative change")
    plot_flag(parser, "the overlaps over the iterations")
    parser.add_argument(
        "--state-evolution",
        action="store_true",
        help="show the state evolution of instances where it takes longer than seconds, too. By default it is shown "
        "for one tied layer of one index, or of more tokens than indices; for two layers over two tokens at "
        "alpha < 2/3; for links in one entry of h per output, or in one combination of them",
    )
    dask_flag(parser, "where the rows of --x stay", workers=", and those that another one waits for (default: 1)")


def run(args: argparse.Namespace) -> Outcome:
    """Run instances, or estimate weights from files."""
    own = check_data(args)
    if own and args.state_evolution:
        raise ValueError("--state-evolution is for instances of a teacher at random, whose alpha --alpha gives")
    if isinstance(args.damping, float) and not 0 <= args.damping < 1:
        raise ValueError(f'--damping must be in [0, 1) or "adaptive", got {args.damping:g}')
    check_iteration(args, "max-iter")
    check_prior(args)
    _check_side(args, own)
    check_plot(args)
    _check_cluster(args)
    model = model_of(args, "gamp")
    return _from_files(args, model) if own else _instances(args, model)


def _check_side(args: argparse.Namespace, own: bool) -> None:
    """Refuse side information that does not belong to the data."""
    if args.side is not None and not own:
        raise ValueError("--side is for data of your own, --x and --y; of instances --side-strength is enough")
    if args.row_covariance is not None and (args.known is not None or args.side_strength is not None):
        raise ValueError("--known and --side-strength are of independent rows, and not served beside --row-covariance")
    if own and (args.side is None) != (args.side_strength is None):
        raise ValueError("--side and --side-strength belong together: S = sqrt(LAMBDA) W + Z")


def _check_cluster(args: argparse.Namespace) -> None:
    """Refuse what is not done on a cluster."""
    if args.dask is None:
        return
    if args.x is None or not args.x.is_dir():
        raise ValueError(
            "--dask is for data in folders of row blocks, --x X --y Y; attnlimits make-data writes such data"
        )
    if args.start == "spectral":
        raise ValueError("--start spectral passes over X on this machine; leave out --dask, or start at random")


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    named = {name: getattr(args, name) for name in ("damping", "max_iter", "tol", "variance", "solver", "workers")}
    return named | {"prior": law_of(args)}


def _instances(args: argparse.Namespace, asked: Model) -> Outcome:
    def one(seed: int, weights: Array, x: Array, y: Array) -> "al.learning.GAMPResult":
        side = al.learning.side_information(weights, known=shares_of(args), strength=args.side_strength, rng=seed)
        return al.gamp(
            asked, x, y, teacher=weights, start=start_of(args, x, y, model, seed), rng=seed, **side, **_settings(args)
        )

    model = of_data(asked)
    take_whole_samples(args, model)
    # First, for it may be refused where it is asked for.
    prior = prior_of(args)
    theory = al.learning.expected(
        asked, args.alpha, wanted=args.state_evolution, rng=args.seed, workers=args.workers, prior=prior
    )
    found = instances_of(args, model, one, prior=law_of(args))
    average = al.learning.mean_of(found, [r.n_iter for r in found])
    error = average.overlap_error
    record = as_dict(average) | {
        "value": recorded(average.overlap[-1, -1], error[-1, -1]),
        "error": as_dict(float(error[-1, -1])),
        "how": "monte-carlo",
        "model": model.describe(),
        "alpha": args.alpha,
        **asked_sizes(args),
        "prior": prior.describe(),
        "dimension": args.dimension,
        "seeds": len(found),
        "seed": args.seed,
        "state_evolution": None if theory is None else as_dict(theory),
        "kernel_hash": found[0].kernel_hash,
        "versions": found[0].versions,
        "origin": as_dict(found[0].origin.with_settings(start=args.start)),
    }
    lines = [model.describe(), f"alpha = {said(args)}, D = {args.dimension}, {len(found)} instances"]
    for i, (name, value, off) in enumerate(overlap_entries(average.overlap, error)):
        line = f"{name} = {pm(value, off or 0.0)}"
        if theory is not None and i < len(theory.overlap):
            line += f" (state evolution: {pm(theory.overlap[i, i], theory.overlap_error[i, i])})"
        lines.append(line)
    if theory is None:
        lines.append("state evolution: not within seconds here; --state-evolution asks for it")
    text = plotted(args, lambda: al.learning.draw_runs(found, theory), "\n".join([*lines, average.status]))
    return record, text, average.converged


def _from_files(args: argparse.Namespace, asked: Model) -> Outcome:
    model = of_data(asked)
    x, y = read_data(args)
    start = start_of(args, x, y, model, args.seed)
    bar = Bar("gamp", show=shown(args))

    def tick(step: "al.learning.GAMPStep") -> None:
        bar.to(step.iteration, args.max_iter)

    side = {
        "known": None if (path := known_file(args)) is None else read_array("--known", path),
        "side_information": None if args.side is None else read_array("--side", args.side),
        "side_strength": args.side_strength,
    }
    result = al.gamp(
        asked, x, y, start=start, rng=args.seed, callback=tick, client=args.dask, **side, **_settings(args)
    )
    bar.close()
    error = float(np.abs(result.self_overlap + result.covariance - np.eye(len(result.covariance))).max())
    record = as_dict(replace(result, origin=result.origin.with_settings(start=args.start))) | {
        "value": recorded(result.self_overlap[-1, -1], error),
        "error": error,
        "how": "estimated",
        "state_evolution": None,
    }
    text = [model.describe(), f"alpha = {result.alpha:g}, D = {result.weights.shape[1]}"]
    text += [
        f"Q_{i + 1}{i + 1} = {result.self_overlap[i, i]:.5g}, C_{i + 1}{i + 1} = {result.covariance[i, i]:.5g}"
        for i in range(len(result.covariance))
    ]
    text.append(result.status)
    record = keep(args, record, text, result.weights)
    return record, plotted(args, result.plot, "\n".join(text)), result.converged
