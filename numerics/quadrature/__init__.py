"""Rules of quadrature with their errors, Sobol points, orthogonal matrices under exp(tr F^T R), and those of quadpy.

Nothing here knows of a model.
"""
