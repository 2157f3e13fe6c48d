"""Networks as lists of blocks: the forward pass against what is derived, their words, and what is refused."""

import itertools

import numpy as np
import pytest

from attnlimits.numerics.model.blocks import MLP, Attention, Norm, Output, Readout, Residual
from attnlimits.numerics.model.blocks.grammar import read_blocks
from attnlimits.numerics.model.blocks.masks import as_mask
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.model.networks import forward, indices, random_weights

D = 40


def orthonormal(count, tokens, rng, extra=0):
    """Tokens, and further directions, that are orthogonal and of norm sqrt(D): what all are as D grows."""
    x = np.linalg.qr(rng.standard_normal((count, D, tokens + extra)))[0] * np.sqrt(D)
    return x[..., :tokens]


PARTS = ["norm", "attention(causal) | residual(0.7)", "mlp(2, tanh)", "norm(rms) | attention | residual(over=2)"]
ENDS = ["attention(causal)", "readout(mlp, 2, tanh)", "readout(softmax, 3)", "attention(untied, rank=2, beta=0.5)"]
# A norm behind an mlp sees what this adds at finite D.
PAIRS = [pair for pair in itertools.permutations(PARTS, 2) if not (pair[0].startswith("mlp") and "norm" in pair[1])]
LISTS = [f"{a} | {b} | {c}" for (a, b), c in itertools.product(PAIRS, ENDS)]


@pytest.mark.parametrize("tokens", [2, 3])
@pytest.mark.parametrize("text", [*LISTS[::5], "attention(window:2) | residual | readout(linear, 2, token=2)"])
def test_the_derived_output_is_that_of_a_forward_pass(text, tokens):
    rng = np.random.default_rng(len(text))
    model = Network(text, tokens, token_covariance="ar1:0.4")
    weights = random_weights(model, D, 1)
    # U is orthogonal to the weights: what t = 0 is in the limit.
    free = np.linalg.qr(np.vstack([weights, rng.standard_normal((4, D))]).T)[0][:, len(weights) :].T * np.sqrt(D)
    x = orthonormal(5, tokens, rng)
    directions = [np.vstack([rng.standard_normal((2, D)), free[2:]])] if "mlp(2, tanh) |" in text else []
    found = forward(x, weights, model, directions=directions)
    assert np.abs(found - model.link(indices(x, weights, model))).max() < 1e-12


@pytest.mark.parametrize("text", ["attention | residual | output(sequence)", "attention(causal) | output(token=2)"])
def test_tokens_that_leave_are_those_that_enter_times_b(text):
    rng = np.random.default_rng(0)
    model = Network(text, 3, token_covariance=np.array([[2.0, 0.3, 0], [0.3, 1, 0.2], [0, 0.2, 1]]))
    weights, x = random_weights(model, D, 1), rng.standard_normal((4, D, 3))
    b = model.link(indices(x, weights, model))
    assert np.abs(forward(x, weights, model) - np.einsum("nam,ndm->nda", b, x)).max() < 1e-12


def test_planted_overlaps_enter_as_derived():
    rng = np.random.default_rng(3)
    u = np.linalg.qr(rng.standard_normal((D, 2)))[0].T * np.sqrt(D)
    weights = rng.standard_normal((4, D))
    overlaps = weights[3:] @ u.T / D
    model = Network(
        [Attention(), Residual(), MLP(2, "tanh", overlaps), Attention(beta=0.7)], 2, token_covariance="ar1:0.3"
    )
    assert model.indices == 4
    x = orthonormal(5, 2, rng)
    found = forward(x, weights, model, directions=[u])
    assert np.abs(found - model.link(indices(x, weights, model))).max() < 1e-12


def test_independent_mlps_are_invisible_as_the_dimension_grows():
    off = []
    for dimension in (250, 1000, 4000):
        rng = np.random.default_rng(dimension)
        model = Network("attention | residual | mlp(3, tanh) | attention", 2)
        seen = Network("attention | residual | attention", 2)
        moved = []
        for _ in range(40):
            weights, x = random_weights(model, dimension, rng), rng.standard_normal((20, dimension, 2))
            planes = rng.standard_normal((6, dimension))
            moved.append(forward(x, weights, model, directions=[planes]) - forward(x, weights, seen))
        off.append(np.sqrt(np.mean(np.square(moved))))
    # D^{-1/2}: root mean squares over 40 draws of weights are good to some 15 per cent, the slope to .08.
    assert abs(np.log(off[2] / off[0]) / np.log(16) + 0.5) < 0.12
    assert off[0] > off[1] > off[2]
    assert np.array_equal(model.link(np.ones((2, 2))), seen.link(np.ones((2, 2))))


def test_lists_of_plain_layers_are_plain_networks():
    assert Network("attention | residual(2) | attention(rank=2)", 3) == Network(2, 3, (1, 2), skip=2.0)
    assert Network([Attention(tied=False), Residual(), Output()], 2) == Network(1, 2, tied=False, output="sequence")
    assert Network(1, 3, mask=np.ones((3, 3))) == Network(1, 3)
    assert Network(2, 2, token_covariance=np.eye(2)) == Network(2, 2)
    assert Network(2, 2, mask="causal").chain is not None


@pytest.mark.parametrize("text", [*LISTS[:6], "attention(mask=110/011/111) | residual(over=1) | readout(mean)"])
def test_words_of_a_list_read_back(text):
    chain = Network(text, 3).chain
    assert chain is not None
    assert read_blocks(chain.text()) == chain.blocks
    assert Network(chain.text(), 3) == Network(text, 3)


def test_masks_have_names():
    assert np.array_equal(as_mask("causal", 3), np.tri(3, dtype=bool))
    assert as_mask("window:3", 3) == as_mask("causal", 3)
    assert as_mask("full", 4) is None


@pytest.mark.parametrize(
    ("arguments", "more", "words"),
    [
        (("attention | blah",), {}, "expected one of attention"),
        (("attention(rank=two)",), {}, "rank must be an integer"),
        (("attention(colour=3)",), {}, "does not know colour"),
        (("attention(causal",), {}, "brackets do not match"),
        (("residual",), {}, "must show something"),
        (("norm | output(sequence)",), {}, "needs a block with weights"),
        (("readout(linear) | attention",), {}, "must be the last block"),
        (("attention | residual(over=3) | attention",), {}, "leads around 3 blocks"),
        (("attention | readout(linear, token=3)",), {}, "there are 2 tokens"),
        ((1, 2), {"mask": np.zeros((2, 2))}, "row 1 sees none"),
        ((1, 2), {"mask": np.eye(3)}, "shape"),
        ((1, 2), {"mask": "banded"}, "mask must be"),
        ((1, 2), {"token_covariance": [[1, 2], [2, 1]]}, "positive definite"),
        ((1, 2), {"token_covariance": [[1, np.nan], [np.nan, 1]]}, "finite"),
        ((1, 2), {"token_covariance": np.eye(3)}, "shape"),
        ((1, 2), {"token_covariance": "ar1:1.5"}, "-1 < rho < 1"),
        ((2, 2), {"mask": "causal", "heads": 2}, "one head"),
        (([Attention(), "norm"],), {}, "al.blocks"),
        (([MLP(2, "tanh", [[0.1, 0.2]]), Attention(2)],), {}, "2 later rows"),
    ],
)
def test_bad_lists_are_named(arguments, more, words):
    with pytest.raises(ValueError, match=words):
        Network(*arguments, **more)


def test_a_list_has_no_mixing_matrix_of_plain_layers():
    with pytest.raises(ValueError, match="mixing is of plain layers"):
        Network(2, 2, mask="causal").mixing(np.ones((2, 2)))


def test_one_block_is_one_class():
    # What every block has: the Protocol that the chain relies on.
    for block in (Attention(), Residual(), Norm(), MLP(), Readout(), Output()):
        assert isinstance(block.kind, str)
        assert block.request(3)["kind"] == block.kind
        assert len(block.numbers(3)) == {"attention": 1, "residual": 1}.get(block.kind, 0)
        assert all(size > 0 for _, size in block.rows)
        assert block.text().startswith(block.kind)
