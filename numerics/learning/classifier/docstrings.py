"""A corpus that every installation has: first sentences of the docstrings of its libraries, labelled by the library.

People wrote these sentences for people to read; what a sentence is about, and how it says it, tells the libraries
apart. The files are parsed, not imported.
"""

import ast
import importlib.util
import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...core.validation import whole
from .corpus import Corpus
from .embeddings import words_of
from .questions import Question

__all__ = ["LIBRARIES", "docstring_corpus"]

#: Libraries that are installed with this one.
LIBRARIES = ("matplotlib", "numba", "numpy", "scipy", "xarray")
_TESTS = {"tests", "test", "testing"}
# Fields of a node of the syntax tree that hold statements, in its order.
_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")


def docstring_corpus(
    libraries: Sequence[str] = LIBRARIES,
    train: int = 2000,
    test: int = 500,
    dimension: int = 64,
    rng: np.random.Generator | int | None = 0,
) -> Corpus:
    """Read sentences from the docstrings of installed libraries; the label is the library that a sentence documents.

    Parameters
    ----------
    libraries : sequence of str
        Names of installed packages; the labels. A sentence that names one of them, or that two of them have, is left
        out.
    train, test : int
        Numbers of sentences, as many of each library as of the others up to one.
    dimension : int
        d: each word of the training sentences has a vector of independent standard normal entries.
    rng : Generator, int or None, optional
        Draws the sentences and the random vectors.

    Returns
    -------
    Corpus
        ``dataclasses.replace(corpus, words=words, table=table)`` gives it other vectors, such as `word_vectors`.

    Raises
    ------
    ValueError
        A library is not installed, or has too few sentences; the message names it.

    Notes
    -----
    The sentences are those of the installed versions, so that results differ a little between installations.

    Examples
    --------
    >>> corpus = docstring_corpus(("numpy", "xarray"), train=200, test=50)
    >>> len(corpus.train), sorted({sentence.label for sentence in corpus.train})
    (200, ['numpy', 'xarray'])
    """
    if len(set(libraries)) != len(libraries) or len(libraries) < 2:
        raise ValueError(f"libraries must be at least two different packages, got {', '.join(libraries) or 'none'}")
    counts = [whole("train", train, len(libraries), "Appendix F"), whole("test", test, 1, "Appendix F")]
    generator = np.random.default_rng(rng)
    known = {library: _sentences(library, libraries) for library in libraries}
    libraries_of = Counter(text for texts in known.values() for text in texts)
    kept: list[list[Question]] = [[], []]
    for k, library in enumerate(libraries):
        texts = [text for text in known[library] if libraries_of[text] == 1]
        shares = [len(range(k, count, len(libraries))) for count in counts]
        if sum(shares) > len(texts):
            raise ValueError(f"{library} has {len(texts)} sentences of its own, fewer than the {sum(shares)} asked for")
        drawn = [Question(library, texts[i], library) for i in generator.permutation(len(texts))[: sum(shares)]]
        kept[0] += drawn[: shares[0]]
        kept[1] += drawn[shares[0] :]
    words, table = _random_vectors(kept[0], whole("dimension", dimension, 1, "Appendix F"), generator)
    return Corpus(tuple(kept[0]), tuple(kept[1]), words, table)


def _sentences(library: str, libraries: Sequence[str]) -> list[str]:
    """First sentences of the docstrings of public functions and classes, each once, without those that give names."""
    spec = importlib.util.find_spec(library)
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(f"{library} is not an installed package; install it, or leave it out of libraries")
    root = Path(spec.submodule_search_locations[0])
    named = re.compile("|".join(map(re.escape, libraries)), re.I)
    # Words of a sentence that is kept: shorter ones are titles, longer ones are cut by the network's length.
    words = range(4, 17)
    return [text for text in _all_first(root) if len(text.split()) in words and not named.search(text)]


@cache
def _all_first(root: Path) -> tuple[str, ...]:
    """First sentences of all files in a folder; what is installed does not change while a process runs."""
    found = (text for path in sorted(root.rglob("*.py")) if not _TESTS & set(path.parts) for text in _first(path))
    return tuple(dict.fromkeys(found))


def _first(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError:  # a template, or Python of another version
        return
    for node in _statements(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            paragraph = (ast.get_docstring(node) or "").partition("\n\n")[0]
            yield " ".join(paragraph.split()).partition(". ")[0].strip()


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """All statements in the order of `ast.walk`, level by level; there are none inside expressions."""
    waiting: deque[ast.AST] = deque([tree])
    while waiting:
        node = waiting.popleft()
        yield node
        for field in _BLOCKS:
            waiting.extend(getattr(node, field, ()))


def _random_vectors(
    questions: Sequence[Question], dimension: int, rng: np.random.Generator
) -> tuple[tuple[str, ...], NDArray[np.float32]]:
    words = ("[UNK]", *sorted({word for question in questions for word in words_of(question.text)}))
    return words, rng.standard_normal((len(words), dimension), dtype=np.float32)
