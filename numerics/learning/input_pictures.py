"""Pictures of measured inputs: eigenvalues, how far from Gaussian, token covariance."""

from typing import TYPE_CHECKING, Protocol

import numpy as np

from ..core.colours import CYCLE
from ..core.pictures import plots
from ..core.results import Estimate
from .blocks import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_inputs"]


class Measured(Protocol):
    """What is drawn of inputs."""

    @property
    def samples(self) -> int:
        """N."""
        ...

    @property
    def tokens(self) -> int:
        """M."""
        ...

    @property
    def eigenvalues(self) -> Array:
        """Of the sample covariance over their mean, the largest first."""
        ...

    @property
    def square(self) -> Estimate:
        """E lambda^2."""
        ...

    @property
    def token_covariance(self) -> Array:
        """Of tokens."""
        ...

    @property
    def kurtosis(self) -> Estimate:
        """Of projections."""
        ...

    @property
    def gaussian_kurtosis(self) -> Estimate:
        """Of those of Gaussian samples."""
        ...

    @property
    def norms(self) -> Estimate:
        """Relative variance of |x|^2."""
        ...

    @property
    def gaussian_norms(self) -> Estimate:
        """That of Gaussian samples."""
        ...


def draw_inputs(inputs: Measured) -> "Figure":
    """Eigenvalues by rank; fourth moments beside those of Gaussian samples; the covariance of several tokens."""
    module, tokens = plots(), inputs.tokens > 1
    with module.styled():
        figure = module.new_figure((7.0 if tokens else 5.2, 3.0))
        panels = figure.subplots(1, 3 if tokens else 2)
        _eigenvalues(panels[0], inputs)
        _moments(panels[1], inputs)
        titles = ["eigenvalues of the inputs", "distance from Gaussian"]
        if tokens:
            ends = (0.5, inputs.tokens + 0.5)
            extent = (*ends, *ends[::-1])
            image = panels[2].imshow(inputs.token_covariance, cmap="RdBu_r", vmin=-1, vmax=1, extent=extent)
            figure.colorbar(image, ax=panels[2], shrink=0.8)
            panels[2].set(xlabel="token", ylabel="token")
            panels[2].grid(visible=False)
            titles.append("token covariance")
        module.titled(panels, titles)
    return figure


def _eigenvalues(axes: "Axes", inputs: Measured) -> None:
    values = inputs.eigenvalues
    rank, shown = np.arange(1, len(values) + 1), values > 0
    axes.loglog(rank[shown], values[shown], ".", ms=2.5, color=CYCLE[0], label="these inputs, as observed")
    gamma = len(values) / (inputs.samples * inputs.tokens)
    if gamma < 1:
        edges = [(1 + side * gamma**0.5) ** 2 for side in (-1, 1)]
        axes.axhspan(edges[0], edges[1], color="0.85", zorder=0, label="as many white samples")
    effective = len(values) / inputs.square.value
    axes.axvline(effective, color=CYCLE[1], ls=":", label=f"effective dimension {effective:.3g}")
    axes.set(xlabel="rank", ylabel="eigenvalue over the mean")
    plots().legend_below(axes)


def _moments(axes: "Axes", inputs: Measured) -> None:
    names = ("these", "Gaussian")
    for k, (one, colour) in enumerate(((inputs.kurtosis, CYCLE[0]), (inputs.gaussian_kurtosis, "0.4"))):
        axes.errorbar(k, one.value - 3, 3 * one.error, fmt="o", color=colour)
    axes.axhline(0, color="0.35", lw=0.9, ls=":", zorder=1)
    axes.set_xticks(range(len(names)), names)
    axes.set(xlim=(-0.6, 1.6), ylabel="excess kurtosis of projections")
    axes.margins(y=0.25)
    text = f"relative variance of $|x|^2$:\n{inputs.norms.value:.3g} and {inputs.gaussian_norms.value:.3g}"
    axes.set_xlabel(text)
