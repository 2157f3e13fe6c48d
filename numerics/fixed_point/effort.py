"""What a computation of state evolution may take and has to reach: checked, with the averages and strategy it needs."""

import math
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from ..channel.averages import Channel
from ..channel.choice import channel, is_costly, is_sampled
from ..channel.deep.averages import DeepAverages
from ..channel.two_layers.averages import TwoLayerAverages
from ..core.accuracy import checked
from ..core.cluster_pool import Workers
from ..core.results import Origin
from ..core.validation import check_nodes, within
from ..model.network import Network
from ..model.routes import CHART, DEEP_QUADRATURE, SAMPLED_LAYERS, TWO_LAYER_QUADRATURE, preferred, require
from ..priors import GAUSSIAN, Prior
from .accurate import Fineness
from .iteration import Iteration
from .refinement import Refinement
from .state import Problem, Strategy, Tolerance

__all__ = ["COARSE", "EXACT", "Effort", "check_effort", "usual_samples"]

#: Points per randomisation where the posterior of each one is exact.
EXACT = 4096
#: Points per randomisation of a first search that finds the neighbourhood of the fixed point.
COARSE = 256


@dataclass(frozen=True)
class Effort:
    """What a computation may take and has to reach, see `evolve`."""

    samples: int | None
    replicas: int
    tol: float
    max_iter: int
    nodes: int | None
    accuracy: float | None

    # Nodes of each sampled posterior: of deep ones and of charts, and where an accuracy says how many it takes.
    _usual_nodes, _chart_nodes, _first_nodes, _first_chart_nodes = 2048, 512, 512, 64

    def checked(self, model: Network, alpha: float, exact: int) -> "Effort":
        """The same with defaults filled in, `exact` points where each one's posterior is exact; refuses what is not."""
        require("evolve", model)
        accuracy = _default_accuracy(model, self.samples, self.accuracy)
        samples = usual_samples(model, exact) if self.samples is None else self.samples
        check_effort(alpha, samples, self.replicas, self.tol, self.max_iter)
        nodes = self.nodes
        if nodes is None:
            fixed, first = (
                (self._chart_nodes, self._first_chart_nodes)
                if _on_chart(model)
                else (self._usual_nodes, self._first_nodes)
            )
            nodes = first if accuracy is not None and _is_searched(model) else fixed
        check_nodes(nodes)
        return replace(self, samples=samples, accuracy=accuracy, nodes=nodes)

    def first(self, model: Network) -> Fineness | None:
        """Points and nodes with which a search of an accuracy begins; None where there is none."""
        if self.accuracy is None or not _is_searched(model):
            return None
        assert self.samples is not None and self.nodes is not None
        return Fineness(self.samples, self.nodes)

    def alike(self, model: Network) -> "Effort":
        """The same with as many points at every alpha: none is searched for."""
        if self.first(model) is None:
            return self
        return replace(self, accuracy=None, nodes=self._chart_nodes if _on_chart(model) else self._usual_nodes)

    def channel(self, model: Network, rng: np.random.Generator, workers: Workers) -> Channel:
        """Averages of that effort."""
        assert self.samples is not None and self.nodes is not None
        return channel(
            model,
            samples=int(self.samples),
            replicas=int(self.replicas),
            rng=rng,
            workers=workers,
            nodes=self.nodes,
            accuracy=self.accuracy,
        )

    def strategy(self, averages: Channel, alpha: float, prior: Prior = GAUSSIAN) -> Strategy:
        """Iteration of sampled averages, or refinement of those that are as accurate as asked."""
        tolerance, accuracy = Tolerance(self.tol), self.accuracy
        # Largest residual, over the accuracy, of overlaps of deep models, and of those that few points settle.
        rest, rest_searched = 0.1, 0.005
        if accuracy is not None and not isinstance(averages, TwoLayerAverages):
            deep = isinstance(averages, DeepAverages)
            if (rough := (rest if deep else rest_searched) * accuracy) > self.tol:
                part = "a tenth" if deep else "a two-hundredth"
                why = f"the tolerance was {rough:.1e} instead of tol = {self.tol:g}: {part} of the accuracy asked for"
                tolerance = Tolerance(rough, why)
        if not isinstance(averages, TwoLayerAverages | DeepAverages):
            return Iteration(Problem(averages, alpha, tolerance, int(self.max_iter), prior=prior))
        assert accuracy is not None
        return Refinement(Problem(averages, alpha, tolerance, int(self.max_iter), prior=prior), averages, accuracy)

    def worth_scouting(self, model: Network) -> bool:
        """Whether a search with few points saves time."""
        assert self.samples is not None
        # Times as many points from which on that search pays, and evaluations that both need.
        worth, least_iter = 8, 50
        enough = self.samples >= worth * COARSE and self.max_iter >= least_iter
        return model.layers > 1 and self.accuracy is None and enough

    def origin(self, model: Network, start: str | ArrayLike, seed: int) -> Origin:
        """Model and settings of a run."""
        return Origin.of(model, start=start, seed=seed, **asdict(self))


def usual_samples(model: Network, exact: int = EXACT) -> int:
    """Points per randomisation: fewer than `exact` where every one of them costs a sampled posterior."""
    return COARSE if is_costly(model) else exact


def _on_chart(model: Network) -> bool:
    return preferred("evolve", model) == CHART


def _is_searched(model: Network) -> bool:
    """Whether an accuracy is reached by as many points of sampled posteriors as it takes."""
    return _on_chart(model) or (preferred("evolve", model) == SAMPLED_LAYERS and is_sampled(model))


def _default_accuracy(model: Network, samples: int | None, accuracy: float | None) -> float | None:
    """Of a quadrature, and of samples as many as it takes; None where their number is given, or always the same."""
    shallow, deep = TWO_LAYER_QUADRATURE.serves(model), DEEP_QUADRATURE.serves(model)
    chart = _on_chart(model)
    # Relative at two layers by quadrature, absolute at more and on charts.
    of_two, of_more, on_charts = 1e-3, 1e-2, 1e-2
    if accuracy is None:
        if samples is not None or not (shallow or deep or chart):
            return None
        return of_two if shallow else of_more if deep else on_charts
    searched = _is_searched(model)
    if not (shallow or deep or searched):
        raise ValueError(
            "accuracy is for two layers of two tokens and for more of softmax, at rank 1, and for networks whose "
            f"posterior is sampled; for {model.describe()} raise samples"
        )
    # What can be asked for.
    most, least_shallow, least_deep, least_searched = 1e-2, 1e-10, 1e-4, 1e-3
    least = least_shallow if shallow else least_deep if deep else least_searched
    largest = 10 * most if searched else most
    return checked(accuracy, least, largest, model.describe())


def check_effort(alpha: float, samples: int, replicas: int, tol: float, max_iter: int) -> None:
    """Refuse values out of range.

    Raises
    ------
    ValueError
        The message names the argument.
    """
    if isinstance(alpha, bool) or not isinstance(alpha, int | float | np.floating | np.integer):
        raise ValueError(f"alpha must be a number >= 0, got {alpha!r}")
    if not (math.isfinite(alpha) and alpha >= 0):
        raise ValueError(f"alpha must be finite and >= 0 (alpha = N/D), got {alpha!r}")
    within("alpha", float(alpha))
    for name, value, least in (("samples", samples, 1), ("replicas", replicas, 2), ("max_iter", max_iter, 1)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
        within(name, value)
    if isinstance(tol, bool) or not isinstance(tol, int | float | np.floating) or not tol > 0:
        raise ValueError(f"tol must be a number > 0, got {tol!r}")
