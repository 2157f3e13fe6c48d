"""Curves of fixed points along alpha, skip strength or inverse temperature, from both starts."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np

from ...channel.averages import Channel
from ...channel.choice import channel
from ...channel.two_layers.choice import quadrature
from ...channel.two_layers.diagonal import DiagonalQuadrature
from ...core.cluster_pool import Workers
from ...core.identity import source_hash
from ...core.random import seeded
from ...core.results import Origin
from ...core.standard_error import SIGMAS
from ...core.validation import check_nodes, within
from ...model.network import Network
from ...model.routes import CHART, TWO_LAYER_QUADRATURE, preferred, require
from ...priors import GAUSSIAN, Prior, as_prior, as_setting, refuse_informed
from ..effort import check_effort
from ..error import TOO_NEAR
from .equations import Equations
from .follow import Follower
from .iterated import Iterated
from .kept import Kept
from .records import CurvePoint, CurveResult, Gap, Onset

__all__ = ["curve", "default_channel", "usual_samples"]

# Points per randomisation, and on charts, where each takes a millisecond.
_SAMPLES, _FEW = 1024, 256
_STARTS = ("uninformed", "informed")


class _Effort(TypedDict):
    """Of the averages, see `default_channel`."""

    accuracy: float
    samples: int
    replicas: int
    nodes: int


def default_channel(
    model: Network,
    *,
    accuracy: float = 1e-3,
    samples: int | None = None,
    replicas: int = 8,
    nodes: int = 2048,
    rng: int = 0,
    workers: Workers = None,
) -> Channel:
    """Return deterministic averages where there are some, else randomised quasi-Monte Carlo.

    Parameters
    ----------
    model : Network
    accuracy : float, optional
        Of the deterministic averages.
    samples, replicas, nodes, rng, workers : optional
        Of the random ones, see `channel`; 1024 points by default, 256 on charts.
    """
    samples = usual_samples(model) if samples is None else samples
    if TWO_LAYER_QUADRATURE.serves(model):
        return quadrature(model, accuracy, workers)
    effort = {"samples": samples, "replicas": replicas, "nodes": nodes}
    return channel(model, **effort, rng=np.random.default_rng(rng), workers=workers)


def usual_samples(model: object, exact: int = _SAMPLES) -> int:
    """Points per randomisation where none are asked for: `exact`, or fewer on charts, where each is sampled.

    Parameters
    ----------
    model : Network, LinkKernel, Channel or callable
    exact : int, optional
    """
    return _FEW if preferred("evolve", model) == CHART else exact


def curve(
    model: Network | Channel | Callable[[float], Channel],
    values: Iterable[float],
    *,
    start: Literal["uninformed", "informed", "both"] = "uninformed",
    along: Literal["alpha", "skip", "beta"] = "alpha",
    alpha: float | None = None,
    tol: float = 1e-5,
    closest: float | None = None,
    accuracy: float = 1e-3,
    samples: int | None = None,
    exact: int = 1024,
    replicas: int = 8,
    nodes: int = 2048,
    rng: np.random.Generator | int | None = 0,
    workers: Workers = None,
    progress: Callable[[int, int], None] | None = None,
    keep: Kept | Path | str | None = None,
    prior: Prior | str = GAUSSIAN,
) -> CurveResult:
    """Fixed points of q = F(alpha G(q)) along a parameter, with onsets, jumps and the gap between the starts.

    Parameters
    ----------
    model : Network, Channel, or callable
        A model, whose averages `default_channel` chooses; averages; or, where another parameter than alpha varies, a
        function from its value to averages.
    values : iterable of float
        Of the parameter; they are sorted. Alphas >= 0, others > 0.
    start : {"uninformed", "informed", "both"}, optional
        "uninformed": from zero overlap, at the first value; "informed": from the largest overlap, at the last one.
        Each is continued from value to value.
    along : {"alpha", "skip", "beta"}, optional
    alpha : float, optional
        Samples per dimension, where something else varies.
    tol : float, optional
        On max |F(q) - q|.
    closest : float, optional
        Distance to one at which an overlap counts as recovered; by default what the averages resolve.
    accuracy, samples, replicas, nodes, rng, workers : optional
        Of the averages, see `default_channel`.
    exact : int, optional
        Points per randomisation where none are asked for and the posterior of each one is exact.
    progress : callable, optional
        Called with the number of points done, and in all.
    keep : path, optional
        File of the finished points while others are computed: after an interrupt the same call goes on from them, and
        its numbers are those of a call that was not interrupted.
    prior : Prior, optional
        Law of the rows of the weights; Gaussian by default.

    Returns
    -------
    CurveResult

    Raises
    ------
    ValueError
        An argument is outside its range, or the indices are not learned one by one.

    Notes
    -----
    Every layer has an alpha at which it would be stationary; a fixed point is where these agree. One layer: alpha is
    an explicit function of its overlap, and the folds of its interpolant are the jumps. More: predictor and corrector
    along the arc. Only diagonal overlaps are followed, which symmetric links keep. Keys and queries have overlaps of
    their own, and posteriors on charts are found by a search: there every point is iterated from the one before
    (`iterated`), and hysteresis narrower than the distance of the points is not seen.

    References
    ----------
    troiani2025, (13)-(18), (95).
    """
    prior, ordered = as_prior(prior), sorted(float(v) for v in values)
    _check(ordered, start, along, alpha)
    samples = usual_samples(model, exact) if samples is None else samples
    check_effort(ordered[0] if alpha is None else alpha, samples, replicas, tol, 1)
    check_nodes(nodes)
    seed, generator = seeded(rng)
    points_seed = int(generator.integers(2**31)) if seed < 0 else seed
    effort: _Effort = {"accuracy": accuracy, "samples": samples, "replicas": replicas, "nodes": nodes}
    at = _family(model, along, effort, points_seed, workers)
    first = at(None if alpha is None else ordered[0])
    refuse_informed(prior, first.model.indices, "curves begin")
    if closest is None:
        # Closest to one that overlaps of other channels come.
        closest = first.closest if isinstance(first, DiagonalQuadrature) else 1e-6
    if not 0 < closest < 0.1:
        raise ValueError(f"closest must be in (0, 0.1), got {closest!r}")
    both, named = start == "both", as_setting(prior)
    kept = _opened(keep, first, {"family": along, "seed": points_seed}, {**effort, **named})
    followers, n_iter = _followed(
        at, ordered, _STARTS if both else (start,), (alpha, tol, closest), (along, progress, kept), prior
    )
    asked = {"values": ordered, "start": start, "along": along, "alpha": alpha, "tol": tol, "closest": closest}
    # Of deterministic averages the points' own errors cover what is left of these.
    points = {one.start: _points(one, judged=first.sampled) for one in followers}
    gap = Gap.between(points["uninformed"], points["informed"]) if both else None
    return CurveResult(
        along=along,
        points=points,
        onsets=_distinct([onset for one in followers for onset in one.trace.onsets]),
        jumps=tuple(jump for one in followers for jump in one.trace.jumps),
        gap=gap,
        how="monte-carlo" if first.sampled else "estimated",
        converged=all(p.converged for found in points.values() for p in found),
        status=_status(points, gap, along) + "".join(f"; {name}" for name in named.values()),
        n_iter=n_iter,
        seed=seed,
        kernel_hash=first.model.kernel_hash,
        origin=Origin.of(model if isinstance(model, Network) else first.model, **asked, **effort, **named, seed=seed),
    )


def _check(values: list[float], start: str, along: str, alpha: float | None) -> None:
    if not values or not all(math.isfinite(v) and v >= 0 for v in values):
        raise ValueError("values must be a non-empty sequence of finite numbers >= 0")
    if start not in (*_STARTS, "both"):
        raise ValueError(f'start must be "uninformed", "informed" or "both", got {start!r}')
    if along not in ("alpha", "skip", "beta"):
        raise ValueError(f'along must be "alpha", "skip" or "beta", got {along!r}')
    within(along, values[-1])
    within("alpha", 0.0 if alpha is None else alpha)
    if (alpha is None) != (along == "alpha"):
        raise ValueError(
            f"alpha must be given where the parameter is skip or beta, and only there; got {alpha!r} along {along}"
        )
    if along != "alpha" and (values[0] <= 0 or not alpha):
        raise ValueError(f"alpha and the values of {along} must be > 0 (2)-(3), got {alpha!r} and {values[0]:g}")


def _family(
    model: Network | Channel | Callable[[float], Channel], along: str, effort: _Effort, rng: int, workers: Workers
) -> Callable[[float | None], Channel]:
    """From the value of the parameter to averages; from None where alpha is the parameter."""
    if isinstance(model, Network):
        require("curve", model)
        network = model
        if along != "alpha" and network.chain is not None:
            raise ValueError(
                f"a curve of a list of blocks goes along alpha, as each block has a strength of its own; got {along}"
            )

        def averages(value: float | None) -> Channel:
            at = network
            if value is not None:
                at = replace(at, skip=value) if along == "skip" else replace(at, beta=value)
            return default_channel(at, **effort, rng=rng, workers=workers)

        return averages
    made: Any = model
    return lambda value: made if value is None else made(value)


def _followed(
    at: Callable[[float | None], Channel],
    values: list[float],
    starts: tuple[str, ...],
    settings: tuple[float | None, float, float],
    reports: tuple[str, Callable[[int, int], None] | None, Kept | None],
    prior: Prior,
) -> tuple[Sequence[Follower | Iterated], int]:
    """Followers from each start, at the end of their ways, and how often they took averages."""
    alpha, tol, closest = settings
    along, progress, kept = reports
    followers: list[Follower | Iterated] = []
    total = len(values) * len(starts)

    def points() -> dict[str, Sequence[CurvePoint]]:
        return {one.start: one.trace.points for one in followers if one.trace.points}

    def done() -> None:
        if progress is not None:
            progress(sum(len(one.trace.points) for one in followers), total)
        if kept is not None:
            kept.step(along, points(), total)

    def averages(value: float | None) -> Channel:
        return at(value) if kept is None else kept.channel(value, at(value))

    first = averages(None if alpha is None else values[0])
    smooth = first.smooth and len(first.shared) == len(first.groups)
    equations = Equations(averages, closest, alpha, prior)
    for start in starts:
        followers.append(
            Follower(equations, start, tol, done)
            if smooth
            else Iterated(averages, start, alpha, (tol, closest), done, prior)
        )
    try:
        for follower in followers:
            follower.follow(values)
    except BaseException as stop:
        said = "" if kept is None else kept.write(along, points(), total)
        if said and isinstance(stop, KeyboardInterrupt):
            raise KeyboardInterrupt(said) from None
        raise
    return followers, equations.n_iter + sum(one.n_iter for one in followers if isinstance(one, Iterated))


def _opened(
    keep: Kept | Path | str | None, first: Channel, about: dict[str, object], effort: Mapping[str, object]
) -> Kept | None:
    """The file of finished points, with what they are of."""
    kept = Kept(keep) if isinstance(keep, str | Path) else keep
    if kept is not None:
        about = about | {"kernel": first.model.kernel_hash, "sources": _sources()}
        kept.open(about | {"model": Origin.of(first.model).model, **effort})
    return kept


def _sources() -> str:
    """Identity of the sources that averages are made of."""
    return source_hash("attnlimits.numerics.channel.choice", "attnlimits.numerics.channel.link.rotated")


def _points(follower: Follower | Iterated, *, judged: bool) -> tuple[CurvePoint, ...]:
    """Points in the order of the parameter; where averages are sampled, those near an onset or a jump are marked."""
    events = [(onset.value, onset.error) for onset in follower.trace.onsets]
    events += [(jump.value, jump.error) for jump in follower.trace.jumps]
    ordered = sorted(follower.trace.points, key=lambda p: p.parameter)
    return tuple(_judged(p, events if judged else []) for p in ordered)


def _judged(point: CurvePoint, events: Iterable[tuple[float, float]]) -> CurvePoint:
    """Mark a point that may be on the other side of an onset or a jump, for all that the averages decide."""
    near = [(value, error) for value, error in events if abs(point.parameter - value) <= SIGMAS * error]
    if not near:
        return point
    status = (
        f"{TOO_NEAR}: layers are learned, or jump, at {near[0][0]:.6g} +- {near[0][1]:.1g}; raise samples, or move it"
    )
    return replace(point, converged=False, status=status)


def _distinct(onsets: list[Onset]) -> tuple[Onset, ...]:
    """Each onset once, though both starts meet it."""
    kept: list[Onset] = []
    for one in onsets:
        same = [o for o in kept if o.indices == one.indices and abs(o.value - one.value) <= 1e-3 * one.value]
        if not same:
            kept.append(one)
    return tuple(kept)


def _status(points: dict[str, tuple[CurvePoint, ...]], gap: Gap | None, along: str) -> str:
    every = [p for found in points.values() for p in found]
    good = sum(p.converged for p in every)
    whole = good == len(every)
    text = f"{'converged' if whole else 'not converged'}: {good} of {len(every)} points{'' if whole else ' are'}, "
    text += f"max |F(q) - q| = {max(p.residual for p in every):.1e}"
    if not whole:
        where = next(p for p in every if not p.converged)
        text += f"; the first that did not: {along} = {where.parameter:g}"
        near = where.status.startswith(TOO_NEAR)
        text += f", {where.status}" if near else "; raise tol, or ask for points closer together"
    if gap is not None and gap.beyond_error:
        text += f"; the starts differ by {gap.value:.3g} +- {gap.error:.1g} at {along} = {gap.parameter:.6g}"
    elif gap is not None:
        text += f"; no gap between the starts above {gap.value + gap.error:.1g} at these values of {along}"
    return text
