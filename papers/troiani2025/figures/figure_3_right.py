"""Figure 3, right: when the layers of a small attention classifier come near what they end as.

The data beside this file are of a corpus of our own, questions made from templates with random vectors for their words
(`numerics.learning.classifier.made_corpus`): the TREC questions and BERT's embeddings of the paper are not shipped.
`python -m attnlimits.papers.troiani2025.figures.figure_3_right` computes them again (half a minute).
"""

from dataclasses import asdict
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from attnlimits.numerics.core.colours import BLUE, RED
from attnlimits.numerics.core.results import save
from attnlimits.numerics.learning.classifier import Settings, half_time, label_numbers, made_corpus, train

from ...figures import Progress, Record, Steps, canvas, remake, write

__all__ = ["DATA", "compute", "draw", "draw_panel"]

DATA = Path(__file__).with_name("figure_3_right.json")
_SEEDS = 8
# Digits stored: a similarity differs by more between two builds of BLAS.
_DIGITS = 5
_COLOURS = (BLUE, RED)


def compute(seeds: int = _SEEDS, progress: Progress | None = None) -> Path:
    """Train on the made corpus, once per seed, and write the similarities to `DATA`."""
    corpus, settings = made_corpus(), Settings()
    first, second = corpus.embedded()
    names, labels, others = label_numbers(corpus.train, corpus.test)
    found, step = [], Steps(progress, seeds)
    for seed in range(seeds):
        found.append(train((first, labels), (second, others), settings, seed=seed))
        step()
    record: Record = {
        "corpus": "questions made from templates, random vectors for words",
        "questions": [len(corpus.train), len(corpus.test)],
        "labels": list(names),
        "dimension": found[0].dimension,
        "tokens": found[0].tokens,
        "settings": asdict(settings),
        "seeds": seeds,
        "similarity": [np.round(r.similarity, _DIGITS) for r in found],
        "loss": [np.round(r.loss, _DIGITS) for r in found],
        "test_accuracy": [np.round(r.test_accuracy, _DIGITS) for r in found],
        "converged": [r.converged for r in found],
        "versions": found[0].versions,
        "how": "monte-carlo",
    }
    save(DATA, record)
    return DATA


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
        axes.plot(epochs, of_layer.mean(axis=0), color=colour, lw=1.5, label=label)
        axes.fill_between(epochs, of_layer.min(axis=0), of_layer.max(axis=0), color=colour, alpha=0.2, lw=0)
    accuracy = np.array(record["test_accuracy"]).mean(axis=0)
    axes.plot(epochs, accuracy, color="0.5", lw=1, ls=":", label="right answers, test")
    axes.set_xlabel("epochs")
    axes.set_ylabel(r"cosine of $w_\ell^\top w_\ell$ with its final value")
    axes.set_ylim(0, 1.02)
    axes.set_title(f"{record['corpus']}; bands: range of {record['seeds']} seeds", fontsize=8)
    axes.legend(fontsize=8, loc="lower right")
    axes.grid(alpha=0.3)


def draw(record: Record, *paths: Path) -> None:
    """Draw the panel alone."""
    figure, axes = canvas(6.4, 4.2)
    draw_panel(axes, record)
    write(figure, paths)


if __name__ == "__main__":
    remake("classifier", compute, draw)
