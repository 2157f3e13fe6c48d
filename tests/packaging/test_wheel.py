"""A wheel, built from the source tree and installed into an empty environment, works on its own."""

import email
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

# Needs a package index; a file runs in one process, which builds the wheel once for all its tests.
pytestmark = pytest.mark.slow


def run(*command, **options):
    """Run a command without what an enclosing environment lends it; a failure shows what it said."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV", "MYPYPATH")}
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=environment,
        check=False,
        **options,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def distributions(repository, source_files, tmp_path_factory):
    """Build from a copy, the wheel from the archive: a stale build/ folder of the tree would slip into them."""
    copy = tmp_path_factory.mktemp("source")
    for path in source_files:
        target = copy / path.relative_to(repository)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--outdir", out, copy)
    return out


@pytest.fixture(scope="module")
def wheel(distributions):
    (built,) = distributions.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Return the folder of the commands of an environment that holds the wheel and its dependencies only."""
    place = tmp_path_factory.mktemp("empty") / "venv"
    venv.create(place, with_pip=True)
    commands = place / ("Scripts" if os.name == "nt" else "bin")
    run(commands / "python", "-m", "pip", "install", "--disable-pip-version-check", "--quiet", wheel)
    return commands


def test_the_wheel_holds_every_module_and_data_file(wheel, repository, source_files):
    inside = set(zipfile.ZipFile(wheel).namelist())
    folders = ("derive", "generated", "numerics", "papers")
    wanted = set()
    for path in source_files:
        name = path.relative_to(repository)
        if name.parts[0] in folders and (path.suffix in (".py", ".toml", ".bib") or path.name == "py.typed"):
            wanted.add("attnlimits/" + name.as_posix().removeprefix("numerics/front/"))
    assert wanted - inside == set()
    for name in (
        "attnlimits/papers/troiani2025/equations.toml",
        "attnlimits/papers/troiani2025/refs.bib",
        "attnlimits/generated/MANIFEST.toml",
        "attnlimits/numerics/py.typed",
        "attnlimits/generated/py.typed",
        "attnlimits/derive/py.typed",
    ):
        assert name in inside
    for model in ("attention_tied_softmax_m2", "attention_tied_linear_m2"):
        for kernel in ("numpy64.py", "numba64.py", "posterior64.py", "mp.py"):
            assert f"attnlimits/generated/{model}/{kernel}" in inside
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in inside)


def test_the_archive_holds_the_source(distributions, repository, source_files):
    """Tests, documentation, changelog and citation included: all but what only git reads."""
    (built,) = distributions.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {path.relative_to(repository).as_posix() for path in source_files} - {".gitattributes", ".gitignore"}
    assert wanted - inside == set()
    strays = {name for name in inside - wanted if not (name in ("", "PKG-INFO", "setup.cfg") or ".egg-info" in name)}
    assert {name for name in strays if "." in name.rpartition("/")[2].lstrip(".")} == set()


def test_what_the_wheel_says_of_itself(wheel, repository):
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        said = email.message_from_string(archive.read(name).decode("utf-8"))
    assert said["Version"] == project["version"] and said["Requires-Python"] == project["requires-python"]
    assert said.get_all("Classifier") == project["classifiers"]
    assert len(said.get_all("Project-URL")) == len(project["urls"])


def test_the_wheel_holds_nothing_else(wheel):
    outside = [
        name for name in zipfile.ZipFile(wheel).namelist() if not name.startswith(("attnlimits/", "attnlimits-"))
    ]
    assert outside == []


def test_the_command_helps(installed, tmp_path):
    said = run(installed / "attnlimits", "--help", cwd=tmp_path)
    for command in ("models", "derive", "verify", "threshold", "evolve", "figure"):
        assert command in said


def test_the_package_runs_as_the_command(installed, wheel, tmp_path):
    assert "attnlimits/__main__.py" in zipfile.ZipFile(wheel).namelist()
    said = run(installed / "python", "-m", "attnlimits", "--version", cwd=tmp_path)
    assert (
        said == run(installed / "attnlimits", "--version", cwd=tmp_path) == f"attnlimits {wheel.name.split('-')[1]}\n"
    )


def test_the_command_computes(installed, tmp_path):
    options = ("threshold", "--layers", "1", "--tokens", "3", "--json")
    said = json.loads(run(installed / "attnlimits", *options, cwd=tmp_path))
    # 1 / (M (M + 1)) at one layer and M = 3 tokens.
    assert said["exact"] == "1/12"
    assert abs(float(said["value"]) - 1 / 12) <= said["error"] + 1e-17 < 1e-12
    said = json.loads(run(installed / "attnlimits", "threshold", "--json", cwd=tmp_path))
    assert said["value"].startswith("0.18547784060")


def test_the_installed_package_is_the_wheel(installed, tmp_path, repository):
    code = "import attnlimits.numerics as n; print(n.__file__)"
    where = Path(run(installed / "python", "-c", code, cwd=tmp_path).strip())
    assert where.is_relative_to(installed.parent)
    assert not where.is_relative_to(repository)


def test_a_type_checker_sees_the_types(installed, tmp_path):
    (tmp_path / "user.py").write_text(
        "from attnlimits.numerics.quadrature.quadpy_adapter import quadpy_available\nreveal_type(quadpy_available())\n",
        encoding="utf-8",
    )
    said = run(sys.executable, "-m", "mypy", "--python-executable", installed / "python", "user.py", cwd=tmp_path)
    assert 'Revealed type is "bool"' in said or 'Revealed type is "builtins.bool"' in said


@pytest.fixture(scope="module")
def sealed(installed, modes_bind, read_only):
    """Return the folder of the commands of the environment, of which nothing can be written."""
    read_only(installed.parent, locked=True)
    yield installed
    read_only(installed.parent, locked=False)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("threshold --json", "0.18547784060"),
        ("evolve --alpha 0.3 --samples 1024 --json", None),
        (
            "denoise --layers 2 --y [[0.7,0.3],[0.2,0.8]] --omega [[0.1,0.2],[0,0.3]] --V [[1,0.1],[0.1,0.5]] --json",
            None,
        ),
        ("threshold --link h[1]**2 --json", None),
    ],
)
@pytest.mark.parametrize("home", ["/proc", "{locked}"])
def test_a_sealed_installation_computes_without_a_home(child, sealed, locked, line, expected, home):
    """Of another user, say, or in a container: at most one line on stderr, from the cache that cannot be kept."""
    home = home.format(locked=locked)
    done = child(sealed / "attnlimits", *line.split(" "), cwd=locked, HOME=home, PYTHONPATH=None, VIRTUAL_ENV=None)
    assert done.status == 0, done.err
    assert len(done.lines) <= (2 if "link" in line else 1), done.err  # kernels compiled, and links derived
    assert "cannot" in done.err or not done.lines
    said = json.loads(done.out)
    assert said.get("converged", True)
    assert expected is None or said["value"].startswith(expected)
    assert list(locked.iterdir()) == []
