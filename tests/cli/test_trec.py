"""The verb `trec`: the made corpus, files of one's own, its JSON object, and what it refuses."""

import json
import re

import numpy as np
import pytest

SMALL = " --epochs 3 --rank 4"


@pytest.fixture
def corpus(tmp_path, attnlimits):
    said = attnlimits(f"trec --write-corpus {tmp_path / 'corpus'} --questions 120")
    assert said.status == 0, said.err
    assert said.out.strip() == f"wrote 120 + 300 questions to {tmp_path / 'corpus'}"
    return tmp_path / "corpus"


def files(corpus):
    return f"trec --train {corpus / 'train.txt'} --test {corpus / 'test.txt'} --embeddings {corpus}"


def test_the_made_corpus_and_its_files_are_the_same(corpus, tmp_path, attnlimits):
    own, made = (
        json.loads(attnlimits(command + SMALL + " --seeds 2 --json").out)
        for command in (files(corpus), "trec --made --questions 120")
    )
    for key in ("value", "error", "similarity", "half_time", "train", "test", "tokens", "dimension"):
        assert own[key] == made[key], key
    assert own["converged"] and own["how"] == "monte-carlo" and own["seeds"] == 2
    assert 0 < float(own["value"]) <= 1 and own["error"] >= 0
    shape = np.shape(own["similarity"])
    assert shape == (2, 4, 2) and own["similarity"][0][-1] == pytest.approx([1, 1])
    assert own["labels"] == ["ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"]


def test_in_words_and_with_the_histories(tmp_path, attnlimits):
    said = attnlimits(f"trec --made --questions 60 --out {tmp_path / 'run.json'}" + SMALL)
    assert said.status == 0, said.err
    lines = said.out.splitlines()
    assert lines[0] == "made corpus: 60 + 300 questions, 6 labels, T = 9, d = 64"
    assert lines[1] == "two layers of tied attention, rank 4, c = 1, AdamW at 0.001"
    assert lines[2].startswith("right answers: 0.") and "+-" not in lines[2]
    assert lines[3].startswith("layer 1 half-way") and lines[4].startswith("layer 2 half-way")
    assert lines[5] == "3 epochs, 1 training"
    (run,) = json.loads((tmp_path / "run.json").read_text())["trainings"]
    assert len(run["loss"]) == 4 and "weights" not in run and run["settings"]["rank"] == 4


def test_a_run_that_diverges_has_status_1(attnlimits):
    said = attnlimits("trec --made --questions 60 --epochs 4 --rate 1e30")
    assert said.status == 1 and "take a smaller rate" in said.err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("", "--train, --test, --embeddings missing"),
        ("--train a.txt", "--test, --embeddings missing"),
        ("--made --train a.txt", "--train is for questions of your own"),
        ("--made --length 4", "--length is for questions of your own"),
        ("--made --write-corpus there", "give one of them"),
        ("--write-corpus there --out there.json", "--write-corpus trains nothing"),
        ("--train a --test b --embeddings c --questions 3", "--questions is for the made corpus"),
        ("--made --seeds 0", "--seeds must be >= 1"),
        ("--made --seed -1", "--seed must be >= 0"),
        ("--made --questions 3", "train must be an integer >= 6"),
        ("--made --rank 0", "rank must be an integer >= 1"),
        ("--made --rate -1", "rate must be finite and > 0"),
        ("--made --epochs many", "invalid int value"),
    ],
)
def test_bad_flags_are_refused_in_a_sentence(attnlimits, flags, words):
    said = attnlimits(f"trec {flags}")
    assert said.status == 2 and words in said.err
    assert len(said.lines_of_error) == 1


def test_bad_files_are_refused_with_their_line(corpus, attnlimits):
    with (corpus / "test.txt").open("a") as file:
        file.write("GEOM\twhat is a sphere ?\n")
    said = attnlimits(files(corpus))
    assert said.status == 2
    assert "test.txt, line 301: label 'GEOM' does not occur in the training questions" in said.err
    (corpus / "table.npy").unlink()
    assert "holds no train and test" in attnlimits(files(corpus)).err
    (corpus / "train.txt").unlink()
    said = attnlimits(files(corpus))
    assert said.status == 2 and "No such file" in said.err


def test_the_commands_of_the_page(repository, tmp_path, monkeypatch, attnlimits):
    """One after the other in one folder."""
    text = (repository / "docs/how/questions.md").read_text(encoding="utf-8")
    commands = re.findall(r"^attnlimits (trec .*)$", text, re.MULTILINE)
    assert len(commands) == 2
    monkeypatch.chdir(tmp_path)
    assert attnlimits(commands[0]).status == 0
    said = attnlimits(re.sub(r"--seeds \d+", "--epochs 2", commands[1]))
    assert said.status == 0 and "1200 + 300 questions, 6 labels" in said.out
