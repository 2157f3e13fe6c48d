"""`al.derivations`: what the derivations write and prove, for the command line; SymPy loads with it."""

import sympy as sp

from attnlimits.derive import registry
from attnlimits.derive.__main__ import main as derive_all
from attnlimits.derive.architecture import Architecture
from attnlimits.derive.explain.page import explain_record
from attnlimits.derive.kernels.link_names import package_name
from attnlimits.derive.kernels.packages import write_link_package
from attnlimits.derive.links.activation import read_activation
from attnlimits.derive.proof import ProofError

__all__ = [
    "Architecture",
    "ProofError",
    "derive_all",
    "exact",
    "explain_record",
    "package_name",
    "read_activation",
    "registry",
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
