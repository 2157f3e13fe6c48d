"""Averages over the output channel at a given overlap: G(q) and the growth of small overlaps, with their errors.

One folder or module for each kind of posterior: one layer (`fibre`), two layers, deep, sampled, linear, links.
State evolution, thresholds and free entropies are made of these averages and of nothing else.
"""
