"""Numbers from the generated kernels: denoisers, thresholds, state evolution, prediction errors."""

from . import kernel_cache

kernel_cache.install()
