"""`al.derivations`: what the derivations write and prove, for the command line; SymPy loads with it."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import sympy as sp

from attnlimits.derive import registry
from attnlimits.derive.__main__ import main as derive_all
from attnlimits.derive.architecture import Architecture
from attnlimits.derive.blocks import composition_of
from attnlimits.derive.explain.blocks_page import blocks_record
from attnlimits.derive.explain.link_page import DerivedLink, link_record
from attnlimits.derive.explain.page import explain_record
from attnlimits.derive.explain.written import with_section
from attnlimits.derive.kernels.link_names import package_name
from attnlimits.derive.kernels.packages import write_link_package
from attnlimits.derive.links.activation import read_activation
from attnlimits.derive.proof import ProofError
from attnlimits.numerics.model.activations import ScoreFunction
from attnlimits.numerics.model.link import Link
from attnlimits.numerics.model.network import Network

__all__ = [
    "Architecture",
    "ProofError",
    "architecture_of",
    "derive_all",
    "exact",
    "explain_blocks",
    "explain_link",
    "explain_record",
    "package_name",
    "read_activation",
    "registry",
    "with_section",
    "write_link_package",
]


def exact(name: str, text: object) -> sp.Expr:
    """A positive number as the rational that it is written as.

    Raises
    ------
    ValueError
        It is no number; `name` says which.
    """
    try:
        return sp.Rational(str(text))
    except (TypeError, ValueError, ZeroDivisionError):
        raise ValueError(f"{name} must be a positive number such as 0.5 or 1/3, got {text!r}") from None


def architecture_of(model: Network, *, numbers: bool = False) -> Architecture:
    """Architecture of a network.

    Parameters
    ----------
    model : Network
    numbers : bool, keyword-only
        Whether its skip strength and inverse temperature are the decimals they are written as; symbols otherwise.
    """
    own = model.activation
    return Architecture(
        layers=model.layers,
        tokens=model.tokens,
        ranks=model.rank,
        activation=read_activation(own.text) if isinstance(own, ScoreFunction) else own,
        tied=model.tied,
        output=model.output,
        heads=model.heads,
        **({name: sp.Rational(str(getattr(model, name))) for name in ("skip", "beta")} if numbers else {}),
    )


def explain_blocks(model: Network) -> dict[str, object]:
    """Return what the theory says about a list of blocks, as a record for JSON."""
    assert model.chain is not None
    told = model.request
    return blocks_record(composition_of(model.tokens, cast(Sequence[Mapping[str, Any]], told["blocks"])))


def explain_link(link: Link) -> dict[str, object]:
    """Return what the theory says about a link, as a record for JSON."""
    kernel = link.kernel
    return link_record(
        DerivedLink(
            text=link.text,
            indices=kernel.indices,
            tokens=kernel.tokens,
            noise=link.noise,
            kind=kernel.kind,
            regions=len(kernel.regions),
            flips=kernel.flips,
            exact=kernel.exact,
            reason=kernel.reason,
            steps={known: exact for known, (exact, _) in kernel.steps.items()},
            label_noise=str(link.label_noise),
            labels=0 if kernel.label_noise is None else len(kernel.label_noise.labels),
        )
    )
