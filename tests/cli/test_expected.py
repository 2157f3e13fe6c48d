"""What a person expects of a command: help by itself, a hint at what was meant, quiet where nobody looks."""

import contextlib
import fcntl
import json
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest

from attnlimits.numerics.cli import command, notices
from attnlimits.numerics.core.notes import note

from ..launch import INTERRUPTIBLE

COMMAND = [sys.executable, "-m", "attnlimits.numerics.cli.main"]
# A verb that takes long, as its bar sees it.
SLOW = """
import sys, time
from attnlimits.numerics.cli import main, symbolic
from attnlimits.numerics.cli.verbs import shown
from attnlimits.numerics.core.progress import Bar

def models(args):
    begin, time.monotonic = time.monotonic, lambda: 0.0
    bar = Bar("work", show=shown(args))
    time.monotonic = begin
    bar.to(1, 3)
    bar.close()
    return {}, "done", True

symbolic.models = models
sys.exit(main.main(["models", *sys.argv[1:]]))
"""


def on_terminal(*words, **environment):
    """What a command writes to stderr where that is a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    done = subprocess.run(
        [sys.executable, "-c", SLOW, *words],
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        env=os.environ | environment,
        check=False,
        timeout=120,
    )
    os.close(theirs)
    written = b""
    try:
        while part := os.read(ours, 4096):
            written += part
    except OSError:  # the end of a terminal
        pass
    os.close(ours)
    assert done.returncode == 0, written
    return written.decode()


def test_without_a_verb_the_help_is_printed_by_groups(attnlimits):
    said = attnlimits("")
    assert (said.status, said.err) == (0, "")
    assert said.out == attnlimits("--help").out
    assert said.out.index("what can be learned:") < said.out.index("\n    threshold") < said.out.index("\n    models")
    listed = [line.split()[0] for line in said.out.splitlines() if line.startswith("    ") and line[4] != " "]
    assert {"threshold", "models", "cite"} <= set(listed)


def test_every_verb_is_in_one_group():
    parser = command.parser()
    grouped = [name for verbs in parser.groups.values() for name, _ in verbs]
    assert sorted(grouped) == sorted(set(grouped)) and {"threshold", "explain", "cite", "completion"} <= set(grouped)
    assert all(f"\n    {name} " in parser.format_help() for name in grouped)


def test_the_parser_of_one_verb_is_that_among_all():
    every = command.parser()
    for name, verb in every.verbs.items():
        alone = command.parser(name)
        assert alone.verbs[name].format_help() == verb.format_help()
        assert len(alone.verbs) <= 4 or name in ("cite", "completion")
    for name in (None, "symbolic", "tresholds", "--help"):
        assert command.parser(name).verbs.keys() == every.verbs.keys()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("tresholds", "invalid choice: 'tresholds'"),
        ("tresholds", "; did you mean threshold?"),
        ("sweep --outt x", "unrecognized arguments: --outt; did you mean --out"),
        ("figure --lsit", "unrecognized arguments: --lsit; did you mean --list"),
        ("multihead figure --ot=x", "unrecognized arguments: --ot=x; did you mean --out"),
        ("completion --quite", "unrecognized arguments: --quite; did you mean --quiet?"),
        ("report --outt x", "unrecognized arguments: --outt x; did you mean --out"),
        ("evolve --alhpa 0.5", "unrecognized arguments: --alhpa 0.5; did you mean --alpha?"),
        ("threshold --layer=3 --digts=4", "unrecognized arguments: --digts=4; did you mean --digits?"),
        ("aim evolv", "did you mean evolve?"),
        ("figure troiani2026-1", "did you mean troiani2025-1"),
        ("threshold --output lst", "did you mean last?"),
    ],
)
def test_what_was_meant_is_named(attnlimits, command, words):
    said = attnlimits(command)
    assert (said.status, said.out, len(said.lines_of_error)) == (2, "", 1)
    assert words in said.err


@pytest.mark.parametrize(("verb", "needed"), [("evolve", "--alpha ALPHA"), ("sweep", "--out DIR"), ("sweep", "grid")])
def test_the_help_shows_without_brackets_what_is_needed(attnlimits, verb, needed):
    usage = attnlimits(f"{verb} --help").out.split("\n\n")[0]
    assert needed in usage and f"[{needed}]" not in usage


def test_nothing_is_suggested_that_is_not_near(attnlimits):
    assert "did you mean" not in attnlimits("models --zzzzzzz").err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("evolve --skip 0", "skip must be finite and > 0"),
        ("evolve --samples 0", "--samples must be >= 1"),
        ("curve --from -1", "--from must be finite and >= 0"),
        ("curve --tokens 1", "tokens must be"),
        ("gamp --alpha -1", "--alpha must be finite and > 0"),
        ("gamp --skip 0", "skip must be finite and > 0"),
        ("descend --dimension 0", "--dimension must be >= 1"),
        ("free-energy --beta 0", "beta must be finite and > 0"),
        ("landscape --accuracy 1", "--accuracy must be in"),
        ("sweep troiani2025-skip --workers 0", "--workers must be >= 1"),
        ("denoise --y [[1", "--y is no JSON"),
        ("aim evolve --beta 0", "beta"),
    ],
)
def test_what_is_given_is_checked_before_the_rest_is_asked_for(attnlimits, command, words):
    said = attnlimits(command)
    assert (said.status, said.out, len(said.lines_of_error)) == (2, "", 1)
    assert words in said.err and "required" not in said.err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("evolve", "required: --alpha"),
        ("curve", "required: --from, --to"),
        ("curve --to 1", "required: --from"),
        ("aim evolve", "required: --alpha, --rho"),
        ("multihead fit", "required: --x"),
        ("sweep troiani2025-skip", "required: --out"),
        ("landscape --alpha 1", "required: --out"),
    ],
)
def test_what_is_missing_is_asked_for(attnlimits, command, words):
    said = attnlimits(command)
    assert (said.status, said.out, len(said.lines_of_error)) == (2, "", 1)
    assert words in said.err


def test_short_flags_are_the_long_ones(attnlimits):
    short = json.loads(attnlimits("evolve -L 1 -M 3 -r 1 -c 2 -b 1.5 -a 0.3 --json").out)
    full = json.loads(attnlimits("evolve --layers 1 --tokens 3 --rank 1 --skip 2 --beta 1.5 --alpha 0.3 --json").out)
    assert short.pop("seconds") >= 0 and full.pop("seconds") >= 0
    assert short == full
    assert json.loads(attnlimits("threshold -L 1 -H 2 --json").out)["exact"] == "1/12"


def test_cite(attnlimits):
    said = attnlimits("cite")
    assert said.status == 0 and said.out.startswith("@software{attnlimits,") and "troiani2025" in said.out
    assert "boncoraglio2025" in json.loads(attnlimits("cite boncoraglio2025 --json").out)["bibtex"]
    assert attnlimits("cite nobody").status == 2


def test_bars_are_for_terminals():
    assert "work: " in on_terminal()
    done = subprocess.run([sys.executable, "-c", SLOW], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "done\n")


@pytest.mark.slow_for("-q")
@pytest.mark.parametrize("flag", ["--json", "--quiet", "-q"])
def test_no_bar_where_nobody_looks(flag):
    assert on_terminal(flag) == ""


def test_nothing_is_coloured():
    """NO_COLOR asks for it, and there is no other output."""
    assert "\x1b" not in on_terminal(NO_COLOR="1", TERM="xterm-256color")
    assert "\x1b" not in on_terminal(TERM="xterm-256color")
    ours, theirs = pty.openpty()
    subprocess.run(
        [*COMMAND, "evolve", "--help"], stdout=theirs, check=True, timeout=120, env=os.environ | {"NO_COLOR": "1"}
    )
    os.close(theirs)
    assert b"\x1b" not in os.read(ours, 1 << 16)
    os.close(ours)


@pytest.mark.parametrize(("flag", "said"), [("", "attnlimits: deriving the kernel\n"), ("--quiet", "")])
def test_what_the_library_prints_is_left_out_where_nobody_wants_it(attnlimits, monkeypatch, flag, said):
    def found(*_, **__):
        note("deriving the kernel")
        raise ArithmeticError("stopped")

    monkeypatch.setattr(command.threshold.al, "threshold", found)
    assert attnlimits(f"threshold {flag}").err == f"{said}attnlimits: stopped\n"


@pytest.mark.slow_for("--json")  # one condition for both flags
@pytest.mark.parametrize("quiet", ["", "--quiet", "--json"])
def test_a_long_silent_run_says_what_it_does(attnlimits, monkeypatch, quiet):
    def slow(output, prior=None):
        notices.time.sleep(0.5)
        raise ArithmeticError("stopped")

    monkeypatch.setattr(notices, "_WHEN", tuple(0.1 * k for k in range(1, 600)))
    monkeypatch.setattr(command.free_energy.al.free_energy, "transitions", slow)
    said = attnlimits(f'free-energy --link "h[1]**2" --noise 0.1 --transitions {quiet}')
    assert said.status == 1
    assert ("spinodals" in said.err) == (not quiet)
    assert said.err.endswith("attnlimits: stopped\n")


@pytest.mark.slow_for("threshold --layers 1 --json")
@pytest.mark.parametrize("command", ["models", "--help", "threshold --layers 1 --json"])
def test_a_reader_that_leaves_ends_it_quietly(command):
    line = f"{' '.join(COMMAND)} {command} | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)


@pytest.mark.parametrize(
    "command",
    [
        "gamp -L 1 --x none.npy --y none.npy",
        "descend -L 1 --x none.npy --y none.npy",
        "aim amp --rho 0.5 --x none.npy --y none.npy",
        "aim denoise --rho 1 --delta 1 --y none.npy",
        "multihead fit --x none.npz",
        "denoise --input none.json",
        "denoise --input none.npz",
        "sweep none.toml --out swept",
        "trec --train none.txt --test none.txt --embeddings none",
    ],
)
def test_a_missing_file_is_a_bad_argument(attnlimits, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = attnlimits(command)
    assert (said.status, said.out, len(said.lines_of_error)) == (2, "", 1)
    assert "none" in said.err


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_completion_of_a_shell(attnlimits, shell):
    pytest.importorskip("shtab")
    said = attnlimits(f"completion {shell}")
    assert (said.status, said.err) == (0, "")
    assert "free-energy" in said.out and "--transitions" in said.out
    if shutil.which(shell):
        done = subprocess.run([shell, "-n"], input=said.out, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")


def test_bash_completes_verbs_and_flags(attnlimits):
    pytest.importorskip("shtab")
    script = attnlimits("completion bash").out
    for words, expected in ((["attnlimits", "thr"], "threshold"), (["attnlimits", "evolve", "--alp"], "--alpha")):
        ask = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _shtab_attnlimits; echo ${{COMPREPLY[*]}}"
        done = subprocess.run(
            ["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=False, timeout=60
        )
        assert done.stdout.split() == [expected]


def test_bash_completes_file_names_where_a_file_is_asked_for(attnlimits, tmp_path):
    pytest.importorskip("shtab")
    (tmp_path / "tokens.npy").touch()
    (tmp_path / "tokens").mkdir()
    script = attnlimits("completion bash").out
    for asked in (
        "gamp --x",
        "evolve --plot",
        "aim amp --out",
        "trec --embeddings",
        "sweep",
        "sweep --retry-failed",
        "gamp --seeds",
    ):
        words = ["attnlimits", *asked.split(), "tok"]
        ask = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _shtab_attnlimits; echo ${{COMPREPLY[*]}}"
        done = subprocess.run(
            ["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path
        )
        found = [] if asked == "gamp --seeds" else ["tokens", "tokens.npy"]
        assert sorted(done.stdout.split()) == found, asked


def test_without_shtab_the_package_is_named(attnlimits, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    said = attnlimits("completion bash")
    assert said.status == 2 and "attnlimits[completion]" in said.err


ALIVE = {
    "a computation": "threshold --layers 2 --digits 40",
    "a derivation": "derive --layers 3 --tokens 4 --out {folder}",
    "a link": "evolve --link exp(h[1]*h[2])+h[1]**3 --alpha 1",
    "compilation": "free-energy --layers 17 --tokens 3 --alpha 1 --json",
    "a proof": "verify --paper troiani2025",
}


@pytest.mark.slow_for("a computation", "a derivation", "a link", "a proof")
@pytest.mark.parametrize("kind", ALIVE)
def test_a_run_on_a_terminal_shows_within_two_seconds_that_it_is_alive(kind, tmp_path):
    ours, theirs = pty.openpty()
    command = [*COMMAND, *ALIVE[kind].format(folder=tmp_path).split()]
    with subprocess.Popen([*INTERRUPTIBLE, *command], stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        said, begin = b"", time.monotonic()
        try:
            while b"so far" not in said:
                assert select.select([ours], [], [], 30)[0]
                said += os.read(ours, 1 << 16)
            shown = time.monotonic() - begin
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(OSError):  # the end of a terminal
                while more := os.read(ours, 1 << 16):
                    said += more
        finally:
            process.kill()
    os.close(ours)
    assert shown < 10  # 2 s, and what starting Python and other processes take
    assert said.endswith(b" \rattnlimits: interrupted\r\n")
