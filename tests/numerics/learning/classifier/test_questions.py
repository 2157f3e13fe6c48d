"""Files of questions: both forms, both encodings, and what is refused with file and line."""

import pytest

from attnlimits.numerics.learning.classifier import Question, label_numbers, read_questions


def written(tmp_path, data):
    path = tmp_path / "questions.txt"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.mark.parametrize(
    ("line", "label", "text"),
    [
        ("NUM\tHow many dogs ?", "NUM", "How many dogs ?"),
        ("NUM:count\tHow many dogs ?", "NUM", "How many dogs ?"),
        ("DESC:manner How did serfdom develop ?", "DESC", "How did serfdom develop ?"),
        ("ENTY:cremat What : is this ?", "ENTY", "What : is this ?"),
        ("  LOC\t Where\tis it ?  ", "LOC", "Where\tis it ?"),
    ],
)
def test_both_forms_are_read(tmp_path, line, label, text):
    (found,) = read_questions(written(tmp_path, line + "\n"))
    assert (found.label, found.text) == (label, text)
    assert found.place.endswith("questions.txt, line 1")


def test_empty_lines_are_left_out_and_lines_counted(tmp_path):
    found = read_questions(written(tmp_path, "\ufeffA\tone\r\n\r\n  \nB\ttwo\n"))
    assert [(q.label, q.text) for q in found] == [("A", "one"), ("B", "two")]
    assert found[1].place.endswith("line 4")


def test_latin_1_is_read_where_it_is_no_utf_8(tmp_path):
    assert read_questions(written(tmp_path, "HUM:ind Who is Dalí ?\n".encode("latin-1")))[0].text == "Who is Dalí ?"
    assert read_questions(written(tmp_path, "HUM:ind Who is Dalí ?\n"))[0].text == "Who is Dalí ?"
    # 0x85 ends a line for Unicode, and is an ellipsis in files of the time.
    (found,) = read_questions(written(tmp_path, b"HUM:ind Who\x85 and \xed ?\n"))
    assert found.text.endswith("?")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("", "holds no question"),
        ("\n \n", "holds no question"),
        ("A\tone\nno label here\n", "line 2: no label, got 'no label here'"),
        ("A\tone\n\ttext\n", "line 2: no label"),
        (":fine text\n", "line 1: no label"),
        ("A\tone\n\nB\t \n", "line 3: no text after the label 'B'"),
        ("DESC:manner\n", "line 1: no text after the label 'DESC'"),
        (b"A\tone\0\n", "no text file: it holds zero bytes"),
    ],
)
def test_what_is_no_question_is_refused(tmp_path, data, words):
    with pytest.raises(ValueError, match=rf"questions\.txt.*{words}"):
        read_questions(written(tmp_path, data))


def test_a_missing_file_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_questions(tmp_path / "nothing.txt")


def test_labels_are_numbered_in_order():
    names, first, second = label_numbers([Question("B", "x"), Question("A", "y")], [Question("B", "z")])
    assert names == ("A", "B") and first.tolist() == [1, 0] and second.tolist() == [1]


def test_labels_that_cannot_be_learned_are_refused():
    train = [Question("A", "x"), Question("B", "y")]
    with pytest.raises(
        ValueError, match="f, line 7: label 'C' does not occur in the training questions, which have A, B"
    ):
        label_numbers(train, [Question("C", "z", "f, line 7")])
    with pytest.raises(ValueError, match="at least two labels to tell apart, got A"):
        label_numbers(train[:1], train)
