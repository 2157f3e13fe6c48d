"""The verb `sweep`: what it prints, its JSON object, its exit status, and Ctrl-C."""

import json
import os
import signal
import subprocess
import sys

import pytest

from ..launch import INTERRUPTIBLE
from ..waiting import wait_for

FLAGS = "--workers 1"


@pytest.fixture
def grid(tmp_path):
    """Return a function that writes a grid file and gives its path."""

    def write(text):
        path = tmp_path / "grid.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


LAYER = 'task = "threshold"\n[fixed]\nlayers = 1\n[axes]\n'


def test_a_sweep_in_words_and_as_json(attnlimits, grid, tmp_path):
    path = grid(LAYER + "tokens = [2, 3]\nrank = [1, 2]")
    said = attnlimits(f"sweep {path} --out {tmp_path / 'out'} {FLAGS} --limit 3")
    assert said.status == 0
    assert said.out.splitlines() == [
        "threshold over tokens (2) x rank (2): 4 points",
        "3 computed now; 3 of 4 points done, 1 missing: the same command goes on from there",
        f"results in {tmp_path / 'out'}",
    ]
    said = attnlimits(f"sweep {path} --out {tmp_path / 'out'} {FLAGS} --json")
    assert said.status == 0
    assert said.out.count("\n") == 1
    found = json.loads(said.out)
    assert (found["value"], found["error"], found["how"]) == ("4", 0.0, "rigorous")
    assert (found["points"], found["done"], found["failed"], found["missing"], found["computed"]) == (4, 4, 0, 0, 1)
    assert found["status"] == "4 of 4 points done"
    assert found["seconds"] > 0


def test_failures_are_listed_and_end_with_status_one(attnlimits, grid, tmp_path):
    fixed = 'task = "threshold"\n[fixed]\ntokens = 3\noutput = "sequence"\n'
    path = grid(fixed + "[axes]\nlayers = [1, 3, 4, 5, 6, 7, 8]")
    command = f"sweep {path} --out {tmp_path / 'out'} {FLAGS}"
    said = attnlimits(command)
    assert said.status == 1
    assert said.lines_of_error == ["attnlimits: 1 of 7 points done, 6 failed (--retry-failed runs them again)"]
    lines = said.out.splitlines()
    assert sum(line.startswith("failed: ") for line in lines) == 5
    assert "layers=3" in lines[2]
    assert "ValueError: --output sequence is not served by `threshold` at L = 3" in lines[2]
    assert "and 1 more that failed (--json lists them)" in lines
    said = attnlimits(f"{command} --json --retry-failed")
    assert said.status == 1
    found = json.loads(said.out)
    assert (found["computed"], found["failed"], len(found["failures"])) == (6, 6, 6)
    assert found["failures"][0]["parameters"]["layers"] == 3


@pytest.mark.parametrize(
    ("text", "flags", "words"),
    [
        ("task =", "", "is no TOML"),
        ("task = 'solve'\n[axes]\nskip = [1]", "", "task must be one of"),
        (LAYER + "width = [1]", "", "has no parameter 'width'"),
        (LAYER + "tokens = []", "", "axis tokens is empty"),
        (LAYER + "tokens = [2]", "--workers 0", "--workers must be >= 1, got 0"),
        (LAYER + "tokens = [2]", "--limit 0", "--limit must be >= 1, got 0"),
        (LAYER + "tokens = [2]", "--limit x", "argument --limit"),
        (LAYER + "tokens = [2]", "--dask tcp://1.2.3.4:5 --workers 2", "workers is for a local cluster"),
    ],
)
def test_bad_input_is_refused_in_one_line(attnlimits, grid, tmp_path, text, flags, words):
    said = attnlimits(f"sweep {grid(text)} --out {tmp_path / 'out'} {flags} --json")
    assert (said.status, said.out, len(said.lines_of_error)) == (2, "", 1)
    assert words in said.err


def test_a_folder_that_does_not_fit_is_refused(attnlimits, grid, tmp_path):
    out = tmp_path / "out"
    assert attnlimits(f"sweep {grid(LAYER + 'tokens = [2]')} --out {out} {FLAGS}").status == 0
    said = attnlimits(f"sweep {grid(LAYER + 'rank = [2]')} --out {out} {FLAGS}")
    assert (said.status, said.out, len(said.lines_of_error)) == (2, "", 1)
    assert "holds the sweep of another grid, with axes tokens, where this one has rank" in said.err
    said = attnlimits(f"sweep {grid(LAYER + 'rank = [2]')} --out {tmp_path} {FLAGS}")
    assert (said.status, said.out, len(said.lines_of_error)) == (2, "", 1)
    assert "holds other files and no sweep" in said.err
    assert attnlimits("sweep troiani2025-skip").status == 2
    said = attnlimits(f"sweep nothing --out {out}")
    assert said.status == 2
    assert "no grid nothing" in said.err


def test_a_folder_that_cannot_be_made(attnlimits, grid, tmp_path):
    path = grid(LAYER + "tokens = [2]")
    said = attnlimits(f"sweep {path} --out {path / 'inside'} {FLAGS}")
    assert said.status == 1
    assert "--out needs a folder, and this is none" in said.lines_of_error[-1]


def test_damage_is_said(attnlimits, grid, tmp_path):
    path = grid(LAYER + "tokens = [2, 3]")
    command = f"sweep {path} --out {tmp_path / 'out'} {FLAGS}"
    attnlimits(command)
    for record in (tmp_path / "out" / "points").iterdir():
        record.write_text("", encoding="utf-8")
    said = attnlimits(command)
    assert said.status == 0
    # On a busy machine a bar may have been drawn, too.
    lines = [line for line in said.lines_of_error if line.startswith("attnlimits: ")]
    assert len(lines) == 2
    assert all("is cut short or damaged; the point is computed again" in line for line in lines)


@pytest.mark.slow_for("1")
@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent as SIGINT to a group of processes")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_interrupt_says_how_to_go_on(grid, tmp_path, workers):
    path, out = grid('task = "threshold"\n[axes]\nskip = { linspace = [0.6, 3, 120] }\ndigits = [6]'), tmp_path / "out"
    process = subprocess.Popen(
        [
            *INTERRUPTIBLE,
            sys.executable,
            "-m",
            "attnlimits.numerics.cli.main",
            "sweep",
            path,
            "--out",
            out,
            "--workers",
            workers,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    # Not at the moment when the bar is first drawn: tqdm then complains about itself.
    wait_for(lambda: len(list((out / "points").glob("*.json"))) >= 3, process)
    os.killpg(process.pid, signal.SIGINT)
    said, err = process.communicate(timeout=120)
    assert (process.returncode, said) == (130, "")
    assert "Traceback" not in err
    assert "Warning" not in err
    last = err.strip().splitlines()[-1]
    assert last.startswith(f"attnlimits: interrupted; {out} has ")
    assert last.endswith("missing: the same command goes on from there")
    assert list((out / "points").glob("*.part")) == []
    assert (out / "sweep.nc").is_file()
