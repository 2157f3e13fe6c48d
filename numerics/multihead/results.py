"""The result of learning a layer, whatever method found it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ..core.results import How, Result, versions
from ..learning.blocks import Array
from .certificates import Certificates
from .evidence import HeadsEvidence

__all__ = ["MultiheadFit"]


@dataclass(frozen=True, repr=False)
class MultiheadFit(Result):
    """A layer learned from examples.

    Attributes
    ----------
    theta, w : ndarray, shape (m, d, d)
        In no particular order of the heads.
    validation_error : float
        |F(X) - Y|^2 / |Y|^2 on held-out examples, noise included.
    validation_deviation : float
        One standard error of it, over held-out examples.
    accept : float
        Up to where it is accepted.
    noise_std : float
        Standard deviation of the noise on the entries of Y, given or estimated.
    heads : int
        m, given or selected.
    evidence : HeadsEvidence or None
        Where the number of heads or the noise was not given: layers of fewer and of more heads on held-out examples,
        and whether there are exactly `heads` or at least so many.
    method : str
        "restarts" or "sculpt": the method that found the layer.
    certificates : Certificates
    diagnostics : dict
        Of the steps of the method.
    converged : bool
        The validation error is accepted and the certificates are passed.
    status : str
    remedy : str
        What to try where it has not converged; empty where it has.
    how : str
        "estimated": the error on held-out examples stands for the one on all inputs.
    seed : int
        -1 for a generator of the caller's.
    versions : dict of str to str
    """

    papers: ClassVar[tuple[str, ...]] = ("chen2024",)

    theta: Array
    w: Array
    validation_error: float
    validation_deviation: float
    accept: float
    noise_std: float
    heads: int
    evidence: HeadsEvidence | None
    method: str
    certificates: Certificates
    diagnostics: dict[str, object]
    converged: bool
    status: str
    remedy: str
    how: How
    seed: int
    versions: dict[str, str] = field(default_factory=versions)
