"""Thresholds of a user's own link: the operator (15) closed, by quadrature or from samples, and the grand staircase."""
