"""Priors by their names: a new one is a file and a line of this one."""

from .gaussian import GAUSSIAN, Gaussian
from .protocol import Prior
from .separable import Binary, GaussBernoulli

__all__ = ["as_prior", "as_setting", "prior_named"]


def prior_named(name: str, density: float | None = None) -> Prior:
    """Prior of a name: "gaussian", "binary" or "sparse", of which the density is needed.

    Raises
    ------
    ValueError
        Another name; a sparse prior without a density, or a density with another one.
    """
    if (name == "sparse") != (density is not None):
        raise ValueError(
            f"density belongs to the sparse prior, which needs one in (0, 1]; got {density!r} for {name!r}"
        )
    if name == "sparse" and density is not None:
        return GaussBernoulli(density)
    if name not in ("gaussian", "binary"):
        raise ValueError(f'prior must be "gaussian", "binary" or "sparse", got {name!r}')
    return Binary() if name == "binary" else GAUSSIAN


def as_prior(prior: Prior | str | None) -> Prior:
    """A prior as it was given: itself, by its name, or the Gaussian one.

    Raises
    ------
    ValueError
        It is none of these.
    """
    if prior is None:
        return GAUSSIAN
    if isinstance(prior, str):
        if prior == "sparse":
            raise ValueError('the sparse prior has a density: give GaussBernoulli(density) in place of "sparse"')
        return prior_named(prior)
    if isinstance(prior, type) or not hasattr(prior, "isotropic"):
        raise ValueError(f'prior must be a prior of al.free_energy, "gaussian" or "binary", got {prior!r}')
    return prior


def as_setting(prior: Prior) -> dict[str, str]:
    """The prior among the settings of a result: nothing of the usual one."""
    return {} if isinstance(prior, Gaussian) else {"prior": prior.describe()}
