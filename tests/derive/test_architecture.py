import dataclasses

import pytest
import sympy as sp

from attnlimits.derive.architecture import Architecture


def test_one_rank_stands_for_all_layers():
    model = Architecture(layers=3, tokens=2, ranks=2)
    assert model.rank_vector == (2, 2, 2)
    assert model.indices == 6
    assert [h.shape for h in model.index_matrices()] == [(2, 2)] * 3
    assert Architecture(3, 4, (1, 2, 3)).indices == 6


def test_it_is_frozen_and_hashable():
    model = Architecture(2, 2)
    assert hash(model) == hash(Architecture(2, 2, (1, 1)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.layers = 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layers": 0}, "layers must be >= 1, got 0"),
        ({"layers": 1.5}, "layers must be an integer"),
        ({"layers": True}, "layers must be an integer"),
        ({"tokens": 1}, "tokens must be >= 2, got 1"),
        ({"ranks": 0}, "rank of layer 1 must be >= 1"),
        ({"ranks": (1, 1, 1)}, "one integer or 2 of them"),
        ({"activation": "relu"}, "softmax, linear, got 'relu'"),
        ({"tied": False}, "untied keys and queries"),
        ({"output": "sequence"}, "output must be 'last'"),
        ({"skip": 0}, "skip must be positive, got 0"),
        ({"skip": sp.Rational(-1, 2)}, "skip must be positive"),
        ({"skip": 0.5}, "skip must be exact"),
        ({"skip": sp.Symbol("d")}, "skip must be positive"),
        ({"beta": 0}, "beta must be positive"),
    ],
)
def test_bad_values_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Architecture(**{"layers": 2, "tokens": 2, **arguments})
