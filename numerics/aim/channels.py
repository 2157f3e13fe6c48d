"""Output channels y | h of the attention-indexed model by their names."""

from typing import Literal

from .channel_laws import Linear, Softmax
from .checks import ACTIVATIONS, CITE, from_zero
from .entries import pairs, variances
from .entrywise import Entries, OneToOne, entrywise
from .hardmax_channels import Hardmax, HardmaxMany
from .noisy import Noisy
from .protocol import Channel
from .score_functions import is_function

__all__ = [
    "Channel",
    "Entries",
    "Hardmax",
    "HardmaxMany",
    "Linear",
    "Noisy",
    "OneToOne",
    "Softmax",
    "channel",
    "pairs",
    "variances",
]


def channel(
    activation: Literal["softmax", "hardmax", "linear", "hardmax_published"] | str,
    tokens: int = 2,
    beta: float = 1.0,
    noise: float = 0.0,
    *,
    logarithms: bool = False,
) -> Channel:
    """Return the channel of a name.

    Parameters
    ----------
    activation : str
        A name, or a function of one score such as "tanh(z)": y_ab = f(beta h_ab), see `entrywise`.
    tokens : int
        T >= 2.
    beta : float
        Inverse temperature of softmax, or factor of the scores.
    noise : float
        Delta_n >= 0, the variance over 1 + delta_ab of noise on the scores h, see `Noisy`; on the outputs where these
        are functions of one score.
    logarithms : bool, keyword-only
        Outputs of softmax are log y.

    Raises
    ------
    ValueError
        An unknown name, T < 2, beta not positive, noise negative, or of the published formula; a function that cannot
        be read, or without noise is not provably strictly monotone.
    KernelNotFoundError
        Hardmax of more than ten tokens, or the published formula for more than two.
    """
    noise = from_zero("noise", noise, "noisy scores")
    if is_function(activation):
        return entrywise(activation, tokens, beta, noise)
    clean = _clean(activation, tokens, beta, logarithms)
    if not noise:
        return clean
    if activation == "hardmax_published":
        raise ValueError(
            f"the published formula has no noise ({CITE}, hardmax channel), got {noise!r}; take hardmax, or leave it "
            "out"
        )
    return Noisy(clean, noise)


def _clean(activation: str, tokens: int, beta: float, logarithms: bool) -> Channel:
    if activation == "linear":
        return Linear(tokens)
    if activation == "softmax":
        return Softmax(tokens, beta, logarithms=logarithms)
    if activation == "hardmax" and tokens != 2:
        return HardmaxMany(tokens)
    if activation in ("hardmax", "hardmax_published"):
        return Hardmax(tokens, published=activation == "hardmax_published")
    raise ValueError(
        f"activation must be one of {', '.join(ACTIVATIONS)}, or a function of one score z such as tanh(z) ({CITE}, "
        f"outputs), got {activation!r}"
    )
