"""Priors by their names: a new one is a file and a line of this one."""

from .gaussian import GAUSSIAN
from .protocol import Prior
from .separable import Binary, GaussBernoulli

__all__ = ["as_setting", "prior_named"]


def prior_named(name: str, density: float | None = None) -> Prior:
    """Prior of a name: "gaussian", "binary" or "sparse", of which the density is needed."""
    if name == "sparse" and density is not None:
        return GaussBernoulli(density)
    return Binary() if name == "binary" else GAUSSIAN


def as_setting(prior: Prior) -> dict[str, str]:
    """The prior among the settings of a result: nothing of the usual one."""
    return {} if prior.isotropic else {"prior": prior.describe()}
