"""The indices that share one output: fibres of the last layer, for any rank, tied or untied.

The last layer's output is a function of its readout v = h_L B_{L-1}^T (k and q likewise if untied).  The output fixes
some products of tokens and leaves a fibre of v free.  Every fibre here comes as a change of variables
``v <-> (coordinates of y, fibre variables)`` with its exact Jacobian, so that the density of the coordinates is

    Z(y) = sum_signs Int d(fibre variables) exp(log_density) p(v),      p the density of v.

Tied, rank r: with m pivot vectors f (linear: f_i = v_i and m = min(r, M); softmax: f_i = v_i - v_z for a reference
token z and m = min(r, M - 1), since rows of a softmax fix differences of scores only) the output fixes the Gram
matrix C = f^T f and the products X = f^T g with the other tokens g.  The fibre is f -> O f, a point of m spheres, and,
for softmax with r >= M, the part of g orthogonal to f, r - m numbers that move every token alike:

    dv = 2^{-m} (det C)^{(r - M - 1)/2} dC dX dO dn.

The scores K = v^T v are those of n = 0 plus |n|^2 times the all-ones matrix, so n = 0 gives the least K that is PSD;
for r < M a softmax output fixes K itself.

Untied: with p_b = q_b (linear, N = M columns) or p_b = q_b - q_z (softmax, N = M - 1) the output fixes T = k^T p.
The fibre is GL(r) if r <= N, larger otherwise, and for softmax also the common shift of q, r more numbers.
"""

from .frames import orthogonal_frame
from .last_layer import fibre, fibre_dimension
from .level_set import Fibre, Range
from .measure import entry_jacobian, prove_measure, with_root

__all__ = [
    "Fibre",
    "Range",
    "entry_jacobian",
    "fibre",
    "fibre_dimension",
    "orthogonal_frame",
    "prove_measure",
    "with_root",
]
