"""Lists of blocks: what is derived of them, proved, and refused."""

import itertools

import pytest
import sympy as sp

from attnlimits.derive.architecture import Architecture
from attnlimits.derive.blocks import composed_chart, composition_of
from attnlimits.derive.blocks.masked import masked_fibre
from attnlimits.derive.emit.chart_source import source_of_chart
from attnlimits.derive.emit.outputs_source import source_of_outputs
from attnlimits.derive.explain.blocks_page import blocks_record
from attnlimits.derive.straightline import straight_link


def causal(tokens):
    return [[j <= i for j in range(tokens)] for i in range(tokens)]


def window(tokens, size):
    return [[i - size < j <= i for j in range(tokens)] for i in range(tokens)]


def attention(**more):
    return {"kind": "attention", **more}


RESIDUAL, NORM = {"kind": "residual"}, {"kind": "norm"}
MLP = {"kind": "mlp", "width": 2, "activation": "tanh(z)", "planted": True}
#: Lists with a chart without noise.
CHARTED = {
    "window": (3, [attention(mask=window(3, 2))]),
    "window of three": (4, [attention(mask=window(4, 3))]),
    "causal linear": (3, [attention(mask=causal(3), activation="linear")]),
    "causal layers": (3, [attention(mask=causal(3)), RESIDUAL, attention(mask=causal(3))]),
    "norm": (2, [attention(), RESIDUAL, NORM, attention(rank=2)]),
    "norm before": (3, [NORM, attention(), {"kind": "residual", "over": 2}, attention(tied=False)]),
    "correlated": (2, [{"kind": "correlation", "tokens": 2}, attention(), RESIDUAL, attention(tied=False)]),
    "planted": (2, [attention(), RESIDUAL, MLP, NORM, attention()]),
    "own function": (3, [attention(mask=causal(3)), RESIDUAL, attention(activation="tanh(z)")]),
    "readout": (2, [attention(), RESIDUAL, {"kind": "readout", "reads": "mlp", "width": 2, "activation": "tanh(z)"}]),
    "classes": (3, [attention(), RESIDUAL, {"kind": "readout", "reads": "linear", "width": 2}]),
    "shares": (2, [attention(), RESIDUAL, MLP, {"kind": "readout", "reads": "softmax", "width": 3}]),
}
#: And others, which noise serves.
NOISY = {
    "mask and keys": (3, [attention(tied=False, mask=causal(3))]),
    "tokens": (3, [attention(mask=causal(3)), RESIDUAL, {"kind": "output"}]),
    "one token": (3, [attention(), RESIDUAL, {"kind": "output", "token": 1}]),
    "mean": (3, [attention(), RESIDUAL, {"kind": "readout", "reads": "mean"}]),
    "relu": (2, [attention(), RESIDUAL, {"kind": "readout", "reads": "mlp", "width": 1, "activation": "max(z, 0)"}]),
}


@pytest.mark.parametrize("name", CHARTED)
def test_charts_are_proved_before_they_are_printed(name):
    model = composition_of(*CHARTED[name])
    assert "def complete(" in source_of_chart(model)  # `prove_chart` raises where the printed functions disagree
    found = composed_chart(model)
    kept = len(found.data) + len(found.hidden) + len(found.variables)
    solved = [row for row in found.free if found.entries[row, 0] not in found.hidden]
    assert kept + len(solved) == len(found.entries)


@pytest.mark.parametrize("name", NOISY)
def test_what_has_no_coordinates_is_served_with_noise(name):
    model = composition_of(*NOISY[name])
    with pytest.raises(ValueError, match="noise"):
        source_of_chart(model)
    assert "def complete(" in source_of_chart(model, noisy=True)


@pytest.mark.parametrize("name", ["norm before", "planted", "shares", "own function"])
def test_outputs_have_the_derived_jacobian(name):
    assert "def outputs(" in source_of_outputs(composition_of(*CHARTED[name]))


def test_plain_layers_are_those_of_an_architecture():
    # The two recursions, of blocks and of layers, at random numbers.
    place = {}

    def numbers(symbols):
        return [place.setdefault(s, sp.Rational(len(place) % 7 - 3, 5)) for s in symbols]

    own = straight_link(Architecture(2, 3, (1, 2), tied=False))
    chain = straight_link(composition_of(3, [attention(tied=False), RESIDUAL, attention(tied=False, rank=2)]))
    values = numbers(own.variables)
    c, beta = own.model.constants
    first = own.expanded().subs(dict(zip(own.variables, values, strict=True)) | {c: 1, beta: 2})
    constants = dict(zip(chain.model.constants, (2, 1, 2), strict=True))
    second = chain.expanded().subs(dict(zip(chain.variables, values, strict=True)) | constants)
    assert (first.doit().evalf(30) - second.doit().evalf(30)).norm() < 1e-25


def test_an_mlp_that_is_not_planted_is_invisible():
    blocks = [attention(), RESIDUAL, {**MLP, "planted": False}, NORM, attention()]
    seen, without = composition_of(2, blocks), composition_of(2, [blocks[0], RESIDUAL, NORM, attention()])
    assert seen.indices == without.indices == 2
    place = dict(zip(straight_link(seen).variables, straight_link(without).variables, strict=True))
    place |= dict(zip(seen.constants, without.constants, strict=True))
    assert straight_link(seen).expanded().xreplace(place) == straight_link(without).expanded()


def test_planted_overlaps_are_constants_whether_they_are_seen_or_not():
    # The second mlp leaves nothing of what the first one added.
    blocks = [{**MLP, "width": 1}, {**MLP, "bare": True}, attention(tied=False)]
    names = [s.name for s in composition_of(2, blocks).constants]
    assert names[:5] == ["beta3", "t1_1_a2_1", "t1_1_a2_2", "t1_1_k3_1", "t1_1_q3_1"]
    assert names[5:] == ["t2_1_k3_1", "t2_1_q3_1", "t2_2_k3_1", "t2_2_q3_1"]


def test_an_mlp_of_the_identity_is_attention_in_another_basis():
    # v = h_w B^T + t h_a B^T: rows w + t a.
    model = composition_of(2, [{**MLP, "width": 1, "activation": "linear"}, attention()])
    line = straight_link(model)
    a, h, t = sp.Matrix([line.variables[:2]]), sp.Matrix([line.variables[2:]]), model.constants[-1]
    plain = straight_link(composition_of(2, [attention()]))
    place = dict(zip(plain.variables, h + t * a, strict=True)) | {plain.model.constants[0]: model.constants[0]}
    values = {s: sp.Rational(n + 2, 7) for n, s in enumerate([*line.variables, *model.constants])}
    found, wanted = line.expanded().subs(values), plain.expanded().xreplace(place).subs(values)
    assert (found.doit().evalf(30) - wanted.doit().evalf(30)).norm() < 1e-25


@pytest.mark.parametrize("tokens", [2, 3, 4])
def test_a_causal_softmax_shows_the_index_up_to_its_sign_from_three_tokens_on(tokens):
    found = masked_fibre(Architecture(1, tokens), causal(tokens))
    assert len(found.variables) == (1 if tokens == 2 else 0)
    assert len(found.signs) == (0 if tokens == 2 else 1)


def test_masks_that_show_more_than_triangles_are_refused():
    # A circle of four tokens: 4 sees 2 and 3, both see 1.
    mask = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [0, 1, 1, 1]]
    with pytest.raises(ValueError, match="circle of tokens"):
        masked_fibre(Architecture(1, 4), mask)


def test_masks_of_three_tokens_all_have_charts_or_reasons():
    # Every mask over three tokens in which all see themselves: 64.
    served = 0
    for choice in itertools.product((0, 1), repeat=6):
        mask = [[1, *choice[:2]], [choice[2], 1, choice[3]], [*choice[4:], 1]]
        model = composition_of(3, [attention(mask=mask)])
        try:
            source_of_chart(model)
            served += 1
        except ValueError as error:
            assert "noise" in str(error)
    assert served >= 50


def test_free_means_end_at_a_norm():
    untied = attention(tied=False)
    assert composition_of(2, [untied, RESIDUAL, untied]).free_means == (1, 3)
    assert composition_of(2, [untied, RESIDUAL, NORM, untied]).free_means == ()


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        ([RESIDUAL], "must show something"),
        ([{"kind": "residual", "over": 2}, attention()], "leads around 2 blocks"),
        ([{"kind": "wavelet"}], "a block is one of"),
    ],
)
def test_lists_that_make_no_network_are_refused(blocks, words):
    with pytest.raises(ValueError, match=words):
        composition_of(2, blocks)


def test_what_an_mlp_adds_may_not_be_observed():
    with pytest.raises(ValueError, match="the weights U themselves"):
        straight_link(composition_of(2, [attention(), RESIDUAL, MLP, {"kind": "output"}]))
    with pytest.raises(ValueError, match="norm right behind a bare mlp"):
        straight_link(composition_of(2, [{**MLP, "bare": True}, NORM, attention()]))


def test_the_page_has_the_definitions_of_all_blocks():
    record = blocks_record(composition_of(*CHARTED["causal layers"]))
    assert "rows see the tokens 1; 1,2; 1,2,3" in record["text"]
    assert "leaves 3 variables and 1 sign" in record["text"]
    assert r"\begin{document}" in record["latex"]
