"""Parameters of Flax: read from nested arrays, and from linen and nnx where they are installed."""

import numpy as np
import pytest

import attnlimits as al
from attnlimits.numerics.multihead.layer import multihead

M, D, H, d = 3, 24, 4, 5
SAME = {"float32": 1e-6, "float64": 1e-12}


def kernels(rng, heads=H, **more):
    """Parameters of a MultiHeadDotProductAttention."""
    made = {name: {"kernel": rng.standard_normal((D, heads, d)) / 4} for name in ("query", "key", "value")}
    return made | {"out": {"kernel": rng.standard_normal((heads, d, D)), "bias": np.zeros(D)}} | more


def test_kernels_are_read(rng, probabilities):
    params = kernels(rng)
    X = rng.standard_normal((5, M, D))
    q, k, v = (params[name]["kernel"].transpose(1, 2, 0) for name in ("query", "key", "value"))
    wanted = probabilities(X, q, k)
    for tree in (params, {"params": params}, {"params": {"encoder": {"attention": params}}}):
        found = al.from_flax(tree, M)
        assert np.abs(found.attention(X) - wanted).max() < SAME["float64"]
        assert (found.network.rank, found.heads, found.dimension) == (d, H, D)
    attended = np.einsum("nhij,njd,hvd->nihv", wanted, X, v)
    output = np.einsum("nihv,hvd->nid", attended, params["out"]["kernel"])
    np.testing.assert_allclose(multihead(X, *found.circuits()), output, atol=1e-11)


def test_kernels_of_dense_layers_need_the_heads(rng, probabilities):
    params = kernels(rng)
    dense = {name: {"kernel": params[name]["kernel"].reshape(D, H * d)} for name in ("query", "key")}
    X = rng.standard_normal((M, D))
    wanted = probabilities(X, *(params[name]["kernel"].transpose(1, 2, 0) for name in ("query", "key")))
    assert np.abs(al.from_flax(dense, M, heads=H).attention(X) - wanted).max() < SAME["float64"]
    for heads in (None, 3):
        with pytest.raises(ValueError, match="heads must be given, and divide 20"):
            al.from_flax(dense, M, heads=heads)


def test_layers_are_in_the_order_of_their_numbers(rng):
    names = [f"layers_{number}" for number in (10, 9, 2)]
    tree = {name: {"attn": kernels(rng, heads=1), "mlp": {"kernel": np.eye(D)}} for name in names}
    tree = {"embed": {"embedding": np.ones((9, D))}, "head": {"kernel": np.eye(D)}} | tree
    found = al.from_flax(tree, M, skip=1.0)
    assert [layer.name for layer in found.layers] == ["layers_2/attn", "layers_9/attn", "layers_10/attn"]
    assert found.notes[0] == "Layer 1: not represented: embed, head."
    assert "Layer 1: not represented: layers_2/mlp." in found.notes
    assert found.network.layers == 3 and al.from_flax(tree, M, layer=3).layers[0].name == "layers_10/attn"


def test_what_the_attention_has_more_is_noted(rng):
    params = kernels(rng, query_ln={"scale": np.ones(d)})
    params["query"]["bias"] = np.full((H, d), 2.0)
    params["key"]["bias"] = np.full((H, d), 2.0)
    params["value"]["bias"] = np.full((H, d), 2.0)
    notes = al.from_flax(params, M).notes
    assert notes[:2] == (
        "The bias of the queries, of norm 8.94, is not represented.",
        "The norms of queries and keys (normalize_qk) are not represented.",
    )
    two = {"a": kernels(rng, heads=1), "b": kernels(rng, heads=1)}
    two["a"]["value"]["bias"] = np.ones((1, d))
    assert "Layer 1: biases of values and output projection are not represented." in al.from_flax(two, M).notes


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ({}, "got dict with nothing; al.from_weights"),
        ({"a": {"kernel": np.ones((2, 2))}}, "got dict with a;"),
        (np.ones(3), "got ndarray with nothing"),
        ({"query": {"kernel": np.ones((2, 2, 2, 2))}, "key": {"kernel": np.ones((2, 2, 2))}}, "scanned"),
        ({"query": {"kernel": np.ones((6, 4, 2))}, "key": {"kernel": np.ones((6, 2, 2))}}, "share their keys"),
        (
            {"query": {"kernel": "text"}, "key": {"kernel": np.ones((6, 2, 2))}},
            "kernel of params/query must be an array",
        ),
    ],
)
def test_other_trees_are_refused_with_a_sentence(tree, text):
    with pytest.raises(ValueError, match=text):
        al.from_flax(tree, M)


@pytest.fixture(scope="module")
def flax():
    return pytest.importorskip("flax", reason="needs Flax: pip install 'attnlimits[flax]'")


def sown(intermediates):
    return np.asarray(intermediates["intermediates"]["attention_weights"][0])


@pytest.mark.parametrize("dtype", list(SAME))
def test_linen_has_the_attention_of_the_network(rng, flax, dtype):
    import jax
    from flax import linen

    with jax.enable_x64(dtype == "float64"):
        X = jax.numpy.asarray(rng.standard_normal((5, M, D)), dtype)
        layer = linen.MultiHeadDotProductAttention(
            H, qkv_features=H * d, dtype=dtype, param_dtype=dtype, precision="highest"
        )
        params = layer.init(jax.random.key(0), X)
        y, seen = layer.apply(params, X, sow_weights=True, mutable=["intermediates"])
        found = al.from_flax(params, M)
        assert np.abs(found.attention(np.asarray(X)) - sown(seen)).max() < SAME[dtype]
        np.testing.assert_allclose(multihead(np.asarray(X), *found.circuits()), y, atol=10 * SAME[dtype])


def test_nnx_has_the_attention_of_the_network(rng, flax):
    import jax
    from flax import nnx
    from flax.nnx.nn.attention import dot_product_attention_weights

    layer = nnx.MultiHeadAttention(H, D, H * d, decode=False, rngs=nnx.Rngs(0))
    X = rng.standard_normal((5, M, D)).astype(np.float32)
    state = nnx.state(layer, nnx.Param)
    seen = []

    def watched(query, key, value, **more):
        more = {name: more[name] for name in ("bias", "mask") if name in more}
        seen.append(dot_product_attention_weights(query, key, precision="highest", **more))
        return nnx.dot_product_attention(query, key, value, precision="highest", **more)

    layer.attention_fn = watched
    layer.precision = jax.lax.Precision.HIGHEST
    layer(X)
    for tree in (layer, state, nnx.to_pure_dict(state), {"attention": nnx.to_pure_dict(state)}):
        found = al.from_flax(tree, M)
        assert np.abs(found.attention(X) - np.asarray(seen[0])).max() < SAME["float32"]


def test_initialisation_of_flax(flax):
    """Variance 1/D: beta = 1/sqrt(d). A truncated normal number has lighter tails than a normal one."""
    import jax
    from flax import linen

    size, rank = 256, 32
    params = linen.MultiHeadDotProductAttention(size // rank).init(jax.random.key(0), np.ones((1, M, size)))
    found = al.from_flax(params, M)
    assert abs(found.network.beta * np.sqrt(rank) - 1) < 5 / size
    assert np.abs(found.betas * np.sqrt(rank) - 1).max() < 5 / np.sqrt(rank * size)
