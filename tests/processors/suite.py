"""Run the quick tests on emulated processors, on one and two threads and with two hash seeds.

python tests/processors/suite.py                   every processor of the plan, one after another
python tests/processors/suite.py NAME ..           these processors alone
python tests/processors/suite.py --whole ..        all files on each, which takes an hour for five
python tests/processors/suite.py --commit HASH     one processor and a part of the tests, as a commit's hash chooses

`selection.py` has the tests that are left out, with the reasons. The exit status is 1 if any test fails.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from emulated import PROCESSORS, choose, emulation, lacking
from selection import LONG, part_of, selected, sixths_of

__all__ = ["PLAN", "main"]


class Setting(NamedTuple):
    """A processor, the threads of its libraries, the seed of Python's hashes, and which sixths of the files it runs."""

    name: str
    threads: int
    seed: int
    sixths: frozenset[int]


#: Both numbers of threads meet both seeds. Each file runs on one processor, most of them on one of the two that round
#: each product of a sum; those that do not are as most are today.
PLAN = (
    Setting("prescott", 1, 1, frozenset({0})),
    Setting("sandybridge", 1, 2, frozenset({1, 2, 3})),
    Setting("haswell", 2, 2, frozenset({4})),
    Setting("skylake-avx512", 2, 1, frozenset({5})),
    Setting("zen", 1, 1, frozenset({0})),
)
_ALL = frozenset(range(6))
# Of the tests, those that one commit runs: a third takes a minute.
_PARTS = 3
# Seconds after which a test is held to hang.
_HANGS = 900


def tests(setting: Setting, files: Sequence[str], jobs: int, left_out: Sequence[str]) -> tuple[int, str]:
    """Run files of tests without those left out; the exit status, and the line that sums them up."""
    threads = str(setting.threads)
    environment = {
        **os.environ,
        **emulation(PROCESSORS[setting.name], os.environ),
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), threads),
        "PYTHONHASHSEED": str(setting.seed),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--benchmark-disable", "-m", "not slow"]
    command += ["-n", str(jobs), "--dist", "loadfile", "--max-worker-restart=0"]
    command += ["-o", f"faulthandler_timeout={_HANGS}", "-o", "faulthandler_exit_on_timeout=true"]
    command += [word for test in left_out for word in ("--deselect", test)] + list(files)
    last = ""
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            # Rows of dots, one for each test, say nothing where several runs follow one another.
            if not re.fullmatch(r"([.s]*( +\[ *\d+%\])?|bringing up nodes\.+)\s*", line):
                print(line, end="", flush=True)
                last = line.strip() or last
    return process.returncode, last


def main(arguments: Sequence[str]) -> int:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", choices=[*PROCESSORS, []], help="processors; by default those of the plan")
    parser.add_argument("--commit", metavar="HASH", help="one processor and a part of the tests, chosen by a hash")
    parser.add_argument("--whole", action="store_true", help="all files on each processor")
    parser.add_argument("--jobs", type=int, default=2, help="test processes")
    asked = parser.parse_args(arguments)
    files = selected()
    planned = {one.name: one for one in PLAN}
    names = list(asked.names) or list(planned)
    if asked.commit:
        if said := lacking(PROCESSORS["prescott"]):
            print(said)
            return 0
        names, files = [choose(asked.commit).name], part_of(files, asked.commit, _PARTS)
    summary, failed = [], False
    for name in names:
        if said := lacking(PROCESSORS[name]):
            summary.append(said)
            continue
        setting = planned.get(name, Setting(name, 1, 1, _ALL))
        own = files if asked.whole or asked.commit else sixths_of(files, setting.sixths)
        title = f"{name}, {setting.threads} threads, hash seed {setting.seed}, {len(own)} files"
        print(f"== {title}", flush=True)
        began = time.monotonic()
        status, line = tests(setting, own, asked.jobs, () if asked.whole else LONG)
        failed |= status != 0
        summary.append(f"{title}: {line} ({time.monotonic() - began:.0f} s by the clock)")
    print("\n" + "\n".join(summary))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
