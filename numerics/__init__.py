"""Numbers from the generated kernels: denoisers, thresholds, state evolution, prediction errors."""
