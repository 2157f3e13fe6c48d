"""Sums in pairs of float64, about 31 digits: what many nodes make too slow for balls."""

__all__ = ["MAX_PAIR_DIGITS"]

#: What sums of pairs can promise: 30 digits less what sums, tails and refinements take.
MAX_PAIR_DIGITS = 22
