"""Weights from data: message passing, gradient descent and a small classifier, with what they share.

`data` makes and checks data sets, `passes` and `products` go over them, `outputs` holds the posterior scores of
samples, `symmetry` compares estimates with a teacher.
"""
