"""Networks of given queries and keys: the same attention as the formula of other libraries, and beta by hand."""

import numpy as np
import pytest

import attnlimits as al
from attnlimits.numerics.model.foreign import AttentionLayer, describe
from attnlimits.numerics.multihead.layer import attention as theirs_by_theta
from attnlimits.numerics.multihead.layer import multihead

M = 3
# Attention in [0, 1] from scores of order ten: both sides round in float64.
SAME = 1e-12


def drawn(rng, *shape, std=1.0):
    return std * rng.standard_normal(shape)


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("rank", [1, 5])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(("scale", "std"), [(None, 1.0), (0.3, 2.5)])
def test_the_network_has_the_attention_of_the_layer(rng, probabilities, heads, rank, tied, scale, std):
    queries = drawn(rng, heads, rank, 24, std=0.4)
    keys = queries * rng.uniform(0.5, 2, (heads, 1, 1)) if tied else drawn(rng, heads, rank, 24, std=0.2)
    found = al.from_weights(queries, keys, M, scale=scale, token_std=std)
    assert (found.network.layers, found.network.rank, found.network.tied) == (1, rank, tied)
    X = drawn(rng, 6, M, 24, std=std)
    assert np.abs(found.attention(X) - probabilities(X, queries, keys, scale)).max() < SAME
    assert found.attention(X[0]).shape == (heads, M, M)


def test_rows_of_all_heads_are_taken_apart(rng, probabilities):
    queries, keys = drawn(rng, 2, 12, 16)
    found = al.from_weights(queries, keys, M, heads=3)
    X = drawn(rng, 2, M, 16)
    wanted = probabilities(X, queries.reshape(3, 4, 16), keys.reshape(3, 4, 16))
    assert np.abs(found.attention(X) - wanted).max() < SAME


@pytest.mark.parametrize(
    ("variance", "beta"),
    [
        # PyTorch: uniform of variance 2/(D + 3 D), or 2/(D + D) where q, k and v are apart; linear maps 1/(3 D).
        (lambda D: 1 / (2 * D), lambda d: 1 / (2 * np.sqrt(d))),
        (lambda D: 1 / D, lambda d: 1 / np.sqrt(d)),
        (lambda D: 1 / (3 * D), lambda d: 1 / (3 * np.sqrt(d))),
    ],
)
@pytest.mark.parametrize(("D", "d"), [(256, 64), (1024, 4)])
def test_beta_of_usual_initialisations(rng, variance, beta, D, d):
    bound = np.sqrt(3 * variance(D))
    found = al.from_weights(*rng.uniform(-bound, bound, (2, d, D)), tokens=M)
    # A mean of n = d D squares of uniform numbers has relative variance 0.8/n, and beta is the root of two of them.
    assert abs(found.network.beta / beta(d) - 1) < 5 * np.sqrt(0.4 / (d * D))


def test_weights_have_mean_square_one_and_a_gauge_leaves_them(rng):
    queries, keys = drawn(rng, 2, 4, 6, 32)
    found = al.from_weights(queries, keys, M)
    assert np.mean(found.weights**2) == pytest.approx(1, abs=1e-14)
    assert found.network.beta == pytest.approx(found.betas.mean(), rel=1e-15)
    assert any("Inverse temperatures of the heads" in note for note in found.notes)
    factors = np.array([3.0, 0.2, 7.0, 1.0])[:, None, None]
    other = al.from_weights(factors * queries, keys / factors, M)
    np.testing.assert_allclose(other.weights, found.weights, rtol=1e-14)
    np.testing.assert_allclose(other.betas, found.betas, rtol=1e-14)


def test_ours_back_and_forth(rng):
    """Weights of a network, its keys given as queries: the same network and weights come back."""
    net = al.Network(1, M, rank=2, tied=False, beta=1.7)
    weights = al.teacher(net, 40, rng=1)
    first, second = weights[:2], weights[2:]
    found = al.from_weights(first, second, M, scale=1.7 / 40)
    rms = [np.sqrt(np.mean(one**2)) for one in (first, second)]
    assert found.network.beta == pytest.approx(1.7 * rms[0] * rms[1], rel=1e-14)
    np.testing.assert_allclose(found.weights, np.concatenate([first / rms[0], second / rms[1]]), rtol=1e-13)
    X, Y = al.make_data(net, weights, 0.2, rng=2, dtype=np.float64)
    assert np.abs(found.attention(X)[:, 0] - Y).max() < SAME


def test_layers_of_one_head_are_one_network(rng, softmax):
    queries, keys = drawn(rng, 2, 3, 1, 2, 20, std=0.5)
    found = al.from_weights(queries, keys, M, skip=0.7)
    assert (found.network.layers, found.network.skip, found.notes[:-1]) == (3, 0.7, ())
    X = state = drawn(rng, M, 20)
    for q, k in zip(queries[:, 0], keys[:, 0], strict=True):
        attention = softmax((state @ q.T) @ (state @ k.T).T / np.sqrt(2))
        state = 0.7 * state + attention @ state
    assert np.abs(found.attention(X)[0] - attention).max() < SAME


def blocks(rng, heads, rank, width):
    """Projections of heads that see a block of coordinates each."""
    made = np.zeros((heads, rank, heads * width))
    for a in range(heads):
        made[a, :, a * width : (a + 1) * width] = drawn(rng, rank, width)
    return made


def test_heads_on_blocks_are_heads_of_a_network_whose_readouts_are_read(rng, softmax):
    H, D, width = 2, 12, 6
    queries, keys = ([blocks(rng, H, 2, width) for _ in range(2)] for _ in range(2))
    o = drawn(rng, H, H)
    # Head a takes block a, and writes it to block b with the factor o_ba.
    values = np.array([np.eye(width, D, a * width) for a in range(H)])
    output = np.array([np.kron(o[:, [a]], np.eye(width)) for a in range(H)])
    layers = [
        AttentionLayer(q, k, 0.8, values=values, output=output, skip=0.5) for q, k in zip(queries, keys, strict=True)
    ]
    found = describe(layers, M)
    assert found.network.heads == H and not found.separate and found.network.skip == 0.5
    np.testing.assert_allclose(found.network.readouts[0], o, rtol=1e-14)
    assert [note for note in found.notes if "identity" in note] == []
    X = state = drawn(rng, M, D)
    for q, k in zip(queries, keys, strict=True):
        attention = [softmax(0.8 * (state @ q[a].T) @ (state @ k[a].T).T) for a in range(H)]
        state = 0.5 * state + sum(s @ state @ v.T @ w.T for s, v, w in zip(attention, values, output, strict=True))
    assert np.abs(found.attention(X) - np.array(attention)).max() < SAME


def test_values_of_hidden_layers_that_are_no_identity_are_noted(rng):
    q = drawn(rng, 1, 2, 8)
    layers = [AttentionLayer(q, q, 1.0, values=np.eye(8)[None], output=s * np.eye(8)[None]) for s in (1.0, 1.0)]
    assert describe(layers, M).notes == (
        "No residual connection is seen around the layers: c = 1 is assumed, and c = 0 is no network.",
    )
    layers[0] = AttentionLayer(q, q, 1.0, values=np.eye(8)[None], output=1.5 * np.eye(8)[None], skip=1.0)
    [note] = describe(layers, M).notes
    assert note == "Layer 1: values and output projection are not the identity of a network: |W_o W_v - I|/|I| = 0.5."
    # Those of the last layer do not enter its attention.
    assert describe(layers[::-1], M, skip=1.0).notes == ()


def test_circuits_are_the_matrices_of_the_layer_of_chen_and_li(rng, probabilities):
    queries, keys, values = drawn(rng, 3, 4, 2, 8)
    output = drawn(rng, 4, 8, 2)
    found = describe([AttentionLayer(queries, keys, 0.6, values=values, output=output)], M)
    X = drawn(rng, 5, M, 8)
    theta, w = found.circuits()
    np.testing.assert_allclose(theirs_by_theta(X, theta), probabilities(X, queries, keys, 0.6), atol=SAME)
    attended = probabilities(X, queries, keys, 0.6) @ np.einsum("nmd,hvd->nhmv", X, values)
    np.testing.assert_allclose(multihead(X, theta, w), np.einsum("nhmv,hdv->nmd", attended, output), atol=1e-11)
    with pytest.raises(ValueError, match="values and the output projection of layer 1 are not known"):
        al.from_weights(queries, keys, M).circuits()


def test_a_tied_layer_of_wide_heads_is_the_attention_indexed_model(rng, probabilities, softmax):
    """beta of that model is sqrt(d) times ours, and its scores have no mean: Tr S/sqrt(D) is added on the diagonal."""
    d, D = 6, 15
    rows = drawn(rng, 1, d, D, std=0.3)
    found = al.from_weights(rows, rows, M)
    S = found.weights.T @ found.weights / np.sqrt(d * D)
    X = drawn(rng, 4, M, D)
    h = al.aim.indices(X, S)
    y = softmax(np.sqrt(d) * found.network.beta * (h + np.trace(S) / np.sqrt(D) * np.eye(M)))
    assert np.abs(y - probabilities(X, rows, rows)[:, 0]).max() < SAME


def test_the_layer_of_chen_and_li_by_the_singular_vectors_of_theta(rng, softmax):
    """As docs/reference/conventions.md has it: Theta = A^T B, scale 1, tokens of entries +-1."""
    rank, d = 2, 12
    theta = drawn(rng, d, rank) @ drawn(rng, rank, d) / d
    left, values, right = np.linalg.svd(theta)
    A, B = np.sqrt(values[:rank, None]) * left.T[:rank], np.sqrt(values[:rank, None]) * right[:rank]
    found = al.from_weights(A, B, M, scale=1)
    X = rng.choice([-1.0, 1.0], (7, M, d))
    assert found.network.rank == rank
    assert found.network.beta == pytest.approx(d * np.sqrt(np.mean(A**2) * np.mean(B**2)), rel=1e-14)
    assert np.abs(found.attention(X)[:, 0] - softmax(X @ theta @ X.swapaxes(1, 2))).max() < SAME


def test_thresholds_of_heads_that_see_all_coordinates_and_of_heads_on_blocks(rng):
    """Each of the former has that of one head at D; the latter have D/H, and alpha = N/D is lower by as much."""
    queries, keys = drawn(rng, 2, 2, 1, 16)
    assert (
        al.threshold(al.from_weights(queries, keys, M).network).value
        == al.threshold(al.Network(1, M, tied=False)).value
    )
    on_blocks = al.from_weights(*(blocks(rng, 2, 1, 8) for _ in range(2)), M)
    assert not on_blocks.separate and on_blocks.network.heads == 2
    assert float(al.threshold(on_blocks.network).value) == pytest.approx(
        float(al.threshold(al.Network(1, M, tied=False)).value) / 2, abs=1e-12
    )
    X = drawn(rng, 2, M, 16)
    assert on_blocks.attention(X).shape == (2, 2, M, M)


def test_the_strength_of_the_residual_is_that_of_the_hidden_layers(rng):
    q = drawn(rng, 1, 2, 8)
    made = {c: AttentionLayer(q, q, 1.0, skip=c) for c in (None, 0.5, 2.0)}
    assert describe([made[0.5], made[None]], M).network.skip == 0.5
    assert describe([made[0.5], made[None]], M).notes == ()
    mixed = describe([made[0.5], made[None], made[2.0]], M)
    assert mixed.network.skip == 0.5 and "c = 0.5 is assumed" in mixed.notes[0]
    refused(r"one strength c, got \[0.5, 2.0\]", lambda: describe([made[0.5], made[2.0], made[0.5]], M))
    assert describe([made[0.5], made[2.0], made[0.5]], M, skip=0.7).network.skip == 0.7


def refused(text, call):
    with pytest.raises(ValueError, match=text):
        call()


def test_what_is_no_network_is_refused_with_a_sentence(rng):
    q = drawn(rng, 4, 2, 8)
    refused("cross-attention", lambda: al.from_weights(q, drawn(rng, 4, 2, 6), M))
    refused("share their keys", lambda: al.from_weights(q, q[:2], M))
    refused("one shape", lambda: al.from_weights(q[None], q, M))
    refused(
        r"2 layers of 4 heads that all see the 8 coordinates",
        lambda: al.from_weights(q[None][[0, 0]], q[None][[0, 0]], M),
    )
    refused("zero", lambda: al.from_weights(0 * q, q, M))
    refused("finite", lambda: al.from_weights(np.nan * q, q, M))
    refused("for each of 3 heads", lambda: al.from_weights(q[0].repeat(2, 0), q[0].repeat(2, 0), M, heads=3))
    refused("shape", lambda: al.from_weights(q[0, 0], q[0, 0], M))
    refused("heads must be an integer", lambda: al.from_weights(q, q, M, heads=0))
    refused("token_std", lambda: al.from_weights(q, q, M, token_std=0.0))
    refused("scale", lambda: al.from_weights(q, q, M, scale=-1.0))
    refused("tokens", lambda: al.from_weights(q, q, 1))
    refused(r"X must have shape \(\.\.\., M, D\)", lambda: al.from_weights(q, q, M).attention(np.zeros((2, 8))))
    refused("no attention layer", lambda: describe([], M))
    refused("layer must be at most 1", lambda: al.from_weights(q, q, M).circuits(2))
    two = [AttentionLayer(one, one, 1.0) for one in (drawn(rng, 1, 2, 8), drawn(rng, 1, 2, 6))]
    refused("same heads and D, got D = 8, 6", lambda: describe(two, M))
    assert describe(two, M, layer=2).dimension == 6


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("tokens", [2, 3, 4])
@pytest.mark.parametrize("rank", [1, 2, 3, 6])
def test_how_many_numbers_an_output_fixes(rng, tied, tokens, rank):
    """The count of docs/how/torch.md: the rank of the Jacobian of the scores without a constant in each row."""
    if tied:
        fixed = rank * tokens - rank * (rank - 1) // 2 if rank < tokens else tokens * (tokens + 1) // 2 - 1
    else:
        fixed = rank * (2 * tokens - 1 - rank) if rank < tokens else tokens * (tokens - 1)
    k, q = drawn(rng, 2, rank, tokens)
    q = k if tied else q
    moved = []
    for unit in np.eye(rank * tokens).reshape(-1, rank, tokens):
        moved += [unit.T @ q + k.T @ unit] if tied else [unit.T @ q, k.T @ unit]
    logits = np.array([s - s.mean(axis=1, keepdims=True) for s in moved])
    assert np.linalg.matrix_rank(logits.reshape(len(logits), -1)) == fixed
