"""Every command and every example of the README and of the site runs, and prints what the text shows."""

import contextlib
import functools
import importlib.util
import io
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest

from attnlimits.numerics.cli import command as cli

PAPER = "papers/troiani2025/README.md"

# With the flags of all verbs: made once.
parser = functools.cache(cli.parser)


def execute(code: str) -> str:
    """Run an example; return what it printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "README", "exec"), {"__name__": "readme"})
    return out.getvalue()


def test_make_commands_exist(repository, command, output, needed):
    done = subprocess.run(
        ["make", "-n", *command.split()[1:]], cwd=repository, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert (output, needed) == ("", [])


def test_commands_print_what_is_shown(command, output, needed, run, printed, tmp_path, monkeypatch):
    # what a command writes goes to its working folder
    monkeypatch.chdir(tmp_path)
    for earlier in needed:
        run(earlier) if earlier.startswith("attnlimits ") else execute(earlier)
    printed(output, run(command))


def test_python_examples_print_what_is_shown(example, printed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert example.output, "the example shows nothing"
    if "jax" in example.code:
        pytest.importorskip("jax", reason="needs jax: pip install 'attnlimits[gpu]'")
    said = execute(example.code)
    printed(example.output, said)
    assert len(said.splitlines()) == len(example.output.splitlines())


def test_what_is_left_out_is_read_and_covered(left_out, shown_code, repository):
    """Of what only `make test-all` runs: flags and syntax are right, and the tests that run the same code are there."""
    for name, covered_by in left_out.items():
        block = shown_code[name]
        if block.language == "sh":
            parser().parse_args(shlex.split(name)[1:])
        else:
            compile(block.code, name, "exec")
        assert all((repository / path).exists() for path in covered_by.split())


def quantities(text: str) -> list[tuple[float, float]]:
    """Values with their error, from 'a +- b' or a plain decimal."""
    pairs = re.findall(r"(\d\.\d+)(?: \+- (\d\.\d+))?", text)
    return [(float(a), float(b) if b else 0.0) for a, b in pairs]


def test_table_rows(row, called, run):
    said = run(called)
    shown = row[:-1]
    if "evolve" in called:
        # columns: alpha, second layer here, as published, first layer here
        cells = {"q_22": shown[1], "q_11": shown[3]}
        for name, cell in cells.items():
            value, error = map(float, re.search(rf"^{name} = (\S+) \+- (\S+)$", said, re.M).groups())
            wanted, spread = quantities(cell)[0] if quantities(cell) else (float(cell.split()[0]), 1e-6)
            assert abs(value - wanted) <= 3 * (error + spread) + 1e-5, name
    elif "--given perfect" in called:
        assert shown[3] == "1/6 given layer 2 exactly"
        assert "= 1/6 exactly" in said
    elif "--layer 1" in called:
        [(wanted, spread)] = quantities(shown[3])
        value = float(re.search(r"^alpha\(layer 1\) = (\S+)$", said, re.M)[1])
        error = float(re.search(r"^error (\S+) ", said, re.M)[1])
        assert abs(value - wanted) <= 3 * (error + spread)
    elif "--layers 1" in called:
        assert shown[4] == "1/(M(M+1))"
        assert "= 1/6 exactly" in said
    else:
        # one unit of the last digit: the error of the twelfth digit is half of one
        value, wanted = (re.search(r"\d+\.\d+$", t)[0] for t in (said.splitlines()[1], shown[4]))
        assert len(value) == len(wanted)
        assert abs(float(value) - float(wanted)) <= 1.01 * 10.0 ** -len(wanted.partition(".")[2])
        claimed = float(shown[5])
        assert float(re.search(r"^error (\S+) ", said, re.M)[1]) <= 10 * claimed
        first = f"tied {shown[0]} attention, L={shown[1]}, M=2, rank 1, c={shown[2]}, beta={shown[3]}"
        assert said.splitlines()[0] == first


def test_inline_commands_run(inline, run, repository, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # The registries and the whole curve run elsewhere (tests/papers), here a part of each.
    if inline.startswith("attnlimits verify --paper"):
        inline = "attnlimits verify"
    part = {
        "attnlimits verify": " --id 1 2 3",
        "attnlimits figure troiani2025-1": " --points 4",
        "attnlimits aim figure prediction": " --points 5",
        # With ten digits it is an example.
        "attnlimits threshold --rigorous": " --digits 3 --skip 5",
    }
    if "grid.toml" in inline:
        text = (repository / "docs/how/sweep.md").read_text(encoding="utf-8")
        (tmp_path / "grid.toml").write_text(re.findall(r"^```toml\n(.*?)^```", text, re.M | re.S)[0], encoding="utf-8")
        inline += " --out results"
    assert run(inline + part.get(inline, "")).strip()


def test_what_the_text_names_is_there(named, repository):
    """Targets of make, modules, scripts, extras, and flags that the parser knows."""
    words = shlex.split(named)
    if words[0] == "make":
        targets = re.findall(r"^([a-z-]+):.*## ", (repository / "Makefile").read_text(encoding="utf-8"), re.M)
        assert words[1] in targets
    elif words[:2] == ["python", "-m"]:
        assert importlib.util.find_spec(words[2]) is not None
    elif words[0] == "python":
        assert (repository / words[1]).exists()
    elif words[0] == "pip" and words[2] != "-e":
        extras = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        assert re.fullmatch(r"attnlimits\[(\w+)\]", words[2])[1] in extras["optional-dependencies"]
    elif words[0] == "attnlimits":
        if not any(word.startswith("-") for word in words):
            words.append("--help")
        with contextlib.redirect_stdout(io.StringIO()) as out:
            try:
                parser().parse_args(words[1:])
            except SystemExit as ended:
                assert ended.code == 0 and "usage: attnlimits" in out.getvalue()


def test_the_grid_of_the_page_is_the_shipped_one(repository):
    text = (repository / "docs/how/sweep.md").read_text(encoding="utf-8")
    [shown] = re.findall(r"^```toml\n(.*?)^```", text, re.M | re.S)
    shipped = repository / "papers/troiani2025/sweeps/skip.toml"
    assert tomllib.loads(shown) == tomllib.loads(shipped.read_text(encoding="utf-8"))


def test_the_batch_script_is_one(repository, tmp_path):
    """The shell accepts it, and Dask and the sweep know the flags that it gives them."""
    pytest.importorskip("distributed", reason="needs Dask: pip install 'attnlimits[cluster]'")
    text = (repository / "docs/how/cluster.md").read_text(encoding="utf-8")
    scripts = re.findall(r"^```bash\n(.*?)^```", text, re.M | re.S)
    known = {verb: help_of_dask(verb) for verb in ("scheduler", "worker")}
    for script in scripts:
        subprocess.run(["bash", "-n"], input=script, text=True, check=True, timeout=60)
        for verb, flags in re.findall(r"dask (scheduler|worker) (.*?) &", script):
            assert [flag for flag in re.findall(r"--[a-z-]+", flags) if flag not in known[verb]] == []
        [command] = re.findall(r"^attnlimits (.*)$", script, re.M)
        assert parser().parse_args(shlex.split(command)).dask == "$where"
    assert [re.search(r"^attnlimits (\w+)", script, re.M)[1] for script in scripts] == ["sweep", "gamp"]


@functools.cache
def help_of_dask(verb: str) -> str:
    command = importlib.import_module(f"distributed.cli.dask_{verb}").main
    return command.get_help(command.make_context(verb, [], resilient_parsing=True))


def test_the_parts_for_kubernetes_are_objects(repository):
    """What the containers run is known to Dask and to the command, and names of the objects that are there."""
    yaml = pytest.importorskip("yaml", reason="needs Dask: pip install 'attnlimits[cluster]'")
    text = (repository / "docs/how/cluster.md").read_text(encoding="utf-8")
    [shown] = re.findall(r"^```yaml\n(.*?)^```", text, re.M | re.S)
    parts = {(part["kind"], part["metadata"]["name"]): part["spec"] for part in yaml.safe_load_all(shown)}
    for (kind, name), spec in parts.items():
        if kind == "Service":
            continue
        template = spec["template"]
        [container] = template["spec"]["containers"]
        words = container["command"]
        assert all(isinstance(word, str) for word in words)
        assert {mount["name"] for mount in container.get("volumeMounts", ())} == {
            volume["name"] for volume in template["spec"].get("volumes", ())
        }
        if kind != "Job":
            assert spec["selector"]["matchLabels"] == template["metadata"]["labels"] == {"app": name}
        if words[0] == "dask":
            help_text = help_of_dask(words[1])
            assert [word for word in words if word.startswith("--") and word not in help_text] == []
        else:
            args = parser().parse_args(words[1:])
            assert args.workers == parts["StatefulSet", "worker"]["replicas"]
        assert [word for word in words if word.startswith("tcp:")] in ([], ["tcp://scheduler:8786"])
    service = parts["Service", "scheduler"]
    assert service["ports"] == [{"port": 8786}] and service["selector"] == {"app": "scheduler"}


def test_links_and_images_lead_somewhere(repository, page):
    text = (repository / page).read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    missing = [
        target
        for target in targets
        if not target.startswith("https://") and not ((repository / page).parent / target).exists()
    ]
    assert missing == []


def test_paths_named_in_the_text_exist(repository, page):
    text = (repository / page).read_text(encoding="utf-8")
    paths = re.findall(r"`((?:derive|generated|numerics|papers|tests)/[\w./]*)`", text)
    assert [path for path in paths if not (repository / path).exists()] == []


def test_every_page_of_the_site_stands_in_a_table_of_contents(repository, pages):
    named = set()
    for page in pages:
        text = (repository / page).read_text(encoding="utf-8")
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```", text, re.M | re.S):
            entries = [line for line in block.splitlines() if line and not line.startswith(":")]
            named |= {((repository / page).parent / f"{entry}.md").resolve() for entry in entries}
    assert [str(path) for path in named if not path.exists()] == []
    site = {*(repository / "docs").rglob("*.md"), *(repository / "papers").rglob("*.md"), repository / "CHANGELOG.md"}
    assert site - named == {repository / "docs/index.md"}


def test_the_front_page_is_short(repository):
    assert len((repository / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_the_picture_is_light(repository):
    picture: Path = repository / "papers/troiani2025/figures/figure_1.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 150_000


def test_the_coverage_in_the_paper_readme_is_that_of_the_registry(repository):
    from attnlimits.derive import registry

    counts = registry.coverage(registry.load("troiani2025"))
    text = " ".join((repository / PAPER).read_text(encoding="utf-8").split())
    said = f"{counts['proved']} are proved symbolically, {counts['checked']} checked numerically, "
    assert said + f"{counts['definition']} are definitions" in text
    assert counts["prose"] == 0


@pytest.mark.parametrize(
    ("shown", "said", "same"),
    [
        ("q = 0.50 +- 0.01", "q = 0.53 +- 0.01", True),
        ("q = 0.50 +- 0.01", "q = 0.60 +- 0.01", False),
        ("alpha = 0.185", "alpha = 0.186", False),
        ("alpha = 0.185", "beta = 0.185", False),
        ("error 3.8e-13 (estimated)", "error 1.2e-13 (estimated)", True),
        ("error 3.8e-13 (estimated)", "error 1.2e-13 (rigorous)", False),
        ("2 checks, all passed, 1.7 s", "2 checks, all passed, 3.0 s", True),
        ("2 checks, all passed, 1.7 s", "3 checks, all passed, 1.7 s", False),
    ],
)
def test_the_comparison_itself(shown, said, same, same_line):
    assert same_line(shown, said) is same
