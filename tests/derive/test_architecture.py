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


@pytest.mark.parametrize("heads", [1, 2, 3])
@pytest.mark.parametrize("tied", [True, False])
def test_index_blocks_tile_the_rows_of_h(heads, tied):
    model = Architecture(3, 2, (1, 2, 3), tied=tied, heads=heads)
    blocks = model.index_blocks
    assert len(blocks) == 3 * heads * heads * (1 if tied else 2)
    rows = [row for block in blocks for row in range(block.start, block.start + block.rank)]
    assert rows == list(range(model.indices))
    assert model.indices == 6 * heads**2 * (1 if tied else 2)
    assert {block.role for block in blocks} == ({"h"} if tied else {"k", "q"})
    names = [symbol for matrix in model.index_matrices() for symbol in matrix]
    assert len(set(names)) == 2 * model.indices


def test_readouts_are_those_of_the_layers_that_mix_heads():
    assert Architecture(3, 2).readouts == ()
    assert [o.shape for o in Architecture(3, 2, heads=2).readouts] == [(2, 2)] * 2
    assert len(Architecture(3, 2, heads=2, output="sequence").readouts) == 3


def test_names_tell_the_families_apart():
    variants = [
        {},
        {"tied": False},
        {"heads": 2},
        {"output": "sequence"},
        {"activation": sp.tanh},
        {"activation": "linear"},
    ]
    models = [Architecture(2, 2, **variant) for variant in variants]
    assert len({model.name for model in models}) == len(models)
    assert [model.single for model in models] == [True, False, False, False, True, True]
    z = sp.Symbol("z")
    assert Architecture(1, 2, activation=sp.Lambda(z, z**2)).activation_name == "lambda"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layers": 0}, "layers must be >= 1, got 0"),
        ({"layers": 1.5}, "layers must be an integer"),
        ({"layers": True}, "layers must be an integer"),
        ({"tokens": 1}, "tokens must be >= 2, got 1"),
        ({"ranks": 0}, "rank of layer 1 must be >= 1"),
        ({"ranks": (1, 1, 1)}, "one integer or 2 of them"),
        ({"activation": "relu"}, "softmax, linear or a function of one SymPy expression, got 'relu'"),
        ({"tied": 1}, "tied must be True .* or False, got 1"),
        ({"output": "first"}, "output must be 'last'"),
        ({"heads": 0}, "heads must be >= 1, got 0"),
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
