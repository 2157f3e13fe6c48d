"""Modules of PyTorch: read from objects with its attributes, and from the modules themselves where it is installed."""

from types import SimpleNamespace

import numpy as np
import pytest

import attnlimits as al
from attnlimits.numerics.multihead.layer import multihead

M, D, H = 3, 24, 4
#: Of attention that the other side computes in float32 and in float64.
SAME = {"float32": 1e-6, "float64": 1e-12}


def part(kind="Part", children=None, **attributes):
    """An object of a class of this name, with children as a module has them."""
    if children is not None:
        attributes["named_children"] = lambda: iter(children.items())
        attributes |= children
    return type(kind, (SimpleNamespace,), {})(**attributes)


def stand_in(rng, dimension=D, heads=H, dtype=np.float64, **more):
    """A MultiheadAttention without PyTorch."""
    stacked = rng.standard_normal((3 * dimension, dimension)).astype(dtype) / 4
    out = part(weight=rng.standard_normal((dimension, dimension)).astype(dtype), bias=np.zeros(dimension))
    made = {"in_proj_weight": stacked, "in_proj_bias": np.zeros(3 * dimension), "num_heads": heads, "out_proj": out}
    return part("MultiheadAttention", **(made | {"embed_dim": dimension, "dropout": 0.0} | more))


def split(rows, heads=H):
    return rows.reshape(heads, -1, rows.shape[-1])


def test_the_stacked_projections_are_taken_apart(rng, probabilities):
    module = stand_in(rng)
    found = al.from_torch(module, M)
    X = rng.standard_normal((5, M, D))
    queries, keys, values = (split(rows) for rows in np.split(module.in_proj_weight, 3))
    wanted = probabilities(X, queries, keys)
    assert np.abs(found.attention(X) - wanted).max() < SAME["float64"]
    assert (
        found.separate
        and found.heads == H
        and found.network == al.Network(1, M, 6, beta=found.network.beta, tied=False)
    )
    attended = np.einsum("nhij,njd,hvd->nihv", wanted, X, values).reshape(5, M, D)
    np.testing.assert_allclose(multihead(X, *found.circuits()), attended @ module.out_proj.weight.T, atol=1e-11)


def test_projections_apart_from_each_other(rng, probabilities):
    queries, keys, values = rng.standard_normal((3, D, D))
    apart = {"in_proj_weight": None, "q_proj_weight": queries, "k_proj_weight": keys, "v_proj_weight": values[:, :8]}
    found = al.from_torch(stand_in(rng, **apart), M)
    X = rng.standard_normal((M, D))
    assert np.abs(found.attention(X) - probabilities(X, split(queries), split(keys))).max() < SAME["float64"]
    with pytest.raises(ValueError, match="not known"):
        found.circuits()
    with pytest.raises(ValueError, match="cross-attention"):
        al.from_torch(stand_in(rng, **apart | {"k_proj_weight": keys[:, :8]}), M)


@pytest.mark.parametrize(
    ("more", "note"),
    [
        ({"in_proj_bias": np.repeat([2.0, 1.0, 1.0], D)}, "The bias of the queries, of norm 9.8, is not represented."),
        ({"bias_k": np.ones(D)}, "A learned key (bias_k) beside those of the tokens is not represented."),
        ({"add_zero_attn": True}, "A token of zeros (add_zero_attn) beside the others is not represented."),
        ({"dropout": 0.1}, "Dropout 0.1 of the attention, while it trains, is not represented."),
    ],
)
def test_what_the_attention_has_more_is_noted(rng, more, note):
    found = al.from_torch(stand_in(rng, **more), M)
    assert found.notes[0] == note and len(found.notes) == 3


def test_biases_of_the_keys_drop_out(rng, softmax):
    """A bias of the keys adds one number to a row of scores: the network is exact, and has no note of it."""
    module = stand_in(rng, heads=1, in_proj_bias=np.repeat([0.0, 1.5, 0.0], D))
    found = al.from_torch(module, M)
    queries, keys, _ = np.split(module.in_proj_weight, 3)
    X = rng.standard_normal((M, D))
    wanted = softmax((X @ queries.T) @ (X @ keys.T + 1.5).T / np.sqrt(D))
    assert np.abs(found.attention(X)[0] - wanted).max() < SAME["float64"]
    assert [note for note in found.notes if "bias" in note] == []


def linear(weight):
    return part("Linear", weight=weight, bias=None)


def test_an_attention_by_hand(rng, probabilities):
    maps = dict(zip(("q_proj", "k_proj", "v_proj", "o_proj"), map(linear, rng.standard_normal((4, D, D))), strict=True))
    module = part("LlamaAttention", children=maps, config=part(num_attention_heads=H))
    for model, more in ((module, {}), (part("Block", children={"attn": module}), {}), ([module], {})):
        found = al.from_torch(model, M, **more)
        X = rng.standard_normal((M, D))
        wanted = probabilities(X, *(split(maps[name].weight) for name in ("q_proj", "k_proj")))
        assert np.abs(found.attention(X) - wanted).max() < SAME["float64"]
        assert any("LlamaAttention.forward" in note for note in found.notes)
        assert found.circuits()[1].shape == (H, D, D)
    plain = part("Attention", query=maps["q_proj"], key=maps["k_proj"])
    assert al.from_torch(plain, M, heads=2).network.rank == 12
    with pytest.raises(ValueError, match="heads of Attention must be given"):
        al.from_torch(plain, M)
    with pytest.raises(ValueError, match=r"output projection of Attention must have shape \(D, H v\)"):
        al.from_torch(part("Attention", **maps | {"o_proj": linear(np.ones((D, 7)))}, num_heads=2), M)
    fewer = part("Grouped", q_proj=maps["q_proj"], k_proj=linear(maps["k_proj"].weight[:6]), num_heads=H)
    with pytest.raises(ValueError, match="share their keys"):
        al.from_torch(fewer, M)


def test_one_map_of_queries_keys_and_values(rng, probabilities):
    rows, out = rng.standard_normal((3 * D, D)), linear(rng.standard_normal((D, D)))
    X = rng.standard_normal((2, M, D))
    queries, keys, values = (split(one) for one in np.split(rows, 3))
    for module in (part(qkv=linear(rows), proj=out, num_heads=H), part(c_attn=linear(rows.T), c_proj=out, n_head=H)):
        found = al.from_torch(module, M)
        assert np.abs(found.attention(X) - probabilities(X, queries, keys)).max() < SAME["float64"]
        moved = out.weight.reshape(D, H, -1).swapaxes(0, 1) @ values
        np.testing.assert_allclose(found.circuits()[1], moved.swapaxes(1, 2), rtol=1e-12)
    biased = part(qkv=part(weight=rows, bias=np.repeat([1.0, 0.0, 0.0], D)), num_heads=H)
    assert al.from_torch(biased, M).notes[0] == "The bias of the queries, of norm 4.9, is not represented."


def encoder_layer(rng, attention, norm_first=False):
    children = {"self_attn": attention, "linear1": linear(np.eye(D)), "norm1": part("LayerNorm", weight=np.ones(D))}
    return part("TransformerEncoderLayer", children=children, norm_first=norm_first)


def test_a_stack_of_encoder_layers(rng):
    layers = [encoder_layer(rng, stand_in(rng, heads=1), norm_first=first) for first in (True, False)]
    stack = part("TransformerEncoder", children={"layers": layers, "norm": part("LayerNorm", weight=np.ones(D))})
    found = al.from_torch(stack, M)
    assert (found.network.layers, found.network.skip, found.network.rank) == (2, 1.0, D)
    assert [layer.name for layer in found.layers] == ["layers.0.self_attn", "layers.1.self_attn"]
    text = "\n".join(found.notes)
    assert "Layer 1: tokens are normalised before the attention" in text
    assert "Layer 1: not represented: Linear layers.0.linear1, LayerNorm layers.0.norm1." in text
    assert "Layer 1: values and output projection are not the identity" in text
    assert "layers.1" not in text and "residual" not in text
    one = al.from_torch(stack, M, layer=2)
    assert one.network.layers == 1 and "Tokens are normalised" not in one.notes[0]
    many = part(children={"layers": [encoder_layer(rng, stand_in(rng)) for _ in range(2)]})
    with pytest.raises(ValueError, match=r"2 layers of 4 heads that all see the 24 coordinates .* layer=1"):
        al.from_torch(many, M)
    assert al.from_torch(many, M, layer=2).separate


def test_the_attention_of_a_decoder_to_another_sequence_is_noted(rng):
    children = {"self_attn": stand_in(rng), "multihead_attn": stand_in(rng)}
    module = part("TransformerDecoderLayer", children=children, norm_first=False)
    first, second = (al.from_torch(module, M, layer=number) for number in (1, 2))
    assert second.notes[0].startswith("Its keys are those of another sequence") and len(second.notes) == 3
    assert len(first.notes) == 2


def test_what_stands_before_the_attention_is_noted(rng):
    whole = part("Model", children={"embed": part("Embedding", weight=np.ones((9, D))), "attn": stand_in(rng)})
    assert al.from_torch(whole, M).notes[0] == "Not represented: Embedding embed."


@pytest.mark.parametrize(
    ("module", "text"),
    [
        (part("Linear", weight=np.ones((2, 2))), "got Linear with the modules: Linear; al.from_weights"),
        (None, "got NoneType with the modules: none"),
        ("attention", "got str"),
        (part(num_heads=2, in_proj_weight=np.ones((4, 2))), r"must have shape \(3 D, D\), got \(4, 2\)"),
        (part(num_heads=2, in_proj_weight="text"), "in_proj_weight of .* must be an array of numbers"),
        (part(num_heads=2, in_proj_weight=np.full((6, 2), np.nan)), "finite"),
        (part(num_heads=3, in_proj_weight=np.ones((6, 2))), "as many rows for each of 3 heads"),
        (part("Odd", q_proj=linear(np.ones((2, 2))), k_proj=None, num_heads=1), "got Odd with the modules: none"),
        (part("Odd", qkv=linear(np.ones((5, 2))), num_heads=1), r"qkv of Odd must have .* \(3 H d, D\), got \(5, 2\)"),
    ],
)
def test_other_objects_are_refused_with_a_sentence(module, text):
    with pytest.raises(ValueError, match=text):
        al.from_torch(module, M)


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="needs PyTorch: pip install 'attnlimits[torch]'")


@pytest.mark.parametrize("dtype", list(SAME))
@pytest.mark.parametrize("kdim", [None, D])
@pytest.mark.parametrize("heads", [1, H])
def test_modules_of_pytorch_have_the_attention_of_the_network(rng, torch, dtype, kdim, heads):
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    # With vdim the projections are apart from each other.
    module = torch.nn.MultiheadAttention(D, heads, kdim=kdim, vdim=8 if kdim else None, batch_first=True, dtype=kind)
    found = al.from_torch(module, M)
    X = torch.tensor(rng.standard_normal((5, M, D)), dtype=kind)
    values = X[..., :8] if kdim else X
    y, wanted = module(X, X, values, need_weights=True, average_attn_weights=False)
    assert np.abs(found.attention(X.numpy()) - wanted.detach().numpy()).max() < SAME[dtype]
    if not kdim:
        np.testing.assert_allclose(multihead(X.numpy(), *found.circuits()), y.detach().numpy(), atol=10 * SAME[dtype])


def test_initialisation_of_pytorch(torch):
    """Uniform of variance 2/(D + 3 D): beta = 1/(2 sqrt(d)); apart from each other 2/(D + D): 1/sqrt(d)."""
    torch.manual_seed(0)
    size, d = 512, 64
    for more, beta in (({}, 1 / (2 * np.sqrt(d))), ({"vdim": 8}, 1 / np.sqrt(d))):
        found = al.from_torch(torch.nn.MultiheadAttention(size, size // d, **more), M)
        assert np.abs(found.betas / beta - 1).max() < 5 * np.sqrt(0.4 / (d * size))
        assert abs(found.network.beta / beta - 1) < 5 * np.sqrt(0.4 / size**2)
        assert len(found.notes) == 2 - bool(more)


def test_a_stack_of_pytorch_that_is_a_network(rng, torch):
    """Without norms and MLP, and with values that are the identity: two layers of attention with a residual."""
    layers = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        layer = torch.nn.TransformerEncoderLayer(D, 1, 8, dropout=0.0, batch_first=True, dtype=torch.float64)
        layer.norm1, layer.norm2 = torch.nn.Identity(), torch.nn.Identity()
        with torch.no_grad():
            layer.linear2.weight.zero_()
            layer.linear2.bias.zero_()
            layer.self_attn.in_proj_weight[2 * D :] = torch.eye(D)
            layer.self_attn.out_proj.weight.copy_(torch.eye(D))
        layers.append(layer)
    found = al.from_torch(torch.nn.Sequential(*layers), M)
    X = rng.standard_normal((4, M, D))
    with torch.no_grad():
        hidden = layers[0](torch.tensor(X))
        _, wanted = layers[1].self_attn(hidden, hidden, hidden, average_attn_weights=False)
    assert found.network.layers == 2
    assert np.abs(found.attention(X) - wanted.numpy()).max() < SAME["float64"]
    # The MLP of zeros is one that it does not look into.
    assert [note for note in found.notes if "Inverse" not in note] == [
        "Layer 1: not represented: Linear 0.linear1, Linear 0.linear2."
    ]


def test_narrow_floats_of_pytorch(torch):
    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(D, H)
    wide = al.from_torch(module, M)
    assert al.from_torch(module.bfloat16(), M).network.beta == pytest.approx(wide.network.beta, rel=2**-7)
    with pytest.raises(ValueError, match="must be an array of numbers"):
        al.from_torch(torch.nn.MultiheadAttention(D, H, device="meta"), M)
