"""Two thousand command lines at random end as the command promises: a documented status, one line, JSON, in time."""

import dataclasses
import itertools
import os
import random
from pathlib import Path

import command_lines
import command_verbs
import fuzz_commands
import hostile_files
import pytest
from fuzz_commands import Said
from hypothesis import given, settings
from hypothesis import strategies as st

SEED = int(os.environ.get("ATTNLIMITS_FUZZ_SEED", "0"))
# Lines of one test: each has a process of its own, which test processes share among them.
CHUNK = 50
# Of all lines, those that `make test` runs: nothing in them has to be compiled for long.
FAST, ALL = range(6), 2000

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="memory is measured by /proc of Linux"
)


@pytest.mark.parametrize(
    ("first", "count"),
    [
        (FAST.start, len(FAST)),
        pytest.param(FAST.stop, CHUNK - FAST.stop, marks=pytest.mark.slow),
        *(pytest.param(k, CHUNK, marks=pytest.mark.slow) for k in range(CHUNK, ALL, CHUNK)),
    ],
)
def test_command_lines_end_as_promised(first, count, tmp_path):
    said = list(fuzz_commands.run_lines(SEED, first, count, tmp_path))
    print(fuzz_commands.summary(said))
    broken = [
        f"line {one.index} of seed {SEED}: {'; '.join(found)}\n"
        f"  {one.command(tmp_path / 'files')[:2000]}\n"
        f"  python tests/fuzz/fuzz_commands.py --seed {SEED} --first {one.index} --show\n"
        f"  status {one.status}, stderr {one.err[-500:]!r}"
        for one in said
        if (found := fuzz_commands.faults(one))
    ]
    assert not broken, "\n".join(broken)


def test_a_line_is_that_of_its_seed_and_index():
    first, second = ([command_lines.line(3, k) for k in range(50)] for _ in range(2))
    assert first == second
    assert [command_lines.line(4, k) for k in range(50)] != first


def test_lines_cover_every_verb_and_status():
    words = [command_lines.line(SEED, k).words for k in range(ALL)]
    verbs = {w[0] for w in words if w}
    assert set(command_verbs.VERB_NAMES) <= verbs
    of_aim = {"evolve", "threshold", "denoise", "amp", "descend", "free-energy", "spectrum"}
    assert of_aim <= {w[1] for w in words if w[:1] == ("aim",) and w[1:]}


def test_most_lines_are_valid():
    lines = [command_lines.line(SEED, k) for k in range(ALL)]
    assert 0.75 < sum(line.valid for line in lines) / ALL < 0.85


def judged(words, status, out="", err="", peak=0):
    line = command_lines.Line(tuple(words))
    return fuzz_commands.faults(Said(0, line, status, out, err, 0.1, 0.1, peak))


@pytest.mark.parametrize(
    ("words", "status", "out", "err", "fault"),
    [
        (["models"], 0, "a\n", "", None),
        (["models"], 1, "", "attnlimits: no\n", None),
        (["models"], 1, "", "\rwork: 10%\rwork: 100%\nattnlimits: no\n", None),
        (["models"], 1, "", "\rwork: 10%attnlimits: no\n", "no message"),
        (["models"], 1, "", "", "no message"),
        (["models"], 3, "", "attnlimits: no\n", "ended with 3"),
        (["models"], "died: -11", "", "", "ended with died"),
        (["models"], 130, "", "attnlimits: interrupted\n", "without an interrupt"),
        (["models"], 1, "", "Traceback (most recent call last):\n  x\n", "not foreseen"),
        (["models"], 1, "", "attnlimits: this is a fault of attnlimits, ..\n", "not foreseen"),
        (["models"], 2, "a\n", "attnlimits: no\n", "output on stdout"),
        (["models"], 0, "", "", "success without output"),
        (["models"], 0, "q = nan\n", "", "nan in the text"),
        (["models"], 0, "a\n", "x.py:1: RuntimeWarning: overflow\n", "a warning of a library"),
        (["models", "--json"], 0, "[1]\n", "", "no JSON object"),
        (["models", "--json"], 0, '{"a": NaN}\n', "", "NaN is no JSON"),
        (["threshold", "--json"], 0, '{"value": "0.5", "error": 0.1, "how": "estimated"}\n', "", None),
        (["models", "--json"], 0, '{"a": 1, "a": 2}\n', "", "a key occurs twice"),
        (["threshold", "--json"], 0, '{"value": "0.5", "error": 0.1}\n', "", "no 'how'"),
        (["threshold", "--json"], 0, '{"value": "0.5", "error": -1, "how": "estimated"}\n', "", "error is -1"),
        (["threshold", "--json"], 0, '{"value": "inf", "error": 0.0, "how": "estimated"}\n', "", "value is 'inf'"),
    ],
)
def test_the_judgement_itself(words, status, out, err, fault):
    found = judged(words, status, out, err)
    assert (found == []) if fault is None else any(fault in one for one in found), found


def test_memory_is_judged():
    assert judged(["models"], 0, "a\n", peak=3 * 2**20) == ["3.0 GiB of memory"]


def test_a_line_that_takes_long_gets_a_signal_and_a_worker_that_dies_is_replaced(tmp_path):
    worker = fuzz_commands.Worker(tmp_path, seconds=0.3)
    (tmp_path / "files").mkdir()
    try:
        said = worker.run(0, command_lines.Line(("threshold", "--rigorous", "--digits", "30")))
        assert (said.status, said.slow) == (130, True) and fuzz_commands.faults(said) == []
        worker._process.kill()
        assert worker.run(1, command_lines.Line(("models",))).status == "the worker died"
        assert worker.run(2, command_lines.Line(("models",))).status == 0
    finally:
        worker.close()


@pytest.mark.parametrize("count", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_every_line_answers_a_signal_at_any_moment(count, tmp_path):
    """Whatever it does: status 130 and one line within two seconds, or its own end before."""
    worker, files = fuzz_commands.Worker(tmp_path), tmp_path / "files"
    hostile_files.make_files(files)
    moments = random.Random(SEED)
    try:
        lines = (line for k in itertools.count() if (line := command_lines.line(SEED + 1, k)).valid)
        for k, line in enumerate(itertools.islice(lines, count)):
            said = worker.run(k, dataclasses.replace(line, interrupt=moments.uniform(0.2, 3)))
            assert fuzz_commands.faults(said) == [], f"{said.command(files)}: {said.status}, {said.err[-500:]!r}"
            assert list(files.rglob("*.part")) == []
    finally:
        worker.close()


TEXT = st.text(st.characters(exclude_characters="\0"), max_size=30)
NUMBERS = st.one_of(TEXT, st.integers().map(str), st.floats().map(str), st.fractions().map(str))


@settings(max_examples=30)
@given(flag=st.sampled_from(["skip", "beta", "layers", "tokens", "rank", "heads", "digits", "layer"]), value=NUMBERS)
def test_any_text_for_a_number_is_taken_or_refused_in_one_line(say, flag, value):
    said = say(["threshold", "--activation", "none", f"--{flag}={value}", "--json"])
    # A model too large for the memory is refused as such, before its activation.
    assert said.status == (1 if "of memory" in said.err else 2)
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.err.rstrip("\n").isprintable()
