"""Every network at finite dimension against its link on the indices, and both against explicit loops."""

import itertools

import numpy as np
import pytest

from attnlimits.numerics.model.network import Network
from attnlimits.numerics.model.networks import apply_mixing, forward, indices, link, random_weights

RANKS = {1: [1, 3], 2: [1, (2, 1)], 3: [1, (1, 3, 2)]}
CASES = [
    (layers, tokens, ranks, heads, tied, output)
    for layers, tokens, heads, tied, output in itertools.product(
        (1, 2, 3), (2, 3), (1, 2, 3), (True, False), ("last", "sequence")
    )
    for ranks in RANKS[layers]
]


def _network(case, rng, **more):
    layers, tokens, ranks, heads, tied, output = case
    count = 0 if heads == 1 else layers if output == "sequence" else layers - 1
    readouts = [rng.normal(size=(heads, heads)) for _ in range(count)]
    return Network(
        layers,
        tokens,
        ranks,
        heads=heads,
        tied=tied,
        output=output,
        readouts=readouts,
        **{"skip": 0.7, "beta": 1.2, **more},
    )


def _relative(made, wanted):
    return np.abs(made - wanted).max() / max(1.0, np.abs(wanted).max())


@pytest.mark.parametrize("activation", ["softmax", "linear", np.tanh], ids=["softmax", "linear", "tanh"])
def test_link_on_the_indices_is_the_network(activation, rng):
    for case in CASES:
        network = _network(case, rng, activation=activation)
        x = rng.normal(size=(3, 12, network.tokens))
        weights = random_weights(network, 12, rng)
        h = indices(x, weights, network)
        assert h.shape == (3, network.indices, network.tokens)
        made = link(h, network)
        if network.output == "sequence":
            assert made.shape == (3, network.mixing_size, network.mixing_size)
            made = apply_mixing(x, made, network)
        else:
            assert made.shape == (3, network.mixing_size, network.tokens)
        # A few hundred roundings; linear outputs grow with depth, hence relative to the largest.
        assert _relative(made, forward(x, weights, network)) < 1e-12, case


def test_one_head_against_explicit_loops(rng):
    """(2)-(3), one token pair at a time."""
    w_1, w_2, x = rng.normal(size=(2, 6)), rng.normal(size=(1, 6)), rng.normal(size=(6, 3))
    tokens = [x[:, m] for m in range(3)]

    def attention(w):
        rows = []
        for first in tokens:
            powers = [np.exp(1.2 * sum((w @ first) * (w @ second)) / 6) for second in tokens]
            rows.append([power / sum(powers) for power in powers])
        return rows

    rows = attention(w_1)
    tokens = [0.7 * tokens[i] + sum(rows[i][j] * tokens[j] for j in range(3)) for i in range(3)]
    network = Network(2, 3, (2, 1), skip=0.7, beta=1.2)
    # Rounding.
    np.testing.assert_allclose(forward(x, np.vstack([w_1, w_2]), network), attention(w_2), rtol=1e-13)
    rows = attention(w_2)
    wanted = np.transpose([0.7 * tokens[i] + sum(rows[i][j] * tokens[j] for j in range(3)) for i in range(3)])
    sequence = Network(2, 3, (2, 1), output="sequence", skip=0.7, beta=1.2)
    np.testing.assert_allclose(forward(x, np.vstack([w_1, w_2]), sequence), wanted, rtol=1e-12)


def test_two_untied_heads_against_explicit_formulas(rng):
    """(28)-(30) for one layer and the last attention of a second, written out block by block."""
    x, o = rng.normal(size=(8, 2)), rng.normal(size=(2, 2))
    weights = rng.normal(size=(8, 4))  # layer 1: k1 q1 k2 q2; layer 2: the same
    blocks = [x[:4].T, x[4:].T]

    def attend(tokens, k, q):
        scores = 0.9 * np.outer(tokens @ k, tokens @ q) / 4
        return np.exp(scores) / np.exp(scores).sum(axis=1)[:, None]

    s_1, s_2 = attend(blocks[0], *weights[0:2]), attend(blocks[1], *weights[2:4])
    one = 0.5 * blocks[0] + o[0, 0] * s_1 @ blocks[0] + o[0, 1] * s_2 @ blocks[1]
    two = 0.5 * blocks[1] + o[1, 0] * s_1 @ blocks[0] + o[1, 1] * s_2 @ blocks[1]
    wanted = np.vstack([attend(one, *weights[4:6]), attend(two, *weights[6:8])])
    network = Network(2, 2, heads=2, tied=False, skip=0.5, beta=0.9, readouts=[o])
    np.testing.assert_allclose(forward(x, weights, network), wanted, rtol=1e-13)
    # The index of key 1 of layer 1 on block 2 stands second, of query 1 on block 1 third.
    h = indices(x, weights, network)
    np.testing.assert_allclose(h[1], weights[0] @ x[4:] / 2, rtol=1e-13)
    np.testing.assert_allclose(h[2], weights[1] @ x[:4] / 2, rtol=1e-13)


def test_heads_with_the_identity_do_not_mix(rng):
    """Concatenated heads are H networks side by side."""
    network = Network(3, 3, (1, 2, 1), heads=2, readouts=[np.eye(2)] * 2)
    x, weights = rng.normal(size=(5, 10, 3)), random_weights(network, 10, rng)
    made = forward(x, weights, network)
    single = Network(3, 3, (1, 2, 1))
    rows = [0, 2, 3, 6], [1, 4, 5, 7]
    for head in range(2):
        own = forward(x[:, 5 * head : 5 * head + 5], weights[rows[head]], single)
        np.testing.assert_allclose(made[:, 3 * head : 3 * head + 3], own, rtol=1e-12)


def test_tied_is_untied_with_equal_weights(rng):
    tied, untied = Network(2, 3), Network(2, 3, tied=False)
    x, weights = rng.normal(size=(7, 3)), rng.normal(size=(2, 7))
    np.testing.assert_array_equal(forward(x, weights, tied), forward(x, np.repeat(weights, 2, axis=0), untied))


def test_extremes_are_finite(rng):
    network = Network(3, 3, heads=2, readouts=rng.normal(size=(2, 2, 2)))
    for scale in (1e-300, 1e-8, 1e3, 1e50):
        made = link(scale * rng.normal(size=(20, network.indices, 3)), network)
        # Rounding of a sum of three.
        np.testing.assert_allclose(made.sum(axis=-1), 1.0, rtol=1e-15 * 4)


def test_weights_are_seeded():
    network = Network(2, 2, (1, 2), heads=2, tied=False, readouts=[np.eye(2)])
    assert random_weights(network, 6, 1).shape == (network.weight_rows, 3) == (12, 3)
    np.testing.assert_array_equal(random_weights(network, 6, 1), random_weights(network, 6, np.random.default_rng(1)))


def test_a_network_is_a_value():
    one, two = (Network(2, 2, heads=2, readouts=[np.eye(2)]) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert one.readouts == (((1.0, 0.0), (0.0, 1.0)),)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layers": 0}, "layers must be an integer >= 1"),
        ({"tokens": 1}, "tokens must be an integer >= 2"),
        ({"rank": (1,)}, "one integer or 2 of them"),
        ({"rank": (1, 0)}, "rank must be an integer >= 1"),
        ({"heads": 0}, "heads must be an integer >= 1"),
        ({"tied": 1}, "tied must be True"),
        ({"output": "all"}, "output must be 'last'"),
        ({"skip": 0.0}, "skip must be finite and > 0"),
        ({"beta": np.inf}, "beta must be finite and > 0"),
        ({"beta": "1"}, "beta must be a positive number"),
        ({"activation": "relu"}, "softmax, linear or a function"),
        ({"heads": 2}, r"readouts must hold 1 matrices o \(30\)"),
        ({"readouts": [np.eye(1)]}, "readouts must hold 0 matrices"),
        ({"heads": 2, "readouts": [np.eye(3)]}, r"shape \(H, H\) = \(2, 2\)"),
        ({"heads": 2, "readouts": [np.full((2, 2), np.nan)]}, "o of layer 1 must be a finite array"),
    ],
)
def test_bad_networks_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Network(**{"layers": 2, "tokens": 2, **arguments})


def test_bad_arrays_are_named(rng):
    network = Network(2, 2, heads=2, readouts=[np.eye(2)])
    x, weights = rng.normal(size=(6, 2)), rng.normal(size=(4, 3))
    for bad, message in (
        (lambda: forward(x[:, :1], weights, network), r"x must have shape \(..., D, M\)"),
        (lambda: forward(x[:5], weights, network), "positive multiple of the 2 heads"),
        (lambda: forward(x, weights[:3], network), r"weights must have shape .* \(4, 3\)"),
        (lambda: forward(np.full_like(x, np.nan), weights, network), "x must be finite"),
        (lambda: link(np.zeros((7, 2)), network), r"h must have shape .* 8, 2"),
        (lambda: link(np.full((8, 2), np.inf), network), "h must be finite"),
        (lambda: apply_mixing(x, np.eye(2), network), "mixing must have shape"),
        (lambda: apply_mixing(x[:5], np.eye(4), network), "x must have shape"),
        (lambda: random_weights(network, 5), "multiple of the 2 heads"),
        (lambda: link(np.ones((1, 2)), Network(1, 2, activation=lambda z: z.sum())), "entry by entry"),
    ):
        with pytest.raises(ValueError, match=message):
            bad()


def test_overflow_is_an_error_not_a_nan(rng):
    network = Network(6, 2, activation="linear")
    with pytest.raises(OverflowError, match="exceeds float64"):
        link(1e3 * np.ones((6, 2)), network)
    with pytest.raises(OverflowError, match="exceeds float64"):
        forward(1e3 * np.ones((4, 2)), np.ones((6, 4)), network)
