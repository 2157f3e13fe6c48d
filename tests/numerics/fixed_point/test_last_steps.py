"""What the last step of a refinement misses: measured against the fixed point of the averages that it was taken by."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import attnlimits.numerics.fixed_point.refinement as refining
from attnlimits.numerics.channel.choice import channel
from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.fixed_point.slopes import logistic
from attnlimits.numerics.fixed_point.stopping import Judgement, Stage, coupled, judge_rule, missed_by_rules
from attnlimits.numerics.model.network import Network

Array = NDArray[np.float64]
MODEL = Network(2)


def slow(alpha: float) -> Any:
    """A case of many seconds."""
    return pytest.param(alpha, marks=pytest.mark.slow)


def last_step(alpha: float, accuracy: float, monkeypatch: pytest.MonkeyPatch) -> tuple[Stage, Array]:
    """Stage of the last step of both layers and the step."""
    steps: list[tuple[Stage, Array]] = []

    def noting(stage: Stage, step: Array, *given: Any, **settings: Any) -> Judgement:
        steps.append((stage, step))
        return judge_rule(stage, step, *given, **settings)

    with monkeypatch.context() as patch:
        patch.setattr(refining, "judge_rule", noting)
        assert evolve(MODEL, alpha, accuracy=accuracy).converged
    return next(one for one in reversed(steps) if len(one[1]) == 2)


def distance(stage: Stage, alpha: float, t: Array) -> Array:
    """From t to the fixed point of the averages of this stage, by Newton steps with the slopes of the stage."""
    averages: Any = channel(MODEL, samples=16, replicas=2, rng=np.random.default_rng(0), accuracy=stage.level)
    here, known = t.copy(), None
    for _ in range(12):
        known = averages.alike(np.diag(logistic(here)), stage.level, known)
        step = np.linalg.solve(stage.slopes, np.log(alpha) - here + np.log(known.g.mean(axis=0).diagonal()))
        here = here + step
        if np.abs(step).max() < 1e-7:
            return here - t
    raise AssertionError("Newton steps do not settle")


@pytest.mark.parametrize("alpha", [0.9, slow(0.962), slow(0.97), slow(0.99)])
def test_what_the_last_step_misses_is_stated(alpha: float, monkeypatch: pytest.MonkeyPatch) -> None:
    stage, step = last_step(alpha, 1e-2, monkeypatch)
    off = np.abs(distance(stage, alpha, stage.t + step))
    stated = missed_by_rules(stage.slopes, step)
    assert (off <= stated + 1e-6).all()


def test_a_step_of_one_layer_may_move_another() -> None:
    slopes = np.array([[0.5, -0.4], [0.0, 1.0]])
    np.testing.assert_allclose(coupled(np.diag([0.5, 2.0]), np.array([0.1, -0.2])), [0.1, 0.2])
    moved = coupled(slopes, np.array([0.0, 0.1]))
    # A slope that is a tenth wrong, by which the first layer sees the second.
    wrong = slopes + 0.1 * np.array([[0.0, -0.4], [0.0, 0.0]])
    missed = np.linalg.solve(slopes, wrong @ [0.0, 0.1]) - [0.0, 0.1]
    assert 0 < abs(missed[0]) <= 0.1 * moved[0]
