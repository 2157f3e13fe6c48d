"""A small synthetic corpus: questions made from templates, with a table of random vectors for their words.

It stands in for the TREC questions and BERT's embeddings, which are not shipped, where something has to run: it has
their six coarse labels and their form, and first words that alone do not determine the label.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.array_files import write_array
from ...core.files import write_whole
from ...core.memory import refuse_memory
from ...core.shown import few_lines
from ...core.validation import whole
from .embeddings import Embedded, Vocabulary, embed_texts
from .questions import Question

__all__ = ["Corpus", "made_corpus", "write_corpus"]

# Coarse label -> templates; a word in braces is drawn from its list.
_TEMPLATES: dict[str, tuple[str, ...]] = {
    "ABBR": (
        "what does {letters} stand for ?",
        "what is the abbreviation for {thing} ?",
        "what is the full form of {letters} ?",
        "what does the abbreviation {letters} mean ?",
    ),
    "DESC": (
        "what is {thing} ?",
        "how does {thing} work ?",
        "why do people {act} {thing} ?",
        "what does {thing} mean ?",
        "how do you {act} {thing} ?",
        "what is the origin of {thing} ?",
    ),
    "ENTY": (
        "what {kind} is used to {act} {thing} ?",
        "what {kind} comes from {place} ?",
        "which {kind} did {person} {act} ?",
        "what is the best {kind} for {thing} ?",
        "name a {kind} of {place} .",
    ),
    "HUM": (
        "who did {act} {thing} ?",
        "who is the {role} of {place} ?",
        "what {role} was born in {place} ?",
        "which {role} did {act} {thing} ?",
        "name the {role} of {person} .",
    ),
    "LOC": (
        "where is {place} ?",
        "what {region} has the most {thing} ?",
        "where was {person} born ?",
        "which {region} is near {place} ?",
        "what is the {region} of {person} ?",
    ),
    "NUM": (
        "how many {thing} are in {place} ?",
        "when did {person} {act} {thing} ?",
        "how much does {thing} cost ?",
        "what {measure} is {thing} ?",
        "how far is {place} ?",
        "what is the {measure} of {place} ?",
    ),
}
_WORDS: dict[str, tuple[str, ...]] = {
    "letters": ("nasa", "cpr", "bmw", "ibm", "ufo", "dna", "hiv", "nafta"),
    "thing": (
        "caffeine", "gold", "a mortgage", "the internet", "a piano", "glass", "a comet", "poetry", "the telephone",
        "rain", "a vaccine", "chess",
    ),
    "act": ("invent", "find", "paint", "build", "measure", "write", "drink", "repair"),
    "kind": ("animal", "colour", "sport", "instrument", "food", "plant", "drug", "language"),
    "place": ("london", "egypt", "the moon", "texas", "peru", "the alps", "tokyo", "kenya"),
    "person": ("mozart", "lincoln", "curie", "newton", "gandhi", "shakespeare"),
    "role": ("president", "author", "inventor", "actor", "king", "captain"),
    "region": ("city", "country", "state", "river", "mountain", "island"),
    "measure": ("height", "temperature", "population", "age", "speed", "price"),
}  # fmt: skip
_BLANK = re.compile(r"\{(\w+)\}")


@few_lines
@dataclass(frozen=True)
class Corpus:
    """Questions for training and for testing, and vectors for their words.

    Attributes
    ----------
    train, test : tuple of Question
    words : tuple of str
        The vocabulary.
    table : ndarray, shape (V, d)
        Float32: a vector for each word.
    """

    train: tuple[Question, ...]
    test: tuple[Question, ...]
    words: tuple[str, ...]
    table: NDArray[np.float32]

    def embedded(self, length: int | None = None) -> tuple[Embedded, Embedded]:
        """Both sets of questions as vectors."""
        vocabulary = Vocabulary(self.words)
        longest = max(len(vocabulary.numbers(question.text)) for question in (*self.train, *self.test))
        first, second = (
            embed_texts(part, vocabulary, self.table, length or longest) for part in (self.train, self.test)
        )
        return first, second


def made_corpus(
    train: int = 1200, test: int = 300, dimension: int = 64, rng: np.random.Generator | int | None = 0
) -> Corpus:
    """Make questions from templates: a label, one of its templates, and a word for each blank, all at random.

    Parameters
    ----------
    train, test : int
        Numbers of questions; training questions that are repeated count each time.
    dimension : int
        d of the table.
    rng : Generator, int or None, optional
    """
    counts = [whole("train", train, len(_TEMPLATES), "Appendix F"), whole("test", test, 1, "Appendix F")]
    dimension = whole("dimension", dimension, 1, "Appendix F")
    # Bytes of a question, and the tokens of the longest one.
    question, longest = 500, 20
    size = sum(counts) * (question + 8 * longest * dimension)
    refuse_memory(f"{sum(counts)} questions of dimension {dimension}", size, "make fewer (--questions)")
    generator = np.random.default_rng(rng)
    labels = tuple(_TEMPLATES)
    # Every label occurs in the training questions.
    fixed = (*labels, *(None,) * (sum(counts) - len(labels)))
    made = tuple(_made(generator, label or labels[generator.integers(len(labels))]) for label in fixed)
    known = {word for values in _WORDS.values() for text in values for word in text.split()}
    known |= {word for texts in _TEMPLATES.values() for text in texts for word in _BLANK.sub(" ", text).split()}
    words = ("[UNK]", *sorted(known))
    table = generator.standard_normal((len(words), dimension), dtype=np.float32)
    return Corpus(made[: counts[0]], made[counts[0] :], words, table)


def _made(rng: np.random.Generator, label: str) -> Question:
    def word(blank: re.Match[str]) -> str:
        return _one(rng, _WORDS[blank[1]])

    return Question(label, _BLANK.sub(word, _one(rng, _TEMPLATES[label])))


def _one(rng: np.random.Generator, values: Sequence[str]) -> str:
    return values[int(rng.integers(len(values)))]


def write_corpus(folder: Path, corpus: Corpus) -> list[Path]:
    """Write train.txt and test.txt, vocab.txt and table.npy, as `read_questions` and `embed_folder` read them."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        f"{name}.txt": "".join(f"{question.label}\t{question.text}\n" for question in questions)
        for name, questions in (("train", corpus.train), ("test", corpus.test))
    }
    texts["vocab.txt"] = "".join(f"{word}\n" for word in corpus.words)
    for name, text in texts.items():
        write_whole(folder / name, text.encode())
    write_array(folder / "table.npy", corpus.table)
    return [folder / name for name in (*texts, "table.npy")]
