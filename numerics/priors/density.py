"""Priors whose entries have a density of one variable: one given as text, and whatever computes its logarithm."""

import re
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..model.link_kernels import kernel_of
from .density_rows import DensityRows
from .panels import Panels, legendre, resolved
from .separable import Separable
from .tilted import Entry

__all__ = ["Density", "DensityLaw"]

Array = NDArray[np.float64]

_VARIABLE = re.compile(r"\bw\b")
# Names of entries of h, which a density does not know.
_ENTRY = re.compile(r"\bh(_\d+)*\b")
# Steps of Newton's method, or halvings, towards values of the distribution function, and a last one.
_STEPS, _CLOSE = 60, 1e-12


class DensityLaw:
    """Law of an entry of mean 0 and variance 1 by the logarithm of its density.

    Parameters
    ----------
    log_density : callable
        Of an array of w, finite or -inf; of mean 0, variance 1 and mass 1 to rounding.
    panels : Panels
        On which it is smooth.

    Examples
    --------
    >>> flat = DensityLaw.of(lambda w: np.where(abs(w) < 1, 1.0, 0.0), [-1.0, 1.0], "step(1-abs(w))")
    >>> round(flat.fourth_moment, 12)
    1.8
    """

    averaged: ClassVar[int] = 2
    coupled: ClassVar[int] = 2

    def __init__(self, log_density: Callable[[Array], Array], panels: Panels) -> None:
        self._entry, self.panels = Entry(log_density, panels), panels

    @classmethod
    def of(cls, density: Callable[[Array], Array], kinks: list[float], name: str) -> "DensityLaw":
        """Of a density that need not be normalised, which is centred and scaled.

        Parameters
        ----------
        density : callable
            Values >= 0 at an array of v.
        kinks : list of float
            Where it is not smooth.
        name : str
            For messages.

        Raises
        ------
        ValueError
            It is none, or not of finite variance.
        """
        panels = resolved(density, kinks, name)
        constant = np.log(panels.deviation) - panels.log_mass

        def log_density(w: Array) -> Array:
            with np.errstate(all="ignore"):
                found = np.log(density(panels.mean + panels.deviation * w)) + constant
            return np.where(np.isnan(found), -np.inf, found)

        return cls(log_density, panels)

    @property
    def fourth_moment(self) -> float:
        """E w^4."""
        return self.panels.fourth_moment

    def rows(self, size: int) -> DensityRows:
        """Law of one entry, or of two."""
        return DensityRows(self._entry, size)

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Independent entries: a panel by its mass, and Newton's method on the distribution function within it."""
        edges, log_density = self.panels.edges, self._entry.log_density
        x, weights = legendre(16)
        half = 0.5 * np.diff(edges)
        mass = half * (np.exp(log_density((edges[:-1] + half)[:, None] + half[:, None] * x)) @ weights)
        which = rng.choice(len(mass), size=shape, p=mass / mass.sum()).ravel()
        target = rng.random(len(which)) * mass[which]
        left, low, high = edges[which], edges[which], edges[which + 1]
        at = 0.5 * (low + high)
        open_ = np.arange(len(which))
        for _ in range(_STEPS):
            part = 0.5 * (at - left)[open_]
            below = part * (np.exp(log_density((left[open_] + part)[:, None] + part[:, None] * x)) @ weights)
            off = target[open_] - below
            low[open_], high[open_] = (
                np.where(off > 0, at[open_], low[open_]),
                np.where(off > 0, high[open_], at[open_]),
            )
            with np.errstate(all="ignore"):
                step = at[open_] + off / np.exp(log_density(at[open_]))
            inside = (step > low[open_]) & (step < high[open_])
            moved = np.where(inside, step, 0.5 * (low[open_] + high[open_]))
            far = np.abs(moved - at[open_]) > _CLOSE * (1 + np.abs(moved))
            at[open_] = moved
            open_ = open_[far]
            if not len(open_):
                break
        return np.asarray(at).reshape(shape)


class Density(Separable):
    """Independent entries of a density of one's own, as text.

    Its mean m and its standard deviation s are found, and an entry of the weights is w = (v - m)/s where v has the
    density that is given: entries of mean 0 and variance 1, as the models have them. It need not be normalised.

    Parameters
    ----------
    text : str
        A function of w >= 0 in the grammar of links, such as "exp(-w**4)" or "step(1-abs(w))".

    Raises
    ------
    ValueError
        It cannot be read, is negative or not finite somewhere, not integrable, or not of finite variance.

    Notes
    -----
    Averages are Gauss-Legendre sums on panels on which the density is smooth, whose error is the difference from rules
    with two thirds of the nodes; entries of a row that qhat couples are served in pairs.

    Examples
    --------
    >>> prior = Density("exp(-w**4)")
    >>> prior.describe()
    'prior of density exp(-w**4), scaled to mean 0 and variance 1'
    >>> print(f"{prior.overlap(np.eye(1))[0, 0]:.6f}")
    0.504825
    """

    dimension = 1.0

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(DensityLaw.of(*_read(text), text))

    def __reduce__(self) -> tuple[type["Density"], tuple[str]]:
        """Functions that were compiled from a text travel as the text."""
        return Density, (self.text,)

    def describe(self) -> str:
        """One line."""
        return f"prior of density {self.text}, scaled to mean 0 and variance 1"


def _read(text: str) -> tuple[Callable[[Array], Array], list[float]]:
    """Values of a density in w, and where it may not be smooth."""
    if not isinstance(text, str) or not _VARIABLE.search(text) or _ENTRY.search(text):
        raise ValueError(f"a density must be a function of one entry w, such as exp(-w**4), got {text!r}")
    try:
        # With noise: outputs are not solved for h.
        kernel = kernel_of(_VARIABLE.sub("h", text), noise="1", reduced=False)
    except ValueError as error:
        raise ValueError(f"density {text!r}, with h for w: {error}") from None
    if len(kernel.text) != 1:
        raise ValueError(f"a density must be one function of one entry w, got {text!r}")
    ends = {end for region in kernel.regions for end in region.interval(0) if np.isfinite(end)}

    def density(v: Array) -> Array:
        return np.asarray(kernel.outputs(np.asarray(v, dtype=np.float64)[..., None, None])[..., 0])

    return density, sorted(ends)
