"""Frozen result objects: every number with its error and how both were obtained."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

import numpy as np

from . import saved
from .citation import cite
from .decimals import pm
from .files import write_json
from .pictures import plots
from .shown import few_lines, in_html, overlaps
from .typing import JSON, Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "DenoiserResult",
    "Estimate",
    "EvolutionResult",
    "How",
    "Origin",
    "Result",
    "ThresholdResult",
    "as_dict",
    "load",
    "save",
    "versions",
]

How = Literal["rigorous", "estimated", "monte-carlo"]
_PROVENANCE = ("converged", "status", "n_iter", "seed", "kernel_hash", "remedy", "how")


def versions() -> dict[str, str]:
    """Return the versions that a number depends on: this package, NumPy, SciPy and numba."""
    return {name: _version(name) for name in ("attnlimits", "numpy", "scipy", "numba")}


@cache
def _version(name: str) -> str:
    """Of an installed package, whose metadata takes milliseconds to read: once a process, not once a result."""
    return version(name)


@in_html
@dataclass(frozen=True)
class Estimate:
    """A number, a bound or estimate of its absolute error, and how it was obtained."""

    value: float
    error: float
    how: How


@few_lines
class Result:
    """What every result can do beside its fields: show itself in a few lines, be saved, be cited.

    Attributes
    ----------
    papers : tuple of str
        Citekeys of the theory it is of.
    """

    papers: ClassVar[tuple[str, ...]] = ("troiani2025",)

    def lines(self) -> Iterator[str]:
        """What one wants to see first, a sentence each, the status last."""
        values = (f"{name} = {_short(value)}" for name, value in _numbers(self))
        # Numbers in a result's text.
        most_numbers = 4
        yield from islice(values, most_numbers)
        yield str(getattr(self, "status", ""))

    def __init_subclass__(cls) -> None:
        """Let subclasses compare as results do: what `dataclass` would write asks an array whether it is true."""
        super().__init_subclass__()
        cls.__eq__ = Result.__eq__  # type: ignore[method-assign]

    def __eq__(self, other: object) -> bool:
        """Whether both are of one class and every field is equal, arrays entry by entry."""
        if type(self) is not type(other):
            return NotImplemented
        return bool(as_dict(self) == as_dict(other))

    def to_dict(self) -> dict[str, JSON]:
        """All fields as plain JSON types: arrays as lists, what is no number as None."""
        return dict(as_dict(self))

    def save(self, path: str | Path) -> None:
        """Write the result, with its model, settings and versions, to a JSON file that `load` reads."""
        saved.save(self, path)

    def cite(self) -> str:
        """BibTeX of this software and of the paper whose theory the result is of."""
        return cite(*self.papers)


def _numbers(result: object) -> Iterator[tuple[str, "Estimate | float | str"]]:
    """Fields of a result that are numbers or short texts, without its provenance."""
    for f in fields(result) if is_dataclass(result) else ():
        value = getattr(result, f.name)
        if isinstance(value, Estimate | int | float | str) and f.name not in _PROVENANCE:
            yield f.name, value


def _short(value: "Estimate | float | str") -> str:
    if isinstance(value, Estimate):
        return f"{pm(value.value, value.error)} ({value.how})"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class _Described(Protocol):
    @property
    def parameters(self) -> dict[str, object]: ...


@few_lines
@dataclass(frozen=True)
class Origin:
    """The model and the settings that made a result, in plain types that can be saved.

    Attributes
    ----------
    model : dict
        Parameters of an architecture, by the names of the flags; or the outputs of a link in the entries of h, as
        derived, with its numbers of indices and tokens and the variance of its noise.
    settings : dict
        Of the computation, defaults included: what can be set beside the model and the parameters that are fields of
        the result.
    """

    model: dict[str, JSON] = field(default_factory=dict)
    settings: dict[str, JSON] = field(default_factory=dict)

    @classmethod
    def of(cls, model: _Described, **settings: object) -> Self:
        """Origin of a result of this model with these settings."""
        return cls(as_dict(model.parameters), as_dict(settings))

    def with_model(self, **parameters: object) -> "Origin":
        """Return the same with these parameters of the model, too."""
        return Origin(self.model | as_dict(parameters), self.settings)

    def with_settings(self, **settings: object) -> "Origin":
        """Return the same with these settings, too."""
        return Origin(self.model, self.settings | as_dict(settings))


@dataclass(frozen=True, repr=False)
class DenoiserResult(Result):
    """Posterior summary of a batch of outputs (12).

    Attributes
    ----------
    log_z : ndarray, shape (...)
        log Z_out(y; omega, V), see `denoise` for the measure on y.
    g_out : ndarray, shape (..., P, M)
        V^{-1} (E[h | y] - omega).
    dg_out : ndarray, shape (..., P, M, P, M)
        d g_out / d omega = V^{-1} Cov[h | y] V^{-1} - V^{-1} delta_{mm'}; [p, m, p', m'].
    error : ndarray, shape (...)
        Estimated error of the posterior moments in units of the prior standard deviation, the quadrature's and
        rounding's together, with the arguments taken as exact. Let z = C^{-1} (h - omega) with V = C C^T, C lower
        triangular, and r^2 = 1 + max E[z^2 | y]. The entries of E[z | y] are within error r and those of Cov[z | y]
        within error r^2. So those of g_out = C^{-T} E[z | y] are within error r w_p, and those of
        dg_out = C^{-T} (Cov[z | y] - I) C^{-1} within error r^2 w_p w_p', with w_p = sum_l |C^{-1}|_lp.
    log_z_error : ndarray, shape (...)
        Estimated absolute error of log_z.
    origin : Origin
        Model and settings.
    """

    log_z: Array
    g_out: Array
    dg_out: Array
    error: Array
    log_z_error: Array
    origin: Origin = field(default_factory=Origin)

    def lines(self) -> Iterator[str]:
        """Number of outputs, and the largest errors."""
        yield f"{self.log_z.size} outputs of {' x '.join(map(str, self.g_out.shape[-2:]))} indices"
        if self.log_z.size:
            yield f"largest error {self.error.max():.1e}, of log Z {self.log_z_error.max():.1e}"


@dataclass(frozen=True, repr=False)
class ThresholdResult(Result):
    """A weak-recovery threshold (15)-(18).

    Attributes
    ----------
    value : str
        alpha = N/D in decimal, with the digits asked for.
    error : float
        Absolute error.
    how : {"rigorous", "estimated", "monte-carlo"}
    exact : str or None
        A closed form, where one is known.
    subspace : str
        What becomes learnable, e.g. "layer 2".
    eigenvector : ndarray, shape (P, P)
        PSD matrix of unit Frobenius norm on which the operator (15) attains its norm.
    operator_norm : float
        1 / alpha.
    converged, status, n_iter, kernel_hash, versions, origin
        Provenance: whether two refinements agree to the digits asked for, a sentence, the number of refinements,
        the derivation hash of the kernel (where none was generated, a hash of the sources in its place), the versions
        of the libraries, the model and the settings.
    """

    value: str
    error: float
    how: How
    exact: str | None
    subspace: str
    eigenvector: Array
    operator_norm: float
    converged: bool
    status: str
    n_iter: int
    kernel_hash: str
    versions: dict[str, str] = field(default_factory=versions)
    origin: Origin = field(default_factory=Origin)

    def lines(self) -> Iterator[str]:
        """Threshold, error, status."""
        exact = "" if self.exact is None else f" = {self.exact}{' exactly' if self.how == 'rigorous' else ''}"
        yield f"alpha({self.subspace}) = {self.value}{exact}"
        yield f"error {self.error:.1e} ({self.how})"
        yield self.status


@dataclass(frozen=True, repr=False)
class EvolutionResult(Result):
    """A fixed point of the state evolution (14).

    Attributes
    ----------
    alpha : float
    overlap, overlap_error : ndarray, shape (P, P)
        q and one standard error of it (0 where a symmetry fixes the entry), three of which hold in 99.73 % however few
        the randomisations; a bound where all is deterministic.
    estimation_error : Estimate
        Tr(I - q) / P, the mean squared error of a weight.
    prediction_error : Estimate
        Bayes-optimal error (11): the posterior mean predicts.
    plugin_error : Estimate
        E || g(h) - g(omega) ||^2: the link at the estimated indices predicts.
    stability : ndarray, shape (P,)
        For each direction of zero overlap, the factor by which a small overlap grows per iteration (below one:
        stable); NaN for directions of positive overlap.
    n_iter : int
        Evaluations of the channel averages.
    residual, tol : float
        max |F(q) - q|, and the largest value of it at which the iteration was allowed to end. Where that is not the
        tolerance asked for, which is in `origin`, but larger, the status gives the reason; of links it is a share of
        1 - q.
    history : ndarray, shape (T, P, P)
        Overlaps that the iteration went through: the first is where it began, the last is `overlap`. Evaluations for
        slopes and growth rates are in `n_iter` only.
    reached : bool, optional
        Whether it is converged, and the overlaps are as accurate as was asked by default or by `accuracy`, if
        anything was: what the exit status, a sweep and a report go by. None in a file of an earlier version, which did
        not keep it.
    converged, status, seed, kernel_hash, versions, origin
        Provenance.
    """

    alpha: float
    overlap: Array
    overlap_error: Array
    estimation_error: Estimate
    prediction_error: Estimate
    plugin_error: Estimate
    stability: Array
    converged: bool
    status: str
    n_iter: int
    residual: float
    tol: float
    history: Array
    seed: int
    kernel_hash: str
    reached: bool | None = None
    versions: dict[str, str] = field(default_factory=versions)
    origin: Origin = field(default_factory=Origin)

    @property
    def how(self) -> How:
        """The kind of the overlaps' errors."""
        return self.estimation_error.how

    def plot(self, axes: "Axes | None" = None) -> "Axes":
        """Draw the diagonal overlaps over the iteration; returns the matplotlib axes."""
        with plots().on_axes(axes) as axes:
            for i in range(len(self.overlap)):
                axes.plot(self.history[:, i, i], ".-", label=f"$q_{{{i + 1}{i + 1}}}$")
            axes.set(xlabel="iteration", ylabel="overlap", title=rf"state evolution at $\alpha$ = {self.alpha:g}")
            plots().legend_below(axes, len(self.overlap))
            return axes

    def lines(self) -> Iterator[str]:
        """Overlaps, errors of a prediction, status."""
        yield f"alpha = {self.alpha:g}: {overlaps(self.overlap, self.overlap_error)}"
        best, plugin = (pm(found.value, found.error) for found in (self.prediction_error, self.plugin_error))
        yield f"prediction error {best} (posterior mean), {plugin} (plug-in)"
        yield self.status


def as_dict(result: object) -> Any:
    """Turn a result object into plain JSON types: arrays to lists, NaN to null."""
    if type(result) in (str, int, bool):
        return result
    if is_dataclass(result) and not isinstance(result, type):
        return {f.name: as_dict(getattr(result, f.name)) for f in fields(result)}
    if isinstance(result, np.ndarray):
        return as_dict(result.tolist())
    if isinstance(result, dict):
        return {str(key): as_dict(value) for key, value in result.items()}
    if isinstance(result, list | tuple):
        return [as_dict(value) for value in result]
    if isinstance(result, np.generic):
        return as_dict(result.item())
    if isinstance(result, float) and not math.isfinite(result):
        return None
    return result


def save(path: Path, record: Mapping[str, object]) -> None:
    """Write a JSON record whole or not at all."""
    write_json(path, as_dict(record))


def load(path: Path) -> dict[str, Any]:
    """Read a record written by `save`."""
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record
