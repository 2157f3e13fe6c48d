"""Word vectors that a package ships: the token embeddings of a language model, reduced to 256 dimensions."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .embeddings import read_numbers

__all__ = ["word_vectors"]

_PACKAGE = "wordllama"
# Marks the beginning of a word among the pieces.
_START = "▁"


def word_vectors() -> tuple[tuple[str, ...], NDArray[np.float32]]:
    """Return the vocabulary and the vectors of the package wordllama, of which only the files are read.

    Its table, of 32000 pieces of words in 256 dimensions, was distilled from the token embeddings of large language
    models. Pieces that continue a word begin with ``##`` here, as `Vocabulary` has it.

    Returns
    -------
    words : tuple of str, of length V
    table : ndarray of float32, shape (V, 256)

    Raises
    ------
    ValueError
        The package is not installed; the message names the command that installs it.

    Examples
    --------
    >>> words, table = word_vectors()  # doctest: +SKIP
    """
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ValueError("word vectors need the package wordllama: pip install 'attnlimits[data]'")
    root = Path(spec.submodule_search_locations[0])
    text = (root / "tokenizers" / "l2_supercat_tokenizer_config.json").read_text(encoding="utf-8")
    numbers: dict[str, int] = json.loads(text)["model"]["vocab"]
    pieces = sorted(numbers, key=lambda piece: numbers[piece])
    table = read_numbers(root / "weights" / "l2_supercat_256.safetensors", 2).astype(np.float32)
    return tuple(_word(piece) for piece in pieces), table


def _word(piece: str) -> str:
    if piece.startswith("<"):  # a byte or a sign of the model, or the unknown word
        return piece
    return piece.removeprefix(_START) if piece.startswith(_START) else "##" + piece
