"""Flags of the law of the weights, the same for every verb that has one, and of what is known of them."""

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

from .parser import Flags
from .spectrum_flags import spectrum_flag, spectrum_given

if TYPE_CHECKING:
    from ..priors import Prior, Rows

__all__ = ["check_prior", "known_file", "law_of", "prior_flags", "prior_of", "rows_of", "shares_of", "side_flags"]

# Names of priors; a text in w is a density.
_NAMES = "gaussian, binary, laplace, sparse"


def prior_flags(group: Flags) -> None:
    """Add the flags of the prior."""
    group.add_argument(
        "--prior",
        metavar="NAME|DENSITY",
        default="gaussian",
        help=f'of the weights\' entries: {_NAMES}, or a density in w such as "exp(-w**4)", which is scaled to mean 0 '
        "and variance 1 (default: %(default)s)",
    )
    group.add_argument("--density", type=float, help="share of entries that are not zero, with --prior sparse")
    spectrum_flag(group)
    group.add_argument(
        "--row-covariance",
        type=Path,
        metavar="FILE",
        help=".npy of shape (P, P), positive definite with ones on the diagonal: Gaussian rows of this covariance "
        "instead of independent ones, with --link",
    )


def side_flags(group: Flags, file: bool = False) -> None:
    """Add the flags of what is known of the weights."""
    more = "; with --x a .npy FILE of weights of shape (P, D), NaN where one is not known" if file else ""
    group.add_argument(
        "--known",
        metavar="SHARE|FILE" if file else "SHARE",
        help=f"share of the weights that is known, one for all rows or one for each, such as 0.2,0.4{more}",
    )
    group.add_argument(
        "--side-strength",
        type=float,
        metavar="LAMBDA",
        help="the weights are seen through S = sqrt(LAMBDA) W + Z, noise of variance 1/LAMBDA (113)"
        + ("; with --x, S is --side" if file else ""),
    )
    if file:
        group.add_argument("--side", type=Path, metavar="FILE", help="S, .npy of shape (P, D), with --side-strength")


def check_prior(args: argparse.Namespace) -> None:
    """Refuse flags that do not belong together, or are out of range."""
    if (args.density is None) == (args.prior == "sparse"):
        raise ValueError("--density belongs to --prior sparse, and is needed there")
    if getattr(args, "spectrum", None) is not None and args.prior != "gaussian":
        raise ValueError(
            f"--spectrum is served with Gaussian weights, and --prior {args.prior} has independent entries, which are "
            "not independent in the eigenbasis of the inputs; leave one of them out"
        )
    if getattr(args, "row_covariance", None) is not None and args.prior != "gaussian":
        raise ValueError(f"--row-covariance is of Gaussian rows, and --prior is {args.prior}")
    strength = getattr(args, "side_strength", None)
    if strength is not None and not (math.isfinite(strength) and strength >= 0):
        raise ValueError(f"--side-strength must be finite and >= 0, got {strength:g}")
    if known_file(args) is None:
        shares_of(args)


def known_file(args: argparse.Namespace) -> Path | None:
    """File of the weights that are known, with data of one's own."""
    if getattr(args, "x", None) is None or getattr(args, "known", None) is None:
        return None
    return Path(args.known)


def shares_of(args: argparse.Namespace) -> list[float]:
    """Shares of the rows' weights that are known; one of zero where none are."""
    text = getattr(args, "known", None)
    if text is None:
        return [0.0]
    try:
        shares = [float(part) for part in text.split(",")]
    except ValueError:
        files = "; a file of weights goes with --x" if hasattr(args, "side") else ""
        raise ValueError(
            f"--known must be a share in [0, 1), or one for each row, such as 0.2,0.4; got {text!r}{files}"
        ) from None
    if not all(0 <= share < 1 for share in shares):
        raise ValueError(f"--known must be shares in [0, 1), got {text}")
    return shares


def law_of(args: argparse.Namespace) -> "Prior":
    """Law of the weights as inputs of the flags see them, whatever is known of them."""
    from ..priors import prior_named  # NumPy; `al.free_energy` would load all of the free entropy

    check_prior(args)
    rows = getattr(args, "row_covariance", None)
    if (inputs := spectrum_given(args)) is not None:
        if rows is not None:
            raise ValueError("--spectrum is served with independent rows, and not beside --row-covariance")
        return inputs
    return prior_named(args.prior, args.density) if rows is None else rows_of(args)


def rows_of(args: argparse.Namespace) -> "Rows":
    """Gaussian rows of the covariance of the flags."""
    from ..core.array_files import read_array
    from ..priors import Rows

    return Rows(read_array("--row-covariance", args.row_covariance))


def prior_of(args: argparse.Namespace) -> "Prior":
    """Prior of the flags, with what is known of the weights."""
    from ..priors import Informed

    prior, shares, strength = law_of(args), shares_of(args), getattr(args, "side_strength", None) or 0.0
    if not any(shares) and not strength:
        return prior
    for flag in ("row_covariance", "spectrum"):
        if getattr(args, flag, None) is not None:
            raise ValueError(
                f"--known and --side-strength are of independent rows and white inputs, and not served beside "
                f"--{flag.replace('_', '-')}"
            )
    return Informed(prior, shares, strength)
