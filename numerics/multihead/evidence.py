"""The evidence for a number of heads: errors on held-out examples, and paired tests between nested layers."""

from dataclasses import dataclass

from ..core.shown import few_lines
from .paired import Paired

__all__ = ["RARE", "HeadsEvidence", "Rung"]

#: Probability below which a gain on held-out examples is not taken for chance.
RARE = 1e-3


@few_lines
@dataclass(frozen=True)
class Rung:
    """A layer of so many heads beside a smaller one.

    Attributes
    ----------
    heads : int
    error, deviation : float
        |F - Y|^2 / |Y|^2 on held-out examples, and one standard error of it.
    against : int
        Heads of the smaller layer; 0 is F = 0.
    gain, gain_deviation : float
        By how much the error of the smaller layer is larger, and the standard error of that difference, from the
        difference on each example.
    p : float
        Probability of such a gain, or a larger one, where the smaller layer is as good.
    """

    heads: int
    error: float
    deviation: float
    against: int
    gain: float
    gain_deviation: float
    p: float

    @classmethod
    def of(cls, heads: int, error: tuple[float, float], against: int, test: Paired, size: float) -> "Rung":
        """From a paired test in absolute units, where `size` is the mean |Y|^2 of an example."""
        return cls(heads, *error, against, test.gain / size, test.deviation / size, test.p)


@few_lines
@dataclass(frozen=True)
class HeadsEvidence:
    """What held-out examples say about the number of heads.

    Attributes
    ----------
    heads : int
        Each of the layers up to this one is better than those before it by more than chance.
    exact : bool
        Whether there are no more of them, as far as these data show: layers of one and of two heads more leave more
        of the examples, and a further head like the others would have been seen. False: there are at least `heads`.
    rungs : tuple of Rung
        The layers that were compared, in the order of their heads.
    status : str
        A sentence.
    """

    heads: int
    exact: bool
    rungs: tuple[Rung, ...]
    status: str
