"""Given an output y and the prior N(omega, V): log Z, the posterior moments of the indices, and their errors.

One layer by its fibre, two layers by a pruned lattice, deeper networks by importance sampling, any of them at any
precision (`precise`), links (`link`), and on a JAX device (`jax`). `denoiser` is the function of all in float64;
`choice` prepares the posteriors of a data set (`data`) behind one `protocol`.
"""
