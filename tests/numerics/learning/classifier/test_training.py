"""The network against the house's own, and its training on the made corpus."""

import numpy as np
import pytest
from scipy.special import log_softmax

from attnlimits.numerics.learning.classifier import Embedded, Settings, label_numbers, made_corpus, similarity, train
from attnlimits.numerics.learning.classifier.network import Network
from attnlimits.numerics.model import networks
from attnlimits.numerics.model.network import Network as Attention


@pytest.fixture(scope="module")
def sets():
    corpus = made_corpus(300, 100, 32)
    (first, second), (_, labels, others) = corpus.embedded(), label_numbers(corpus.train, corpus.test)
    return (first, labels), (second, others)


def network(rng, dimension=12, classes=3, ranks=(2, 2), skip=0.7):
    draw = rng.standard_normal
    return Network(tuple(draw((r, dimension)) for r in ranks), draw((classes, dimension)), draw(classes), skip)


def test_scores_are_those_of_the_architecture(rng):
    """Against `networks.forward`, the definition (2)-(3), (25), with tokens as columns."""
    ours = network(rng)
    x = rng.standard_normal((5, 4, 12))
    shape = Attention(2, 4, rank=(2, 2), skip=0.7, output="sequence")
    state = networks.forward(np.swapaxes(x, 1, 2), np.concatenate(ours.layers), shape)
    expected = state.mean(axis=2) @ ours.readout.T + ours.bias
    assert ours.logits(x, np.ones((5, 4), bool)) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_padding_changes_nothing(rng):
    ours = network(rng)
    x, labels = rng.standard_normal((3, 4, 12)), np.array([0, 2, 1])
    mask = np.ones((3, 4), bool)
    # Whatever stands in the padding.
    longer = np.concatenate([x, 7 + x[:, :2]], axis=1)
    padding = np.concatenate([mask, ~mask[:, :2]], axis=1)
    assert ours.logits(longer, padding) == pytest.approx(ours.logits(x, mask), rel=1e-12)
    for found, plain in zip(ours.gradient(longer, padding, labels), ours.gradient(x, mask, labels), strict=True):
        assert found == pytest.approx(plain, rel=1e-10, abs=1e-14)


def test_the_gradient_is_that_of_the_loss(rng):
    """Against central differences, every parameter, with questions of different lengths."""
    ours = network(rng, dimension=5)
    x, labels = rng.standard_normal((4, 4, 5)), np.array([0, 2, 1, 1])
    mask = np.arange(4) < np.array([4, 2, 3, 1])[:, None]

    def loss():
        return float(-log_softmax(ours.logits(x, mask), axis=1)[np.arange(4), labels].mean())

    step = 1e-5
    for weights, found in zip(ours.parameters, ours.gradient(x, mask, labels), strict=True):
        expected = np.zeros_like(weights)
        for at in np.ndindex(weights.shape):
            value, sides = weights[at], []
            for sign in (1, -1):
                weights[at] = value + sign * step
                sides.append(loss())
            weights[at] = value
            expected[at] = (sides[0] - sides[1]) / (2 * step)
        # Differences of a loss of order one: rounding 1e-16/1e-5, truncation of order 1e-10.
        assert found == pytest.approx(expected, abs=1e-9)


def test_training_learns_the_made_questions(sets):
    steps = []
    found = train(*sets, Settings(epochs=40, rate=3e-3), seed=1, progress=lambda *done: steps.append(done))
    assert found.converged and found.n_epochs == 40 and steps[-1] == (40, 40)
    assert found.accuracy[-1] > 0.97 and found.test_accuracy[-1] > 0.8
    # Six labels, at chance before training; the loss is that of a uniform guess.
    assert found.accuracy[0] < 0.4 and found.loss[0] == pytest.approx(np.log(6), abs=0.05)
    assert found.loss[-1] < 0.2 < found.loss[0]
    assert found.similarity.shape == (41, 2) and found.weights.shape == (41, 2, 16, 32)
    assert found.similarity[-1] == pytest.approx(1, abs=1e-12)
    assert (found.similarity[0] < 0.5).all() and (found.similarity[-2] > 0.99).all()
    assert found.similarity[3, 1] == pytest.approx(float(similarity(found.weights[3, 1], found.weights[-1, 1])))


def test_the_first_step_is_that_of_adamw(sets):
    """One batch of all: each weight moves by its rate against its gradient's sign, and decays."""
    settings = Settings(epochs=1, batch=300, rate=1e-3, weight_decay=0.1, spread=0.2, standardise=False)
    found = train(*sets, settings, seed=2)
    start = Network.random(32, 6, settings, 2)
    (embedded, labels), _ = sets
    gradients = start.gradient(embedded.tokens, embedded.mask, labels)
    for layer, (before, gradient) in enumerate(zip(start.layers, gradients, strict=False)):
        assert found.weights[0, layer] == pytest.approx(before)
        moved = before * (1 - 1e-4) - 1e-3 * np.sign(gradient)
        # Gradients near Adam's epsilon of 1e-8 move by less.
        clear = np.abs(gradient) > 1e-5
        assert clear.mean() > 0.8
        assert found.weights[1, layer][clear] == pytest.approx(moved[clear], abs=2e-6)


def test_seeds_decide_everything(sets):
    settings = Settings(epochs=2)
    first, again, other = (train(*sets, settings, seed=seed) for seed in (5, 5, 6))
    assert (first.weights == again.weights).all() and (first.weights != other.weights).any()


def test_a_loss_that_is_not_finite_ends_the_run(sets):
    found = train(*sets, Settings(epochs=5, rate=1e30))
    assert not found.converged and "take a smaller rate" in found.status
    assert found.n_epochs < 5 and np.isfinite(found.loss).all() and len(found.similarity) == found.n_epochs + 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rank": 0}, "rank must be an integer >= 1"),
        ({"epochs": 1.5}, "epochs must be an integer >= 1"),
        ({"batch": 0}, "batch must be an integer >= 1"),
        ({"rate": 0.0}, "rate must be finite and > 0"),
        ({"spread": -1.0}, "spread must be finite and > 0"),
        ({"skip": float("nan")}, "skip must be finite and >= 0"),
        ({"weight_decay": -1.0}, "weight_decay must be finite and >= 0"),
        ({"standardise": 1}, "standardise must be True"),
    ],
)
def test_bad_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        Settings(**settings)


def test_data_that_do_not_fit_are_refused(sets):
    (first, labels), second = sets
    with pytest.raises(ValueError, match="train_set must have tokens"):
        train((first, labels[:-1]), second)
    with pytest.raises(ValueError, match="same d, got 32 and 3"):
        train((first, labels), (Embedded(second[0].tokens[:, :, :3], second[0].mask), second[1]))
    with pytest.raises(ValueError, match="each of them a token"):
        train((Embedded(first.tokens, np.zeros_like(first.mask)), labels), second)
    with pytest.raises(ValueError, match="seed must be >= 0"):
        train((first, labels), second, seed=-1)


def test_embeddings_that_are_all_the_same_are_refused(sets):
    (first, labels), second = sets
    with pytest.raises(ValueError, match="nothing to learn from"):
        train((Embedded(np.ones_like(first.tokens), first.mask), labels), second)
