"""Run command lines at random and judge each by the contract of the command.

python tests/fuzz/fuzz_commands.py --seed 0 --first 0 --count 2000     runs lines and prints what breaks the contract
python tests/fuzz/fuzz_commands.py --seed 0 --first 137 --show         prints line 137, and what it says
"""

import argparse
import collections
import contextlib
import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from command_lines import Line, line
from hostile_files import make_files

__all__ = ["Said", "faults", "run_lines", "summary"]

#: Seconds of CPU after which a line gets a signal, and of the clock, where other processes share the machine.
MOST_SECONDS, MOST_WAIT = 60, 240
#: Seconds in which a line ends after a signal, two of its own and what other processes take.
MOST_ANSWER = 5
#: Memory that a line may hold, in KiB.
MOST_MEMORY = 2 * 2**20
# Lines after which a worker is replaced: it then runs again what a fresh process runs.
_LIFE = 200
_STATUSES = (0, 1, 2, 130)
_HOW = ("rigorous", "estimated", "monte-carlo")
# Verbs that promise a number in their object, where they end in one.
_NUMBERS = ("threshold evolve curve free-energy landscape committee gamp descend aim figure sweep").split()
# Lines of a bar: it is drawn over itself.
_BAR = re.compile(r"[^\n]*\r[^\n]*\n?")
_DERIVES = re.compile(r"^attnlimits: deriving .*\n", re.MULTILINE)


@dataclass(frozen=True)
class Said:
    """What a command line did: status (a text if it has none), streams, seconds of CPU and clock, peak in KiB."""

    index: int
    line: Line
    status: int | str
    out: str
    err: str
    seconds: float
    wait: float
    peak: int
    #: Seconds from a signal to the end, of a line that got one: by chance, or because it took long.
    answered: float | None = None
    slow: bool = False

    def command(self, folder: Path) -> str:
        """Return the shell command that repeats it."""
        words = " ".join(shlex.quote(word) for word in ("attnlimits", *self.line.words))
        return f"cd {shlex.quote(str(folder))} && {words.encode('utf-8', 'backslashreplace').decode()}"


class Worker:
    """A process of `command_worker.py`, started when it is needed and replaced when it is lost."""

    def __init__(self, folder: Path, seconds: float | None = None) -> None:
        self._folder, self._process, self._age = folder, None, 0
        self._seconds = MOST_SECONDS if seconds is None else seconds

    def _start(self) -> "subprocess.Popen[str]":
        single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
        cache = {"ATTNLIMITS_CACHE": str(self._folder / "cache"), "MPLBACKEND": "Agg", "LOKY_MAX_CPU_COUNT": "1"}
        script = Path(__file__).with_name("command_worker.py")
        return subprocess.Popen(
            [sys.executable, str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="ascii",
            env=os.environ | single | cache,
            start_new_session=True,
        )

    def run(self, index: int, line: Line) -> Said:
        if self._process is None or self._age >= _LIFE:
            self.close()
            self._process, self._age = self._start(), 0
        self._age += 1
        streams = {name: str(self._folder / f"std{name}") for name in ("out", "err")}
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        begin = time.monotonic()
        asked = {"words": line.words, "folder": str(self._folder / "files"), **streams}
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        answer = self._answer(process, line, begin)
        if "seconds" not in answer:
            self.close()
        # As bytes: reading as text would turn the returns of a bar into lines.
        out, err = (Path(p).read_bytes().decode("utf-8", "backslashreplace") for p in streams.values())
        answer = {"seconds": 0.0, "peak": 0} | answer
        return Said(index, line, out=out, err=err, wait=time.monotonic() - begin, **answer)

    def _answer(self, process: "subprocess.Popen[str]", line: Line, begin: float) -> dict[str, Any]:
        """Wait for the end of a line; send it the signal that it is to get, or one when it has taken its time."""
        assert process.stdout is not None
        text = process.stdout.readline()
        if not text:
            return {"status": "the worker died"}
        running = json.loads(text)["process"]
        begin = time.monotonic()
        sent, slow = None, False
        while True:
            ready, _, _ = select.select([process.stdout], [], [], 0.02)
            now = time.monotonic()
            if ready:
                answered = None if sent is None else now - sent
                return json.loads(process.stdout.readline()) | {"answered": answered, "slow": slow}
            if sent is not None:
                if now - sent > MOST_ANSWER:
                    return {"status": f"no answer to a signal in {MOST_ANSWER} s", "answered": now - sent}
                continue
            slow = _cpu(running) > self._seconds or now - begin > MOST_WAIT
            if slow or (line.interrupt is not None and now - begin > line.interrupt):
                os.kill(running, line.number)
                sent = now

    def close(self) -> None:
        """End the process and what it has started."""
        if self._process is None:
            return
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            try:
                stream.close()
            except OSError:
                pass
        self._process = None


def _cpu(number: int) -> float:
    """Seconds of CPU that a process and its ended children have used."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def run_lines(seed: int, first: int, count: int, folder: Path, seconds: float | None = None) -> Iterator[Said]:
    """Run `count` lines of a seed from `first` on, in a folder with hostile files; a signal ends long ones."""
    folder = folder.resolve()
    make_files(folder / "files")
    worker = Worker(folder, seconds)
    try:
        for index in range(first, first + count):
            yield worker.run(index, line(seed, index))
    finally:
        worker.close()


def faults(said: Said) -> list[str]:
    """Return what breaks the contract: nothing, of a good command."""
    found = []
    if said.status not in _STATUSES:
        return [f"ended with {said.status}"]
    if said.status == 130 and said.answered is None:
        found.append("status 130 without an interrupt")
    # What was said of a derivation before stays, unless --quiet asks for silence.
    message = _DERIVES.sub("", _BAR.sub("", said.err))
    if "Traceback" in said.err or "fault of attnlimits" in said.err:
        found.append("an error that was not foreseen")
    if "Warning" in message:
        found.append("a warning of a library")
    if said.status and len(message.splitlines()) != 1 and said.line.words[:1] not in (("sweep",), ("derive",)):
        found.append(f"{len(message.splitlines())} lines on stderr")
    if said.status and not message.endswith("\n"):
        found.append("no message")
    if said.status == 2 and said.out:
        found.append("bad arguments, and output on stdout")
    if said.peak > MOST_MEMORY:
        found.append(f"{said.peak / 2**20:.1f} GiB of memory")
    return found + _faults_of_output(said)


def _faults_of_output(said: Said) -> list[str]:
    words = said.line.words
    asked_for_json = "--json" in words and not any(w in ("--help", "-h", "--version") for w in words)
    if said.status == 0 and not said.out.strip():
        return ["success without output"]
    if not asked_for_json:
        return ["nan in the text"] if re.search(r"\bnan\b", said.out) and said.status == 0 else []
    if not said.out:
        return []
    if said.out.count("\n") != 1:
        # A word may have swallowed the flag, as a value that begins with a dash would not.
        return ["more than one line on stdout beside --json"] if said.out.startswith("{") else []
    try:
        record = json.loads(said.out, parse_constant=_no_number, object_pairs_hook=_without_duplicates)
    except ValueError as error:
        return [f"stdout is not JSON: {error}"]
    if not isinstance(record, dict):
        return ["stdout is no JSON object"]
    return _faults_of_record(words[0], record, said.status)


def _faults_of_record(verb: str, record: dict[str, Any], status: int | str) -> list[str]:
    if verb not in _NUMBERS or status != 0:
        return []
    found = [f"no {name!r} in the object" for name in ("value", "error", "how") if name not in record]
    if found:
        return found
    if record["how"] not in _HOW:
        found.append(f"how is {record['how']!r}")
    error = record["error"]
    if error is not None and not (isinstance(error, int | float) and error >= 0):
        found.append(f"error is {error!r}")
    if isinstance(record["value"], str) and not re.fullmatch(r"-?\d+(\.\d+)?(e[-+]?\d+)?", record["value"]):
        found.append(f"value is {record['value'][:40]!r}")
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) != len(dict(pairs)):
        raise ValueError(f"a key occurs twice among {[key for key, _ in pairs]}")
    return dict(pairs)


def summary(all_said: list[Said]) -> str:
    """Counts per status, the slowest lines, the largest memory."""
    counts = collections.Counter(str(s.status) for s in all_said)
    lines = [f"{len(all_said)} lines; status: {', '.join(f'{k}: {v}' for k, v in sorted(counts.items()))}"]
    lines.append(f"CPU {sum(s.seconds for s in all_said):.0f} s; peak {max(s.peak for s in all_said) / 2**10:.0f} MiB")
    signalled = [s for s in all_said if s.answered is not None]
    valid = [s for s in all_said if s.line.valid]
    served = sum(s.status in (0, 1, 130) for s in valid)
    lines.append(f"{len(valid)} lines built from a grammar, {served} of them served")
    lines.append(
        f"{len(signalled)} lines got a signal, {sum(s.slow for s in signalled)} of them for their length; the slowest "
        f"answer took {max((s.answered or 0.0 for s in signalled), default=0.0):.1f} s"
    )
    for said in sorted(all_said, key=lambda s: -s.seconds)[:5]:
        lines.append(f"{said.seconds:6.1f} s  [{said.index}] {shlex.join(said.line.words)[:150]!r}")
    return "\n".join(lines)


def main() -> int:
    """Run lines; print each fault with the command that repeats it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print what each line said")
    parser.add_argument("--seconds", type=float, help="of processor time, after which a line gets a signal")
    parser.add_argument("--folder", type=Path, help="where files are made (default: a temporary one)")
    args = parser.parse_args()
    folder = args.folder or Path(tempfile.mkdtemp(prefix="attnlimits-fuzz-"))
    all_said, bad = [], 0
    with contextlib.suppress(KeyboardInterrupt):  # and then what there is
        for said in run_lines(args.seed, args.first, args.count, folder, args.seconds):
            all_said.append(said)
            found = faults(said)
            bad += bool(found)
            if found or args.show:
                print(f"[{said.index}] {'; '.join(found) or 'fine'}\n  {said.command(folder / 'files')[:1500]}")
                print(f"  status {said.status}, {said.seconds:.1f} s, {said.peak / 2**10:.0f} MiB; {said.err[-700:]!r}")
                if args.show:
                    print(f"  stdout: {said.out[:2000]!r}")
                sys.stdout.flush()
    print(summary(all_said))
    print(f"{bad} of {len(all_said)} lines break the contract")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
