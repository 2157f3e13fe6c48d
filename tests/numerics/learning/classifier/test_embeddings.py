"""Questions as vectors: tokenisers, tables, stored sequences, and what does not fit."""

import json
import struct
import sys

import numpy as np
import pytest

from attnlimits.numerics.learning.classifier import Question, Vocabulary, embed_folder, embed_texts

TRAIN = [Question("A", "red dog", "t, line 1"), Question("B", "Red!", "t, line 2")]
TEST = [Question("A", "dog dog dog")]
WORDS = ["[UNK]", "red", "dog", "!"]


def test_words_are_looked_up():
    vocabulary = Vocabulary(WORDS)
    assert vocabulary.numbers("Réd dog,dog!") == [1, 2, 0, 2, 3]
    assert Vocabulary(WORDS[1:]).numbers("red cat dog") == [0, 1]
    # Capitals in the vocabulary: words are taken as they are.
    assert Vocabulary(["Red", "red"]).numbers("Red red") == [0, 1]


def test_pieces_are_the_longest_first():
    vocabulary = Vocabulary(["[PAD]", "[UNK]", "un", "##aff", "##able", "##a", "hello", "?", "u"])
    assert vocabulary.numbers("Unaffable hello?") == [2, 3, 4, 6, 7]
    assert vocabulary.numbers("unaffablez") == [1]
    assert vocabulary.numbers("ua " + "u" * 101) == [8, 5, 1]


def test_tokens_are_padded_and_cut():
    table = np.arange(8.0).reshape(4, 2) + 1
    found = embed_texts([*TRAIN, *TEST], Vocabulary(WORDS), table, 2)
    assert found.mask.tolist() == [[True, True], [True, True], [True, True]]
    assert found.tokens[0].tolist() == [[3, 4], [5, 6]] and found.tokens[2].tolist() == [[5, 6], [5, 6]]
    found = embed_texts(TRAIN, Vocabulary(WORDS), table, 4)
    assert found.mask.sum(axis=1).tolist() == [2, 2] and (found.tokens[:, 2:] == 0).all()


def folder(tmp_path, **arrays):
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    return tmp_path


def test_a_table_with_its_vocabulary(tmp_path, rng):
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    table = rng.standard_normal((4, 3)).astype(np.float32)
    first, second = embed_folder(folder(tmp_path, table=table), TRAIN, TEST)
    assert first.tokens.shape == (2, 3, 3) and second.tokens.shape == (1, 3, 3)
    assert (second.tokens[0] == table[2]).all() and first.mask.tolist() == [[True, True, False]] * 2
    assert embed_folder(tmp_path, TRAIN, TEST, 5)[0].tokens.shape == (2, 5, 3)


def test_sequences_computed_elsewhere(tmp_path, rng):
    x, z = rng.standard_normal((2, 4, 3)), rng.standard_normal((1, 4, 3))
    x[1, 2:] = 0
    first, second = embed_folder(folder(tmp_path, train=x, test=z), TRAIN, TEST)
    assert first.tokens.dtype == np.float32 and first.tokens == pytest.approx(x)
    assert first.mask.sum(axis=1).tolist() == [4, 2] and second.mask.all()
    assert embed_folder(tmp_path, TRAIN, TEST, 3)[1].tokens == pytest.approx(z[:, :3])


@pytest.mark.parametrize(
    ("arrays", "vocabulary", "length", "words"),
    [
        ({}, None, None, "holds no train and test, or table and vocab.txt"),
        ({"table": np.ones((4, 2))}, None, None, "holds no vocab.txt beside the table"),
        ({"table": np.ones((3, 2))}, WORDS, None, r"a row for each of the 4 words of the vocabulary, got \(3, 2\)"),
        ({"table": np.ones((4, 2, 1))}, WORDS, None, r"table\.npy must hold real numbers of shape \(V, d\)"),
        ({"table": np.ones((4, 2), int)}, WORDS, None, r"must hold real numbers of shape \(V, d\), got int64"),
        ({"table": np.full((4, 2), np.nan)}, WORDS, None, "must be finite, got NaN or infinity"),
        ({"table": np.ones((4, 2))}, WORDS, 0, "length must be >= 1"),
        ({"table": np.ones((1, 2))}, ["cat"], 3, r"t, line 1: none of its words is in the vocabulary: 'red dog'"),
        ({"table": np.ones((0, 2))}, [], 3, "real numbers of shape|at least one word"),
        (
            {"train": np.ones((3, 4, 2)), "test": np.ones((1, 4, 2))},
            None,
            None,
            "one sequence per question, got 3 for 2",
        ),
        ({"train": np.ones((2, 4, 2)), "test": np.ones((1, 4, 3))}, None, None, "must have the same T and d"),
        ({"train": np.ones((2, 4)), "test": np.ones((1, 4, 3))}, None, None, r"shape \(N, T, d\), got float64"),
        (
            {"train": np.zeros((2, 4, 2)), "test": np.ones((1, 4, 2))},
            None,
            None,
            r"sequence 0 \(t, line 1\) has no token",
        ),
        ({"train": np.ones((2, 4, 2)), "test": np.ones((1, 4, 2))}, None, 5, "fewer than the length of 5 asked for"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, arrays, vocabulary, length, words):
    if vocabulary is not None:
        (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in vocabulary))
    with pytest.raises(ValueError, match=words):
        embed_folder(folder(tmp_path, **arrays), TRAIN, TEST, length)


def test_no_folder_and_no_array(tmp_path):
    with pytest.raises(ValueError, match="is no folder"):
        embed_folder(tmp_path / "nothing", TRAIN, TEST)
    (tmp_path / "vocab.txt").write_text("red\n")
    (tmp_path / "table.npy").write_text("not an array")
    with pytest.raises(ValueError, match=r"table\.npy is no \.npy file of numbers"):
        embed_folder(tmp_path, TRAIN, TEST)


def safe(path, **tensors):
    """Write the format by its definition: size of the header, header, bytes."""
    header, data = {}, b""
    for name, (kind, array) in tensors.items():
        raw = array.tobytes()
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def test_safetensors_are_read(tmp_path):
    pytest.importorskip("safetensors", reason="needs safetensors: pip install 'attnlimits[data]'")
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    table = np.arange(8, dtype=np.float32).reshape(4, 2) + 1
    path = tmp_path / "table.safetensors"
    other = ("F32", np.ones((2, 2), np.float32))
    safe(path, other=other, **{"bert.embeddings.word_embeddings.weight": ("F32", table)})
    assert embed_folder(tmp_path, TRAIN, TEST)[1].tokens[0, 0].tolist() == [5, 6]
    safe(path, anything=("F16", table.astype(np.float16)))
    assert embed_folder(tmp_path, TRAIN, TEST)[1].tokens[0, 0].tolist() == [5, 6]
    safe(path, one=other, two=other)
    with pytest.raises(ValueError, match=r"must hold one tensor, or one whose name ends in .* it holds one, two"):
        embed_folder(tmp_path, TRAIN, TEST)
    safe(path, table=("BF16", np.ones((4, 2), np.uint16)))
    with pytest.raises(ValueError, match=r"table\.safetensors (cannot be read as|must hold real numbers)"):
        embed_folder(tmp_path, TRAIN, TEST)
    path.write_bytes(b"something else")
    with pytest.raises(ValueError, match="cannot be read as"):
        embed_folder(tmp_path, TRAIN, TEST)


def test_safetensors_without_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    safe(tmp_path / "table.safetensors", table=("F32", np.ones((4, 2), np.float32)))
    with pytest.raises(ValueError, match=r"needs the package safetensors: pip install 'attnlimits\[data\]'"):
        embed_folder(tmp_path, TRAIN, TEST)
