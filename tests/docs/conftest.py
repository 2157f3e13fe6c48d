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
from attnlimits.numerics.thresholds import choice, last_layer

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
# Files that it reads, or writes by another flag.
FILES = re.compile(r" --(x|y|train|plot) |^attnlimits (sweep|figure|derive|make-data) ")
SECONDS = re.compile(r"\d+(\.\d+)? s\b|error \d\S*")
#: Commands and examples of most of a second and more, each with the tests that run the same code in `make test`, which
#: leaves these out: there they are only read, by the parser of the command or as Python.
SLOW = {
    "attnlimits derive --check": "tests/derive/test_generator.py tests/cli/test_verbs.py",
    "attnlimits derive --layers 3 --tokens 3 --heads 2 --rank 1,1,2": (
        "tests/derive/test_links.py tests/cli/test_verbs.py"
    ),
    "attnlimits threshold --rigorous --digits 10": "tests/numerics/thresholds/test_enclosure.py",
    'attnlimits curve --link "h[1]**2" --from 0.4 --to 1.2 --points 3 --start both': "tests/cli/test_curve.py",
    "docs/how/proof.md-0": "tests/numerics/thresholds/test_enclosure.py",
    "docs/how/gpu.md-0": "tests/numerics/posterior/test_jax_kernels.py",
    "docs/how/torch.md-2": "tests/numerics/model/foreign/test_describe.py tests/front/test_front.py",
    "docs/how/architecture.md-1": "tests/numerics/thresholds/test_charts.py",
    "docs/how/multihead.md-0": "tests/numerics/multihead/test_learn.py tests/numerics/multihead/test_learner.py",
    "attnlimits multihead demo --heads 3 --seq 2 --dim 8 --samples 6000 --noise 0.1 --seed 1": (
        "tests/cli/test_multihead.py tests/numerics/multihead/test_learn.py"
    ),
    "attnlimits multihead hardness --bits 1 5 --methods adam sculpt --dim 20 --samples 4000 --starts 1": (
        "tests/cli/test_multihead.py tests/numerics/multihead/test_hardness.py"
    ),
    "attnlimits report --layers 1 --tokens 2 --effort quick --out report": (
        "tests/cli/test_report.py tests/numerics/report/test_report.py"
    ),
    'attnlimits curve --link "h[1]*h[2]" --from 0.5 --to 1.5 --points 3 --samples 1024 --dask local --workers 1': (
        "tests/cli/test_on_a_cluster.py"
    ),
    'attnlimits free-energy --link "h[1]*h[2]" --alpha 2.5 --samples 256 --dask local --workers 1': (
        "tests/cli/test_on_a_cluster.py"
    ),
    "attnlimits figure boncoraglio2025-5 --points 8 --format svg --out results --dask local --workers 1": (
        "tests/cli/test_on_a_cluster.py"
    ),
    "attnlimits evolve --layers 2 --tokens 2 --skip 1 --alpha 0.4 --samples 1024": (
        "tests/cli/test_verbs.py tests/cli/test_on_a_cluster.py"
    ),
    "attnlimits denoise --y '[[0.7, 0.3], [0.2, 0.8]]' --omega '[[0.1, 0.2], [0, 0.3]]' --V '[[1, 0.1], [0.1, 0.5]]' "
    "--digits 30": "tests/cli/test_denoise_verb.py",
    "docs/how/activation.md-0": (
        "tests/numerics/model/test_user_activations.py tests/numerics/thresholds/test_charts.py"
    ),
    "attnlimits explain --layers 2 --tokens 2 --untied": "tests/cli/test_explained.py tests/cli/test_explain_verb.py",
    "attnlimits gamp --layers 1 --x blocks/X --y blocks/Y --dask local --workers 1": (
        "tests/numerics/learning/gamp/test_spread.py tests/cli/test_on_a_cluster.py"
    ),
    "attnlimits evolve --layers 1 --tokens 2 --rank 2 --alpha 0.9 --samples 256 --dask local --workers 1": (
        "tests/cli/test_on_a_cluster.py"
    ),
    "docs/how/architecture.md-0": "tests/numerics/thresholds/test_charts.py",
    "attnlimits verify --id 182 187": "tests/papers/test_verify_command.py tests/papers/test_troiani2025.py",
    'attnlimits aim evolve --activation "tanh(z)" --noise 0.3 --rho 0.5 --alpha 0.1': "tests/cli/test_aim.py",
    'attnlimits free-energy --link "sign(h[1])" --prior binary --alpha 1.3': "tests/cli/test_free_energy.py",
    "attnlimits threshold --layer 1 --given self-consistent": "tests/cli/test_verbs.py",
    "attnlimits threshold --digits 50": "tests/papers/test_constants.py",
    "attnlimits committee --layers 101 --skip 400": "tests/numerics/committee",
    "attnlimits multihead demo --heads 2 --seq 2 --dim 8 --samples 1000 --method sculpt --json": (
        "tests/cli/test_multihead.py"
    ),
    "docs/how/data.md-2": (
        "tests/numerics/learning/gamp/test_estimator.py tests/numerics/learning/gamp/test_prediction.py"
    ),
    "papers/troiani2025/README.md-0": "tests/numerics/thresholds/test_flow.py",
    "docs/how/cluster.md-0": "tests/numerics/free_energy/test_on_a_cluster.py",
    'attnlimits report --link "h[1]**2" --effort quick --out report/': (
        "tests/cli/test_report.py tests/numerics/report/test_report.py"
    ),
}


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


@functools.cache
def run_once(command: str) -> str:
    """As `run_command`, for a command that reads and writes no file: several pages show the same one."""
    return run_command(command)


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
def thresholds_once() -> Iterator[None]:
    """Let the commands and the examples in Python on the same threshold share it, and its proof."""
    found = functools.cache(last_layer.last_layer)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(last_layer, "enclose_last_layer", functools.cache(last_layer.enclose_last_layer))
        # Their bars are their own, and no part of what is computed.
        patch.setattr(choice, "last_layer", lambda model, progress=None, **how: found(model, **how))
        yield


@pytest.fixture
def run() -> Callable[[str], str]:
    """Return `run_command`, which does not run twice what needs no files."""
    return lambda command: (
        run_command(command) if WRITTEN.search(command) or FILES.search(command) else run_once(command)
    )


@pytest.fixture
def left_out() -> dict[str, str]:
    """Return `SLOW`."""
    return SLOW


@pytest.fixture
def shown_code() -> dict[str, Block]:
    """Commands of the pages by themselves, and examples by their page and number, with the block of each."""
    found = {name: blocks(ROOT / name) for name in PAGES}
    code = {line: block for parts in found.values() for block in parts for line in block.code.splitlines()}
    return code | {name: block for name, block in examples(found)}


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


def examples(blocks_of: dict[str, list[Block]]) -> list[tuple[str, Block]]:
    """Blocks in Python with the name of each: its page and its number there."""
    return [
        (f"{name}-{number}", block)
        for name, parts in blocks_of.items()
        for number, block in enumerate(b for b in parts if b.language == "python")
    ]


def slowly(name: str) -> list[pytest.MarkDecorator]:
    """Mark of a command or an example."""
    return [pytest.mark.slow] if name in SLOW or name.startswith("attnlimits figure") else []


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give every sh block, python block, table row and inline command of the pages a test of its own."""
    found = {name: blocks(ROOT / name) for name in PAGES}
    of = metafunc.function.__name__
    if "page" in metafunc.fixturenames:
        metafunc.parametrize("page", PAGES)
    if "command" in metafunc.fixturenames and "output" in metafunc.fixturenames:
        cases = [
            pytest.param(command, output, needed, id=command, marks=slowly(command))
            for (command, output), needed in commands(found).items()
            if command.startswith("make ") == ("make" in of)
        ]
        metafunc.parametrize(("command", "output", "needed"), cases)
    if "example" in metafunc.fixturenames:
        cases = [pytest.param(block, id=name, marks=slowly(name)) for name, block in examples(found)]
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
            # The other rows of linear attention take longer than those of softmax attention, and run the same code.
            dear = ("evolve", "--layer 1", "--layers 3", "linear --skip 0.05", "linear --skip 10")
            fast = not any(part in command[1] for part in dear)
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
            f"attnlimits {part}"
            for part in ("figure", "multihead figure", "aim figure", "evolve", "verify", "threshold --layer 1")
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
