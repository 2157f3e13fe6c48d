"""The denoiser on a JAX device, a GPU where there is one: an extra, `pip install 'attnlimits[gpu]'`."""

from .backend import JaxUnavailable
from .denoiser import denoise_jax

__all__ = ["JaxUnavailable", "denoise_jax"]
