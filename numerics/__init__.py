"""Numbers from the generated kernels: denoisers, thresholds, state evolution, prediction errors."""

from .core import kernel_cache

kernel_cache.install()
