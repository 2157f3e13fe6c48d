"""Curves of any model, and those whose overlaps are as accurate as asked: by as fine rules or samples as it takes."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...core.accuracy import LINK_RANGE, RANGE, Attempt, By, Effort, as_accurate, checked, stated
from ...model.described import Model
from ...model.link import Link
from ...model.network import Network
from ...model.routes import TWO_LAYER_QUADRATURE
from .curve import curve, usual_samples
from .link_curve import curve_link
from .records import CurveResult

__all__ = ["model_curve"]


def model_curve(
    model: Model,
    values: Iterable[float],
    *,
    accuracy: float | None = None,
    keep: Path | str | None = None,
    **settings: Any,
) -> CurveResult:
    """Fixed points of a network or a link along a parameter.

    Parameters
    ----------
    model : Network or Link
    values : iterable of float
    accuracy : float, optional
        Of every overlap, absolute; of averages by rules with an accuracy of their own relative to the overlap.
    keep : path, optional
        File of the finished points; that of a later attempt is beside it while it is under way.
    settings : optional
        As of `curve` or `curve_link`.

    Returns
    -------
    CurveResult
        `reached` is false where the accuracy is not, and the status says what it would take.

    Raises
    ------
    ValueError
        The accuracy is not a number in its range, or as of `curve`.
    """
    points = list(values)
    if accuracy is None:
        return _followed(model, points, keep=keep, **settings)
    link = isinstance(model, Link)
    accuracy = checked(accuracy, *(LINK_RANGE if link else RANGE), "a link" if link else model.describe())
    rules = isinstance(model, Network) and TWO_LAYER_QUADRATURE.serves(model)
    # The coarsest rules of networks, and the tolerance of fixed points in units of the accuracy.
    coarsest, rest = 1e-3, 0.1
    tol = 1e-5
    settings["tol"] = min(settings.get("tol", tol), rest * accuracy)
    samples, exact = settings.pop("samples", None), settings.pop("exact", 1024)

    def follow(effort: Effort, file: Path | None) -> CurveResult:
        made = settings | {"samples": effort.samples, "keep": file}
        return _followed(model, points, **(made if link else made | {"accuracy": effort.fine}))

    files, usual = _Files(keep), exact if link else usual_samples(model, exact)
    first = Effort(samples or usual, fine=min(accuracy, coarsest))
    at, effort = as_accurate(lambda effort: _attempt(follow(effort, files.next()), accuracy, rules), first)
    files.clear()
    return stated(at, effort)


def _followed(model: Model, values: list[float], **settings: Any) -> CurveResult:
    """A curve by one effort."""
    if isinstance(model, Link):
        return curve_link(model, values, **settings)
    return curve(model, values, **settings)


def _attempt(found: CurveResult, accuracy: float, rules: bool) -> Attempt[CurveResult]:
    by: By = "samples" if found.how == "monte-carlo" else "rules" if rules else "all"
    error = found.largest_error(absolute=by != "rules")
    return Attempt(found, error, accuracy, found.converged, True, by)


class _Files:
    """Files of finished points of one attempt after the other: the one that was asked for, and others beside it."""

    def __init__(self, keep: Path | str | None) -> None:
        self._path, self._made = None if keep is None else Path(keep), list[Path]()

    def next(self) -> Path | None:
        """That of the next attempt."""
        if self._path is not None:
            first = not self._made
            self._made.append(self._path if first else self._path.with_name(f"{self._path.name}.{len(self._made)}"))
        return self._made[-1] if self._made else None

    def clear(self) -> None:
        """Remove the others."""
        for path in self._made[1:]:
            path.unlink(missing_ok=True)
