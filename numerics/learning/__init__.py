"""Weights from data: message passing, gradient descent and a small classifier, with what they share.

`data` makes and checks data sets, `made_files` writes them in blocks of rows and `row_files` reads these; `passes` and
`products` go over them in this process, `spread` on a cluster; `symmetry` compares estimates with a teacher.
Posterior scores of samples are those of `numerics.posterior`.
"""
