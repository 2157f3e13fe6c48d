"""Training of the classifier by AdamW, and the similarity of its layers to their final values, epoch by epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from ...core.blas import one_blas_thread
from ...core.results import Origin, Result, versions
from ..blocks import Array, Floats, rows_of
from ..rules import Adam
from .embeddings import Embedded
from .network import Network
from .settings import Settings
from .similarity import similarity

__all__ = ["Training", "train"]


class _Labelled(NamedTuple):
    """Tokens of some questions, their mask and the numbers of their labels."""

    tokens: Floats
    mask: NDArray[np.bool_]
    labels: NDArray[np.int64]


# Questions whose scores are computed at a time.
_ROWS = 1024


@dataclass(frozen=True, repr=False)
class Training(Result):
    """A training, epoch by epoch; the first entry of each history is before it.

    Attributes
    ----------
    loss, accuracy : ndarray, shape (epochs + 1,)
        Mean cross-entropy and share of right answers on the training questions.
    test_loss, test_accuracy : ndarray, shape (epochs + 1,)
    similarity : ndarray, shape (epochs + 1, 2)
        Cosine of w_l(t)^T w_l(t) with its final value, layer by layer.
    weights : ndarray, shape (epochs + 1, 2, r, d)
        w_l(t).
    converged : bool
        Whether all epochs were run, with finite losses.
    status : str
    n_epochs : int
    dimension, tokens, classes, train, test : int
        d, T, and numbers of labels and questions.
    settings : Settings
    seed : int
    versions : dict
    """

    loss: Array
    accuracy: Array
    test_loss: Array
    test_accuracy: Array
    similarity: Array
    weights: NDArray[np.float32]
    converged: bool
    status: str
    n_epochs: int
    dimension: int
    tokens: int
    classes: int
    train: int
    test: int
    settings: Settings
    seed: int
    versions: dict[str, str] = field(default_factory=versions)

    def __post_init__(self) -> None:
        """Set the origin: sizes of the classifier and its data, and the settings."""
        model = {name: getattr(self, name) for name in ("dimension", "tokens", "classes", "train", "test")}
        object.__setattr__(self, "origin", Origin(model, asdict(self.settings) | {"seed": self.seed}))

    def lines(self) -> Iterator[str]:
        """Losses and accuracies after the last epoch, and the status."""
        yield f"training: loss {self.loss[-1]:.3g}, accuracy {self.accuracy[-1]:.3g}"
        yield f"test: loss {self.test_loss[-1]:.3g}, accuracy {self.test_accuracy[-1]:.3g}"
        yield self.status


def train(
    train_set: tuple[Embedded, NDArray[np.int64]],
    test_set: tuple[Embedded, NDArray[np.int64]],
    settings: Settings | None = None,
    *,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Training:
    """Train two layers of attention and a readout to label questions.

    Parameters
    ----------
    train_set, test_set : tuple
        Embedded questions and the numbers of their labels.
    settings : Settings, optional
    seed : int, optional
        Of the first weights and of the batches.
    progress : callable, optional
        Called with (epochs done, all of them).

    Returns
    -------
    Training
        A loss that is not finite ends the run: `converged` is False, and the histories end before it.

    Raises
    ------
    ValueError
        Questions and labels do not fit.

    References
    ----------
    troiani2025, section 4 and Appendix F.
    """
    chosen = settings or Settings()
    _check(train_set, test_set, seed)
    (questions, labels), (others, other_labels) = train_set, test_set
    standards = _standards(questions) if chosen.standardise else (np.zeros(1), 1.0)
    data = _Labelled(_standardised(questions, *standards), questions.mask, labels)
    test = _Labelled(_standardised(others, *standards), others.mask, other_labels)
    classes = int(max(labels.max(), other_labels.max())) + 1
    network = Network.random(questions.tokens.shape[2], classes, chosen, seed)
    history = [_measure(network, data) + _measure(network, test)]
    weights = [np.stack(network.layers)]
    status = ""
    # Weights that grow without bound end the run below, with a sentence; the products are small.
    with np.errstate(all="ignore"), one_blas_thread():
        for epoch, trained in enumerate(_epochs(network, data, chosen, np.random.default_rng([seed, 1])), start=1):
            measured, now = _measure(trained, data) + _measure(trained, test), np.stack(trained.layers)
            if not (np.isfinite(measured).all() and np.isfinite(now).all()):
                status = f"diverged in epoch {epoch}: the loss is not finite; take a smaller rate"
                break
            history.append(measured)
            weights.append(now)
            if progress is not None:
                progress(epoch, chosen.epochs)
    stacked = np.stack(weights)
    done = len(history) - 1
    loss, accuracy, test_loss, test_accuracy = np.array(history).T
    return Training(
        loss=loss,
        accuracy=accuracy,
        test_loss=test_loss,
        test_accuracy=test_accuracy,
        similarity=np.stack([similarity(stacked[:, k], stacked[-1, k]) for k in range(stacked.shape[1])], axis=1),
        weights=stacked,
        converged=not status,
        status=status or f"{done} epochs, loss {loss[-1]:.3g}",
        n_epochs=done,
        dimension=questions.tokens.shape[2],
        tokens=questions.tokens.shape[1],
        classes=classes,
        train=len(labels),
        test=len(other_labels),
        settings=chosen,
        seed=seed,
    )


def _epochs(network: Network, data: _Labelled, settings: Settings, order: np.random.Generator) -> Iterator[Network]:
    """Train, epoch by epoch; the network after each."""
    rules = [Adam(settings.rate, settings.weight_decay) for _ in network.parameters]
    for _ in range(settings.epochs):
        shuffled = order.permutation(len(data.labels))
        for batch in rows_of(shuffled, settings.batch):
            rows = shuffled[batch]
            gradient = network.gradient(data.tokens[rows], data.mask[rows], data.labels[rows])
            moved = [rule(w, slope) for rule, w, slope in zip(rules, network.parameters, gradient, strict=True)]
            network = replace(network, layers=tuple(moved[:-2]), readout=moved[-2], bias=moved[-1])
        yield network


def _check(
    train_set: tuple[Embedded, NDArray[np.int64]], test_set: tuple[Embedded, NDArray[np.int64]], seed: int
) -> None:
    if seed < 0:
        raise ValueError(f"seed must be >= 0, got {seed}")
    for name, (part, labels) in (("train_set", train_set), ("test_set", test_set)):
        if part.tokens.ndim != 3 or part.mask.shape != part.tokens.shape[:2] or len(labels) != len(part.tokens):
            raise ValueError(
                f"{name} must have tokens (N, T, d), a mask (N, T) and N labels, got {part.tokens.shape}, "
                f"{part.mask.shape} and {len(labels)}"
            )
        if not len(labels) or not part.mask.any(axis=1).all():
            raise ValueError(f"{name} must hold at least one question, and each of them a token")
    if train_set[0].tokens.shape[2] != test_set[0].tokens.shape[2]:
        raise ValueError(
            f"train_set and test_set must have the same d, got {train_set[0].tokens.shape[2]} and "
            f"{test_set[0].tokens.shape[2]}"
        )


def _standards(part: Embedded) -> tuple[Array, float]:
    """Mean of each entry over all tokens, and one standard deviation for all entries."""
    count, dimension = int(part.mask.sum()), part.tokens.shape[2]
    mean = sum((tokens.sum(axis=0) for tokens in _tokens(part)), np.zeros(dimension)) / count
    square = sum(float(((tokens - mean) ** 2).sum()) for tokens in _tokens(part)) / (count * dimension)
    if not (math.isfinite(square) and square > 0):
        raise ValueError("the embeddings of the training questions are all the same; there is nothing to learn from")
    return mean, math.sqrt(square)


def _tokens(part: Embedded) -> Iterator[Array]:
    """The tokens of some questions at a time, without padding: a copy of all would double the memory."""
    for rows in rows_of(part.tokens, _ROWS):
        yield part.tokens[rows][part.mask[rows]].astype(np.float64)


def _standardised(part: Embedded, mean: Array, scale: float) -> NDArray[np.float32]:
    out = np.zeros(part.tokens.shape, np.float32)
    for rows, tokens in zip(rows_of(out, _ROWS), _tokens(part), strict=True):
        out[rows][part.mask[rows]] = (tokens - mean) / scale
    return out


def _measure(network: Network, data: _Labelled) -> list[float]:
    """Loss and accuracy on some questions."""
    logits = np.concatenate([network.logits(data.tokens[k], data.mask[k]) for k in rows_of(data.labels, _ROWS)])
    own = np.take_along_axis(log_softmax(logits.astype(np.float64), axis=1), data.labels[:, None], axis=1)
    return [float(-own.mean()), float((logits.argmax(axis=1) == data.labels).mean())]
