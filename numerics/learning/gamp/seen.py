"""What the iteration sees of inputs with a covariance: white ones, with the start and the teacher as the indices do."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from numpy.typing import ArrayLike

from ...posterior.protocol import Model
from ...priors import Prior, Spectrum
from ..blocks import Array
from ..colour import Colour, colour_of
from ..coloured import Coloured
from ..data import check_weights
from ..passes import Passes
from ..side import Side
from .results import GAMPResult, GAMPStep

__all__ = ["Given", "Seen", "seen"]

Callback = Callable[[GAMPStep], object]


class Given(NamedTuple):
    """What is given beside the data, in weights of the inputs as they are."""

    start: ArrayLike | None
    teacher: ArrayLike | None
    callback: Callback | None


class Seen(NamedTuple):
    """Passes over white inputs, and what is given for them; `colour` is that of the inputs, None of white ones."""

    passes: Passes
    given: Given
    colour: Colour | None

    def told(self, result: GAMPResult, prior: Prior) -> GAMPResult:
        """The result in weights of the inputs as they are."""
        if self.colour is None:
            return result
        status = f"{result.status}; {prior.describe()}"
        return replace(result, weights=self.colour.weights(result.weights), status=status)


def seen(passes: Passes, model: Model, prior: Prior, given: Given, side: Side) -> Seen:
    """Passes over inputs as over white ones.

    Raises
    ------
    ValueError
        The spectrum is of another dimension or has no directions, or there is side information beside it.
    """
    colour = colour_of(prior, passes.dimension)
    if colour is None:
        return Seen(passes, given, None)
    if isinstance(prior, Spectrum) and not prior.directed:
        raise ValueError(
            f"the {prior.describe()} has no directions, which data need: give al.learning.spectrum_of(samples)"
        )
    if side.given:
        raise ValueError(
            "side information is served of white inputs (113), and a spectrum is given: leave one of them out"
        )
    start, teacher = (_scaled(name, getattr(given, name), model, colour) for name in ("start", "teacher"))
    callback = None if given.callback is None else _in_weights(given.callback, colour)
    return Seen(Coloured(passes, colour), Given(start, teacher, callback), colour)


def _scaled(name: str, weights: ArrayLike | None, model: Model, colour: Colour) -> Array | None:
    """Weights as the indices see them."""
    return None if weights is None else colour.scaled(check_weights(name, weights, model, len(colour.root)))


def _in_weights(callback: Callback, colour: Colour) -> Callback:
    """A callback that gets the weights of the inputs as they are."""
    return lambda step: callback(replace(step, weights=colour.weights(step.weights)))
