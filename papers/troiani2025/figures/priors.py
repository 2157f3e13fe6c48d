"""Overlaps of y = sign(h) for weights of seven laws, and what a channel leaves open of one weight of each.

Overlaps of the fixed point from no knowledge against alpha (a). All leave zero alike, for F(qhat) = qhat + O(qhat^2)
whatever the law; later what is peaked or discrete is learned from fewer samples. Binary weights jump to recovery at
alpha = 1.4926. The mean posterior variance of a weight seen through noise of variance 1/qhat, over that of a Gaussian
one, 1/(1 + qhat), which is the largest of all (b): towards large qhat a density has the Gaussian's, a sparse law its
share of entries that are not zero, and a binary one nothing.

`attnlimits figure troiani2025-priors` draws priors.json beside this file, which
`python -m attnlimits.papers.troiani2025.figures.priors` computes again, in a minute.
"""

from pathlib import Path

import numpy as np

from attnlimits.numerics.core.colours import CYCLE
from attnlimits.numerics.core.plots import legend_below
from attnlimits.numerics.fixed_point.link_limit import evolve_link
from attnlimits.numerics.model.link import Link
from attnlimits.numerics.priors import GaussBernoulli, Informed, Prior, prior_named

from ...figures import PAGE, Headline, PaperFigure, Picture, Progress, Record, Steps, panels

__all__ = ["DATA", "FIGURE", "compute", "draw"]

DATA = Path(__file__).with_name("priors.json")
_ALPHAS = np.concatenate([np.linspace(0.02, 1.4, 24), np.linspace(1.45, 1.49, 3), np.linspace(1.5, 3.0, 16)])
_QHATS = np.geomspace(1e-2, 1e4, 49)
# Where the headline is.
_AT = 1.0


def _laws() -> dict[str, Prior]:
    """Labels and priors."""
    return {
        "Gaussian": prior_named("gaussian"),
        "Laplace": prior_named("laplace"),
        "exp(-w**4)": prior_named("exp(-w**4)"),
        "uniform": prior_named("step(1-abs(w))"),
        "sparse, 0.2": GaussBernoulli(0.2),
        "binary": prior_named("binary"),
        "Gaussian, 0.2 known": Informed(known=0.2),
    }


def compute(progress: Progress | None = None) -> Record:
    """Fixed points at every alpha, and posterior variances."""
    laws, link = _laws(), Link("sign(h[1])")
    step = Steps(progress, len(laws) * len(_ALPHAS))
    record: Record = {"model": link.describe(), "alphas": _ALPHAS, "qhats": _QHATS, "laws": {}}
    for name, prior in laws.items():
        overlaps, errors = [], []
        for alpha in _ALPHAS:
            found = evolve_link(link, float(alpha), prior=prior)
            overlaps.append(found.overlap[0, 0])
            errors.append(found.overlap_error[0, 0])
            step()
        left = [prior.mmse(np.array([[qhat]]))[0, 0] for qhat in _QHATS]
        record["laws"][name] = {"prior": prior.describe(), "overlap": overlaps, "error": errors, "variance": left}
    at = evolve_link(link, _AT, prior=laws["Laplace"])
    record["headline"] = {"alpha": _AT, "value": at.overlap[0, 0], "error": at.overlap_error[0, 0]}
    return record


def draw(record: Record, width: float) -> Picture:
    """Draw overlaps, and posterior variances relative to the Gaussian ones."""
    figure, (left, right) = panels(["overlaps", "posterior variances"], width, most=2, aspect=0.85)
    alphas, qhats = np.array(record["alphas"]), np.array(record["qhats"])
    for k, (name, law) in enumerate(record["laws"].items()):
        colour, style = CYCLE[k % len(CYCLE)], "-" if k < len(CYCLE) else "--"
        overlaps = np.array(law["overlap"])
        # A jump is none of the curve.
        jump = np.flatnonzero(np.diff(overlaps) > 0.08)
        shown = np.insert(overlaps, jump + 1, np.nan)
        left.plot(np.insert(alphas, jump + 1, np.nan), shown, style, label=name, color=colour)
        right.plot(qhats, np.array(law["variance"]) * (1 + qhats), style, color=colour)
    left.set_xlabel(r"samples per dimension $\alpha = N/D$")
    left.set_ylabel("overlap $q$")
    right.set_xscale("log")
    right.set_xlabel(r"signal to noise $\hat q$")
    right.set_ylabel(r"$(1 + \hat q)\,(1 - F(\hat q))$")
    legend_below(left, 4)
    return figure


def headline(record: Record) -> Headline:
    """Laplace weights at alpha = 1."""
    found = record["headline"]
    value = f"{found['value']:.10f}"
    lines = [record["model"], f"Laplace weights at alpha = {found['alpha']:g}: q = {value}"]
    return Headline(value, found["error"], lines, how="estimated")


FIGURE = PaperFigure("troiani2025-priors", DATA, draw, headline, compute, width=PAGE)

if __name__ == "__main__":
    FIGURE.remake()
