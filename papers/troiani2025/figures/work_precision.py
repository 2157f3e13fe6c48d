"""Work and precision of the state-evolution averages: nested quadrature beside plain and quasi-Monte Carlo.

Relative error of the average G against processor seconds of one core, at a fixed point where one layer is learned (a)
and at one where both are (b). Monte Carlo gains a digit for a hundred times the work (dotted: continued), quasi-Monte
Carlo does little better, and quadrature gains a digit for about twice (a) to six times (b) the work: an error of 1e-4
takes a share of 1e-5 (a) and 1e-4 (b) of the time of Monte Carlo. All use the same exact denoiser or its sums.

`attnlimits figure troiani2025-work_precision` draws work_precision.json beside this file, which
`python -m attnlimits.papers.troiani2025.figures.work_precision` measures again, in a minute or two.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from attnlimits.numerics.channel.averages import matrix_root
from attnlimits.numerics.channel.two_layers.channel import TwoLayerQuadrature
from attnlimits.numerics.channel.two_layers.sampled import TwoLayers
from attnlimits.numerics.core.colours import BLUE, GREEN, RED
from attnlimits.numerics.core.plots import legend_below
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.denoiser import denoise_readout
from attnlimits.numerics.quadrature.rules import normal_qmc

from ...figures import PAGE, Array, Headline, PaperFigure, Picture, Progress, Record, Steps, label_rows, panels

__all__ = ["DATA", "FIGURE", "OVERLAPS", "draw", "measure", "ratio"]

DATA = Path(__file__).with_suffix(".json")
# Fixed points at alpha = 0.5, where one layer is learned, and at alpha = 0.885, where both are.
OVERLAPS = {"one layer learned": (0.0, 0.770773), "both layers learned": (0.526686, 0.993579)}
ACCURACIES = (1e-2, 2e-3, 4e-4, 8e-5, 1.6e-5)
POINTS = (10, 11, 12, 13, 14)


def measure(progress: Progress | None = None) -> Record:
    """Relative error of G, the larger of both layers', against processor seconds."""
    model = Network()
    step = Steps(progress, len(OVERLAPS) * (len(ACCURACIES) + 1 + 2 * len(POINTS)))
    out: Record = {"model": model.describe(), "cases": {}}

    def timed(work: Callable[[], Array]) -> tuple[Array, float]:
        start = time.process_time()
        value = work()
        seconds = time.process_time() - start
        step()
        return value, seconds

    rng = np.random.default_rng(0)
    reference = 2e-6
    replicas = 8
    for case, overlap in OVERLAPS.items():
        q = np.diag(overlap)
        layers = [layer for layer in (0, 1) if overlap[layer]]

        def rule(accuracy: float, q: Array = q, layers: list[int] = layers) -> Array:
            value: Array = TwoLayerQuadrature(model, accuracy, 1).rough(q).g[0].diagonal()[layers]
            return value

        def sampled(points: list[Array], q: Array = q) -> Array:
            return TwoLayers(model, points, 1)(q).g

        def plain(log2_n: int, q: Array = q) -> Array:
            return _plain(model, q, 2**log2_n, rng)

        rule(ACCURACIES[0])  # compiles
        exact, _ = timed(partial(rule, reference))
        methods: dict[str, list[tuple[float, float]]] = {"quadrature": [], "quasi-Monte Carlo": [], "Monte Carlo": []}
        for accuracy in ACCURACIES:
            found, seconds = timed(partial(rule, accuracy))
            methods["quadrature"].append((seconds, float(np.abs(found / exact - 1).max())))
        for log2_n in POINTS:
            points = [normal_qmc(8, log2_n - 3, stream) for stream in rng.spawn(replicas)]
            found, seconds = timed(partial(sampled, points))
            spread = found[:, layers, layers].std(axis=0, ddof=1) / np.sqrt(replicas)
            methods["quasi-Monte Carlo"].append((seconds, float((spread / exact).max())))
            found, seconds = timed(partial(plain, log2_n))
            spread = found[:, layers].std(axis=0, ddof=1) / np.sqrt(len(found))
            methods["Monte Carlo"].append((seconds, float((spread / exact).max())))
        out["cases"][case] = {"overlap": list(overlap), "methods": methods}
    return out


def _plain(model: Network, q: Array, n: int, rng: np.random.Generator) -> Array:
    """Values of sum_m g_m^2 of each layer at independent points, shape (n, 2)."""
    v = np.eye(2) - q
    omega = matrix_root(q) @ rng.standard_normal((n, 2, 2))
    h = omega + np.linalg.cholesky(v) @ rng.standard_normal((n, 2, 2))
    readout = (h[:, 1:2] @ np.swapaxes(model.mixing(h), 1, 2))[:, 0]
    g = denoise_readout(model, readout, omega, v, tol=TwoLayers.tolerance, workers=1).g_out
    out: Array = (g**2).sum(axis=2)
    return out


def ratio(methods: dict[str, list[tuple[float, float]]], error: float) -> float:
    """Seconds of Monte Carlo for this error, by its square-root law, over those of the quadrature."""
    seconds, errors = np.array(methods["Monte Carlo"]).T
    plain = float(np.median(seconds * errors**2)) / error**2
    return plain / min(s for s, e in methods["quadrature"] if e <= error)


def draw(record: Record, width: float) -> Picture:
    """Draw one record."""
    titles = [f"{name}, q = ({c['overlap'][0]:.3g}, {c['overlap'][1]:.3g})" for name, c in record["cases"].items()]
    figure, found = panels(titles, width, most=2, sharey=True, aspect=0.82)
    looks = {"quadrature": ("o-", BLUE), "quasi-Monte Carlo": ("s-", GREEN), "Monte Carlo": ("^-", RED)}
    for axes, case in zip(found, record["cases"].values(), strict=True):
        for name, values in case["methods"].items():
            seconds, errors = np.array(values).T
            axes.loglog(seconds, errors, looks[name][0], color=looks[name][1], label=name)
        seconds, errors = np.array(case["methods"]["Monte Carlo"]).T
        least = np.array([errors.min(), 1e-5])
        axes.loglog(np.median(seconds * errors**2) / least**2, least, ":", color=RED, lw=1)
        axes.set_xlabel("processor seconds of one core")
        legend_below(axes, 3)
    label_rows(found, "relative error of $G$")
    return figure


def headline(record: Record) -> Headline:
    """How many times longer Monte Carlo takes where both layers are learned, for a relative error of 1e-4."""
    ratios = {name: ratio(case["methods"], 1e-4) for name, case in record["cases"].items()}
    lines = [
        f"{name}: Monte Carlo takes {one:.3g} times as long for a relative error of 1e-4"
        for name, one in ratios.items()
    ]
    least = min(ratios.values())
    # Of the seconds, which are of one machine.
    return Headline(f"{least:.2g}", 0.5 * least, lines, how="estimated")


FIGURE = PaperFigure("troiani2025-work_precision", DATA, draw, headline, measure, width=PAGE)

if __name__ == "__main__":
    FIGURE.remake()
