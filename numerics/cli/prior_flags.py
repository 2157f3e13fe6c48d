"""Flags of the law of the weights, the same for every verb that has one."""

import argparse
from typing import TYPE_CHECKING

from .parser import Flags
from .spectrum_flags import spectrum_flag, spectrum_given

if TYPE_CHECKING:
    from ..priors import Prior

__all__ = ["check_prior", "prior_flags", "prior_of"]


def prior_flags(group: Flags) -> None:
    """Add the flags."""
    group.add_argument(
        "--prior", choices=["gaussian", "binary", "sparse"], default="gaussian", help="of the weights' entries"
    )
    group.add_argument("--density", type=float, help="share of entries that are not zero, with --prior sparse")
    spectrum_flag(group)


def check_prior(args: argparse.Namespace) -> None:
    """Refuse flags that do not belong together."""
    if (args.density is None) == (args.prior == "sparse"):
        raise ValueError("--density belongs to --prior sparse, and is needed there")
    if args.spectrum is not None and args.prior != "gaussian":
        raise ValueError(
            f"--spectrum is served with Gaussian weights, and --prior {args.prior} has independent entries, which are "
            "not independent in the eigenbasis of the inputs; leave one of them out"
        )


def prior_of(args: argparse.Namespace) -> "Prior":
    """Prior of the flags."""
    from ..priors import prior_named, prior_with  # NumPy; `al.free_energy` would load all of the free entropy

    check_prior(args)
    return prior_with(prior_named(args.prior, args.density), spectrum_given(args))
