"""Posterior, evidence and replicas on a finite alphabet of weights and labels: (8), (122)-(127).

Bayes' theorem and the algebra of replicas use sums over weights and labels and nothing else, so that generic
symbolic probabilities on a small alphabet prove them; inputs are fixed, as everything holds for each of them.
"""

from itertools import product

import sympy as sp

from attnlimits.derive.registry import CheckOutcome

from .tools import matrix, symbolic

_N = sp.Symbol("n", positive=True)
_SAMPLES = 2
_P0, _P1 = sp.symbols("p_0 p_1", positive=True)
_PRIOR = (_P0, _P1, 1 - _P0 - _P1)  # of three weights
_WEIGHTS = range(len(_PRIOR))
_LABELS = tuple(product((0, 1), repeat=_SAMPLES))  # two labels per sample


def _one(sample: int, weight: int) -> sp.Symbol:
    """Probability of label 1 for a sample under a weight."""
    return sp.Symbol(f"l_{sample}{weight}", positive=True)


def _likelihood(labels: tuple[int, ...], weight: int) -> sp.Expr:
    return sp.prod([_one(s, weight) if y else 1 - _one(s, weight) for s, y in enumerate(labels)])


def _evidence(labels: tuple[int, ...]) -> sp.Expr:
    """Return the normalisation (123) of one data set."""
    return sum(_PRIOR[k] * _likelihood(labels, k) for k in _WEIGHTS)


def _posterior(labels: tuple[int, ...], weight: int) -> sp.Expr:
    """Return (122) as the paper states it."""
    return _PRIOR[weight] * _likelihood(labels, weight) / _evidence(labels)


def _bayes_differences() -> dict[str, sp.Expr]:
    """Normalisation of the posterior, its product with the law of the data, and its mean over the data."""
    differences: dict[str, sp.Expr] = {"law of the data": sum(_evidence(y) for y in _LABELS) - 1}
    for y in _LABELS:
        differences[f"normalisation, labels {y}"] = sum(_posterior(y, k) for k in _WEIGHTS) - 1
    for k in _WEIGHTS:
        mean = sum(_evidence(y) * _posterior(y, k) for y in _LABELS)
        differences[f"mean of the posterior, weight {k}"] = mean - _PRIOR[k]
    return differences


def check_122() -> CheckOutcome:
    """Bayes' theorem with (123): the posterior is normalised, and averages to the prior over the data."""
    return symbolic(_bayes_differences(), "posterior summed over weights against one, and over data against the prior")


def check_8() -> CheckOutcome:
    """Specialise (122) to labels that are a function of the weights, and to the Gaussian prior by columns."""
    # Weights 0 and 1 share both labels, weight 2 has others: the posterior must compare the priors of 0 and 1.
    function = {_one(s, k): value for s in range(_SAMPLES) for k, value in ((0, 1), (1, 1), (2, 0))}
    seen = [_posterior((1, 1), k).subs(function) for k in _WEIGHTS]
    weights = matrix("w", 2, 3)
    by_columns = sum((-(weights[:, i].T * weights[:, i])[0, 0] / 2 for i in range(3)), sp.S.Zero)
    return symbolic(
        {
            "weight 0": seen[0] - _P0 / (_P0 + _P1),
            "weight 1": seen[1] - _P1 / (_P0 + _P1),
            "weight that contradicts the data": seen[2],
            "log prior": by_columns + sum(entry**2 for entry in weights) / 2,
        },
        "posterior of noiseless labels against the renormalised prior, and the prior by columns and by entries",
    )


def check_124() -> CheckOutcome:
    """Derive E log Z as the slope at n = 0 of log E Z^n, the data being drawn from the model itself."""
    moment = sum(_evidence(y) ** (_N + 1) for y in _LABELS)  # the law of the data is Z, too
    entropy = sum(_evidence(y) * sp.log(_evidence(y)) for y in _LABELS)
    at_zero = moment.subs(_N, 0)
    return symbolic(
        {"moment at n = 0": at_zero - 1, "slope": sp.diff(moment, _N).subs(_N, 0) / sp.expand(at_zero) - entropy},
        "slope of log E Z^n at n = 0 against E log Z, three weights and two samples",
    )


def _replicated(labels: tuple[int, ...], replicas: int) -> sp.Expr:
    """Sum over the weights of all replicas of the product of prior and likelihood."""
    return sum(
        sp.prod([_PRIOR[k] * _likelihood(labels, k) for k in weights]) for weights in product(_WEIGHTS, repeat=replicas)
    )


def check_125() -> CheckOutcome:
    """Write integer moments of Z as sums over the target and n replicas."""
    differences = {}
    for n in (1, 2):
        moment = sum(_evidence(y) * _evidence(y) ** n for y in _LABELS)
        differences[f"n = {n}"] = moment - sum(_evidence(y) * _replicated(y, n) for y in _LABELS)
    return symbolic(differences, "moments of Z against sums over target and replicas, n = 1, 2")


def check_126() -> CheckOutcome:
    """Nishimori: target and a draw from the posterior are exchangeable, and the draw has the law of the target."""
    differences: dict[str, sp.Expr] = {}
    labels = ((0,), (1,))  # one sample: the identity is one label at a time
    for first, second in product(_WEIGHTS, repeat=2):
        joint = sum(_PRIOR[first] * _likelihood(y, first) * _posterior(y, second) for y in labels)
        swapped = sum(_PRIOR[second] * _likelihood(y, second) * _posterior(y, first) for y in labels)
        differences[f"exchange of {first} and {second}"] = joint - swapped
    for second in _WEIGHTS:
        law = sum(_PRIOR[k] * _likelihood(y, k) * _posterior(y, second) for k in _WEIGHTS for y in labels)
        differences[f"law of the draw, weight {second}"] = law - _PRIOR[second]
    return symbolic(differences, "joint law of target and posterior draw against its transpose and the prior")


def check_127() -> CheckOutcome:
    """Count the target as one more replica in the moments of Z."""
    differences = {}
    for n in (1, 2):
        moment = sum(_evidence(y) ** (n + 1) for y in _LABELS)
        differences[f"n = {n}"] = moment - sum(_replicated(y, n + 1) for y in _LABELS)
    return symbolic(differences, "moments of Z against sums over n + 1 replicas, n = 1, 2")
