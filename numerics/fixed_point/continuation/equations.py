"""The fixed points as an agreement between layers: every layer has an alpha at which it would be stationary.

With w_l = -log(1 - q_ll), layer l is stationary, q = F(alpha G(q)) (14), where alpha equals

    alpha_l(w) = qhat_ll(q) / G_ll(q),   and at q_ll = 0   alpha_l = 1/lambda_l,

F(qhat) = q (of the Gaussian prior qhat = q/(1 - q) of each layer by itself), lambda_l the growth rate (15) of a small
overlap. A fixed point is a w at which all layers of positive overlap say the same alpha; a layer of zero overlap joins
where alpha_l falls below it. These functions are smooth down to zero overlap and do not depend on alpha, so that an
evaluation serves all alphas.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...channel.averages import Averages, Channel
from ...core.standard_error import standard_error
from ...priors import GAUSSIAN, Prior
from ..newton import Limits, newton_root
from .law import Law, law_of

__all__ = ["Equations", "Local"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Local:
    """What the layers say at one point.

    Attributes
    ----------
    w : ndarray, shape (n,)
        -log(1 - q) of each group of indices.
    log_alpha : ndarray, shape (n,)
        Logarithm of the alpha at which each would be stationary; inf where the averages do not determine it.
    noise : ndarray, shape (replicas, n)
        Its deviations.
    bias : ndarray, shape (n,)
        What it may be off by beside them.
    sampled : bool
        Whether the deviations are those of independent randomisations.
    """

    w: Array
    log_alpha: Array
    noise: Array
    bias: Array
    sampled: bool

    @property
    def x(self) -> Array:
        """Overlaps."""
        return -np.expm1(-self.w)


class Equations:
    """The functions alpha_l of a channel, or of a family of channels.

    Parameters
    ----------
    channel_at : callable
        From the value of the parameter to its channel; of None where alpha is the parameter.
    closest : float
        Distance to one of the largest overlap that is asked for.
    alpha : float, optional
        Fixed, where something else is the parameter.
    prior : Prior, optional
        Law of the weights, Gaussian by default.
    """

    def __init__(
        self,
        channel_at: Callable[[float | None], Channel],
        closest: float,
        alpha: float | None = None,
        prior: Prior = GAUSSIAN,
    ) -> None:
        self._channel_at, self._prior = channel_at, prior
        self._law: Law | None = None
        self.alpha = alpha
        self.top = -math.log(closest)
        self.n_iter = 0
        self._channels: dict[float | None, Channel] = {}
        self._known: dict[tuple[float | None, bytes], Local] = {}
        self._slopes: dict[tuple[float | None, bytes, tuple[int, ...]], tuple[Array, Array]] = {}

    # --- the channel --------------------------------------------------------------------------------------------------

    def channel(self, t: float) -> Channel:
        """Channel at the logarithm t of the parameter."""
        key = None if self.alpha is None else math.exp(t)
        if key not in self._channels:
            self._channels[key] = self._channel_at(key)
        return self._channels[key]

    def law(self, t: float) -> Law:
        """F along the groups, the same for all channels of a family."""
        if self._law is None:
            self._law = law_of(self._prior, self.channel(t))
        return self._law

    def residual(self, local: Local, t: float, chosen: list[int]) -> float:
        """Max |F(q) - q| over some groups."""
        if not chosen:
            return 0.0
        # Without cancellation as q -> 1.
        image = self.law(t).image(local.w, self.log_alpha(t) - local.log_alpha)
        return float(np.abs(np.exp(-local.w) - np.exp(-image))[chosen].max())

    def groups(self, t: float = 0.0) -> tuple[tuple[int, ...], ...]:
        """Indices that share one overlap."""
        return self.channel(t).groups

    def log_alpha(self, t: float) -> float:
        """Logarithm of alpha where the parameter is exp(t)."""
        return t if self.alpha is None else math.log(self.alpha)

    def matrix(self, values: Array, t: float = 0.0) -> Array:
        """Diagonal matrix of one value per group."""
        size = self.channel(t).model.indices
        out = np.zeros((size, size))
        for group, value in zip(self.groups(t), values, strict=True):
            for i in group:
                out[i, i] = value
        return out

    def at(self, w: Array, t: float = 0.0) -> Local:
        """Evaluate at one point."""
        parameter = None if self.alpha is None else t
        key = (parameter, w.tobytes())
        if key not in self._known:
            self._known[key] = self._evaluate(w, t)
        return self._known[key]

    def _evaluate(self, w: Array, t: float) -> Local:
        channel, groups = self.channel(t), self.groups(t)
        self.n_iter += 1
        x = -np.expm1(-w)
        averages = self._averages(channel, self.matrix(x, t))
        g = np.stack([averages.g[:, group, group].mean(axis=1) for group in groups], axis=1)
        growth = np.stack([averages.growth[:, group].mean(axis=1) for group in groups], axis=1)
        off = np.array([np.abs(averages.bias[group, group]).mean() for group in groups])
        log_alpha, law = np.full(len(w), math.inf), self.law(t)
        log_qhat, rise = law.log_qhat(w), law.growth(w) if not x.all() else np.ones(len(w))
        noise, bias = np.zeros(g.shape), np.zeros(len(w))
        # Where G at zero overlap counts as positive: such an index is learned at any alpha > 0.
        surely = 1e-7
        for k in range(len(w)):
            values, shift = g[:, k], off[k]
            mean = float(values.mean())
            if x[k] == 0:
                if mean > max(surely, 6 * float(values.std(ddof=1))):
                    log_alpha[k] = -math.inf
                    continue
                values, shift = growth[:, k] * rise[k], 0.0
                mean = float(values.mean())
            if mean > 0:
                log_alpha[k] = log_qhat[k] - math.log(mean)
                noise[:, k] = 1 - values / mean
                bias[k] = shift / mean
            elif x[k] > 0:
                # Sampled averages of a small overlap: nothing is felt of it.
                log_alpha[k] = math.inf
        return Local(w.copy(), log_alpha, noise, bias, averages.sampled)

    def _averages(self, channel: Channel, q: Array) -> Averages:
        """Averages with the growth rates of the indices of zero overlap, also for links."""
        zero = np.flatnonzero(q.diagonal() == 0)
        both = channel.operator(q) if len(zero) else None
        if both is None:
            return channel(q)
        found, operator = both
        mean = operator.mean(axis=0)
        growth = np.full((len(found.g), len(q)), np.nan)
        # Couplings beyond the diagonal that are put up with, as a share of the growth rate.
        apart = 1e-2
        for i in zero:
            growth[:, i] = operator[:, i, i, i, i]
            fed = np.abs(mean[:, :, i, i])
            fed[i, i] = 0.0
            if fed.max() > apart * max(abs(mean[i, i, i, i]), 1e-12):
                raise ValueError(
                    f"a small overlap of index {i + 1} feeds other entries of q (15), so that they are learned "
                    "together; a curve follows indices that are learned one by one: use `evolve` at each alpha"
                )
        return replace(found, growth=growth)

    # --- derivatives and errors ---------------------------------------------------------------------------------------

    def slopes(self, w: Array, t: float, chosen: list[int]) -> tuple[Array, Array]:
        """Derivatives of all alpha_l's logarithms minus that of alpha: by w of the chosen groups, and by t."""
        key = (None if self.alpha is None else t, w.tobytes(), tuple(chosen))
        # Steps of w and of the logarithm of the parameter for derivatives.
        step_w, step_t = 0.015, 0.01
        if key not in self._slopes:
            here = self.at(w, t).log_alpha
            columns = np.empty((len(w), len(chosen)))
            for column, k in enumerate(chosen):
                moved = w.copy()
                # Inwards; at zero overlap the derivative is one-sided.
                moved[k] += step_w if w[k] + step_w <= self.top else -min(step_w, 0.5 * w[k])
                columns[:, column] = _differences(self.at(moved, t).log_alpha, here, moved[k] - w[k])
            by_t = -np.ones(len(w))
            if self.alpha is not None:
                by_t = _differences(self.at(w, t + step_t).log_alpha, here, step_t)
            self._slopes[key] = columns, by_t
        return self._slopes[key]

    def meet(self, w: Array, t: float, active: list[int], group: int) -> tuple[Array, float, Array, float]:
        """Point of the branch of the active groups where another, held at its overlap, is stationary, too.

        Returns
        -------
        w, t
        response : ndarray, shape (n, n)
            Inverse Jacobian: how (w of the active groups, t) move as (active groups, group) tell otherwise.
        left : float
            Largest disagreement that is left.
        """
        rows = [*active, group]

        def full(z: Array) -> tuple[Array, float]:
            at = w.copy()
            at[active] = z[:-1]
            return at, float(z[-1])

        def inside(_: Array, z: Array) -> Array:
            return np.append(np.clip(z[:-1], 1e-9, self.top), z[-1])

        def wrong(z: Array) -> Array:
            at, parameter = full(z)
            return self.at(at, parameter).log_alpha[rows] - self.log_alpha(parameter)

        first = np.append(w[active], t)
        slopes = np.column_stack(self.slopes(w, t, active))[rows]
        limits = Limits(tries=10, close=1e-10, enough=1e-6, longest=0.5)
        found = newton_root(wrong, inside(first, first), lambda _: slopes, inside, limits)
        assert found is not None  # every step ends inside
        return *full(found.z), np.asarray(np.linalg.pinv(found.jacobian), dtype=np.float64), found.left

    @staticmethod
    def combined(local: Local, rows: list[int], response: Array) -> Array:
        """Error of response @ (what the groups of these rows say), from the noise of the averages."""
        noise, bias = local.noise[:, rows], local.bias[rows]
        if local.sampled:
            sigma = standard_error(noise @ response.T)
        else:
            sigma = np.abs(response) @ np.abs(noise).max(axis=0)
        out: Array = sigma + np.abs(response) @ bias
        return out


def _differences(moved: Array, here: Array, step: float) -> Array:
    """Difference quotients; 0 where a group has none."""
    finite = np.isfinite(moved) & np.isfinite(here)
    return np.where(finite, np.where(finite, moved, 0.0) - np.where(finite, here, 0.0), 0.0) / step
