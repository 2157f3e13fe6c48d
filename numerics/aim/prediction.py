"""Predictions of outputs for tokens that have not been seen: their errors by the state evolution, and on data.

In the limit h given the data is N(omega, V (1 + delta_ab)), omega_ab = Tr(Shat Z_ab) ~ N(0, q (1 + delta_ab)). The
posterior mean predicts E[y | omega], the plug-in the output at omega. With h and h' independent given omega,

E |y - E[y | omega]|^2 = E y(h).y(h) - E y(h).y(h'),
E |y - y(omega)|^2     = E y(h).y(h) + E y(omega).y(omega) - 2 E y(h).y(omega).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ..core.results import Estimate
from ..core.standard_error import standard_error
from ..learning.blocks import Array, Floats, rows_of, stream
from .channels import Channel
from .checks import CITE, count, from_zero
from .data import check_matrix, check_samples, indices, rows_at_a_time
from .results import PredictionErrors

__all__ = ["errors_on_data", "predict", "prediction_errors"]


def prediction_errors(V: Estimate | float, rho: float, output: Channel) -> PredictionErrors:
    """Errors of prediction at an error of estimation V = (1/d) E ||S - Shat||^2, in the limit of large d.

    Parameters
    ----------
    V : Estimate or float
        In [0, 1 + rho], as `evolve` has it (`mmse`); what its error leaves is added to those of the results.
    rho : float
        Width r/d; 0 in the limit of small width.
    output : Channel

    Returns
    -------
    PredictionErrors

    Raises
    ------
    ValueError
        V out of range.
    KernelNotFoundError
        The published formula for hardmax, which is no model.

    Notes
    -----
    Both are taken at the ends of the interval of V, too. Where V is far below Q the errors are small differences, known
    to some 1e-9.

    References
    ----------
    boncoraglio2025, (55)-(56).
    """
    rho = from_zero("rho", rho, "rho = r/d")
    Q = 1 + rho
    given = V if isinstance(V, Estimate) else Estimate(float(V), 0.0, "rigorous")
    if not (math.isfinite(given.value) and 0 <= given.value <= Q):
        raise ValueError(f"V must be in [0, Q], Q = 1 + rho = {Q:g} ({CITE}, estimation error), got {given.value!r}")
    at = _at(given.value, Q, output)
    if not given.error:
        return at
    ends = [_at(min(max(given.value + side, 0.0), Q), Q, output) for side in (-given.error, given.error)]

    def within(name: str) -> Estimate:
        """The errors rise with V."""
        low, middle, high = (getattr(found, name) for found in (ends[0], at, ends[1]))
        error = max(high.value - middle.value + high.error, middle.value - low.value + low.error, middle.error)
        return Estimate(middle.value, float(error), "estimated")

    return PredictionErrors(within("posterior_mean"), within("plug_in"))


def _at(V: float, Q: float, output: Channel) -> PredictionErrors:
    # Least share of V in Q that differs from none by more than rounding.
    least = 1e-13
    if V <= least * Q:
        # That of hardmax goes with the root of V.
        bound = Estimate(0.0, 2 * output.tokens * math.sqrt(V), "estimated")
        return PredictionErrors(bound, bound)
    return output.prediction_errors(V, Q)


def predict(x: ArrayLike, estimate: ArrayLike, output: Channel, *, V: float = 0.0) -> Array:
    """Outputs for tokens: the posterior mean at an error V of the estimate, or the plug-in at V = 0.

    Parameters
    ----------
    x : array_like, shape (n, T, d)
    estimate : array_like, shape (d, d)
        Shat, of `amp` for instance.
    output : Channel
    V : float, keyword-only
        (1/d) ||S - Shat||^2, as `amp` states it (`predicted`).

    Returns
    -------
    ndarray, shape (n, T, T)
        Without the noise that outputs may have; of softmax never in logarithms.
    """
    tokens = check_samples(x, output.tokens)
    S = check_matrix("estimate", estimate, tokens.shape[2])
    return _predictions(tokens, S, output, from_zero("V", V, "estimation error"))[0]


def _predictions(tokens: Floats, S: Array, output: Channel, *errors: float) -> list[Array]:
    """Predictions at each of these errors of the estimate."""
    # Samples at a time.
    rows = 1024
    step = min(rows_at_a_time(output.tokens, tokens.shape[2]), rows)
    entries = (indices(tokens[part], S) for part in rows_of(tokens, step))
    return [
        np.concatenate(made) for made in zip(*([output.predict(h, V) for V in errors] for h in entries), strict=True)
    ]


def errors_on_data(
    S: ArrayLike,
    estimate: ArrayLike,
    V: float,
    output: Channel,
    *,
    samples: int = 1000,
    rng: np.random.Generator | int | None = None,
) -> PredictionErrors:
    """Errors of prediction of an estimate, on fresh tokens labelled by the teacher.

    Parameters
    ----------
    S, estimate : array_like, shape (d, d)
    V : float
        What the posterior mean takes for (1/d) ||S - Shat||^2.
    output : Channel
    samples : int, keyword-only
        Fresh samples, at least two.
    rng : Generator, int or None, keyword-only

    Returns
    -------
    PredictionErrors
        With standard errors.
    """
    teacher = check_matrix("S", S)
    student = check_matrix("estimate", estimate, len(teacher))
    n = count("samples", samples, 2, "prediction")
    x = stream(rng, 5).standard_normal((n, output.tokens, len(teacher)))
    truth = predict(x, teacher, output)

    def error(guess: Array) -> Estimate:
        off = ((truth - guess) ** 2).sum(axis=(1, 2))
        return Estimate(float(off.mean()), float(standard_error(off)), "monte-carlo")

    return PredictionErrors(*map(error, _predictions(x, student, output, from_zero("V", V, "estimation error"), 0.0)))
