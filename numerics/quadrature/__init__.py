"""Rules of quadrature with their errors, orthogonal matrices under exp(tr F^T R), and the optional schemes of quadpy.

Nothing here knows of a model.
"""
