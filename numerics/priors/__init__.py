"""Priors of a row of the weights: F(qhat), free entropy, denoiser of a coordinate, sampler.

What is here may be changed as long as every prior keeps the Protocol of `protocol`; nothing asks which prior it is.
"""

from .beginning import covariance_of, refuse_informed, without_samples
from .correlated import OF_V, Rows, independent
from .density import Density
from .gaussian import GAUSSIAN, Gaussian
from .informed import Informed
from .laplace import Laplace
from .mixtures import Binary, GaussBernoulli
from .named import NAMES, as_prior, as_setting, prior_named
from .protocol import OverlapMap, Prior
from .rotated import along
from .slopes import gain, is_standard, responses
from .spectra import SpectrumLike, as_spectrum, prior_with, spectrum_of
from .spectrum import Spectrum

__all__ = [
    "GAUSSIAN",
    "NAMES",
    "OF_V",
    "Binary",
    "Density",
    "GaussBernoulli",
    "Gaussian",
    "Informed",
    "Laplace",
    "OverlapMap",
    "Prior",
    "Rows",
    "Spectrum",
    "SpectrumLike",
    "along",
    "as_prior",
    "as_setting",
    "as_spectrum",
    "covariance_of",
    "gain",
    "independent",
    "is_standard",
    "prior_named",
    "prior_with",
    "refuse_informed",
    "responses",
    "spectrum_of",
    "without_samples",
]
