"""The source tree agrees with itself: packages, versions, and nothing of the machine it was written on."""

import re
import runpy
import tomllib

import pytest

FOLDERS = ("derive", "generated", "numerics", "papers")

# Absolute paths of one machine, and not the end of a longer relative path or of a URL.
MACHINE_PATH = re.compile(r"(?<![\w.\-/])/(?:root|work|home|tmp|Users)(?=/|\b)")
# How one machine reaches its package index: that is for whoever installs to set, not for the project.
# The brackets around one letter keep this file from finding itself.
INDEX_HOST = re.compile(
    r"--(?:extra-)?index-url|--find-link[s]|--trusted-hos[t]|PIP_(?:EXTRA_)?INDEX_URL|PIP_FIND_LINK[S]"
    r"|https?://(?:\d{1,3}\.){3}\d{1,3}|https?://localhost|https?://[^\s\"')]*/simple\b",
    re.IGNORECASE,
)


@pytest.fixture(scope="module")
def pyproject(repository):
    return tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_package_is_found(repository, source_files, pyproject, monkeypatch):
    """What setup.py gives to setuptools, which a build brings along and an environment may lack."""
    setuptools = pytest.importorskip("setuptools")
    said = {}
    monkeypatch.setattr(setuptools, "setup", lambda **options: said.update(options))
    monkeypatch.chdir(repository)
    runpy.run_path("setup.py")
    packages = {
        ".".join(["attnlimits", *path.parent.relative_to(repository).parts])
        for path in source_files
        if path.name == "__init__.py" and path.relative_to(repository).parts[0] in FOLDERS
    }
    # The folder of the front door is `attnlimits` itself.
    assert sorted(said["packages"]) == sorted(package.replace(".numerics.front", "") for package in packages)
    folders = {f"attnlimits.{name}": name for name in FOLDERS}
    assert pyproject["tool"]["setuptools"]["package-dir"] == {"attnlimits": "numerics/front"} | folders


def test_every_module_is_in_a_package(repository, source_files):
    strays = [
        path.relative_to(repository).as_posix()
        for path in source_files
        if path.suffix == ".py"
        and path.relative_to(repository).parts[0] in FOLDERS
        and not (path.parent / "__init__.py").is_file()
    ]
    assert strays == []


def test_there_is_no_package_above_the_folders(repository):
    """The package `attnlimits` is numerics/front; one at the root would hide it and the folders."""
    assert not (repository / "__init__.py").exists()
    assert not (repository / "attnlimits").exists()


@pytest.mark.parametrize("folder", ["derive", "generated", "numerics"])
def test_each_folder_says_that_it_is_typed(repository, folder):
    assert (repository / folder / "py.typed").is_file()


def test_the_version_is_the_same_everywhere(repository, pyproject):
    version = pyproject["project"]["version"]
    citation = (repository / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (\S+)$", citation, re.MULTILINE)[1] == version
    changelog = (repository / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## \[(\d[^\]]*)\]", changelog, re.MULTILINE)[0] == version


def test_the_licence_is_the_same_everywhere(repository, pyproject):
    licence = (repository / "LICENSE").read_text(encoding="utf-8")
    assert licence.startswith("BSD 3-Clause License")
    assert pyproject["project"]["license"] == "BSD-3-Clause"
    assert re.search(r"^license: BSD-3-Clause$", (repository / "CITATION.cff").read_text(encoding="utf-8"), re.M)


def test_generated_code_is_marked(repository):
    attributes = (repository / ".gitattributes").read_text(encoding="utf-8").splitlines()
    assert "generated/** linguist-generated=true" in attributes


@pytest.mark.parametrize("pattern", [MACHINE_PATH, INDEX_HOST], ids=["machine-path", "index-host"])
def test_no_file_knows_the_machine(repository, source_files, pattern):
    offences = []
    for path in source_files:
        data = path.read_bytes()
        # Figures and arrays hold no text; their metadata is compressed or their writer's.
        if b"\0" in data:
            continue
        for number, line in enumerate(data.decode("utf-8").splitlines(), 1):
            if found := pattern.search(line):
                offences.append(f"{path.relative_to(repository).as_posix()}:{number}: {found[0]}")
    assert offences == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("cd {}root/x", True),
        ('open("{}work/main")', True),
        ("see {}tmp/a", True),
        ("a{}work", False),
        ("github.com/x{}home", False),
        (".{}work/flow", False),
        ("docs{}tmp/", False),
    ],
)
def test_the_pattern_of_machine_paths(line, found):
    # The slash is filled in here so that this file passes its own test.
    assert bool(MACHINE_PATH.search(line.format("/"))) is found


@pytest.fixture(scope="module")
def citation(repository):
    yaml = pytest.importorskip("yaml", reason="needs PyYAML, which the extra cluster brings")
    return yaml.safe_load((repository / "CITATION.cff").read_text(encoding="utf-8"))


def test_the_citation_has_what_the_format_asks_for(citation, repository):
    """Citation File Format 1.2.0: the keys it requires, and those it knows."""
    assert citation["cff-version"] == "1.2.0" and citation["type"] == "software"
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    known = {"abstract", "authors", "cff-version", "keywords", "license", "message", "references", "title", "type"}
    assert set(citation) <= known | {"version", "date-released"}
    for reference in citation["references"]:
        assert {"type", "title", "authors"} <= set(reference)
        assert all(set(author) <= {"family-names", "given-names", "name"} for author in reference["authors"])
        assert all(set(one) == {"type", "value", "description"} for one in reference["identifiers"])
    # Every paper whose theory is computed.
    cited = {one["value"] for reference in citation["references"] for one in reference["identifiers"]}
    for path in repository.glob("papers/*/refs.bib"):
        number = re.search(r"eprint\s*= \{([\d.]+)\}", path.read_text(encoding="utf-8"))[1]
        assert f"arXiv:{number}" in cited


def test_dependencies_have_lower_bounds_that_exist(pyproject):
    """A bound such as 1.11 of a package whose first release of that series is 1.11.1 could not be installed."""
    for requirement in pyproject["project"]["dependencies"]:
        assert re.fullmatch(r"[\w.-]+>=\d+(\.\d+)+(\.post\d+)?", requirement), requirement
