"""The verb `gamp`: weights estimated from data, of a teacher at random or of the user's own."""

import argparse
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .cli_flags import (
    MODEL_DEFAULTS,
    attention,
    is_attention,
    link_flags,
    model_flags,
    refuse_model_flags,
)
from .progress import Bar
from .results import as_dict

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .gamp import GAMPResult
    from .gamp.outputs import Model

__all__ = ["gamp_flags", "run"]

Outcome = tuple[dict[str, Any], str, bool]

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


def gamp_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the verb."""
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
    group = parser.add_argument_group("iteration")
    group.add_argument(
        "--damping", type=_damping, default=0.3, help='share of the old estimate, or "adaptive" (default: %(default)s)'
    )
    group.add_argument("--max-iter", type=int, default=200, help="iterations (default: %(default)s)")
    group.add_argument("--tol", type=float, default=1e-3, help="on the relative change (default: %(default)s)")
    group.add_argument("--seed", type=int, default=0, help="first seed (default: %(default)s)")
    group.add_argument("--workers", type=int, help="threads (default: all cores)")


def run(args: argparse.Namespace) -> Outcome:
    """Run instances, or estimate weights from files."""
    own = args.x is not None or args.y is not None
    _check(args, own)
    model = _model(args)
    return _from_files(args, model) if own else _instances(args, model)


def _check(args: argparse.Namespace, own: bool) -> None:
    """Refuse bad flags before anything is loaded or drawn."""
    if own:
        for name, path in (("x", args.x), ("y", args.y)):
            if path is None:
                raise ValueError(f"--{name} is missing: data of your own are --x X.npy and --y Y.npy")
        for name in _INSTANCES:
            if getattr(args, name) is not None:
                raise ValueError(f"--{name} describes instances of a teacher at random, and --x stands instead of them")
    else:
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
    if isinstance(args.damping, float) and not 0 <= args.damping < 1:
        raise ValueError(f'--damping must be in [0, 1) or "adaptive", got {args.damping:g}')
    if args.max_iter < 1:
        raise ValueError(f"--max-iter must be >= 1, got {args.max_iter}")
    if not (math.isfinite(args.tol) and args.tol >= 0):
        raise ValueError(f"--tol must be finite and >= 0, got {args.tol:g}")
    if args.seed < 0:
        raise ValueError(f"--seed must be >= 0, got {args.seed}")
    if args.workers is not None and args.workers < 1:
        raise ValueError(f"--workers must be >= 1, got {args.workers}")


def _model(args: argparse.Namespace) -> "Model":
    if args.link is not None:
        refuse_model_flags(args, MODEL_DEFAULTS)
        from .link_cli import kernel_of

        return kernel_of(args.link, noise=args.noise)
    if args.noise != "0":
        raise ValueError("--noise belongs to --link EXPR; attention models have no noise")
    if args.layers == 1 and args.untied and args.heads == 1 and args.output == "last":
        from .fibres import LastLayer

        return LastLayer(args.tokens, args.rank, args.activation, False, args.beta)
    is_attention(args)
    return attention(args, "gamp")


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(args, name) for name in ("damping", "max_iter", "tol", "workers")}


@dataclass(frozen=True)
class _Instances:
    """Means over instances, and their standard errors."""

    overlap: "NDArray[Any]"
    overlap_error: "NDArray[Any]"
    self_overlap: "NDArray[Any]"
    converged: bool
    status: str
    n_iter: list[int]
    residual: float


def _instances(args: argparse.Namespace, model: "Model") -> Outcome:
    import numpy as np

    from .gamp import gamp, make_data, teacher

    count = _SEEDS if args.seeds is None else args.seeds
    bar = Bar("gamp", show=True)
    found: list[GAMPResult] = []
    for k in range(count):
        seed = args.seed + k
        weights = teacher(model, args.dimension, seed)
        x, y = make_data(model, weights, args.alpha, seed)
        found.append(gamp(x, y, model, teacher=weights, rng=seed, **_settings(args)))
        bar.to(k + 1, count)
    bar.close()
    overlaps = np.array([r.overlap for r in found])
    done = sum(r.converged for r in found)
    error = overlaps.std(axis=0, ddof=1) / math.sqrt(count) if count > 1 else np.full(overlaps.shape[1:], math.nan)
    status = f"converged: {done} of {count} instances"
    if done < count:
        first = next(r for r in found if not r.converged)
        status = f"not converged: {count - done} of {count} instances, the first: {first.status}"
    means = _Instances(
        overlap=overlaps.mean(axis=0),
        overlap_error=error,
        self_overlap=np.mean([r.self_overlap for r in found], axis=0),
        converged=done == count,
        status=status,
        n_iter=[r.n_iter for r in found],
        residual=max(r.residual for r in found),
    )
    expected = _expected(args, model)
    record = as_dict(means) | {
        "value": f"{means.overlap[-1, -1]:.6f}",
        "error": as_dict(float(error[-1, -1])),
        "how": "monte-carlo",
        "model": model.describe(),
        "alpha": args.alpha,
        "dimension": args.dimension,
        "seeds": count,
        "seed": args.seed,
        "state_evolution": None if expected is None else as_dict(expected),
        "kernel_hash": found[0].kernel_hash,
        "versions": found[0].versions,
    }
    lines = [model.describe(), f"alpha = {args.alpha:g}, D = {args.dimension}, {count} instances"]
    for i in range(model.indices):
        line = f"q_{i + 1}{i + 1} = {means.overlap[i, i]:.5f}"
        line += f" +- {error[i, i]:.5f}" if count > 1 else ""
        if expected is not None:
            line += f" (state evolution: {expected.overlap[i, i]:.5f} +- {expected.overlap_error[i, i]:.5f})"
        lines.append(line)
    return record, "\n".join([*lines, status]), means.converged


def _expected(args: argparse.Namespace, model: "Model") -> Any:
    """Fixed point of the state evolution from the uninformed start, where it is served within seconds."""
    from .channel_averages import is_costly
    from .errors import ConvergenceError
    from .links import LinkKernel

    try:
        if isinstance(model, LinkKernel):
            from .link_evolution import evolve as evolve_link

            return evolve_link(model, args.alpha, rng=args.seed)
        from .state_evolution import evolve

        if is_costly(model):  # minutes; `attnlimits evolve` gives it
            return None
        return evolve(model, args.alpha, rng=args.seed, workers=args.workers)
    except (ValueError, ConvergenceError):
        return None


def _from_files(args: argparse.Namespace, model: "Model") -> Outcome:
    import numpy as np

    from .gamp import gamp

    arrays: list[NDArray[Any]] = []
    for flag, path in (("--x", args.x), ("--y", args.y)):
        try:
            arrays.append(np.load(path, mmap_mode="r", allow_pickle=False))
        except (EOFError, ValueError):
            raise ValueError(f"{flag} {path} is no .npy file of numbers, as numpy.save writes it") from None
    bar = Bar("gamp", show=True)
    x, y = arrays
    result = gamp(
        x, y, model, rng=args.seed, callback=lambda step: bar.to(step.iteration, args.max_iter), **_settings(args)
    )
    bar.close()
    record = as_dict(result) | {
        "value": f"{result.self_overlap[-1, -1]:.6f}",
        "error": float(np.abs(result.self_overlap + result.covariance - np.eye(model.indices)).max()),
        "how": "estimated",
        "state_evolution": None,
    }
    text = [model.describe(), f"alpha = {result.alpha:g}, D = {result.weights.shape[1]}"]
    text += [
        f"Q_{i + 1}{i + 1} = {result.self_overlap[i, i]:.5f}, C_{i + 1}{i + 1} = {result.covariance[i, i]:.5f}"
        for i in range(model.indices)
    ]
    text.append(result.status)
    if args.out is not None:
        np.save(args.out.with_suffix(".npy"), result.weights)
        record = {k: v for k, v in record.items() if k != "weights"} | {"out": str(args.out.with_suffix(".npy"))}
        text.append(f"wrote {args.out.with_suffix('.npy')}")
    return record, "\n".join(text), result.converged
