"""The command as a process: what it loads, its exit status, its streams."""

import json
import subprocess
import sys
from importlib.metadata import version

import pytest

MAIN = "from attnlimits.numerics.cli.main import main; import sys; status = main({arguments!r}); "
LOADED = "print(sorted({'numba', 'sympy', 'matplotlib', 'scipy'} & set(sys.modules)), file=sys.stderr)"


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, **options)


def attnlimits(*arguments, **options):
    return run(sys.executable, "-m", "attnlimits.numerics.cli.main", *arguments, **options)


def test_import_is_light():
    done = run(sys.executable, "-c", "import sys, attnlimits.numerics.cli.main; " + LOADED)
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip() == "[]"


def test_the_version_waits_for_neither_parsers_nor_arrays():
    loaded = "print({'numpy', 'argparse', 'numba'} & set(sys.modules), file=sys.stderr)"
    done = run(sys.executable, "-c", MAIN.format(arguments=["--version"]) + loaded)
    assert (done.stdout, done.stderr) == (f"attnlimits {version('attnlimits')}\n", "set()\n")


def test_an_evolution_does_not_wait_for_statistics():
    # scipy.stats is a third of the start of a first point.
    point = ["evolve", "--layers", "2", "--alpha", "0.3", "--json"]
    done = run(sys.executable, "-c", MAIN.format(arguments=point) + "sys.exit('scipy.stats' in sys.modules)")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [(["threshold", "--json"], ["scipy"]), (["threshold", "--layers", "1", "--tokens", "3"], [])],
)
def test_threshold_compiles_nothing_and_derives_nothing(arguments, needed):
    done = run(sys.executable, "-c", MAIN.format(arguments=arguments) + LOADED + "; sys.exit(status)")
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip() == str(needed)


def test_statuses_reach_the_shell():
    """Success does in the tests below; which status an input has is tested without a process."""
    unknown = attnlimits("solve")
    assert (unknown.returncode, unknown.stdout, unknown.stderr.count("\n")) == (2, "", 1)
    short = attnlimits("aim", "amp", *"--rho 0.5 --alpha 0.1 --dimension 4 --seeds 1 --max-iter 2 --json".split())
    assert short.returncode == 1
    assert json.loads(short.stdout)["converged"] is False
    assert short.stderr.count("\n") == 1


def test_the_version_without_a_verb():
    done = attnlimits("--version")
    assert done.returncode == 0 and done.stdout == f"attnlimits {version('attnlimits')}\n" and not done.stderr


def test_help_without_the_rest():
    done = attnlimits("evolve", "--help")
    assert done.returncode == 0
    assert "example: attnlimits evolve" in done.stdout
    assert done.stderr == ""


def test_it_runs_anywhere(tmp_path):
    """Neither the working folder nor its content matters."""
    (tmp_path / "numerics").mkdir()
    done = attnlimits("threshold", "--layers", "1", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["exact"] == "1/6"
    assert [path.name for path in tmp_path.iterdir()] == ["numerics"]
