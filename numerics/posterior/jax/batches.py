"""Moments of any number of samples: batches of fixed size, taken up again with finer steps where the tolerance asks."""

import math
from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from ...core.errors import ConvergenceError
from ...model.network import Network, kernel
from ..ranges import inverse_determinant_bound
from .backend import on_jax
from .boxes import BOXES
from .channel import Law, Numbers
from .lattice import MOMENTS, Answer, Sizes, program

__all__ = ["moments_of"]

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Refinements of one sample.
_ROUNDS = 12


@cache
def _undo(activation: str) -> Callable[..., Array]:
    """One function for every c and beta: `program` compiles once for each function."""
    return on_jax(kernel(Network(activation=activation), "numpy64").undo)


def _sizes(samples: int, platform: str) -> Sizes:
    """Large parts for a GPU, parts that fit in cache for a CPU; few different ones, since each is compiled."""
    most, cells, chunk = (32, 1 << 18, 1 << 11) if platform == "cpu" else (1 << 13, 1 << 22, 1 << 16)
    return Sizes(min(most, max(32, 1 << (samples - 1).bit_length())), cells, chunk)


def _strip(model: Network) -> tuple[float, float]:
    """`near` and `far` of the kernel, see `Numbers`.

    Linear: c + beta |x|^2 = 0. Softmax: c (cosh u + cosh w) + sinh u = 0 with u = beta xm^2, w = beta xp xm, so
    tanh(u/2) = -c near w = 0, or u = i pi if c is large; far out w = i pi, or u - |w| = i pi.
    """
    if model.activation == "linear":
        return math.sqrt(model.skip / model.beta), math.inf
    nearest = 2 * math.atanh(min(model.skip, math.tanh(0.25 * math.pi)))
    return math.sqrt(nearest / model.beta), math.pi / model.beta


def _answers(
    run: Callable[..., Answer], sizes: Sizes, pending: Index, law: Array, cut: Array, *others: Array
) -> Iterator[tuple[Index, list[Array]]]:
    """Answers for groups of the pending samples; groups are halved while they have more cells than the list holds."""
    start, group = 0, sizes.batch
    while start < pending.size:
        part = pending[start : start + group]
        fill = np.concatenate([part, np.full(sizes.batch - part.size, part[0])])
        active = np.where(np.arange(sizes.batch) < part.size, cut[fill], 0.0)
        answer = run(Law(*law[:, fill]), active, *(x[fill] for x in others))
        found = [np.asarray(x)[: part.size] for x in answer]
        if found[-1].all():
            start += part.size
            yield part, found
        elif part.size > 1:
            group = part.size // 2
        else:
            raise ConvergenceError(
                f"denoise_jax (169): the posterior of sample number {part[0]} is too narrow for its prior, more than "
                f"{sizes.capacity} cells; loosen tol, or use numerics.posterior.denoiser.denoise"
            )


def moments_of(model: Network, law: Array, tol: Array, platform: str) -> tuple[Array, Array, Array]:
    """Posterior moments of two layers.

    Parameters
    ----------
    model : Network
        Two layers, two tokens, rank 1.
    law : ndarray, shape (9, n)
        The fields of `Law`.
    tol : ndarray, shape (n,)
        Tolerance of each sample's moments, relative to their mass.
    platform : str
        Of the device in use, for the sizes of batches.

    Returns
    -------
    moments : ndarray, shape (n, 15)
        Integrals over h_1, summed over both branches of h_2, of exp((shift - |z|^2)/2)/|det B_1| times 1, z_i, z_i z_j
        (i <= j).
    shift, error : ndarray, shape (n,)

    Raises
    ------
    ConvergenceError
        A sample missed its tolerance.
    """
    n = law.shape[1]
    # Of the sums; no tolerance is below it.
    rounding = 1e-14
    tolerance = np.maximum(rounding, tol)
    numbers = Numbers(
        model.skip, model.beta, *_strip(model), inverse_determinant_bound(model.activation_name, model.skip)
    )
    moments, shift, error = np.empty((n, MOMENTS)), np.empty(n), np.empty(n)
    # Cells are dropped beyond this and 2 ln(1/tolerance) above the least Q, which does for the mass they hold together.
    cut_margin = 14.0
    # The narrower the second layer's prior, the less of the plane holds mass.
    cut = -2.0 * np.log(tolerance) + cut_margin + 2.0 * np.log1p((law[8] / law[6]) ** 2)
    shrink = np.ones(n)
    pending = np.arange(n)
    for _ in range(_ROUNDS):
        if not pending.size:
            break
        sizes = _sizes(pending.size, platform)
        run = partial(program(_undo(model.activation_name), BOXES[model.activation_name], sizes), numbers)
        missed = []
        for part, (sums, level, coarse, lost, _) in _answers(run, sizes, pending, law, cut, tolerance, shrink):
            moments[part], shift[part], error[part] = sums, level, coarse + lost + rounding
            allowed = 0.5 * tolerance[part]
            # Not a number is above it too.
            steps, range_ = ~(coarse <= allowed), ~(lost <= allowed)
            # The logarithm of the error grows at least as one over the step.
            ratio = 0.95 * np.log(coarse[steps]) / np.log(allowed[steps])
            shrink[part[steps]] *= np.clip(ratio, 0.5, 0.8)
            cut[part[range_]] += 2.0 * np.log(lost[range_] / allowed[range_]) + 2.0
            missed.append(part[steps | range_])
        pending = np.concatenate(missed)
    if pending.size:
        k = int(pending[0])
        raise ConvergenceError(
            f"denoise_jax (169) missed its tolerance on {pending.size} of {n} samples; the first is number {k}, with "
            f"error {error[k]:.1e} for {tolerance[k]:.1e}; loosen tol, or use numerics.posterior.denoiser.denoise"
        )
    return moments, shift, error
