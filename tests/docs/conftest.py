"""Code blocks, tables and commands of a Markdown file, and the comparison of printed numbers."""

import contextlib
import functools
import io
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from attnlimits.numerics.cli import main as cli
from attnlimits.numerics.thresholds import last_layer

ROOT = Path(__file__).resolve().parents[2]
PAPER = "papers/troiani2025/README.md"
#: Pages whose commands, examples, links and paths are tested.
PAGES = ("README.md", PAPER, *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")))

#: Pages whose commands in the text are looked up, not run.
OTHERS = ("CHANGELOG.md", *(str(path.relative_to(ROOT)) for path in (ROOT / "papers").rglob("*.md")))

NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.]|/\d)")
HASH = re.compile(r"\b[0-9a-f]{12}\b")
# What depends on the machine: error estimates and iteration counts of the last line, seconds.
LOOSE_LINE = re.compile(r"^(error|converged)\b")
# Files that a command or an example writes.
WRITTEN = re.compile(r"(?:--(?:out|write-corpus) |np\.save\(\")([^\s\"]+)")
SECONDS = re.compile(r"\d+(\.\d+)? s\b|error \d\S*")


@dataclass(frozen=True)
class Block:
    """A fenced block with its language, and the text block that follows it, "" if there is none."""

    language: str
    code: str
    output: str


def blocks(path: Path) -> list[Block]:
    fences = list(re.finditer(r"^```(\w+)\n(.*?)^```\n", path.read_text(encoding="utf-8"), re.M | re.S))
    text = path.read_text(encoding="utf-8")
    found = []
    for fence, after in zip(fences, [*fences, None][1:], strict=True):
        follows = after is not None and after[1] == "text" and not text[fence.end() : after.start()].strip()
        found.append(Block(fence[1], fence[2], after[2] if follows and after is not None else ""))
    return [block for block in found if block.language != "text"]


def inline_commands(page: str) -> set[str]:
    """Commands that stand in the text of a page, without those of which a part is left open."""
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.M | re.S)
    said = re.findall(r"`((?:attnlimits|make|pip|python) [^`]+)`", text)
    return {" ".join(c.split()) for c in said if not re.search(r"\.\.|CITEKEY| n$", c)}


def run_command(command: str) -> str:
    """Run `attnlimits ...` in this process; return what it printed."""
    words = shlex.split(command, comments=True)
    assert words[0] == "attnlimits"
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        status = cli.main(words[1:])
    assert status == 0, command
    return out.getvalue()


def skeleton(line: str) -> str:
    return NUMBER.sub("#", SECONDS.sub("#", HASH.sub("#", line))).strip()


def agree(expected: str, printed: str) -> bool:
    """Whether a line says the same: the same words; numbers alike, and within three errors after "+-"."""
    if skeleton(expected) != skeleton(printed):
        return False
    if LOOSE_LINE.match(expected):
        return True
    plain = [SECONDS.sub("", HASH.sub("", line)) for line in (expected, printed)]
    wanted, got = ([(m.group(), m.start(), m.end()) for m in NUMBER.finditer(line)] for line in plain)
    for (a, start, end), (b, _, stop) in zip(wanted, got, strict=True):
        if plain[0][:start].endswith("+- "):
            continue
        spread = [
            re.match(r" \+- (\S+?)[,;)]*(?:\s|$)", line[at:]) for line, at in zip(plain, (end, stop), strict=True)
        ]
        if spread[0] and spread[1]:
            # Half a unit of the last digit printed, where both errors round to zero.
            rounding = 10.0 ** -len(a.partition(".")[2])
            if abs(float(a) - float(b)) > 3 * sum(float(s[1]) for s in spread if s) + rounding:
                return False
        elif a != b:
            return False
    return True


def assert_printed(expected: str, printed: str) -> None:
    """Assert that the lines of `expected` occur in `printed`, in order."""
    lines = iter(printed.splitlines())
    for wanted in expected.splitlines():
        assert any(agree(wanted, line) for line in lines), f"{wanted!r} not in order in\n{printed}"


@pytest.fixture(scope="session", autouse=True)
def proofs_once() -> Iterator[None]:
    """Let the command and the example in Python that prove the same digits share the interval."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(last_layer, "enclose_last_layer", functools.cache(last_layer.enclose_last_layer))
        yield


@pytest.fixture
def run() -> Callable[[str], str]:
    """Return `run_command`."""
    return run_command


@pytest.fixture
def printed() -> Callable[[str, str], None]:
    """Return `assert_printed`."""
    return assert_printed


@pytest.fixture
def same_line() -> Callable[[str, str], bool]:
    """Return `agree`."""
    return agree


@pytest.fixture
def pages() -> tuple[str, ...]:
    """Return `PAGES`."""
    return PAGES


def commands(blocks_of: dict[str, list[Block]]) -> dict[tuple[str, str], list[str]]:
    """Commands of the sh blocks with the output that is shown, each once, and those that write what they read."""
    found: dict[tuple[str, str], list[str]] = {}
    for parts in blocks_of.values():
        earlier: list[str] = []
        for block in parts:
            if block.language == "python":
                earlier.append(block.code)
            for command in block.code.splitlines() if block.language == "sh" else ():
                needed = [c for c in earlier if any(f" {name}" in command for name in WRITTEN.findall(c))]
                found.setdefault((command, "" if "--json" in command else block.output), needed)
                earlier.append(command)
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give every sh block, python block, table row and inline command of the pages a test of its own."""
    found = {name: blocks(ROOT / name) for name in PAGES}
    of = metafunc.function.__name__
    if "page" in metafunc.fixturenames:
        metafunc.parametrize("page", PAGES)
    if "command" in metafunc.fixturenames and "output" in metafunc.fixturenames:
        cases = [
            pytest.param(
                command,
                output,
                needed,
                id=command,
                marks=[pytest.mark.slow] if command.startswith("attnlimits figure") else [],
            )
            for (command, output), needed in commands(found).items()
            if command.startswith("make ") == ("make" in of)
        ]
        metafunc.parametrize(("command", "output", "needed"), cases)
    if "example" in metafunc.fixturenames:
        cases = [
            pytest.param(block, id=f"{name}-{number}")
            for name, parts in found.items()
            for number, block in enumerate(b for b in parts if b.language == "python")
        ]
        metafunc.parametrize("example", cases)
    if "row" in metafunc.fixturenames:
        text = (ROOT / PAPER).read_text(encoding="utf-8")
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in text.splitlines()
            if re.match(r"\|.*`attnlimits (threshold|evolve)", line)
        ]
        cases = []
        for row in rows:
            command = re.search(r"`(attnlimits [^`]+)`", row[-1])
            assert command is not None
            fast = "threshold" in command[1] and "--layer 1" not in command[1] and "--layers 3" not in command[1]
            cases.append(pytest.param(row, command[1], id=command[1], marks=[] if fast else [pytest.mark.slow]))
        metafunc.parametrize(("row", "called"), cases)
    if "inline" in metafunc.fixturenames:
        tabled = set(re.findall(r"^\|.*`(attnlimits [^`]+)`", (ROOT / PAPER).read_text(encoding="utf-8"), re.M))
        shown = {command for command, _ in commands(found)}
        # A verb alone is its name, but for those two that are commands.
        inline = {
            c for page in PAGES for c in inline_commands(page) if re.match(r"attnlimits (\S+ |threshold|verify)", c)
        }
        slow = tuple(
            f"attnlimits {part}" for part in ("figure", "multihead figure", "evolve", "verify", "threshold --layer 1")
        )
        cases = [
            pytest.param(
                c, id=c, marks=[pytest.mark.slow] if c.startswith((*slow, "attnlimits threshold --layer 1")) else []
            )
            for c in sorted(inline - tabled - shown)
        ]
        metafunc.parametrize("inline", cases)
    if "named" in metafunc.fixturenames:
        named = sorted({c for page in sorted({*PAGES, *OTHERS}) for c in inline_commands(page)})
        metafunc.parametrize("named", named)
