"""Posterior moments of a two-layer channel: a trapezoidal lattice over h_1, pruned by rigorous ranges.

For one output the integrand over x = h_1 (two token modes) is exp(-Q(x)/2)/|det B_1(x)| with Q = |z(x)|^2 the squared
distance from the prior mean in whitened indices, summed over the branches h_2 = +-B_1^{-1} v. Four steps:

1. `peak`: Levenberg-Marquardt from the best of a few points gives an upper bound of min Q and the local widths.
2. `boxes`: boxes of x are halved until their range of z (from `ranges`) is narrow; a box is dropped when Q exceeds the
   bound by `cut` on all of it, and the largest mass it can hold is added to `lost`.
3. `cosets`: the trapezoidal rule on a lattice of the rest, sheared along the posterior's principal direction, as four
   cosets: the sums over the cosets differ by the error of each of them, direction by direction. The kernels sum along
   pieces of rows, eight at once.
4. `moments`: for an analytic integrand the error is squared when the step is halved, so the error of the union is the
   difference of its cosets to the power 1.7 (two, less a margin). A direction that misses the tolerance is halved.
"""

from .integrand import N_MOMENTS, N_PARAMETERS, bind
from .moments import MAX_NODES, N_INFO, SCRATCH, STATUS, compiled

__all__ = ["MAX_NODES", "N_INFO", "N_MOMENTS", "N_PARAMETERS", "SCRATCH", "STATUS", "bind", "compiled"]
