"""Posterior of the indices of a user's own link given single outputs, with an error of every entry."""

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import NotServedError
from ...core.results import How, Origin
from ...core.typing import Array
from ...core.validation import numbers, positive, whole
from ...model.links import LinkKernel, Part
from ..denoiser import check_covariance, flat
from ..entrywise import EntrywiseDenoiserResult, OneOutput, largest_error
from .coupled import Coupled, coupled_parts
from .density import Seen, dimension_of
from .moments import Group
from .rules import CUT
from .sections import Prior
from .single import Effort, solved

__all__ = ["denoise_link"]


def denoise_link(
    kernel: LinkKernel,
    y: ArrayLike,
    omega: ArrayLike,
    V: ArrayLike,
    *,
    noiseless: LinkKernel | None = None,
    accuracy: float | None = None,
    max_nodes: int = 10_000_000,
    rng: np.random.Generator | int = 0,
) -> EntrywiseDenoiserResult:
    """Posterior of the indices given an output of a link: log Z_out, g_out and its derivative.

    Entries of h that an output or V couples are integrated over together. Let d be their number less that of the
    outputs that are solved for, or less one where outputs are discrete: an integral over d <= 2 coordinates is an
    adaptive cubature, one over more is sampled.

    Parameters
    ----------
    kernel : LinkKernel
    y : array_like, shape (..., K)
        One number of each of its outputs.
    omega, V : array_like, shapes (..., P, M) and (..., P, P)
        The prior of the indices; V positive definite.
    noiseless : LinkKernel, optional
        The same link without noise (`Link.noiseless`): its branches place nodes where the noise is narrow.
    accuracy : float, optional
        Of `EntrywiseDenoiserResult.error`, met or refused; by default 1e-8 for d <= 1, 1e-5 for d = 2, 1e-3 beyond.
    max_nodes : int, optional
        Bound of the evaluations of the integrand for one output.
    rng : Generator or int, optional
        Of sampled integrals.

    Returns
    -------
    EntrywiseDenoiserResult
        Leading axes are broadcast.

    Raises
    ------
    ValueError
        Shapes, NaN, V not positive definite.
    UnreachableOutputError
        An output that is none of the discrete ones of the link.
    NotServedError
        Outputs that cannot be solved one after the other.
    ConvergenceError
        The accuracy is not reached, or no indices within reach of the prior give an output.

    References
    ----------
    troiani2025, (9), (12).

    Examples
    --------
    >>> import attnlimits as al
    >>> made = denoise_link(al.Link("abs(h[1])").kernel, [0.5], [[0.2]], [[1.0]])
    >>> print(f"{made.g_out[0, 0]:.6f}")  # 0.5 tanh(0.2 * 0.5) - 0.2
    -0.150166
    """
    # Accuracy that rounding leaves at best, and the least that is worth the name.
    finest, coarsest = 1e-12, 0.1
    if accuracy is not None and not finest <= positive("accuracy", accuracy, "(12)") <= coarsest:
        raise ValueError(f"accuracy must be in [{finest:g}, {coarsest:g}] (12), got {accuracy:g}")
    # Least number of nodes that may be asked for.
    fewest = 1000
    effort = Effort(accuracy, whole("max_nodes", max_nodes, fewest, "(12)"), np.random.default_rng(rng))
    outputs, means = numbers("y", y), numbers("omega", omega)
    p, m, (k,) = kernel.indices, kernel.tokens, kernel.output_shape
    if outputs.ndim < 1 or outputs.shape[-1] != k or not np.isfinite(outputs).all():
        raise ValueError(f"y must be finite with shape (..., K) = (..., {k}), got {outputs.shape} (12)")
    if means.ndim < 2 or means.shape[-2:] != (p, m) or not np.isfinite(means).all():
        raise ValueError(f"omega must be finite with shape (..., P, M) = (..., {p}, {m}), got {means.shape} (12)")
    covariance = check_covariance("V", V, p)
    lead = np.broadcast_shapes(outputs.shape[:-1], means.shape[:-2], covariance.shape[:-2])
    linked = (covariance != 0).reshape(-1, p, p).any(axis=0)
    groups = [_Coupled(kernel, parts) for parts in coupled_parts(noiseless or kernel, linked)]
    rows = zip(
        flat(outputs, lead, (k,)),
        flat(means, lead, (p, m)),
        flat(covariance, lead, (p, p)),
        strict=True,
    )
    found, sampled = [], False
    for number, (output, mean, prior) in enumerate(rows):
        seen = [group.seen(number, output, mean, prior) for group in groups]
        sampled |= any(dimension_of(one.group, one.kind) > 2 for one in seen)
        found.append(_whole([(group, solved(one, effort)) for group, one in zip(groups, seen, strict=True)], prior, m))
    how: How = "monte-carlo" if sampled else "estimated"
    return OneOutput.stacked(found, lead, how, Origin.of(kernel, accuracy=accuracy, max_nodes=max_nodes))


class _Coupled(Coupled):
    """Outputs of single samples."""

    def __init__(self, kernel: LinkKernel, parts: list[Part]) -> None:
        super().__init__(Group(kernel, parts, anywhere=True), parts)
        self._numeric = any(
            count == 0 and len(used) == 1
            for part in parts
            for region in part.regions
            for table, used in zip(region.branches, region.depends, strict=True)
            for count, _, _ in table.values()
        )

    def seen(self, number: int, y: Array, omega: Array, V: Array) -> Seen:
        """One output with the prior of its entries."""
        mean, covariance = omega[self.place, self.token], self.covariance(V)
        kind = int(self.kinds(y[None], "y", number)[0])
        # Standard deviations of the prior about its mean that must lie where the inverse of a link is looked for.
        within = 4.0
        beyond = np.abs(mean) + within * np.sqrt(covariance.diagonal()) > CUT
        if self._numeric and beyond.any() and not self.group.discrete(kind):
            raise NotServedError(
                f"sample {number}: y has no inverse in closed form and is solved for entries of h up to {CUT:g}; "
                f"{within:g} standard deviations sqrt(V) about omega = {mean.tolist()} reach beyond (12); scale the "
                "indices"
            )
        return Seen(self.group, kind, y[self.numbers], Prior(mean, covariance))


def _whole(parts: list[tuple[_Coupled, OneOutput]], V: Array, m: int) -> OneOutput:
    """All entries of h, of m tokens: those in no output have no score."""
    p = len(V)
    g, g_error, dg, dg_error = np.zeros((p, m)), np.zeros((p, m)), np.zeros((p, m, p, m)), np.zeros((p, m, p, m))
    log_z = log_error = 0.0
    nodes = 0
    for group, one in parts:
        token, place = group.token, group.place
        g[place, token], g_error[place, token] = one.g_out[:, 0], one.g_error[:, 0]
        at = place[:, None], token[:, None], place, token
        dg[at], dg_error[at] = one.dg_out[:, 0, :, 0], one.dg_error[:, 0, :, 0]
        log_z, log_error, nodes = log_z + one.log_z, log_error + one.log_z_error, nodes + one.nodes
    worst = largest_error(log_error, (g, g_error), (dg, dg_error), V)
    return OneOutput(log_z, g, dg, log_error, g_error, dg_error, worst, nodes)
