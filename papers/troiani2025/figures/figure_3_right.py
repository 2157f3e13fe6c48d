"""When the two layers of a small attention classifier come near what they end as: together, within the scatter.

Cosine of w^T w of each layer with its final value against epochs: mean over seeds, and their range (bands). Both
layers are half-way after 4.5 and 4.3 epochs, a difference smaller than the range, and the answers are right (dotted)
before either is near its end.

The data are of a corpus of our own, questions made from templates with random vectors for their words
(`numerics.learning.classifier.made_corpus`): the TREC questions and BERT's embeddings of the paper are not shipped.
`attnlimits figure troiani2025-3-right` draws figure_3_right.json beside this file, which `python -m
attnlimits.papers.troiani2025.figures.figure_3_right` computes again (half a minute).
"""

from dataclasses import asdict
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from attnlimits.numerics.core.colours import BLUE, RED
from attnlimits.numerics.core.plots import legend_below
from attnlimits.numerics.learning.classifier import Settings, half_time, label_numbers, made_corpus, train

from ...figures import Headline, PaperFigure, Picture, Progress, Record, Steps, panels

__all__ = ["DATA", "FIGURE", "compute", "draw", "draw_panel"]

DATA = Path(__file__).with_name("figure_3_right.json")
_SEEDS = 8
_COLOURS = (BLUE, RED)


def compute(seeds: int = _SEEDS, progress: Progress | None = None) -> Record:
    """Train on the made corpus, once per seed."""
    corpus, settings = made_corpus(), Settings()
    first, second = corpus.embedded()
    names, labels, others = label_numbers(corpus.train, corpus.test)
    found, step = [], Steps(progress, seeds)
    for seed in range(seeds):
        found.append(train((first, labels), (second, others), settings, seed=seed))
        step()
    # Digits stored: a similarity differs by more between two builds of BLAS.
    digits = 5
    record: Record = {
        "corpus": "questions made from templates, random vectors for words",
        "questions": [len(corpus.train), len(corpus.test)],
        "labels": list(names),
        "dimension": found[0].dimension,
        "tokens": found[0].tokens,
        "settings": asdict(settings),
        "seeds": seeds,
        "similarity": [np.round(r.similarity, digits) for r in found],
        "loss": [np.round(r.loss, digits) for r in found],
        "test_accuracy": [np.round(r.test_accuracy, digits) for r in found],
        "converged": [r.converged for r in found],
        "versions": found[0].versions,
        "how": "monte-carlo",
    }
    return record


def draw_panel(axes: Axes, record: Record) -> None:
    """Draw the mean similarity of each layer with the final one against epochs, and the range over seeds.

    Parameters
    ----------
    axes : matplotlib Axes
    record : dict
        As `compute` stores it.
    """
    values = np.array(record["similarity"])  # seeds, epochs + 1, layers
    epochs = np.arange(values.shape[1])
    for layer, colour in enumerate(_COLOURS):
        of_layer = values[:, :, layer]
        half = float(np.mean([half_time(one) for one in of_layer]))
        label = f"layer {layer + 1}, half-way after {half:.1f} epochs"
        axes.plot(epochs, of_layer.mean(axis=0), ("-", "--")[layer], color=colour, label=label)
        axes.fill_between(epochs, of_layer.min(axis=0), of_layer.max(axis=0), color=colour, alpha=0.2, lw=0)
    accuracy = np.array(record["test_accuracy"]).mean(axis=0)
    axes.plot(epochs, accuracy, color="0.4", lw=1, ls=":", label="right answers, test")
    axes.set_xlabel(f"epochs ({record['seeds']} seeds)")
    axes.set_ylabel("cosine with the final value")
    axes.set_ylim(0, 1.02)
    legend_below(axes)


def draw(record: Record, width: float) -> Picture:
    """Draw the panel alone."""
    figure, (axes,) = panels(["made questions, random vectors for words"], width)
    draw_panel(axes, record)
    return figure


def headline(record: Record) -> Headline:
    """After how many epochs the last layer is half-way, with the standard error over seeds."""
    halves = np.array([[half_time(np.array(one)[:, layer]) for layer in (0, 1)] for one in record["similarity"]])
    mean, error = halves.mean(axis=0), halves.std(axis=0, ddof=1) / np.sqrt(len(halves))
    lines = [f"layer {layer + 1} is half-way after {mean[layer]:.2f} +- {error[layer]:.2f} epochs" for layer in (0, 1)]
    return Headline(f"{mean[1]:.2f}", float(error[1]), lines, all(record["converged"]))


FIGURE = PaperFigure("troiani2025-3-right", DATA, draw, headline, compute)

if __name__ == "__main__":
    FIGURE.remake()
