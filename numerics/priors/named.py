"""Priors by their names: a new one is a file and a line of this one."""

from collections.abc import Callable

from .density import Density
from .gaussian import GAUSSIAN, Gaussian
from .laplace import Laplace
from .mixtures import Binary, GaussBernoulli
from .protocol import Prior

__all__ = ["NAMES", "as_prior", "as_setting", "prior_named"]

_MADE: dict[str, Callable[[], Prior]] = {
    "gaussian": lambda: GAUSSIAN,
    "binary": Binary,
    "laplace": Laplace,
}
_SPARSE = "sparse"

#: Names of priors.
NAMES = (*_MADE, _SPARSE)


def prior_named(name: str, density: float | None = None) -> Prior:
    """Prior of a name, or of a density in w.

    Parameters
    ----------
    name : str
        "gaussian", "binary", "laplace" or "sparse"; or a density such as "exp(-w**4)", see `Density`.
    density : float, optional
        Share of entries that are not zero, of the sparse prior.

    Raises
    ------
    ValueError
        Another name, or a density in w that is none; a sparse prior without a density, or a density with another one.

    Examples
    --------
    >>> prior_named("laplace").describe()
    'Laplace prior'
    """
    if (name == _SPARSE) != (density is not None):
        raise ValueError(
            f"density belongs to the sparse prior, which needs one in (0, 1]; got {density!r} for {name!r}"
        )
    if density is not None:
        return GaussBernoulli(density)
    if name in _MADE:
        return _MADE[name]()
    if "w" not in name or not set(name) & set("(*+-/"):
        raise ValueError(f"prior must be {', '.join(NAMES)}, or a density in w such as exp(-w**4), got {name!r}")
    return Density(name)


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
        if prior == _SPARSE:
            raise ValueError('the sparse prior has a density: give GaussBernoulli(density) in place of "sparse"')
        return prior_named(prior)
    if isinstance(prior, type) or not hasattr(prior, "isotropic"):
        raise ValueError(
            f"prior must be a prior of al.free_energy, {', '.join(NAMES[:-1])} or a density in w, got {prior!r}"
        )
    return prior


def as_setting(prior: Prior) -> dict[str, str]:
    """The prior among the settings of a result: nothing of the usual one."""
    return {} if isinstance(prior, Gaussian) else {"prior": prior.describe()}
