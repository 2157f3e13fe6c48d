"""The first layer's threshold, once the second is partly learned: consistency with state evolution, errors, limits."""

import math

import numpy as np
import pytest

from attnlimits.numerics.errors import KernelNotFoundError
from attnlimits.numerics.models import Attention
from attnlimits.numerics.staircase import first_layer
from attnlimits.numerics.state_evolution import evolve


@pytest.fixture(scope="module")
def softmax():
    tried: list[float] = []
    return first_layer(Attention(), samples=512, replicas=8, workers=1, progress=tried.append), tried


def test_what_it_says(softmax) -> None:
    result, tried = softmax
    assert result.subspace == "layer 1" and result.how == "monte-carlo" and result.converged
    assert float(result.value) == pytest.approx(1 / result.operator_norm, abs=result.error)
    assert 0 < result.error < 0.02 * float(result.value)
    assert tried[0] == 0.0 and len(tried) == len(set(tried)) == result.n_iter
    np.testing.assert_array_equal(result.eigenvector, np.diag([1.0, 0.0]))
    assert "at q_22 = 0.9" in result.status
    # well after the last layer's own
    assert float(result.value) > 3 * 0.1854778406


def test_seeds_agree_within_their_errors(softmax) -> None:
    first, _ = softmax
    second = first_layer(Attention(), samples=256, replicas=8, rng=5, workers=1)
    # Student with 7 degrees each: four sigma
    assert abs(float(first.value) - float(second.value)) < 4 * math.hypot(first.error, second.error)
    again = first_layer(Attention(), samples=256, replicas=8, rng=5, workers=1)
    assert again.value == second.value and again.error == second.error


def test_state_evolution_is_marginal_there(softmax) -> None:
    """The fixed point at q_11 = 0 has the overlap q_22 named, and there the first layer grows at rate one."""
    result, _ = softmax
    q22 = float(result.status.rsplit(" ", 1)[1])
    at = evolve(
        Attention(), 1 / result.operator_norm, start=np.diag([0.0, q22]), samples=512, replicas=8, rng=3, workers=1
    )
    assert at.converged
    relative = result.error / float(result.value)
    # d q_22/d alpha is about 0.2 here
    assert at.overlap[1, 1] == pytest.approx(q22, abs=4 * math.hypot(at.overlap_error[1, 1], 0.2 * result.error))
    # two independent samplings of lambda_1, each about as uncertain as the threshold
    assert at.stability[0] == pytest.approx(1.0, abs=6 * relative)


def test_linear_attention_starts_with_the_first_layer() -> None:
    model = Attention(activation="linear")
    result = first_layer(model, samples=256, replicas=8, workers=1)
    assert "before the second" in result.status and result.n_iter == 1
    stability = evolve(model, float(result.value), start=np.zeros((2, 2)), samples=256, rng=1, workers=1).stability
    assert stability[0] == pytest.approx(1.0, abs=6 * result.error / float(result.value))


@pytest.mark.parametrize("model", [Attention(1), Attention(3), Attention(2, 3), Attention(2, 2, 2)])
def test_missing_models_are_named(model: Attention) -> None:
    with pytest.raises(KernelNotFoundError, match="two layers, two tokens and rank 1"):
        first_layer(model)
