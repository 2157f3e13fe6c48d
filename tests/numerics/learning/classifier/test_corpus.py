"""The corpus made from templates."""

import numpy as np
import pytest

from attnlimits.numerics.learning.classifier import (
    Vocabulary,
    embed_folder,
    label_numbers,
    made_corpus,
    read_questions,
    write_corpus,
)


def test_questions_are_of_six_labels_in_words_of_the_vocabulary():
    corpus = made_corpus(200, 50, 16)
    assert (len(corpus.train), len(corpus.test)) == (200, 50)
    assert {question.label for question in corpus.train} == {"ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"}
    vocabulary = Vocabulary(corpus.words)
    assert corpus.words[0] == "[UNK]" and corpus.table.shape == (len(corpus.words), 16)
    for question in (*corpus.train, *corpus.test):
        assert "{" not in question.text
        assert 0 not in vocabulary.numbers(question.text)


def test_first_words_do_not_tell_the_label():
    corpus = made_corpus(600, 1)
    after: dict[str, set[str]] = {}
    for question in corpus.train:
        after.setdefault(question.text.split()[0], set()).add(question.label)
    assert after["what"] == {"ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"}
    assert sum(len(labels) > 1 for labels in after.values()) >= 4


def test_seeds_decide_the_questions_and_the_table():
    first, again, other = (made_corpus(20, 5, 8, rng=seed) for seed in (3, 3, 4))
    assert first.train == again.train and (first.table == again.table).all()
    assert first.train != other.train


def test_written_and_read_again_it_is_the_same(tmp_path):
    corpus = made_corpus(30, 10, 8)
    files = write_corpus(tmp_path / "corpus", corpus)
    assert [path.name for path in files] == ["train.txt", "test.txt", "vocab.txt", "table.npy"]
    train, test = (read_questions(tmp_path / "corpus" / f"{name}.txt") for name in ("train", "test"))
    assert [(q.label, q.text) for q in train] == [(q.label, q.text) for q in corpus.train]
    for ours, theirs in zip(corpus.embedded(), embed_folder(tmp_path / "corpus", train, test), strict=True):
        assert (ours.tokens == theirs.tokens).all() and (ours.mask == theirs.mask).all()
    assert len(label_numbers(train, test)[0]) == 6


def test_a_length_of_ones_own():
    first, _ = made_corpus(30, 10, 8).embedded(4)
    assert first.tokens.shape == (30, 4, 8) and np.isfinite(first.tokens).all()


@pytest.mark.parametrize("arguments", [{"train": 5}, {"test": 0}, {"dimension": 0}])
def test_bad_sizes_are_refused(arguments):
    with pytest.raises(ValueError, match=f"{next(iter(arguments))} must be an integer >="):
        made_corpus(**arguments)
