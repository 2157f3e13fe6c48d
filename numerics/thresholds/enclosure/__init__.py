"""Proved intervals for thresholds; statements and proofs are in papers/troiani2025/enclosure.md."""
