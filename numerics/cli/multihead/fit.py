"""The verb `multihead fit`: a layer learned from examples of one's own."""

import argparse
import math
from pathlib import Path

from ...core.array_files import read_named, write_arrays
from ...core.destinations import output_file
from ...core.results import as_dict
from ...core.typing import Numbers
from ..verbs import Outcome, Verbs, add_verb
from .report import counted, learned, lines_of, record_of
from .teacher import method_flags

__all__ = ["add", "run"]


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "fit",
        run,
        "learn a layer from examples of your own",
        "attnlimits multihead fit --x x.npy --y y.npy --heads 2 --out layer.npz",
        nested=True,
    )
    x = parser.add_argument("--x", type=Path, metavar="FILE", help="inputs (n, k, d), .npy, or X in a .npz")
    parser.needs(x)
    parser.add_argument("--y", type=Path, metavar="FILE", help="outputs, likewise; by default Y in the file of --x")
    parser.add_argument("--heads", "-H", type=_heads, default="auto", help="m, or auto (default)")
    parser.add_argument("--noise-std", type=float, help="of every entry of Y (default: estimated)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write theta and w there, as .npz")
    method_flags(parser)


def _heads(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'expected an integer or "auto", got {text!r}') from None


def run(args: argparse.Namespace) -> Outcome:
    """Learn the layer of the files."""
    args.out = output_file(args.out, ".npz")
    X, Y = _arrays(args.x, args.y)
    if args.noise_std is not None and not (math.isfinite(args.noise_std) and args.noise_std >= 0):
        raise ValueError(f"--noise-std must be finite and >= 0, got {args.noise_std:g}")
    found = learned(args, X, Y, args.heads, args.noise_std)
    record = record_of("fit", found) | {
        "value": f"{found.validation_error:.6g}",
        "quantity": "|F(X) - Y|^2 / |Y|^2 on held-out examples",
        "error": as_dict(found.validation_deviation),
        "how": "monte-carlo",
    }
    scatter = f" +- {found.validation_deviation:.1g}" if math.isfinite(found.validation_deviation) else ""
    lines = [
        f"{found.method}, {counted(found.heads, 'head')}: validation error {found.validation_error:.2e}{scatter}",
        *lines_of(found),
    ]
    if args.out is not None:
        write_arrays(args.out, theta=found.theta, w=found.w)
        record["out"] = str(args.out)
        lines.append(f"wrote {args.out}")
    else:
        record |= {"theta": as_dict(found.theta), "w": as_dict(found.w)}
    return record, "\n".join(lines), found.converged


def _arrays(x: Path, y: Path | None) -> tuple[Numbers, Numbers]:
    """X and Y from one file or two."""
    if y is None:
        if x.suffix != ".npz":
            raise ValueError(f"--y is missing: {x} holds one array; give --y, or a .npz file with X and Y")
        return read_named("--x", x, "X"), read_named("--x", x, "Y")
    return read_named("--x", x, "X"), read_named("--y", y, "Y")
