"""Spectra as they are written: mp:gamma, power:a, points:v,.., data:X.npy, a file or an array of eigenvalues."""

from __future__ import annotations

import os
import warnings
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.array_files import read_array, regular
from ..core.memory import refuse_memory
from ..core.validation import finite
from .eigenvalues import Eigenvalues, Points
from .gaussian import Gaussian
from .laws import MarchenkoPastur, PowerLaw, SpectralLaw
from .named import as_prior
from .protocol import Prior
from .spectrum import Spectrum

__all__ = ["SpectrumLike", "as_spectrum", "covariance_of", "prior_with", "spectrum_of"]

Array = NDArray[np.float64]
#: What stands for a spectrum.
SpectrumLike: TypeAlias = Spectrum | str | os.PathLike[str] | ArrayLike

_FORMS = "mp:GAMMA, power:A, power:A:D, points:V,V@SHARE,.., data:X.npy, or a file of eigenvalues (.npy, .txt)"
# Rows of X that are centred at a time, in entries; largest text file of eigenvalues, in bytes.
_ENTRIES, _TEXT = 1 << 22, 1 << 26


def as_spectrum(value: SpectrumLike) -> Spectrum:
    """Read a spectrum as it is written.

    Parameters
    ----------
    value : Spectrum, str, path or array_like of shape (D,)
        ``"mp:1"``: Marchenko-Pastur of aspect D/n = 1. ``"power:0.3"``: lambda_i proportional to i^-0.3 as D grows;
        ``"power:1.2:300"``: of 300 coordinates. ``"points:0.5,1.5@2"``: eigenvalues, the second on twice as many
        coordinates. ``"data:X.npy"``: of the sample covariance of X of shape (n, D) or (n, M, D), its mean taken off.
        A file, or an array: eigenvalues of the coordinates in their order. All are scaled to mean 1.

    Returns
    -------
    Spectrum

    Raises
    ------
    ValueError
        It is none of these; negative, not finite, or of mean 0.

    Examples
    --------
    >>> as_spectrum("mp:1").gain, as_spectrum([1.0, 3.0]).gain
    (2.0, 1.25)
    """
    if isinstance(value, Spectrum):
        return value
    if isinstance(value, os.PathLike):
        return Spectrum(_from_file(Path(value)))
    if isinstance(value, str):
        return Spectrum(_written(value))
    return Spectrum(Eigenvalues.checked(np.asarray(value)))


def spectrum_of(X: ArrayLike, name: str = "samples") -> Spectrum:
    """Spectrum of the sample covariance of inputs in memory, with its directions, as ``"data:X.npy"`` is of a file.

    Parameters
    ----------
    X : array_like, shape (n, D) or (n, M, D)
        Many more samples than D: eigenvalues of few spread further than those of Sigma.
    name : str, optional

    Returns
    -------
    Spectrum
        `al.gamp` estimates weights in these directions; X stays in its coordinates.

    Raises
    ------
    ValueError
        X has another shape, or entries that are not finite or do not vary.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((1000, 2)) @ np.array([[1.0, 0.9], [0.0, 0.4]])
    >>> found = spectrum_of(x)
    >>> found.coordinates(2).round(1).tolist(), found.basis.shape
    ([1.9, 0.1], (2, 2))
    """
    x = finite(name, X)
    return Spectrum(Eigenvalues.of_covariance(covariance_of(x, name), f"sample covariance of {name}"))


def prior_with(prior: Prior | str | None, spectrum: SpectrumLike | None) -> Prior:
    """The prior, or that of a spectrum in place of the Gaussian one.

    Raises
    ------
    ValueError
        Both are given: independent entries of W are not independent in the eigenbasis of Sigma.
    """
    law = as_prior(prior)
    if spectrum is None:
        return law
    if not isinstance(law, Gaussian):
        raise ValueError(
            f"a spectrum is served with Gaussian weights, got the {law.describe()}: entries of W that are independent "
            "are not so in the eigenbasis of Sigma; give prior or spectrum"
        )
    return as_spectrum(spectrum)


def covariance_of(x: NDArray[np.floating], name: str) -> Array:
    """Sample covariance of n samples about the mean of each token, shape (D, D), pooled over tokens.

    Raises
    ------
    ValueError
        X has another shape than (n, D) or (n, M, D), fewer than two samples, or entries that are not finite.
    """
    if x.ndim not in (2, 3) or len(x) < 2 or not x.size:
        raise ValueError(f"{name} must have shape (n, D) or (n, M, D) with n >= 2 samples, got {x.shape}")
    tokens = 1 if x.ndim == 2 else x.shape[1]
    refuse_memory(f"the covariance of {name}, D = {x.shape[-1]}", 24 * x.shape[-1] ** 2, "take fewer coordinates")
    mean = x.mean(axis=0, dtype=np.float64)
    if not np.isfinite(mean).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity; leave such samples out")
    out = np.zeros((x.shape[-1],) * 2)
    step = max(1, _ENTRIES // (tokens * x.shape[-1]))
    for first in range(0, len(x), step):
        rows = (x[first : first + step] - mean).reshape(-1, x.shape[-1])
        out += rows.T @ rows
    return np.asarray(out / ((len(x) - 1) * tokens))


def _written(text: str) -> SpectralLaw:
    """A spectrum of a few letters, or the name of a file."""
    kind, colon, rest = text.partition(":")
    if colon and kind == "mp":
        return MarchenkoPastur(_number(rest, text))
    if colon and kind == "points":
        pairs = [part.partition("@")[::2] for part in rest.split(",")]
        return Points(
            tuple(_number(value, text) for value, _ in pairs),
            tuple(_number(share, text) if share else Fraction(1) for _, share in pairs),
        )
    if colon and kind == "power":
        return _power(*rest.partition(":")[::2], text)
    if colon and kind == "data":
        path = Path(rest)
        name = f"sample covariance of {path.name}"
        return Eigenvalues.of_covariance(covariance_of(read_array("", path), str(path)), name)
    return _from_file(Path(text))


def _power(exponent: str, dimension: str, text: str) -> SpectralLaw:
    a = _number(exponent, text)
    if not dimension:
        return PowerLaw(a)
    if not (dimension.isdecimal() and 1 <= int(dimension) <= 10**6):
        raise ValueError(f"the dimension of {text!r} must be an integer from 1 to 1000000, got {dimension!r}")
    if not 0 <= a <= 20:
        raise ValueError(f"the exponent of {text!r} must be in [0, 20]")
    values = np.arange(1, int(dimension) + 1, dtype=np.float64) ** -float(a)
    return Eigenvalues.checked(values, f"power-law spectrum of exponent {float(a):g}")


def _number(text: str, whole: str) -> Fraction:
    """A number, as exact as it is written."""
    try:
        if len(text) <= 40 and abs(float(found := Fraction(text))) < 1e100:
            return found
    except (ValueError, ZeroDivisionError, OverflowError):
        pass
    raise ValueError(f"spectrum {whole!r} needs a number in place of {text!r}: {_FORMS}")


def _from_file(path: Path) -> SpectralLaw:
    """Eigenvalues of a file, one after the other."""
    if path.suffix not in (".npy", ".txt"):
        raise ValueError(f"spectrum must be {_FORMS}; got {str(path)!r}")
    if path.suffix == ".npy":
        values = np.array(read_array("", path))
    else:
        if regular(str(path), path) > _TEXT:
            raise ValueError(f"{path} is larger than {_TEXT >> 20} MiB; write the eigenvalues to a .npy file")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of a file without data, which is refused below
                values = np.loadtxt(path, dtype=np.float64, ndmin=1)
        except ValueError as error:
            raise ValueError(f"{path} must hold eigenvalues, one in a line: {str(error).splitlines()[0]}") from None
    return Eigenvalues.checked(values, f"spectrum of {path.name}")
