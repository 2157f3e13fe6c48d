"""Sums in pairs of float64, about 31 digits: what many nodes make too slow for balls."""
