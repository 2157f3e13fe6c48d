"""Activations of the user's own, as text or from SymPy: what they are, what they refuse, and their numbers."""

import numpy as np
import pytest
import sympy as sp

import attnlimits as al
from attnlimits.numerics.core.errors import KernelNotFoundError

SCORES = np.linspace(-3, 3, 13).reshape(13, 1)
FUNCTIONS = {
    "tanh(z)": np.tanh,
    "1/(1 + exp(-z))": lambda z: 1 / (1 + np.exp(-z)),
    "max(z, z/10)": lambda z: np.maximum(z, z / 10),
    "z**3": lambda z: z**3,
}


@pytest.mark.parametrize("text", FUNCTIONS)
def test_the_text_is_the_function(text: str):
    h = np.random.default_rng(0).standard_normal((5, 2, 2))
    mine, plain = (al.Network(2, 2, activation=one) for one in (text, FUNCTIONS[text]))
    assert np.allclose(mine.link(h), plain.link(h), rtol=1e-13)
    assert mine.activation_name == text and text in str(mine.parameters)
    assert mine.kernel_hash != al.Network(2, 2, activation="z").kernel_hash


def test_sympy_and_texts_are_the_same_network():
    z = sp.Symbol("z")
    for given in (sp.tanh, sp.Lambda(z, sp.tanh(z)), sp.tanh(sp.Symbol("x"))):
        assert al.Network(2, 2, activation=given) == al.Network(2, 2, activation="tanh(z)")


@pytest.mark.parametrize(
    ("text", "says"),
    [("__import__('os').system(z)", "unexpected character"), ("foo(z)", "got 'foo'"), ("tanh(z", "expected ')'")],
)
def test_the_grammar_is_strict(text: str, says: str):
    with pytest.raises(ValueError, match="position") as caught:
        al.Network(2, 2, activation=text).link(np.ones((2, 2)))
    assert says in str(caught.value)


def test_what_is_no_function_of_a_score_is_refused():
    with pytest.raises(ValueError, match="activation must be one of softmax, linear"):
        al.Network(2, 2, activation="sofmax")


@pytest.mark.slow_for("relu(z)")
@pytest.mark.parametrize("activation", ["relu(z)", "sin(z)"])
def test_what_is_not_monotone_is_refused(activation):
    with pytest.raises(KernelNotFoundError, match="not provably strictly monotone"):
        al.threshold(al.Network(2, 2, activation=activation))


def test_one_layer_says_what_its_scores_say():
    mine, linear = (al.Network(1, 3, 2, activation=one) for one in ("tanh(z)", "linear"))
    assert al.threshold(mine).value == al.threshold(linear).value
    states = [al.evolve(al.Network(1, 2, activation=one), 0.4) for one in ("tanh(z)", "linear")]
    assert np.array_equal(states[0].overlap, states[1].overlap)
    assert states[0].origin.model["activation"] == "tanh(z)" and "monotone" in states[0].status


def test_z_is_linear_attention():
    """The threshold by the chart against that by ball arithmetic."""
    mine = al.threshold(al.Network(2, 2, activation="z"), samples=128)
    exact = float(al.threshold(al.Network(2, 2, activation="linear"), digits=6).value)
    assert mine.how == "monte-carlo"
    assert abs(float(mine.value) - exact) <= 3 * mine.error < 0.06


@pytest.mark.slow
def test_the_threshold_of_tanh_is_where_overlaps_grow():
    net = al.Network(2, 2, activation="tanh(z)")
    critical = al.threshold(net, samples=256)
    assert critical.error < 0.02
    below, above = (al.evolve(net, factor * float(critical.value), samples=64) for factor in (0.8, 1.5))
    assert below.overlap[1, 1] < 1e-6 < 0.05 < above.overlap[1, 1]
