"""A result that has nowhere to go: said before the work begins, in one line that names the flag and the place."""

import errno
import os
import time

import pytest

from attnlimits.numerics.core import destinations
from attnlimits.numerics.core.destinations import output_file, output_folder
from attnlimits.numerics.core.files import write_whole

# Files of data that do not exist, models that take minutes: whoever looks at --out last says something else first.
FILES = {
    "gamp": "gamp --x none.npy --y none.npy --out PLACE",
    "descend": "descend --x none.npy --y none.npy --out PLACE",
    "aim amp": "aim amp --rho 0.5 --x none.npy --y none.npy --out PLACE",
    "aim denoise": "aim denoise --rho 0.5 --delta 0.1 --digits 200 --y none.npy --out PLACE",
    "multihead fit": "multihead fit --x none.npz --out PLACE",
    "denoise": "denoise --input none.json --digits 200 --out PLACE",
}
#: These make the folders that are missing.
MAKING = {
    "curve": "curve --layers 3 --from 0.1 --to 9 --points 99 --out PLACE",
    "landscape": "landscape --alpha 0.9 --points 99 --out PLACE.png",
    "trec": "trec --train none.txt --test none.txt --embeddings none --out PLACE",
}
FOLDERS = {
    "derive": "derive --out PLACE",
    "derive a model": "derive --layers 2 --tokens 3 --untied --out PLACE",
    "derive a link": 'derive --link "h[1]**2" --out PLACE',
    "figure": "figure troiani2025-1 --out PLACE",
    "aim figure": "aim figure 1 --out PLACE",
    "multihead figure": "multihead figure steps --out PLACE",
    "make-data": "make-data --layers 1 --alpha 1 --dimension 50 --out PLACE",
    "sweep": "sweep troiani2025-skip --out PLACE",
    "trec --write-corpus": "trec --write-corpus PLACE",
}


def refused(attnlimits, command, place, status=1):
    begin = time.process_time()
    said = attnlimits(command.replace("PLACE", str(place)))
    assert (said.status, said.out, len(said.lines_of_error)) == (status, "", 1), said.err
    assert "--out" in said.err or "--write-corpus" in said.err
    # The first of them imports what its verb needs.
    assert time.process_time() - begin < 10
    return said


@pytest.mark.parametrize("verb", FILES)
def test_a_file_in_a_missing_folder(attnlimits, tmp_path, verb):
    said = refused(attnlimits, FILES[verb], tmp_path / "none" / "result", 2)
    assert "does not exist; make it first" in said.err and str(tmp_path / "none") in said.err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("verb", FILES | MAKING)
def test_a_folder_in_the_place_of_a_file(attnlimits, tmp_path, verb):
    (tmp_path / "place").mkdir()
    (tmp_path / "place.png").mkdir()
    said = refused(attnlimits, (FILES | MAKING)[verb], tmp_path / "place")
    assert "must name a file, and this is a folder" in said.err


@pytest.mark.parametrize("verb", FILES | MAKING | FOLDERS)
def test_below_a_file(attnlimits, tmp_path, verb):
    (tmp_path / "file").write_text("", encoding="utf-8")
    said = refused(attnlimits, (FILES | MAKING | FOLDERS)[verb], tmp_path / "file" / "inside")
    assert "needs a folder, and this is none" in said.err and str(tmp_path / "file") in said.err


def test_a_folder_that_may_not_be_written(tmp_path, monkeypatch):
    """Root may write anywhere, so the system's answer is given here."""
    monkeypatch.setattr(destinations.os, "access", lambda path, mode: False)
    for check in (lambda: output_file(tmp_path / "result.npy"), lambda: output_folder(tmp_path / "new")):
        with pytest.raises(OSError, match="may not") as found:
            check()
        assert found.value.errno == errno.EACCES and found.value.filename == str(tmp_path)


@pytest.mark.parametrize("verb", FILES | MAKING)
def test_a_pipe_is_not_replaced(attnlimits, tmp_path, verb):
    """Nor is a device: root may put a file in the place of /dev/null."""
    for name in ("place", "place.png"):
        os.mkfifo(tmp_path / name)
    if verb == "denoise":
        # Lines may go to a pipe.
        assert output_file(tmp_path / "place", stream=True) == tmp_path / "place"
        return
    said = refused(attnlimits, (FILES | MAKING)[verb], tmp_path / "place")
    assert "must name a file, and this is a device or a pipe" in said.err
    with pytest.raises(OSError, match="is not replaced by a file"):
        write_whole(tmp_path / "place", b"")
    assert not (tmp_path / "place").is_file()


def test_a_name_that_is_too_long(attnlimits, tmp_path):
    for verb in ("figure", "gamp", "sweep"):
        said = attnlimits((FILES | FOLDERS)[verb].replace("PLACE", str(tmp_path / ("a" * 300))))
        assert (said.status, said.out, len(said.lines_of_error)) == (1, "", 1), said.err
        assert "File name too long" in said.err


def test_good_places(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = type(tmp_path)
    assert output_file(None) is None
    assert output_file(here("w"), ".npy") == here("w.npy")
    assert output_file(here("new/w.json"), make=True) == here("new/w.json")
    assert output_folder(here("new/deeper")) == here("new/deeper")
    assert os.listdir(tmp_path) == []


def test_what_was_there_stays_where_nothing_is_found(attnlimits, tmp_path):
    (tmp_path / "old.jsonl").write_text("old\n", encoding="utf-8")
    bad = "denoise --y '[[2, 0], [0, 1]]' --omega '[[0, 0], [0, 0]]' --V '[[1, 0], [0, 1]]'"
    said = attnlimits(f"{bad} --out {tmp_path / 'old.jsonl'}")
    assert said.status == 2
    assert (tmp_path / "old.jsonl").read_text(encoding="utf-8") == "old\n"
