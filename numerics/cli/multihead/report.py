"""A layer learned by the flags, and what is printed of it."""

import argparse
import math
import warnings
from typing import Literal

import attnlimits as al

from ...core.decimals import pm
from ...core.progress import Bar
from ...core.results import as_dict
from ...core.typing import Numbers
from ..verbs import Record, shown

__all__ = ["counted", "learned", "lines_of", "record_of"]


def learned(
    args: argparse.Namespace, X: Numbers, Y: Numbers, heads: int | Literal["auto"], noise_std: float | None
) -> "al.multihead.MultiheadFit":
    """Learn a layer by the method of the flags."""
    with warnings.catch_warnings(), Bar("multihead", show=shown(args)) as bar:
        # The status says the same.
        warnings.simplefilter("ignore", al.multihead.LearnWarning)
        return al.multihead.learn_multihead(
            X,
            Y,
            heads,
            args.method,
            noise_std=noise_std,
            starts=args.starts,
            strict=False,
            rng=getattr(args, "seed", 0),
            watch=al.multihead.Watch(bar.to),
        )


def record_of(verb: str, found: "al.multihead.MultiheadFit") -> Record:
    """Record of a learned layer without its weights."""
    told = as_dict(found)
    kept = {name: told[name] for name in told if name not in ("theta", "w")}
    return {"verb": f"multihead {verb}", **kept, "status": _status(found)}


def lines_of(found: "al.multihead.MultiheadFit") -> list[str]:
    """Lines about the certificates and the status of a learned layer."""
    certificates = found.certificates
    sensitive = "not computed" if certificates.sensitivity is None else f"{certificates.sensitivity:.2g}"
    lines = [f"sensitivity (sigma_min/sigma_max): {sensitive}"]
    if found.noise_std > 0:
        error = certificates.expected_error
        own = certificates.error_status if error is None else "not bounded" if math.isinf(error) else f"{error:.1e}"
        lines.append(f"noise {found.noise_std:.3g}; expected parameter error {own}")
    for number, head in enumerate(certificates.heads or ()):
        zero = "; it may be zero" if head.maybe_zero else ""
        theta, w = pm(head.theta_norm, head.theta_error), pm(head.w_norm, head.w_error)
        lines.append(f"head {number}: |Theta| = {theta}, |W| = {w}{zero}")
    for rung in found.evidence.rungs if found.evidence else ():
        # Beyond what float64 holds.
        chance = f"p = {rung.p:.2g}" if rung.p else "p < 1e-300"
        gain = pm(rung.gain, rung.gain_deviation) if math.isfinite(rung.gain_deviation) else f"{rung.gain:.2g}"
        lines.append(
            f"{counted(rung.heads, 'head')}: error {rung.error:.3g}, less than that of {rung.against} by {gain}, "
            f"{chance}"
        )
    return [*lines, ("converged: " if found.converged else "not converged: ") + _status(found)]


def _status(found: "al.multihead.MultiheadFit") -> str:
    """The status with what to try, as the errors of Python have it."""
    return f"{found.status}; {found.remedy}" if found.remedy else found.status


def counted(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
