"""What standard output, the locale and the outermost level of the command do to a result."""

import json
import os
import subprocess
import sys

import pytest

from attnlimits.numerics.cli import command, symbolic
from attnlimits.numerics.cli import guard as cli_guard
from attnlimits.numerics.core.errors import ConvergenceError
from attnlimits.numerics.core.progress import Bar

COMMAND = f"{sys.executable} -m attnlimits.numerics.cli.main"
SILENT = ["models", "threshold --layers 1 --json", "--help", "evolve --help"]
# One result and one help are written as the other ones are.
one_of_each = pytest.mark.slow_for("threshold --layers 1 --json", "evolve --help")


def shell(line, **environment):
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=False, timeout=120, env=os.environ | environment
    )


@one_of_each
@pytest.mark.parametrize("arguments", SILENT)
def test_a_full_disk_is_a_failure_in_one_line(arguments):
    done = shell(f"{COMMAND} {arguments} > /dev/full")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "standard output could not be written: No space left on device" in done.stderr


@one_of_each
@pytest.mark.parametrize("arguments", SILENT)
def test_a_closed_pipe_ends_quietly(arguments):
    # The reader is gone before the command prints.
    done = shell(f"{COMMAND} {arguments} | exec sleep 0; exit ${{PIPESTATUS[0]}}")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_output_is_refused_before_the_work():
    done = shell(f"{COMMAND} models >&-")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "standard output is closed" in done.stderr


@pytest.mark.parametrize("closed", ["2>&-", "2> /dev/full"])
def test_without_a_place_for_messages_the_status_remains(closed):
    done = shell(f"{COMMAND} threshold --skip 0 {closed}")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


def test_characters_that_the_locale_has_not_are_escaped():
    ascii_only = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    link = "import attnlimits.numerics.cli.symbolic as s; s.models = lambda args: ({}, 'q \\u2265 1', True); "
    main = "from attnlimits.numerics.cli.main import main; import sys; sys.exit(main(['models']))"
    done = subprocess.run(
        [sys.executable, "-c", link + main],
        capture_output=True,
        check=False,
        timeout=120,
        env=os.environ | ascii_only,
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, b"", b"q \\u2265 1\n")


@pytest.mark.slow_for("variant0")  # of the two, the locale without these characters is the harder one
@pytest.mark.parametrize("variant", [{}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}])
def test_arguments_of_any_bytes_are_quoted(variant):
    done = subprocess.run(
        [sys.executable.encode(), b"-m", b"attnlimits.numerics.cli.main", b"threshold", b"--link", b"h[1]\xff\x1b[31m"],
        capture_output=True,
        check=False,
        timeout=120,
        env=os.environ | variant,
    )
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"\x1b" not in done.stderr


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (MemoryError(), 1, "not enough memory; ask for less"),
        (MemoryError("--samples 9 would take 9 TiB"), 1, "attnlimits: --samples 9 would take 9 TiB"),
        (RecursionError("maximum recursion depth exceeded"), 1, "nested too deeply"),
        (KeyError("q"), 1, "this is a fault of attnlimits, please report it: KeyError: 'q'"),
        (TypeError("a\nb"), 1, "this is a fault of attnlimits, please report it: TypeError: a b"),
        (ConvergenceError("raise it"), 1, "attnlimits: raise it"),
        (OverflowError(), 1, "attnlimits: OverflowError"),
        (ValueError("x" * 10**6), 2, "xxx...xxx"),
        (OSError("no file at all"), 1, "attnlimits: no file at all"),
        (OSError(28, "No space left on device", "f"), 1, "attnlimits: No space left on device: f"),
        (KeyboardInterrupt(), 130, "attnlimits: interrupted"),
    ],
)
@pytest.mark.parametrize("place", ["run", "parse"])
def test_every_error_has_a_status_and_one_line(attnlimits, monkeypatch, error, status, words, place):
    def raising(*_):
        raise error

    if place == "run":
        monkeypatch.setattr(symbolic, "models", raising)
    else:
        monkeypatch.setattr(command, "parser", raising)
    monkeypatch.delenv(cli_guard.DEBUG, raising=False)
    said = attnlimits("models")
    assert (said.status, said.out, said.err.count("\n")) == (status, "", 1)
    assert words in said.err
    assert len(said.err) < 1200
    monkeypatch.setenv(cli_guard.DEBUG, "1")
    assert "Traceback" in attnlimits("models").err


def test_an_error_stands_below_the_bar(attnlimits, monkeypatch):
    def fails(_):
        bar = Bar("work", show=True)
        bar._begin -= 10
        bar.to(1, 3)
        raise ConvergenceError("raise --samples")

    monkeypatch.setattr(symbolic, "models", fails)
    said = attnlimits("models")
    assert said.status == 1
    assert said.err.endswith("\nattnlimits: raise --samples\n")


def test_numbers_that_json_has_not_are_null(attnlimits, monkeypatch):
    monkeypatch.setattr(symbolic, "models", lambda _: ({"value": float("nan"), "x": 1e400}, "text", True))
    said = attnlimits("models --json")
    assert said.status == 0
    assert json.loads(said.out)["value"] is None


def test_the_home_of_nobody_is_no_cache(attnlimits, monkeypatch):
    monkeypatch.setenv("ATTNLIMITS_CACHE", "~nosuchuser/cache")
    said = attnlimits('threshold --link "h[1]**2" --json')
    assert (said.status, json.loads(said.out)["value"][:3]) == (0, "0.5")
    assert len(said.lines_of_error) <= 1


@pytest.mark.parametrize(
    "command",
    [
        "sweep ~nosuchuser/grid.toml --out swept",
        "gamp --x ~nosuchuser/x.npy --y ~nosuchuser/y.npy",
        "aim denoise --rho 1 --delta 1 --y ~nosuchuser/y.npy",
        "multihead fit --x ~nosuchuser/x.npz",
        "denoise --input ~nosuchuser/y.json",
    ],
)
def test_files_of_nobody_are_missing(attnlimits, command):
    said = attnlimits(command)
    assert said.status in (1, 2)
    assert (said.out, len(said.lines_of_error)) == ("", 1)
    assert "~nosuchuser" in said.err


def test_the_statuses_are_in_the_help(attnlimits):
    assert "130 interrupted" in " ".join(attnlimits("--help").out.split())
