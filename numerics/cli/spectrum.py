"""The verb `spectrum`: inputs of one's own, and what their covariance does to the threshold of a model."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import attnlimits as al

from ..core.array_files import read_array, write_array
from ..core.decimals import pm, recorded
from ..core.destinations import output_file
from ..core.results import as_dict
from .flags import link_flags, model_flags, model_of
from .plot import check_plot, plot_flag
from .verbs import Outcome, Record, Verbs, add_verb

if TYPE_CHECKING:
    from ..core.typing import Numbers

__all__ = ["add", "run"]


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "spectrum",
        run,
        "your own embeddings: spectrum, token covariance, distance from Gaussian, and what that does to a threshold",
        "attnlimits spectrum X.npy --layers 1 --plot spectrum.png",
    )
    parser.needs(
        parser.add_argument(
            "x", type=Path, metavar="X.npy", help="samples of shape (n, D), or (n, M, D) of M tokens each"
        )
    )
    parser.add_argument("--tokens-last", action="store_true", help="X has shape (n, D, M)")
    model_flags(parser)
    link_flags(parser)
    parser.add_argument("--seed", type=int, default=0, help="of the random directions (default: %(default)s)")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="write the eigenvalues there, .npy, for --spectrum of theory (gamp on X has data:X.npy, with directions)",
    )
    plot_flag(parser, "eigenvalues, kurtosis and token covariance")


def run(args: argparse.Namespace) -> Outcome:
    """Measure the file, and divide the threshold of the model."""
    if args.seed < 0:
        raise ValueError(f"--seed must be >= 0, got {args.seed}")
    check_plot(args)
    args.out = output_file(args.out, ".npy")
    model = model_of(args, "threshold")
    found = al.learning.measure_inputs(_samples(args), rng=args.seed)
    white = al.threshold(model)
    record = as_dict(found) | {
        "value": recorded(found.square.value, found.square.error),
        "error": found.square.error,
        "how": found.square.how,
        "quantity": "E lambda^2 of the inputs, by which thresholds are divided",
        "excess": found.excess,
        "model": model.describe(),
        "white": as_dict(white),
    }
    lines = [
        f"{args.x}: {found.samples} samples of {found.tokens} token{'s' * (found.tokens > 1)}, D = {found.dimension}",
        f"variance of a coordinate {found.variance:.4g}; the mean, taken off, has {found.mean_share:.1%} of E |x|^2",
        f"E lambda^2 = {pm(found.square.value, found.square.error)}, as observed {found.sample_square:.4g}",
        f"effective dimension {pm(found.effective_dimension.value, found.effective_dimension.error)}",
        f"kurtosis of projections {pm(found.kurtosis.value, found.kurtosis.error)}, of Gaussian samples "
        f"{pm(found.gaussian_kurtosis.value, found.gaussian_kurtosis.error)}",
        f"relative variance of |x|^2 {pm(found.norms.value, found.norms.error)}, of Gaussian samples "
        f"{pm(found.gaussian_norms.value, found.gaussian_norms.error)}",
        *_tokens(found),
        *_of_model(found, white, model.describe(), record),
        found.status,
    ]
    if args.out is not None:
        write_array(args.out, found.eigenvalues)
        lines.append(f"wrote {args.out}")
    if args.plot is not None:
        from ..core.pictures import plots  # matplotlib

        plots().save_figure(found.plot(), args.plot)
        lines.append(f"wrote {args.plot}")
    return record, "\n".join(lines), True


def _samples(args: argparse.Namespace) -> "Numbers":
    """The samples, tokens before coordinates."""
    x = read_array("", args.x)
    if not args.tokens_last:
        return x
    if x.ndim != 3:
        raise ValueError(f"--tokens-last is for X of shape (n, D, M), got {x.shape}")
    return np.swapaxes(x, 1, 2)


def _tokens(found: "al.learning.Inputs") -> list[str]:
    """Correlation of tokens, where there are several."""
    if found.tokens == 1:
        return []
    matrix = found.token_covariance
    root = np.sqrt(np.diag(matrix))
    off = (matrix / np.outer(root, root))[~np.eye(len(matrix), dtype=bool)]
    return [
        f"correlation of two tokens: mean {off.mean():.3g}, from {off.min():.3g} to {off.max():.3g}; the threshold "
        "below takes them as independent"
    ]


def _of_model(found: "al.learning.Inputs", white: object, name: str, record: Record) -> list[str]:
    """The threshold of the model for these inputs, also in the record."""
    value, error = getattr(white, "value", None), getattr(white, "error", None)
    if value is None or error is None:
        return [f"{name}: no threshold, {getattr(white, 'status', '')}"]
    square = found.square
    alpha = float(value) / square.value
    off = alpha * (square.error / square.value + error / max(float(value), 1e-300))
    record["threshold"] = {"value": recorded(alpha, off), "error": off, "how": square.how}
    record["threshold_samples"] = alpha * found.dimension
    return [
        f"{name}: learned from alpha = {pm(alpha, off)} on, {alpha * found.dimension:.4g} samples",
        f"  (white inputs: {pm(float(value), error)}, {float(value) * found.dimension:.4g} samples)",
    ]
