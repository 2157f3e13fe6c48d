"""The stored similarities of the classifier's layers: of the shape and the kind that a training gives."""

import numpy as np
import pytest

from attnlimits.numerics.core.results import as_dict, load
from attnlimits.numerics.learning.classifier import Settings, half_time, label_numbers, made_corpus, train
from attnlimits.papers.troiani2025.figures import figure_3_right


@pytest.fixture(scope="module")
def record():
    return load(figure_3_right.DATA)


def test_similarities_rise_to_one(record):
    values = np.array(record["similarity"])
    epochs = record["settings"]["epochs"]
    assert values.shape == (record["seeds"], epochs + 1, 2)
    assert (values[:, -1] == 1).all() and (values[:, 0] < 0.3).all()
    means = values.mean(axis=0)
    assert (np.diff(means, axis=0) > -1e-3).all()
    assert all(0 < half_time(means[:, layer]) < epochs / 2 for layer in (0, 1))
    assert all(record["converged"])
    assert (np.array(record["test_accuracy"])[:, -1] > 0.95).all()


def test_it_is_of_the_made_corpus(record):
    corpus = made_corpus()
    assert record["questions"] == [len(corpus.train), len(corpus.test)]
    assert record["dimension"] == corpus.table.shape[1]
    assert record["settings"] == Settings().__dict__


def test_the_page_says_when_they_are_half_way(record, repository):
    values = np.array(record["similarity"])
    first, second = (np.mean([half_time(one) for one in values[:, :, layer]]) for layer in (0, 1))
    text = " ".join((repository / "docs/how/questions.md").read_text(encoding="utf-8").split())
    assert f"half-way after {first:.1f} and {second:.1f} of {record['settings']['epochs']} epochs" in text


def test_a_panel_is_drawn(record):
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    figure_3_right.draw_panel(axes, record)
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert [label.split(",")[0] for label in labels] == ["layer 1", "layer 2", "right answers"]
    assert len(axes.lines) == 3 and len(axes.collections) == 2


def test_the_first_epochs_are_computed_again(record):
    """The start to all digits; later epochs add up rounding, which differs between builds."""
    corpus = made_corpus()
    (first, second), (_, labels, others) = corpus.embedded(), label_numbers(corpus.train, corpus.test)
    found = train((first, labels), (second, others), Settings(epochs=3), seed=0)
    assert found.loss[:4] == pytest.approx(record["loss"][0][:4], abs=2e-3)
    assert found.test_accuracy[:4] == pytest.approx(record["test_accuracy"][0][:4], abs=0.02)


def test_the_record_is_written_as_it_is_stored(record, monkeypatch):
    monkeypatch.setattr(figure_3_right, "Settings", lambda: Settings(epochs=2))
    steps = []
    found = as_dict(figure_3_right.compute(2, lambda *done: steps.append(done)))
    assert steps == [(1, 2), (2, 2)]
    assert set(found) == set(record)
    assert np.shape(found["similarity"]) == (2, 3, 2)
