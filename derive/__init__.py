"""Exact symbolic derivations of the theory, and the generator of the numeric kernels.

Everything in this folder is SymPy; it is exact until a printer writes a number.  ``python -m
attnlimits.derive`` writes the kernels into ``generated/``.
"""
