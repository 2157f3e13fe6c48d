"""The network against the house's own, and its training on the made corpus."""

import subprocess
import sys

import numpy as np
import pytest

from attnlimits.numerics.learning.classifier import Embedded, Settings, label_numbers, made_corpus, similarity, train
from attnlimits.numerics.learning.classifier.network import Network, require_torch
from attnlimits.numerics.model import networks
from attnlimits.numerics.model.network import Network as Attention


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="needs PyTorch: pip install 'attnlimits[torch]'")


@pytest.fixture(scope="module")
def sets():
    corpus = made_corpus(300, 100, 32)
    (first, second), (_, labels, others) = corpus.embedded(), label_numbers(corpus.train, corpus.test)
    return (first, labels), (second, others)


def network(torch, rng, dimension=12, classes=3, ranks=(2, 2), skip=0.7):
    def draw(*shape):
        return torch.from_numpy(rng.standard_normal(shape))

    return Network(tuple(draw(r, dimension) for r in ranks), draw(classes, dimension), draw(classes), skip)


def test_scores_are_those_of_the_architecture(torch, rng):
    """Against `networks.forward`, the definition (2)-(3), (25), with tokens as columns."""
    ours = network(torch, rng)
    x = rng.standard_normal((5, 4, 12))
    shape = Attention(2, 4, rank=(2, 2), skip=0.7, output="sequence")
    state = networks.forward(np.swapaxes(x, 1, 2), np.concatenate([w.numpy() for w in ours.layers]), shape)
    expected = state.mean(axis=2) @ ours.readout.numpy().T + ours.bias.numpy()
    found = ours.logits(torch.from_numpy(x), torch.ones(5, 4, dtype=torch.bool)).numpy()
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_padding_changes_nothing(torch, rng):
    ours = network(torch, rng)
    x = torch.from_numpy(rng.standard_normal((3, 4, 12)))
    mask = torch.ones(3, 4, dtype=torch.bool)
    plain = ours.logits(x, mask)
    # Whatever stands in the padding.
    longer = torch.cat([x, 7 + x[:, :2]], dim=1)
    padded = ours.logits(longer, torch.cat([mask, ~mask[:, :2]], dim=1))
    assert padded.numpy() == pytest.approx(plain.numpy(), rel=1e-12)


def test_training_learns_the_made_questions(torch, sets):
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
    assert found.versions["torch"] == str(torch.__version__)


def test_the_first_step_is_that_of_adamw(torch, sets):
    """One batch of all: each weight moves by its rate against its gradient's sign, and decays."""
    settings = Settings(epochs=1, batch=300, rate=1e-3, weight_decay=0.1, spread=0.2, standardise=False)
    found = train(*sets, settings, seed=2)
    start = Network.random(32, 6, settings, 2)
    (embedded, labels), _ = sets
    logits = start.logits(torch.from_numpy(embedded.tokens), torch.from_numpy(embedded.mask))
    torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels)).backward()
    for layer, w in enumerate(start.layers):
        before, gradient = w.detach().numpy(), w.grad.numpy()
        assert found.weights[0, layer] == pytest.approx(before)
        moved = before * (1 - 1e-4) - 1e-3 * np.sign(gradient)
        # Gradients near Adam's epsilon of 1e-8 move by less.
        clear = np.abs(gradient) > 1e-5
        assert clear.mean() > 0.8
        assert found.weights[1, layer][clear] == pytest.approx(moved[clear], abs=2e-6)


def test_seeds_decide_everything(torch, sets):
    settings = Settings(epochs=2)
    first, again, other = (train(*sets, settings, seed=seed) for seed in (5, 5, 6))
    assert (first.weights == again.weights).all() and (first.weights != other.weights).any()


def test_a_loss_that_is_not_finite_ends_the_run(torch, sets):
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


def test_embeddings_that_are_all_the_same_are_refused(torch, sets):
    (first, labels), second = sets
    with pytest.raises(ValueError, match="nothing to learn from"):
        train((Embedded(np.ones_like(first.tokens), first.mask), labels), second)


def test_without_torch_it_is_said_what_to_install(sets, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for call in (require_torch, lambda: train(*sets)):
        with pytest.raises(ValueError, match=r"training needs PyTorch.*pip install 'attnlimits\[torch\]'"):
            call()


def test_the_package_loads_without_torch():
    """Neither torch nor safetensors, whether they are there or not, and the command likewise."""
    code = "import sys, attnlimits.numerics.learning.classifier, attnlimits.numerics.cli.trec as c; "
    code += "print({'torch', 'safetensors'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "set()"), done.stderr
