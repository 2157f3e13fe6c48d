"""A page about a model, with every number that is served of it."""

from collections.abc import Callable
from pathlib import Path

from attnlimits.numerics.model.described import Model
from attnlimits.numerics.report.report import Report, make_report

__all__ = ["report"]


def report(
    model: Model,
    out: str | Path,
    *,
    effort: str = "usual",
    progress: Callable[[str, str, str, float | None], object] | None = None,
) -> Report:
    """Write one self-contained HTML page about a model, and its data beside it.

    The page has the derivation with typeset formulas, thresholds, the state evolution from both starts, the free
    entropy, message passing on instances, the limit of large depth, what is served and what not, and the command that
    makes each number.

    Parameters
    ----------
    model : Network or Link
    out : str or Path
        Folder for `index.html`, `report.json`, `numbers.csv`, `curve.csv`, and in `parts` every finished step, which
        the next report into this folder takes up as long as what computes it is the same.
    effort : {"quick", "usual", "thorough"}, optional
        How many points, samples and instances: seconds to a minute, minutes, and up to hours.
    progress : callable, optional
        Called after every step with its part, its name, "done", "refused" or "failed", and its seconds, None if it was
        kept from before.

    Returns
    -------
    Report
        `complete` where there is a weak-recovery threshold, the main part. Every other part that fails or is not served
        says so on the page.

    Raises
    ------
    ValueError
        `effort` is none of these, or the model is none that can be read.
    OSError
        The folder cannot be written to.

    Notes
    -----
    Formulas are MathML where `latex2mathml` is installed (``pip install 'attnlimits[report]'``), plain text otherwise.

    Examples
    --------
    >>> import tempfile
    >>> import attnlimits as al
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = report(al.Network(layers=1, tokens=2), folder, effort="quick")
    ...     (found.complete, found.page.name)
    (True, 'index.html')
    """
    return make_report(model, out, effort=effort, progress=progress)
