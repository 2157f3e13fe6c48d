"""Priors of a row of the weights: F(qhat), free entropy, denoiser of a coordinate, sampler.

What is here may be changed as long as every prior keeps the Protocol of `protocol`; nothing asks which prior it is.
"""

from .gaussian import GAUSSIAN, Gaussian
from .named import as_prior, as_setting, prior_named
from .protocol import OverlapMap, Prior
from .rotated import along
from .separable import Binary, GaussBernoulli
from .slopes import gain, is_standard, responses
from .spectra import SpectrumLike, as_spectrum, prior_with, spectrum_of
from .spectrum import Spectrum

__all__ = [
    "GAUSSIAN",
    "Binary",
    "GaussBernoulli",
    "Gaussian",
    "OverlapMap",
    "Prior",
    "Spectrum",
    "SpectrumLike",
    "along",
    "as_prior",
    "as_setting",
    "as_spectrum",
    "gain",
    "is_standard",
    "prior_named",
    "prior_with",
    "responses",
    "spectrum_of",
]
