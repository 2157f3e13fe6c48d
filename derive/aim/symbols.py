"""Symbols of the attention-indexed model, spelled once.

The width enters through its square root, so that every expression stays rational in the symbols.
"""

import sympy as sp

__all__ = ["alpha", "beta", "g", "noise", "overlap", "q_hat", "root", "variance", "width", "z"]

#: sqrt(rho), with rho = r / d the width of the attention matrix.
root = sp.Symbol("s", positive=True)
#: rho itself.
width = root**2
#: Delta, the variance of the noise on the attention matrix.
noise = sp.Symbol("Delta", positive=True)
#: Argument and value of the Stieltjes transform g(z) = int rho_Y(x) / (z - x) dx.
z = sp.Symbol("z")
g = sp.Symbol("g")
#: alpha = n / d^2.
alpha = sp.Symbol("alpha", positive=True)
beta = sp.Symbol("beta", positive=True)
#: q = Tr(S Shat) / d and V = Q - q; qhat is the signal-to-noise ratio 1 / Delta of the matrix channel.
overlap = sp.Symbol("q", positive=True)
variance = sp.Symbol("V", positive=True)
q_hat = sp.Symbol("qhat", positive=True)
