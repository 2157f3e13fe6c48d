"""Weights from data: message passing, gradient descent and a small classifier, with what they share.

`data` makes and checks data sets, `passes` and `products` go over them, `symmetry` compares estimates with a teacher.
Posterior scores of samples are those of `numerics.posterior`.
"""
