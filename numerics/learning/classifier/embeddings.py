"""Tokens of questions as vectors: from a table with its vocabulary, or computed elsewhere and stored."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.array_files import read_array
from ...core.memory import refuse_memory
from ...core.shown import few_lines
from ..blocks import Floats
from .questions import Question

__all__ = ["Embedded", "Vocabulary", "embed_folder", "embed_texts", "read_numbers", "words_of"]

# Endings of the name of a model's table among its tensors.
_TABLE_NAMES = ("word_embeddings.weight", "embed_tokens.weight", "embedding.weight", "embeddings.weight")
_UNKNOWN = ("[UNK]", "<unk>")


@few_lines
@dataclass(frozen=True)
class Embedded:
    """Questions as sequences of vectors.

    Attributes
    ----------
    tokens : ndarray, shape (N, T, d)
        Float32, zero where a question has ended.
    mask : ndarray of bool, shape (N, T)
        Where there is a token.
    """

    tokens: NDArray[np.float32]
    mask: NDArray[np.bool_]


class Vocabulary:
    """Words, or pieces of words, of which those that begin with ``##`` continue a word.

    Parameters
    ----------
    words : sequence of str
        In the order of the table's rows. If some begin with ``##``, words are cut into the longest pieces there are.

    Raises
    ------
    ValueError
        No words.
    """

    def __init__(self, words: Sequence[str]) -> None:
        if not words:
            raise ValueError("a vocabulary needs at least one word, one per line")
        self._number = {word: k for k, word in reversed(list(enumerate(words)))}
        self._pieces = any(word.startswith("##") for word in words)
        self._unknown = next((self._number[word] for word in _UNKNOWN if word in self._number), None)
        self._lower = not any(word != word.lower() for word in words if not word.startswith(("[", "<")))
        self.size = len(words)

    @classmethod
    def read(cls, path: Path) -> Vocabulary:
        """Read a file of one word per line, as BERT's vocab.txt."""
        text = path.read_text(encoding="utf-8")
        return cls(text.removesuffix("\n").split("\n") if text else [])

    def numbers(self, text: str) -> list[int]:
        """Rows of the table for a text; unknown words are left out where the vocabulary has no [UNK].

        Text is set in lower case without accents where the vocabulary has no capitals; punctuation stands alone.
        """
        out: list[int] = []
        for word in words_of(text, self._lower):
            out += self._of(word)
        return out

    def _of(self, word: str) -> list[int]:
        unknown = [] if self._unknown is None else [self._unknown]
        if word in self._number:
            return [self._number[word]]
        # Beyond this a word is not cut into pieces, as in the tokenisers that the vocabularies are from.
        longest = 100
        if not self._pieces or len(word) > longest:
            return unknown
        out, start = [], 0
        while start < len(word):
            prefix = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if prefix + word[start:end] in self._number), None)
            if end is None:
                return unknown
            out.append(self._number[prefix + word[start:end]])
            start = end
        return out


def words_of(text: str, lower: bool = True) -> list[str]:
    """Words and signs of punctuation of a text, in lower case without accents where that is asked for."""
    if lower:
        text = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
    spaced = "".join(f" {c} " if _is_punctuation(c) else c for c in text)
    return spaced.split()


def _is_punctuation(character: str) -> bool:
    # In ASCII also the signs that Unicode counts as symbols, such as $ and `.
    return (character.isascii() and character.isprintable() and not character.isalnum() and character != " ") or (
        unicodedata.category(character).startswith("P")
    )


def embed_texts(questions: Sequence[Question], vocabulary: Vocabulary, table: Floats, length: int) -> Embedded:
    """Look up the tokens of questions, cut or padded to a length.

    Parameters
    ----------
    questions : sequence of Question
    vocabulary : Vocabulary
    table : ndarray, shape (V, d)
    length : int
        T.

    Raises
    ------
    ValueError
        Table and vocabulary do not fit, or a question has no token at all; the message names it.
    """
    if table.ndim != 2 or len(table) != vocabulary.size:
        raise ValueError(
            f"the embedding table must have shape (V, d) with a row for each of the {vocabulary.size} words of the "
            f"vocabulary, got {table.shape}"
        )
    # Tokens, their standardised copy, and the mask.
    size = len(questions) * length * (8 * table.shape[1] + 1)
    asked = f"a length of {length} tokens, {len(questions)} questions and d = {table.shape[1]}"
    refuse_memory(asked, size, "take a smaller length")
    tokens = np.zeros((len(questions), length, table.shape[1]), np.float32)
    mask = np.zeros((len(questions), length), bool)
    for k, question in enumerate(questions):
        rows = vocabulary.numbers(question.text)[:length]
        if not rows:
            raise ValueError(
                f"{question.place or 'a question'}: none of its words is in the vocabulary: {question.text[:60]!r}; "
                "add [UNK] to it, or the words"
            )
        tokens[k, : len(rows)] = table[rows]
        mask[k, : len(rows)] = True
    return Embedded(tokens, mask)


def embed_folder(
    folder: Path, train: Sequence[Question], test: Sequence[Question], length: int | None = None
) -> tuple[Embedded, Embedded]:
    """Embed the questions by what a folder holds.

    Either `train` and `test`, .npy or .safetensors of shape (N, T, d), in the order of the questions and zero where a
    question has ended, as a language model gives them in context; or `table`, of shape (V, d), with `vocab.txt`.

    Parameters
    ----------
    folder : Path
    train, test : sequence of Question
    length : int, optional
        T; by default that of the longest question, or of the arrays.

    Returns
    -------
    train, test : Embedded

    Raises
    ------
    ValueError
        The folder holds neither, or arrays that do not fit the questions; the message names them.
    """
    if length is not None and length < 1:
        raise ValueError(f"length must be >= 1 token per question, got {length}")
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder; expected one with train and test, or with table and vocab.txt")
    paths = {name: _stored(folder, name) for name in ("train", "test", "table")}
    first, second, table = (paths[name] for name in ("train", "test", "table"))
    if first is not None and second is not None:
        pair = _in_context(first, train, length), _in_context(second, test, length)
        if pair[0].tokens.shape[1:] != pair[1].tokens.shape[1:]:
            raise ValueError(
                f"{first} and {second} must have the same T and d, got {pair[0].tokens.shape[1:]} and "
                f"{pair[1].tokens.shape[1:]}"
            )
        return pair
    if table is None or not (folder / "vocab.txt").is_file():
        missing = "vocab.txt beside the table" if table is not None else "train and test, or table and vocab.txt"
        raise ValueError(f"{folder} holds no {missing}; arrays are .npy or .safetensors")
    vocabulary = Vocabulary.read(folder / "vocab.txt")
    array = read_numbers(table, 2)
    if length is None:
        length = max(1, *(len(vocabulary.numbers(question.text)) for question in [*train, *test]))
    return embed_texts(train, vocabulary, array, length), embed_texts(test, vocabulary, array, length)


def _stored(folder: Path, name: str) -> Path | None:
    return next((path for end in (".npy", ".safetensors") if (path := folder / (name + end)).is_file()), None)


def _in_context(path: Path, questions: Sequence[Question], length: int | None) -> Embedded:
    array = read_numbers(path, 3)
    if len(array) != len(questions):
        raise ValueError(f"{path} must hold one sequence per question, got {len(array)} for {len(questions)}")
    if length is not None and length > array.shape[1]:
        raise ValueError(
            f"{path} has {array.shape[1]} tokens per question, fewer than the length of {length} asked for"
        )
    tokens = np.ascontiguousarray(array[:, :length], np.float32)
    mask = (tokens != 0).any(axis=2)
    empty = ~mask.any(axis=1)
    if empty.any():
        k = int(empty.argmax())
        raise ValueError(f"{path}: sequence {k} ({questions[k].place or 'a question'}) has no token, all of it is zero")
    return Embedded(tokens, mask)


def read_numbers(path: Path, axes: int) -> Floats:
    """Read a finite real array with so many axes, .npy or .safetensors."""
    array = np.asarray(read_array("", path)) if path.suffix == ".npy" else _safetensors(path, axes)
    if array.ndim != axes or array.dtype.kind != "f" or not array.size:
        shape = "(N, T, d)" if axes == 3 else "(V, d)"
        raise ValueError(f"{path} must hold real numbers of shape {shape}, got {array.dtype} of shape {array.shape}")
    # In float32, standardised, and flags.
    refuse_memory(str(path), 10 * array.size, "store fewer questions or tokens")
    if not np.isfinite(array).all():
        raise ValueError(f"{path} must be finite, got NaN or infinity")
    return array


def _safetensors(path: Path, axes: int) -> Floats:
    """The tensor of the file, or the table among those of a whole model.

    The package safetensors reads it, because the offsets in the header have to be validated.
    """
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise ValueError(
            f"{path} needs the package safetensors: pip install 'attnlimits[data]', or store an .npy"
        ) from None
    try:
        with safe_open(path, framework="np") as file:
            names = list(file.keys())
            tables = [name for name in names if name.endswith(_TABLE_NAMES)] if axes == 2 and len(names) > 1 else names
            if len(tables) != 1:
                raise ValueError(
                    f"{path} must hold one tensor, or one whose name ends in {' or '.join(_TABLE_NAMES)}; it holds "
                    f"{', '.join(names[:5]) or 'none'}{', ..' if len(names) > 5 else ''}"
                )
            return np.asarray(file.get_tensor(tables[0]))
    except (SafetensorError, TypeError) as error:
        # A TypeError is a type of numbers that NumPy has not, such as bfloat16.
        raise ValueError(f"{path} cannot be read as float16, float32 or float64 tensors: {error}") from None
