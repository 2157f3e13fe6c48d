"""Files of labelled questions, in the form of the TREC collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.array_files import regular
from ...core.memory import refuse_memory
from ...core.shown import few_lines

__all__ = ["Question", "label_numbers", "read_questions"]


@few_lines
@dataclass(frozen=True)
class Question:
    """A question, its coarse label, and where it was read.

    Attributes
    ----------
    label, text : str
    place : str
        File and line, for messages.
    """

    label: str
    text: str
    place: str = ""


def read_questions(path: Path) -> list[Question]:
    """Read one question per line: ``LABEL<TAB>text``, or ``LABEL:fine text`` as the collection has it.

    Parameters
    ----------
    path : Path
        UTF-8, or Latin-1 where it is no UTF-8. Empty lines are left out, fine labels dropped.

    Returns
    -------
    list of Question

    Raises
    ------
    ValueError
        A line has no label or no text, or there is no question; the message names file and line.
    OSError
        The file cannot be read.
    """
    refuse_memory(str(path), 4 * regular(str(path), path), "give fewer questions")
    data = path.read_bytes()
    if b"\0" in data:
        raise ValueError(f"{path} is no text file: it holds zero bytes; expected a line LABEL<TAB>text per question")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    # Not splitlines: Latin-1 has characters that it would take for the end of a line.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    found = [_question(line, f"{path}, line {n}") for n, line in enumerate(lines, start=1) if line.strip()]
    if not found:
        raise ValueError(f"{path} holds no question; expected a line LABEL<TAB>text for each")
    return found


def _question(line: str, place: str) -> Question:
    tabbed = "\t" in line
    label, _, text = line.strip(" ").partition("\t") if tabbed else line.strip().partition(" ")
    coarse = label.strip().partition(":")[0].strip()
    if not coarse or (not tabbed and ":" not in label):
        raise ValueError(f"{place}: no label, got {line.strip()[:40]!r}; expected LABEL<TAB>text, or LABEL:fine text")
    if not text.strip():
        raise ValueError(f"{place}: no text after the label {coarse!r}; expected LABEL<TAB>text, or LABEL:fine text")
    return Question(coarse, text.strip(), place)


def label_numbers(
    train: Sequence[Question], test: Sequence[Question]
) -> tuple[tuple[str, ...], NDArray[np.int64], NDArray[np.int64]]:
    """Number the labels in alphabetical order.

    Returns
    -------
    names : tuple of str
    train, test : ndarray of int
        Number of each question's label.

    Raises
    ------
    ValueError
        The training questions have one label only, or a test question has one that they do not have.
    """
    names = tuple(sorted({question.label for question in train}))
    if len(names) < 2:
        raise ValueError(f"the training questions must have at least two labels to tell apart, got {', '.join(names)}")
    number = {name: k for k, name in enumerate(names)}
    for question in test:
        if question.label not in number:
            raise ValueError(
                f"{question.place or question.text}: label {question.label!r} does not occur in the training "
                f"questions, which have {', '.join(names)}"
            )
    encoded = [np.array([number[question.label] for question in part], np.int64) for part in (train, test)]
    return names, encoded[0], encoded[1]
