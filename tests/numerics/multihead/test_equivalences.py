"""Equivalent parameters: what the tests say against all inputs, where there are at most 2^14 of them."""

import itertools

import numpy as np
import pytest

from attnlimits.numerics.multihead.equivalences import (
    compare,
    find_degeneracies,
    flip_subsets,
    reduce_layer,
)
from attnlimits.numerics.multihead.layer import multihead

# Sums of a few terms of order one.
ROUNDING = 1e-13
# Rank, dimension: k d = 12, 12, 14.
SHAPES = [(2, 6), (3, 4), (2, 7)]


def flipped_heads(theta, w, subset):
    """The signs of Theta_i and W_i of some heads changed: at k = 2 the same layer iff their W_i sum to zero."""
    sign = np.ones((len(theta), 1, 1))
    sign[list(subset)] = -1.0
    return sign * theta, sign * w


def all_inputs(tokens, dim):
    return np.array(list(itertools.product([1.0, -1.0], repeat=tokens * dim))).reshape(-1, tokens, dim)


def largest_difference(first, second, tokens):
    x = all_inputs(tokens, first[0].shape[1])
    return float(np.abs(multihead(x, *first) - multihead(x, *second)).max())


def layer(heads, dim, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((heads, dim, dim)), rng.standard_normal((heads, dim, dim)) / np.sqrt(dim)


def stack(*heads):
    return np.array([theta for theta, _ in heads]), np.array([w for _, w in heads])


def closed(values):
    """W_i whose sum over the first two heads vanishes."""
    return np.concatenate([values[:1], -values[:1], values[2:]])


@pytest.mark.parametrize(("tokens", "dim"), SHAPES)
def test_order_equal_heads_and_silent_heads_at_any_length(tokens, dim):
    theta, w = layer(3, dim)
    order = [2, 0, 1]
    other = (theta[order], w[order])
    assert largest_difference((theta, w), other, tokens) < ROUNDING
    assert compare((theta, w), other, tokens).relation == "permutation"

    merged = stack((theta[0], w[0] + w[1]), (theta[2], w[2]))
    split = stack((theta[0], w[0]), (theta[0], w[1]), (theta[2], w[2]))
    assert largest_difference(merged, split, tokens) < ROUNDING
    assert compare(merged, split, tokens).relation == "other heads"
    assert find_degeneracies(*split, tokens).equal == ((0, 1),)
    assert not find_degeneracies(*split, tokens).identifiable

    silent = stack((theta[0], w[0]), (theta[1], 0 * w[1]))
    moved = stack((theta[0], w[0]), (theta[2], 0 * w[1]))
    assert largest_difference(silent, moved, tokens) < ROUNDING
    assert compare(silent, moved, tokens).equivalent
    assert find_degeneracies(*silent, tokens).silent == (1,)


# What is the same layer at k = 2 and only there: name, heads before, heads after, relation.
def sign_cases(dim):
    theta, w = layer(3, dim, seed=1)
    zero = 0 * theta[0]
    whole = closed(w)
    return {
        "flip": ((theta, whole), flipped_heads(theta, whole, (0, 1)), "flip"),
        "invisible pair": (
            stack((theta[0], w[0]), (-theta[0], w[0]), (theta[2], w[2])),
            stack((theta[1], w[0]), (-theta[1], w[0]), (theta[2], w[2])),
            "other heads",
        ),
        "opposite pair": (
            stack((theta[0], w[0]), (-theta[0], w[1])),
            stack((theta[0], w[0] - w[1]), (zero, 2 * w[1])),
            "other heads",
        ),
        "linear head": (
            stack((theta[0], w[0]), (zero, w[1])),
            stack((-theta[0], -w[0]), (zero, w[1] + 2 * w[0])),
            "other heads",
        ),
    }


@pytest.mark.parametrize("name", ["flip", "invisible pair", "opposite pair", "linear head"])
def test_signs_are_free_at_two_tokens_and_not_at_three(name):
    first, second, relation = sign_cases(6)[name]
    assert largest_difference(first, second, 2) < ROUNDING
    found = compare(first, second, 2)
    assert (found.equivalent, found.relation) == (True, relation)
    assert found.flipped == ((0, 1) if name == "flip" else ())

    first, second, _ = sign_cases(4)[name]
    # Outputs are of order one: this is no rounding.
    assert largest_difference(first, second, 3) > 0.1
    assert not compare(first, second, 3).equivalent


def test_every_degeneracy_is_named():
    cases = sign_cases(6)
    found = {name: find_degeneracies(*first, 2) for name, (first, _, _) in cases.items()}
    assert found["flip"].flips == ((0, 1),)
    assert found["invisible pair"].invisible == found["invisible pair"].opposite == ((0, 1),)
    assert (found["opposite pair"].opposite, found["opposite pair"].invisible) == (((0, 1),), ())
    assert found["linear head"].linear == (1,)
    for name, one in found.items():
        assert not one.identifiable, name
        assert "only the order" not in one.status
        assert find_degeneracies(*cases[name][0], 3).identifiable, name
    plain = find_degeneracies(*layer(3, 6), 2)
    assert plain.identifiable
    assert plain.status == "only the order of the heads is free, on real inputs"


@pytest.mark.parametrize("flipped", [s for n in (1, 2, 3) for s in itertools.combinations(range(3), n)])
def test_a_flip_is_the_same_layer_iff_its_values_add_to_zero(flipped):
    theta, w = layer(3, 6)
    for values in (w, closed(w)):
        other = flipped_heads(theta, values, flipped)
        same = largest_difference((theta, values), other, 2) < ROUNDING
        assert same == (flipped in flip_subsets(values)) == compare((theta, values), other, 2).equivalent


def test_flips_of_four_heads_with_several_sums():
    _, w = layer(4, 3)
    values = np.array([w[0], w[1], -w[0] - w[1], -w[1]])
    assert flip_subsets(values) == ((1, 3), (0, 1, 2))
    assert flip_subsets(0 * values) == ()
    # 1 + 1e-5 is zero to 1e-4, and is not to 1e-6.
    values[3] *= 1 + 1e-5
    assert flip_subsets(values)[0] == (1, 3)
    assert flip_subsets(values, tol=1e-6) == ((0, 1, 2),)


def test_differences_below_the_tolerance_and_above_it():
    theta, w = layer(2, 5)
    for size, same in ((1e-6, True), (1e-2, False)):
        moved = theta + size * np.linalg.norm(theta[0]) * np.eye(5) / np.sqrt(5)
        assert compare((theta, w), (moved, w), 2).equivalent is same
        assert compare((theta, w), (theta, w * (1 + size)), 3).equivalent is same


@pytest.mark.parametrize("tokens", [1, 2, 3])
def test_the_reduced_layer_is_the_layer(tokens):
    """Reduced heads, put together by hand, give the outputs on all inputs."""
    theta, w = layer(3, 4, seed=2)
    zero = 0 * theta[0]
    full = stack(
        (theta[0], w[0]), (-theta[0], w[1]), (theta[0], w[2]), (zero, w[0]), (theta[1], zero), (theta[2], w[2])
    )
    x = all_inputs(tokens, 4)
    parts, values, linear = reduce_layer(*full, tokens)
    assert len(parts) == {1: 0, 2: 2, 3: 4}[tokens]
    if tokens == 1:
        found = x @ linear
    elif tokens == 2:
        v, u = (x[:, 0] + x[:, 1]) / 2, (x[:, 0] - x[:, 1]) / 2
        z = np.einsum("nrp,ipq,nq->nri", x, parts, 2 * u)
        found = (v @ linear)[:, None] + np.einsum("nri,nq,iqc->nrc", np.tanh(z / 2), u, values)
    else:
        assert linear is None
        found = multihead(x, parts, values)
    assert np.abs(found - multihead(x, *full)).max() < ROUNDING


def test_one_token_sees_the_sum_of_the_values_alone():
    (theta, w), (other, _) = layer(2, 4), layer(2, 4, seed=5)
    assert largest_difference((theta, w), (other, w[::-1]), 1) < ROUNDING
    assert compare((theta, w), (other, w[::-1]), 1).equivalent
    assert not compare((theta, w), (theta, 2 * w), 1).equivalent
    with pytest.raises(ValueError, match="at least 2"):
        find_degeneracies(theta, w, 1)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda t, w: find_degeneracies(t[0], w[0], 2), r"shape \(m, d, d\)"),
        (lambda t, w: find_degeneracies(t * np.nan, w, 2), "finite"),
        (lambda t, w: find_degeneracies(t, w, 0), "tokens must be an integer >= 1"),
        (lambda t, w: find_degeneracies(t, w, 2, tol=-1.0), "tol must be"),
        (lambda t, w: flip_subsets(np.ones((17, 1, 1))), "at most 16 heads"),
        (lambda t, w: compare((t, w), layer(2, 3), 2), "must have one d"),
    ],
)
def test_bad_arguments_are_named(call, said):
    with pytest.raises(ValueError, match=said):
        call(*layer(2, 4))
