"""Emulation takes hold of every library, and what is chosen by a commit is the same each time."""

import json
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
from emulated import PROCESSORS, choose, emulation, lacking, main
from selection import LEFT_OUT, part_of, selected
from suite import PLAN

HERE = Path(__file__).parent
# OpenBLAS names the kernels of several processors by the oldest, and those of AMD's by Intel's that they are.
KERNELS = {"Prescott": {"Prescott", "Katmai"}, "Zen": {"Zen", "Haswell"}}


def probed(*before):
    done = subprocess.run(
        [sys.executable, *before, sys.executable, HERE / "probe.py"], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.slow_for("nehalem", "sandybridge", "haswell", "skylake-avx512", "zen")
@pytest.mark.parametrize("name", PROCESSORS)
def test_every_library_takes_the_code_of_the_processor(name):
    processor = PROCESSORS[name]
    if said := lacking(processor):
        pytest.skip(said)
    found = probed(HERE / "emulated.py", name, "--")
    assert set(found["blas"]) <= KERNELS.get(processor.blas, {processor.blas})
    assert ("ymm" in found["registers"]) is ("AVX" in processor.has)
    assert found["fused"] is ("FMA3" in processor.has)
    assert set(found["loops"]) <= processor.has


@pytest.mark.slow
def test_the_c_library_takes_its_functions_without_fused_products():
    if platform.libc_ver()[0] != "glibc" or lacking(PROCESSORS["haswell"]):
        pytest.skip("one variant alone of exp in this C library, or on this machine")
    old, new = (probed(HERE / "emulated.py", name, "--")["exponentials"] for name in ("nehalem", "haswell"))
    assert old != new


def test_a_number_chooses_a_processor():
    able = {one.name for one in PROCESSORS.values() if not lacking(one)}
    if not able:
        pytest.skip(lacking(PROCESSORS["prescott"]))
    assert choose("5f") is choose("5f")
    assert {choose(f"{k:x}").name for k in range(len(PROCESSORS))} == able


def test_numpy_is_asked_for_what_it_has():
    """It warns of names that it does not know, and refuses those without which it was not built."""
    if said := lacking(PROCESSORS["nehalem"]):
        pytest.skip(said)
    variables = emulation(PROCESSORS["nehalem"], {"XLA_FLAGS": "--xla_one=1"})
    assert variables["XLA_FLAGS"] == "--xla_one=1 --xla_cpu_max_isa=SSE4_2"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import numpy"],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", [[], ["haswell"], ["haswell", "--"], ["pentium", "--", "true"]])
def test_a_command_is_asked_for(words):
    with pytest.raises(SystemExit, match="2"):
        main(words)


def test_what_is_left_out_exists_and_the_rest_runs(repository):
    paths = [path for paths in LEFT_OUT.values() for path in paths]
    assert [path for path in paths if not (repository / path).exists()] == []
    files = selected()
    assert files == sorted(set(files)) and not any(file.startswith(tuple(paths)) for file in files)
    # Whatever searches and decides by numbers is run.
    for folder in ("aim", "channel", "committee", "fixed_point", "free_energy", "learning", "multihead", "posterior"):
        here = {
            str(file.relative_to(repository)) for file in (repository / "tests/numerics" / folder).rglob("test_*.py")
        }
        assert here and here <= set(files)


def test_parts_cover_all_files_in_time():
    files = selected()
    assert part_of(files, "5f", 3) == part_of(files, "5f", 3) != part_of(files, "60", 3)
    chosen = [set(part_of(files, f"{k:x}", 3)) for k in range(40)]
    # The chance that one of some 230 files is in none of 40 parts is 2e-5.
    assert set().union(*chosen) == set(files)
    assert 0.15 < len(chosen[0]) / len(files) < 0.55


def test_the_plan_meets_threads_and_seeds():
    assert {(one.threads, one.seed) for one in PLAN} == {(1, 1), (1, 2), (2, 1), (2, 2)}
    assert len({one.name for one in PLAN}) >= 5 and {one.name for one in PLAN} <= set(PROCESSORS)


def test_a_table_of_processors_is_printed(capsys):
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(PROCESSORS)
    assert all(re.match(rf"{name}($| is left out: )", line) for name, line in zip(PROCESSORS, lines, strict=True))
