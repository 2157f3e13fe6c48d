"""The verb `gamp`: weights estimated from data, of a teacher at random or of the user's own."""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..core.array_files import read_array, write_array
from ..core.decimals import pm, recorded
from ..core.destinations import output_file
from ..core.progress import Bar
from ..core.results import as_dict
from .flags import (
    MODEL_DEFAULTS,
    attention,
    is_attention,
    link_flags,
    model_flags,
    refuse_model_flags,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..learning.descent import DescentResult
    from ..learning.gamp import GAMPResult, GAMPStep
    from ..learning.outputs.channel import Model

__all__ = [
    "STARTS",
    "Instances",
    "check_data",
    "check_iteration",
    "check_size",
    "data_flags",
    "gamp_flags",
    "iteration_flags",
    "keep",
    "means",
    "model_of",
    "read_data",
    "run",
    "run_instances",
    "start_of",
]

Outcome = tuple[dict[str, Any], str, bool]
Result = TypeVar("Result", "GAMPResult", "DescentResult")

#: Starts of both verbs.
STARTS = ("random", "spectral")
# Flags of instances, which data of one's own replace.
_INSTANCES = {"alpha": None, "dimension": None, "seeds": None}
_SEEDS = 4


def _damping(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        if text == "adaptive":
            return text
        raise argparse.ArgumentTypeError(f'expected a number in [0, 1) or "adaptive", got {text!r}') from None


def data_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a model and of its data, which all verbs that learn from data share."""
    model_flags(parser)
    link_flags(parser)
    group = parser.add_argument_group("instances of a teacher at random")
    group.add_argument("--alpha", type=float, help="samples per dimension N/D")
    group.add_argument("--dimension", type=int, metavar="D", help="dimension of the tokens")
    group.add_argument("--seeds", type=int, metavar="K", help=f"number of instances (default: {_SEEDS})")
    group = parser.add_argument_group("data of your own, instead")
    group.add_argument("--x", type=Path, metavar="FILE", help=".npy of shape (N, M, D); it is memory-mapped")
    group.add_argument("--y", type=Path, metavar="FILE", help=".npy of shape (N, M, M), or (N, K) of a link")
    group.add_argument("--out", type=Path, metavar="FILE", help="write the estimate there, .npy of shape (P, D)")


def iteration_flags(group: Any, starts: Sequence[str], tol: str) -> None:
    """Add the flags of an iteration that both verbs have."""
    group.add_argument("--start", choices=starts, default="random", help="first weights (default: %(default)s)")
    group.add_argument("--tol", type=float, default=1e-3, help=f"on {tol} (default: %(default)s)")
    group.add_argument("--seed", type=int, default=0, help="first seed (default: %(default)s)")
    group.add_argument("--workers", type=int, help="threads (default: all cores)")


def gamp_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the verb."""
    data_flags(parser)
    group = parser.add_argument_group("iteration")
    group.add_argument(
        "--damping", type=_damping, default=0.3, help='share of the old estimate, or "adaptive" (default: %(default)s)'
    )
    group.add_argument("--max-iter", type=int, default=500, help="iterations (default: %(default)s)")
    iteration_flags(group, STARTS, "the relative change")
    parser.add_argument(
        "--state-evolution",
        action="store_true",
        help="show the state evolution of instances also where it takes longer than seconds. By itself it is shown of "
        "one tied layer of one index, or of more tokens than indices; of two softmax layers over two tokens at alpha "
        "< 2/3; of links in one entry of h per output, or one combination",
    )


def run(args: argparse.Namespace) -> Outcome:
    """Run instances, or estimate weights from files."""
    own = check_data(args)
    if own and args.state_evolution:
        raise ValueError("--state-evolution is for instances of a teacher at random, whose alpha --alpha gives")
    if isinstance(args.damping, float) and not 0 <= args.damping < 1:
        raise ValueError(f'--damping must be in [0, 1) or "adaptive", got {args.damping:g}')
    check_iteration(args, "max-iter")
    model = model_of(args, "gamp")
    return _from_files(args, model) if own else _instances(args, model)


def check_data(args: argparse.Namespace) -> bool:
    """Whether the data are one's own; bad flags are refused before anything is loaded or drawn."""
    if args.x is not None or args.y is not None:
        for name, path in (("x", args.x), ("y", args.y)):
            if path is None:
                raise ValueError(f"--{name} is missing: data of your own are --x X.npy and --y Y.npy")
        for name in _INSTANCES:
            if getattr(args, name) is not None:
                raise ValueError(f"--{name} describes instances of a teacher at random, and --x stands instead of them")
        args.out = output_file(args.out, ".npy")
        return True
    if args.alpha is None or args.dimension is None:
        raise ValueError("give --alpha and --dimension, or data of your own by --x and --y")
    if args.out is not None:
        raise ValueError("--out is for the estimate of data of your own, --x and --y")
    if not (math.isfinite(args.alpha) and args.alpha > 0):
        raise ValueError(f"--alpha must be finite and > 0, got {args.alpha:g}")
    if args.dimension < 1:
        raise ValueError(f"--dimension must be >= 1, got {args.dimension}")
    if args.seeds is not None and args.seeds < 1:
        raise ValueError(f"--seeds must be >= 1, got {args.seeds}")
    return False


def check_iteration(args: argparse.Namespace, count: str) -> None:
    """Refuse flags of an iteration out of range; `count` is the one of its length."""
    length = getattr(args, count.replace("-", "_"))
    if length < 1:
        raise ValueError(f"--{count} must be >= 1, got {length}")
    if not (math.isfinite(args.tol) and args.tol >= 0):
        raise ValueError(f"--tol must be finite and >= 0, got {args.tol:g}")
    if args.seed < 0:
        raise ValueError(f"--seed must be >= 0, got {args.seed}")
    if args.workers is not None and args.workers < 1:
        raise ValueError(f"--workers must be >= 1, got {args.workers}")


def model_of(args: argparse.Namespace, verb: str) -> "Model":
    """Return the model or link of the flags."""
    if args.link is not None:
        refuse_model_flags(args, MODEL_DEFAULTS)
        from ..model.link_kernels import kernel_of

        return kernel_of(args.link, noise=args.noise)
    if args.noise != "0":
        raise ValueError("--noise belongs to --link EXPR; attention models have no noise")
    if args.layers == 1 and args.untied and args.heads == 1 and args.output == "last":
        from ..posterior.fibres import LastLayer

        return LastLayer(args.tokens, args.rank, args.activation, False, args.beta)
    is_attention(args)
    return attention(args, verb)


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(args, name) for name in ("damping", "max_iter", "tol", "workers")}


@dataclass(frozen=True)
class Instances:
    """Means over instances, and their standard errors."""

    overlap: "NDArray[Any]"
    overlap_error: "NDArray[Any]"
    self_overlap: "NDArray[Any]"
    converged: bool
    status: str
    n_iter: list[int]
    residual: float


def check_size(args: argparse.Namespace, model: "Model") -> None:
    """Refuse instances that do not fit into memory."""
    from ..learning.data import refuse_size

    refuse_size(model, args.alpha, args.dimension, f"--dimension {args.dimension} at --alpha {args.alpha:g}")


def run_instances(
    args: argparse.Namespace,
    model: "Model",
    one: "Callable[[int, NDArray[Any], NDArray[Any], NDArray[Any]], Result]",
) -> "list[Result]":
    """Call one(seed, teacher, X, Y) for each instance."""
    from ..learning.gamp import make_data, teacher

    count = _SEEDS if args.seeds is None else args.seeds
    bar = Bar(args.verb, show=True)
    found = []
    for k in range(count):
        seed = args.seed + k
        weights = teacher(model, args.dimension, seed)
        found.append(one(seed, weights, *make_data(model, weights, args.alpha, seed)))
        bar.to(k + 1, count)
    bar.close()
    return found


def means(found: "Sequence[Result]", lengths: list[int]) -> Instances:
    """Average runs that know their teacher; `lengths` are their numbers of iterations."""
    import numpy as np

    from ..core.standard_error import standard_error

    count = len(found)
    overlaps = np.array([r.overlap for r in found])
    done = sum(r.converged for r in found)
    status = f"converged: {done} of {count} instances"
    if done < count:
        first = next(r for r in found if not r.converged)
        status = f"not converged: {count - done} of {count} instances, the first: {first.status}"
    return Instances(
        overlap=overlaps.mean(axis=0),
        overlap_error=standard_error(overlaps),
        self_overlap=np.mean([r.self_overlap for r in found], axis=0),
        converged=done == count,
        status=status,
        n_iter=lengths,
        residual=max(r.residual for r in found),
    )


def _instances(args: argparse.Namespace, model: "Model") -> Outcome:
    from ..learning.gamp import gamp

    def one(seed: int, weights: "NDArray[Any]", x: "NDArray[Any]", y: "NDArray[Any]") -> "GAMPResult":
        return gamp(x, y, model, teacher=weights, start=start_of(args, x, y, model, seed), rng=seed, **_settings(args))

    check_size(args, model)
    # First, for it may be refused where it is asked for.
    expected = _expected(args, model)
    found = run_instances(args, model, one)
    average = means(found, [r.n_iter for r in found])
    error = average.overlap_error
    record = as_dict(average) | {
        "value": recorded(average.overlap[-1, -1], error[-1, -1]),
        "error": as_dict(float(error[-1, -1])),
        "how": "monte-carlo",
        "model": model.describe(),
        "alpha": args.alpha,
        "dimension": args.dimension,
        "seeds": len(found),
        "seed": args.seed,
        "state_evolution": None if expected is None else as_dict(expected),
        "kernel_hash": found[0].kernel_hash,
        "versions": found[0].versions,
        "origin": as_dict(found[0].origin.with_settings(start=args.start)),
    }
    lines = [model.describe(), f"alpha = {args.alpha:g}, D = {args.dimension}, {len(found)} instances"]
    for i in range(model.indices):
        line = f"q_{i + 1}{i + 1} = {pm(average.overlap[i, i], error[i, i])}"
        if expected is not None:
            line += f" (state evolution: {pm(expected.overlap[i, i], expected.overlap_error[i, i])})"
        lines.append(line)
    if expected is None:
        lines.append("state evolution: not within seconds here; --state-evolution asks for it")
    return record, "\n".join([*lines, average.status]), average.converged


def start_of(args: argparse.Namespace, x: Any, y: Any, model: "Model", seed: int) -> "NDArray[Any] | None":
    """Return the first weights if they are to be spectral; None otherwise."""
    if args.start != "spectral":
        return None
    from ..learning.descent import spectral_start

    return spectral_start(x, y, model, rng=seed, workers=args.workers)


def _expected(args: argparse.Namespace, model: "Model") -> Any:
    """Fixed point of the state evolution from the uninformed start, where it is asked for or takes seconds."""
    from ..core.errors import ConvergenceError
    from ..fixed_point.cost import takes_seconds
    from ..model.links import LinkKernel

    if not (args.state_evolution or takes_seconds(model, args.alpha)):
        return None
    try:
        if isinstance(model, LinkKernel):
            from .link import fixed_point

            return fixed_point(model, args.link, args.alpha, rng=args.seed)
        from ..fixed_point.evolve import evolve

        return evolve(model, args.alpha, rng=args.seed, workers=args.workers)
    except (ValueError, ConvergenceError):
        if args.state_evolution:
            raise
        return None


def read_data(args: argparse.Namespace) -> "list[NDArray[Any]]":
    """Map the files of the flags into memory."""
    return [read_array(flag, path) for flag, path in (("--x", args.x), ("--y", args.y))]


def keep(args: argparse.Namespace, record: dict[str, Any], text: list[str], weights: "NDArray[Any]") -> dict[str, Any]:
    """Write the weights where --out says, and leave them out of the record then."""
    if args.out is None:
        return record
    write_array(args.out, weights)
    text.append(f"wrote {args.out}")
    return {k: v for k, v in record.items() if k != "weights"} | {"out": str(args.out)}


def _from_files(args: argparse.Namespace, model: "Model") -> Outcome:
    import numpy as np

    from ..learning.gamp import gamp

    x, y = read_data(args)
    start = start_of(args, x, y, model, args.seed)
    bar = Bar("gamp", show=True)

    def tick(step: "GAMPStep") -> None:
        bar.to(step.iteration, args.max_iter)

    result = gamp(x, y, model, start=start, rng=args.seed, callback=tick, **_settings(args))
    bar.close()
    record = as_dict(replace(result, origin=result.origin.with_settings(start=args.start))) | {
        "value": recorded(result.self_overlap[-1, -1], 0.0),
        "error": float(np.abs(result.self_overlap + result.covariance - np.eye(model.indices)).max()),
        "how": "estimated",
        "state_evolution": None,
    }
    text = [model.describe(), f"alpha = {result.alpha:g}, D = {result.weights.shape[1]}"]
    text += [
        f"Q_{i + 1}{i + 1} = {result.self_overlap[i, i]:.5g}, C_{i + 1}{i + 1} = {result.covariance[i, i]:.5g}"
        for i in range(model.indices)
    ]
    text.append(result.status)
    record = keep(args, record, text, result.weights)
    return record, "\n".join(text), result.converged
