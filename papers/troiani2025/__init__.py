"""Troiani et al. (2025): sequence multi-index models and deep attention networks (arXiv 2502.00901)."""
