"""The denoiser at any precision: the oracle of the float64 one, by other rules in other coordinates."""
