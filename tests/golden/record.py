"""Record what the command prints, all digits, to compare before and after a change.

    python tests/golden/record.py before.json        # at the old commit
    python tests/golden/record.py after.json         # at the new one
    python tests/golden/record.py --compare before.json after.json

Every line of `commands.txt` runs in one process, on one thread, with its own seed. The values of two records on one
machine are equal to the last digit unless the change was meant to change them; `--compare` prints each that is not.
"""

import contextlib
import io
import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any

COMMANDS = Path(__file__).with_name("commands.txt")
#: What differs from run to run, or with the versions of libraries.
_PASSING = ("seconds", "versions", "history", "kernel_hash", "path")


def commands() -> list[str]:
    """Lines of `commands.txt` without its comments."""
    lines = COMMANDS.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def run(line: str) -> dict[str, Any]:
    """Exit status, and what the JSON object holds beside times and versions."""
    from attnlimits.numerics.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main([*shlex.split(line), "--json"])
        except SystemExit as stop:
            status = int(stop.code or 0)
    text = out.getvalue()
    return {"status": status, "record": _lasting(json.loads(text)) if text else None}


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _lasting(v) for k, v in value.items() if k not in _PASSING}
    if isinstance(value, list):
        return [_lasting(v) for v in value]
    return value


def record(path: Path) -> None:
    """Run every command and write what they print."""
    found = {}
    for line in commands():
        begin = time.perf_counter()
        found[line] = run(line)
        print(f"{time.perf_counter() - begin:7.1f} s  {found[line]['status']}  {line}", flush=True)
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def leaves(value: Any, name: str = "") -> dict[str, Any]:
    """Every number, string and null of a record, by its dotted name."""
    if isinstance(value, dict):
        return {k: v for key, part in value.items() for k, v in leaves(part, f"{name}.{key}").items()}
    if isinstance(value, list):
        return {k: v for i, part in enumerate(value) for k, v in leaves(part, f"{name}[{i}]").items()}
    return {name: value}


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """One line for each leaf that is not the same in both."""
    lines = []
    for line in sorted({*before, *after}):
        old, new = leaves(before.get(line)), leaves(after.get(line))
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name):
                lines.append(f"{line}  {name}: {old.get(name)!r} -> {new.get(name)!r}")
    return lines


if __name__ == "__main__":
    if sys.argv[1] == "--compare":
        before, after = (json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[2:4])
        print("\n".join(differences(before, after)) or "no differences")
    else:
        record(Path(sys.argv[1]))
