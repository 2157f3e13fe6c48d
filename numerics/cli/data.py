"""Flags of data sets and of iterations over them, which the verbs that learn from data share."""

import argparse
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

import attnlimits as al

from ..core.array_files import read_array, write_array
from ..core.destinations import output_file
from ..core.progress import Bar
from ..core.typing import Numbers as Array
from .asked import run_at
from .flags import check_model, link_flags, model_flags
from .parser import Flags
from .verbs import Record, shown

__all__ = [
    "STARTS",
    "Array",
    "Data",
    "check_data",
    "check_iteration",
    "data_flags",
    "instances_of",
    "iteration_flags",
    "keep",
    "read_data",
    "rounding_of",
    "rows_in",
    "start_of",
    "take_whole_samples",
]

#: An array, or blocks of rows.
Data: TypeAlias = "Array | al.learning.RowFiles"
Result = TypeVar("Result", "al.learning.GAMPResult", "al.learning.DescentResult")

#: Starts of both verbs.
STARTS = ("random", "spectral")
# Flags of instances, which data of one's own replace.
_INSTANCES = {"alpha": None, "dimension": None, "seeds": None}
_SEEDS = 4


def data_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a model and of its data, which all verbs that learn from data share."""
    model_flags(parser)
    link_flags(parser)
    group = parser.add_argument_group("instances of a teacher at random")
    group.add_argument("--alpha", "-a", type=float, help="samples per dimension N/D")
    group.add_argument("--dimension", type=int, metavar="D", help="dimension of the tokens")
    group.add_argument("--seeds", type=int, metavar="K", help=f"number of instances (default: {_SEEDS})")
    group = parser.add_argument_group("data of your own, instead")
    group.add_argument(
        "--x",
        type=Path,
        metavar="FILE",
        help=".npy of shape (N, M, D), or a folder of such files, blocks of rows; they are memory-mapped",
    )
    group.add_argument(
        "--y",
        type=Path,
        metavar="FILE",
        help=".npy of shape (N, M, M), or (N, K) of a link; a folder of blocks of the same names where --x is one",
    )
    group.add_argument("--out", type=Path, metavar="FILE", help="write the estimate there, .npy of shape (P, D)")


def iteration_flags(group: Flags, starts: Sequence[str], tol: str) -> None:
    """Add the flags of an iteration that both verbs have."""
    group.add_argument("--start", choices=starts, default="random", help="first weights (default: %(default)s)")
    group.add_argument("--tol", type=float, default=1e-3, help=f"on {tol} (default: %(default)s)")
    group.add_argument("--seed", type=int, default=0, help="first seed (default: %(default)s)")
    group.add_argument("--workers", type=int, help="threads (default: all cores)")


def check_data(args: argparse.Namespace) -> bool:
    """Whether the data are one's own; bad flags are refused before anything is loaded or drawn."""
    check_model(args.verb)(args)
    if args.x is not None or args.y is not None:
        for name, path in (("x", args.x), ("y", args.y)):
            if path is None:
                raise ValueError(f"--{name} is missing: data of your own are --x X.npy and --y Y.npy")
        for name in _INSTANCES:
            if getattr(args, name) is not None:
                raise ValueError(f"--{name} describes instances of a teacher at random, and --x stands instead of them")
        args.out = output_file(args.out, ".npy")
        return True
    if args.alpha is not None and not (math.isfinite(args.alpha) and args.alpha > 0):
        raise ValueError(f"--alpha must be finite and > 0, got {args.alpha:g}")
    for flag in ("dimension", "seeds"):
        count = getattr(args, flag)
        if count is not None and count < 1:
            raise ValueError(f"--{flag} must be >= 1, got {count}")
    if args.alpha is None or args.dimension is None:
        raise ValueError("give --alpha and --dimension, or data of your own by --x and --y")
    if args.out is not None:
        raise ValueError("--out is for the estimate of data of your own, --x and --y")
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


def take_whole_samples(args: argparse.Namespace, model: "al.learning.Source") -> None:
    """Refuse instances that do not fit into memory; --alpha becomes N/D of the samples that they have."""
    al.learning.refuse_size(
        model, args.alpha, args.dimension, f"--dimension {args.dimension} at --alpha {args.alpha:g}"
    )
    run_at(args, "alpha", al.learning.alpha_of(args.alpha, args.dimension))


def instances_of(
    args: argparse.Namespace,
    model: "al.learning.Source",
    learn: Callable[[int, Array, Array, Array], Result],
    **settings: Any,
) -> list[Result]:
    """Learn from each instance of the flags, with a bar; settings are those of `on_instances`."""
    bar = Bar(args.verb, show=shown(args))
    count = _SEEDS if args.seeds is None else args.seeds
    found = al.learning.on_instances(
        model, args.alpha, args.dimension, learn, count=count, seed=args.seed, progress=bar.to, **settings
    )
    bar.close()
    return found


def start_of(
    args: argparse.Namespace, x: Data, y: Array | None, model: "al.learning.Source", seed: int
) -> Array | None:
    """Return the first weights if they are to be spectral; None otherwise."""
    if args.start != "spectral":
        return None
    if args.spectrum is not None:
        raise ValueError("--start spectral is of white inputs, and --spectrum gives them a covariance; start at random")
    return al.learning.spectral_start(x, y, model, rng=seed, workers=args.workers)


def read_data(args: argparse.Namespace) -> tuple[Data, Array | None]:
    """Map the files of the flags into memory; folders become a source of blocks, which has the outputs."""
    if args.x.is_dir():
        if args.y.exists() and not args.y.is_dir():
            raise ValueError(f"--x {args.x} is a folder of row blocks, so --y must be one, too, and {args.y} is none")
        return al.learning.RowFiles(args.x, args.y), None
    return read_array("--x", args.x), read_array("--y", args.y)


def rounding_of(x: Data) -> float:
    """Rounding of the type of X, of blocks the coarsest."""
    return max(float(np.finfo(block.dtype).eps) for block in _blocks(x))


def rows_in(x: Data) -> int:
    """Number of samples."""
    return sum(map(len, _blocks(x)))


def _blocks(x: Data) -> Iterable[Array]:
    return x.tokens() if isinstance(x, al.learning.RowFiles) else [x]


def keep(args: argparse.Namespace, record: Record, text: list[str], weights: Array) -> Record:
    """Write the weights where --out says, and leave them out of the record then."""
    if args.out is None:
        return record
    write_array(args.out, weights)
    text.append(f"wrote {args.out}")
    return {k: v for k, v in record.items() if k != "weights"} | {"out": str(args.out)}
