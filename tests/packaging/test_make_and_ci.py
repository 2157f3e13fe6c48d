"""The Makefile and .ci/run: what they promise, tried with stand-ins for the slow tools."""

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

TARGETS = [
    "setup", "run", "test", "test-all", "test-processors", "compare-processors", "test-lowest", "derive",
    "derive-check", "lint", "bench", "bench-short", "bench-links", "verify", "docs", "docs-setup", "docs-test",
    "clean", "help",
]  # fmt: skip


@pytest.fixture
def checkout(repository, tmp_path):
    """A bare copy of the parts under test, without an environment."""
    for name in ("Makefile", "pyproject.toml", ".ci/lowest.py", ".ci/run", ".ci/site"):
        target = tmp_path / "checkout" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(repository / name, target)
    return tmp_path / "checkout"


def run(checkout, *command, path=None, **variables):
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    environment.update(variables)
    if path is not None:
        environment["PATH"] = f"{path}{os.pathsep}{environment['PATH']}"
    return subprocess.run(
        command, cwd=checkout, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def script(path, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_help_lists_the_targets(checkout):
    done = run(checkout, "make", "help")
    assert done.returncode == 0, done.stderr
    assert set(TARGETS) <= {line.split()[0] for line in done.stdout.splitlines()}


@pytest.mark.parametrize("target", [t for t in TARGETS if t not in ("clean", "help", "test-lowest")])
def test_every_target_first_makes_the_environment(checkout, target):
    done = run(checkout, "make", "-n", target)
    assert done.returncode == 0, done.stderr
    assert done.stdout.index("-m venv") < done.stdout.index("pip install")
    assert "-e '.[test,lint,gpu]'" in done.stdout


@pytest.mark.parametrize(
    ("body", "said"),
    [('[ "$1" = --version ] && echo Python 3.9.2; exit 1', "is Python 3.9.2"), (None, "missing")],
    ids=["old", "absent"],
)
def test_an_unfit_python_is_named(checkout, tmp_path, body, said):
    python = tmp_path / "python-none" if body is None else script(tmp_path / "python-old", body)
    done = run(checkout, "make", "run", f"PYTHON={python}")
    assert done.returncode != 0
    assert "attnlimits needs Python 3.11 or newer" in done.stderr
    assert said in done.stderr
    assert not (checkout / ".venv").exists()


def test_a_python_without_venv_is_named_and_leaves_nothing(checkout, tmp_path):
    python = script(
        tmp_path / "python-bare",
        '[ "$2" = venv ] || exit 0\nmkdir -p .venv/bin\necho no ensurepip >&2\nexit 1',
    )
    done = run(checkout, "make", "setup", f"PYTHON={python}")
    assert done.returncode != 0
    assert "python3-venv" in done.stderr
    assert not (checkout / ".venv").exists()


def test_setup_is_done_once_and_again_when_pyproject_changes(checkout, tmp_path):
    log = tmp_path / "pip.log"
    made = f'echo "$@" >> {log}'
    python = script(
        tmp_path / "python-ok",
        'if [ "$2" = venv ]; then mkdir -p .venv/bin; '
        f"printf '#!/bin/sh\\n%s\\n' 'case \"$2\" in pip) {made} ;; esac' > .venv/bin/python; "
        "chmod +x .venv/bin/python; fi",
    )
    for _ in range(2):
        done = run(checkout, "make", "setup", f"PYTHON={python}")
        assert done.returncode == 0, done.stderr
    assert len(log.read_text().splitlines()) == 1
    later = (checkout / ".venv/.setup-done").stat().st_mtime + 5
    os.utime(checkout / "pyproject.toml", (later, later))
    assert run(checkout, "make", "setup", f"PYTHON={python}").returncode == 0
    assert len(log.read_text().splitlines()) == 2


def test_clean_keeps_the_environment_and_distclean_does_not(checkout):
    for name in (".venv/bin", "results", "build/typing", "numerics/__pycache__", "numerics/channel/deep/__pycache__"):
        (checkout / name).mkdir(parents=True)
    for name in ("derive", "generated", "papers", "tests"):
        (checkout / name).mkdir()
    (checkout / "numerics/keep.py").touch()
    assert run(checkout, "make", "clean").returncode == 0
    assert (checkout / ".venv/bin").is_dir()
    assert (checkout / "numerics/keep.py").is_file()
    assert not (checkout / "results").exists()
    assert list(checkout.rglob("__pycache__")) == []
    assert run(checkout, "make", "distclean").returncode == 0
    assert not (checkout / ".venv").exists()


def test_ci_runs_its_stages_in_order_and_times_them(checkout, tmp_path):
    script(tmp_path / "bin/make", "echo \"made $1\"; read -r line && echo 'there was input'; exit 0")
    done = run(checkout, ".ci/run", path=tmp_path / "bin", CI="true")
    assert done.returncode == 0, done.stderr
    stages = re.findall(r"^made (\S+)$", done.stdout, re.MULTILINE)
    checks = ["lint", "derive-check", "test", "test-processors", "docs-test", "bench-short"]
    assert stages == ["setup", "docs-setup", *checks]
    assert "there was input" not in done.stdout
    for stage in ["setup", "lint", "derive-check", "test", "processors", "site", "bench", "total"]:
        assert re.search(rf"^{stage} +\d+ s$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("failing", "printed"),
    [
        ("docs-setup", ["setup", "docs-setup"]),
        ("lint", ["setup", "docs-setup", "lint"]),
        ("derive-check", ["setup", "docs-setup", "lint", "derive-check"]),
        ("test", ["setup", "docs-setup", "lint", "derive-check", "test"]),
        ("test-processors", ["setup", "docs-setup", "lint", "derive-check", "test", "test-processors"]),
        ("docs-test", ["setup", "docs-setup", "lint", "derive-check", "test", "test-processors", "docs-test"]),
    ],
)
def test_ci_stops_at_the_first_failure(checkout, tmp_path, failing, printed):
    script(tmp_path / "bin/make", f'echo "made $1"; [ "$1" != {failing} ] || exit 3')
    done = run(checkout, ".ci/run", path=tmp_path / "bin", CI="true")
    assert done.returncode == 3
    assert re.findall(r"^made (\S+)$", done.stdout, re.MULTILINE) == printed
    stage = {"docs-setup": "setup", "docs-test": "site", "test-processors": "processors"}.get(failing, failing)
    assert re.search(rf"^== {stage} +\d+ s  FAILED \(exit 3\)$", done.stderr, re.MULTILINE)
    assert re.search(r"^setup +\d+ s$", done.stderr, re.MULTILINE)


def is_running(pid):
    """Whether there is such a process that has not ended; one that has may wait for its parent to ask."""
    try:
        return Path("/proc", str(pid), "stat").read_text(encoding="utf-8").split()[2] != "Z"
    except OSError:
        return False


def test_ci_ends_what_runs_beside_a_failure(checkout, tmp_path):
    """Not `make` alone, but also what its commands have started."""
    started = tmp_path / "started"
    script(
        tmp_path / "bin/make",
        f"""case $1 in
            derive-check) sleep 100 & echo $! >{started}.part; mv {started}.part {started}; wait ;;
            lint) while ! [ -e {started} ]; do sleep 0.05; done; exit 3 ;;
        esac""",
    )
    done = run(checkout, ".ci/run", path=tmp_path / "bin", CI="true")
    assert done.returncode == 3
    end = time.monotonic() + 10
    while is_running(int(started.read_text(encoding="utf-8"))):
        assert time.monotonic() < end, "the command is still running"
        time.sleep(0.05)


def test_ci_installs_nothing_once_checks_run_side_by_side(checkout, tmp_path):
    """The environment is the same for all of them: the site takes what `docs-setup` has installed."""
    script(tmp_path / "bin/make", 'echo "made $1, installed: ${SITE_INSTALLED:-no}"')
    done = run(checkout, ".ci/run", path=tmp_path / "bin", CI="true")
    assert done.returncode == 0, done.stderr
    assert "made docs-setup, installed: no" in done.stdout and "made docs-test, installed: 1" in done.stdout


def test_the_lowest_versions_are_those_of_pyproject(checkout):
    done = run(checkout, sys.executable, ".ci/lowest.py", "docs")
    assert done.returncode == 0, done.stderr
    project = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    own = [one for one in extras["docs"] if not one.startswith("attnlimits[")]
    wanted = [*project["dependencies"], *extras["data"], *extras["report"], *own]
    assert done.stdout.splitlines() == [requirement.replace(">=", "==") for requirement in wanted]


def test_the_lowest_versions_have_an_environment_of_their_own(checkout):
    done = run(checkout, "make", "-n", "test-lowest")
    assert done.returncode == 0, done.stderr
    assert "-c build/lowest/constraints.txt" in done.stdout and ".venv" not in done.stdout


@pytest.fixture
def site(checkout, tmp_path):
    """Return a function that runs `.ci/site` where neither an index nor Debian's packages answer.

    `docs` says whether `python` has the extra, `browser` whether there is one. It returns what ran, the lines that
    `python` was called with, and those that `apt-get` was.
    """
    logs = tmp_path / "python.log", tmp_path / "apt.log"

    def call(*words, docs, browser, **variables):
        answer = f'echo "$@" >> {logs[0]}\ncase "$*" in *import*|*install*) exit {int(not docs)} ;; esac'
        python, tools = script(tmp_path / "python", answer), tmp_path / "bin"
        for name in ("bash", "env", "dirname", "timeout", "id"):
            (tools / name).parent.mkdir(exist_ok=True)
            (tools / name).symlink_to(shutil.which(name))
        script(tools / "apt-get", f'echo "$@" >> {logs[1]}\nexit 1')
        if browser:
            script(tools / "chromium", "exit 0")
        variables |= {"CI": "true", "SITE_PYTHON": str(python), "PATH": str(tools)}
        done = run(checkout, shutil.which("bash"), ".ci/site", *words, **variables)
        assert done.returncode == 0, done.stderr
        return done, *(log.read_text(encoding="utf-8") if log.exists() else "" for log in logs)

    return call


LEFT_OUT = [
    (False, True, "left out, for the package index does not give the extra docs"),
    (True, False, "without a browser, for"),
    (True, True, ""),
]


@pytest.mark.parametrize(("docs", "browser", "said"), LEFT_OUT)
def test_the_site_is_left_out_with_a_reason(site, docs, browser, said):
    done, python, _ = site(docs=docs, browser=browser)
    assert said in done.stdout if said else done.stdout == ""
    assert ("tests/docs/test_site.py" in python) is docs
    assert ("pip install" in python) is not docs


@pytest.mark.parametrize(("docs", "browser", "said"), LEFT_OUT)
def test_what_the_site_needs_may_be_installed_alone(site, docs, browser, said):
    done, python, _ = site("install", docs=docs, browser=browser)
    assert said in done.stdout and "test_site.py" not in python


@pytest.mark.parametrize(("docs", "browser", "said"), LEFT_OUT)
def test_the_site_that_is_installed_installs_nothing(site, docs, browser, said):
    done, python, apt = site(docs=docs, browser=browser, SITE_INSTALLED="1")
    assert said in done.stdout and ("test_site.py" in python) is docs
    assert "pip" not in python and apt == ""
