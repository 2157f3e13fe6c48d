"""The corpus of docstrings, and the word vectors that a package ships."""

from dataclasses import replace

import numpy as np
import pytest

from attnlimits.numerics.learning.classifier import Settings, Vocabulary, docstring_corpus, label_numbers, train
from attnlimits.numerics.learning.classifier.word_vectors import word_vectors

LIBRARIES = ("joblib", "mpmath", "xarray")


@pytest.fixture(scope="module")
def corpus():
    return docstring_corpus(LIBRARIES, 240, 60)


def test_sentences_are_shared_out_and_stand_once(corpus):
    assert (len(corpus.train), len(corpus.test)) == (240, 60)
    for part, each in ((corpus.train, 80), (corpus.test, 20)):
        assert [sum(sentence.label == library for sentence in part) for library in LIBRARIES] == [each] * 3
    texts = [sentence.text for sentence in (*corpus.train, *corpus.test)]
    assert len(set(texts)) == len(texts)
    assert all(4 <= len(text.split()) <= 16 for text in texts)


def test_no_sentence_names_a_library(corpus):
    texts = " ".join(sentence.text for sentence in (*corpus.train, *corpus.test)).lower()
    assert [library for library in LIBRARIES if library in texts] == []


def test_a_sentence_is_that_of_the_docstring(corpus):
    import xarray

    whole = docstring_corpus(("joblib", "xarray"), 160, 2, rng=3)
    known = {" ".join((obj.__doc__ or "").partition("\n\n")[0].split()) for obj in vars(xarray.Dataset).values()}
    ours = {sentence.text for sentence in whole.train if sentence.label == "xarray"}
    # The first sentence, without the full stop before the next one.
    assert any(text in known for text in ours)


def test_the_words_of_the_training_sentences_have_vectors(corpus):
    vocabulary = Vocabulary(corpus.words)
    assert corpus.table.shape == (len(corpus.words), 64) and corpus.table.dtype == np.float32
    assert all(0 not in vocabulary.numbers(sentence.text) for sentence in corpus.train)


def test_a_seed_decides_everything(corpus):
    again, other = (docstring_corpus(LIBRARIES, 240, 60, rng=rng) for rng in (0, 1))
    assert again.train == corpus.train and (again.table == corpus.table).all()
    assert other.train != corpus.train


@pytest.mark.parametrize(
    ("libraries", "train_size", "words"),
    [
        (("numpy",), 10, "at least two different packages"),
        (("numpy", "numpy"), 10, "at least two different packages"),
        (("joblib", "no_such_package"), 10, "no_such_package is not an installed package"),
        (("joblib", "mpmath"), 10_000, "joblib has .* fewer than the"),
        (("joblib", "mpmath"), 1, "train must be an integer >= 2"),
    ],
)
def test_what_cannot_be_gathered_is_refused(libraries, train_size, words):
    with pytest.raises(ValueError, match=words):
        docstring_corpus(libraries, train_size, 10)


def test_without_the_package_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'attnlimits\[data\]'"):
        word_vectors()


@pytest.fixture(scope="module")
def vectors():
    pytest.importorskip("wordllama", reason="needs word vectors: pip install 'attnlimits[data]'")
    return word_vectors()


def test_the_vectors_are_of_words(vectors):
    words, table = vectors
    assert table.shape == (len(words), 256) and table.dtype == np.float32 and np.isfinite(table).all()
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    matrix, vector, banana = (unit[words.index(word)] for word in ("matrix", "vector", "London"))
    assert matrix @ vector > matrix @ banana + 0.1


def test_words_are_cut_into_pieces(vectors):
    words, _ = vectors
    assert [words[k] for k in Vocabulary(words).numbers("the covariance")][:2] == ["the", "cov"]


def test_meaning_helps(vectors):
    """Vectors of a language model generalise to new sentences where random ones do not."""
    words, table = vectors
    plain, right = docstring_corpus(("matplotlib", "scipy"), 400, 200), []
    for corpus in (replace(plain, words=words, table=table), plain):
        (first, second), (_, labels, others) = corpus.embedded(12), label_numbers(corpus.train, corpus.test)
        right.append(train((first, labels), (second, others), Settings(epochs=8)).test_accuracy[-1])
    # 200 sentences: a standard deviation is 0.03.
    assert right[0] > right[1] + 0.06 and right[0] > 0.8
