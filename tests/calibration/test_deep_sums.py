"""Sums over the outputs of three and four layers with hidden layers known: what they leave, by far finer sums.

Sums of the same nodes of the hidden layers at the same omega: what random nodes leave, and the rule for omega, have no
part in it.
"""

import numpy as np
from harness import Answer, Route, Settings, calibration_tests
from numpy.typing import NDArray

from attnlimits.numerics.channel.deep.channel import DeepQuadrature, Point
from attnlimits.numerics.channel.deep.given_omega import Resolution
from attnlimits.numerics.model.network import Network

Array = NDArray[np.float64]

# Far finer than the sums of the route, from these overlaps of the last layer on.
_FAR = ((0.94, Resolution(12.0, 1.2, 0.2)), (0.75, Resolution(13.5, 1.6, 0.13)), (0.0, Resolution(15.0, 1.8, 0.09)))
_COUNT = 30


def _with_hidden(rng: np.random.Generator) -> list[Settings]:
    """Overlaps of one hidden layer up to where others than sums serve, the last one small, around .8, and near one.

    Each sixth has more points of omega, each tenth is of four layers.
    """
    cases = []
    for k in range(_COUNT):
        skip, beta = (float(f"{np.exp(rng.uniform(-0.5, 0.5)):.3g}") for _ in range(2))
        hidden = 10 ** rng.uniform(-2.5, np.log10(0.35))
        last = (rng.uniform(0.02, 0.75), rng.uniform(0.75, 0.94), 1 - 10 ** rng.uniform(-1.7, -1.22))[k % 3]
        q = [0.0, 0.0, float(last)]
        q[k % 2] = float(hidden)
        if k % 10 == 9:
            q.insert(1 + k // 10 % 2, 0.0)
        cases.append({"skip": skip, "beta": beta, "q": q, "effort": int(k % 6 == 1), "seed": k})
    return cases


def _rule(s: Settings) -> tuple[DeepQuadrature, Array]:
    model = Network(layers=len(s["q"]), skip=s["skip"], beta=s["beta"])
    return DeepQuadrature(model, s["effort"], rng=np.random.default_rng(s["seed"]), workers=1), np.array(s["q"])


def _put_right(s: Settings) -> Answer:
    rule, q = _rule(s)
    found = rule.values(q)
    return Answer(found.weights @ found.values + found.missed(), found.left_by_sums(), "estimated")


def _far(s: Settings) -> tuple[Array, float]:
    rule, q = _rule(s)
    found = rule.values(q)
    resolution = next(one for least, one in _FAR if q[-1] >= least)
    return found.weights @ rule.at_points(q, [Point(i, xi, resolution) for i, xi in enumerate(found.xi)]), 0.0


ROUTES = (
    Route(
        "averages of deep layers, hidden ones known, sums over outputs",
        "estimated",
        _with_hidden,
        _put_right,
        _far,
        "far finer sums",
        # test_finer_sums_put_the_usual_ones_right is one of them.
        sample=0,
        fewest=_COUNT,
    ),
)
test_sample, test_whole = calibration_tests(ROUTES)
