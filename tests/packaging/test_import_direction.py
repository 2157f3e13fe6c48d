"""Derive writes, generated is written, numerics reads: no import goes against that direction."""

import json
import os
import subprocess
import sys

import pytest

# Imports the modules of packages one by one, and says which of them brought in what it must not.
IMPORT_ALL = """
import importlib, json, pkgutil, sys
names, offences, seen = {}, [], set()
for package in map(importlib.import_module, sys.argv[1:]):
    inside = [m.name for m in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
    # It is `attnlimits` itself, which hands out the names of all folders.
    inside = [name for name in inside if ".numerics.front" not in name]
    for name in [package.__name__, *sorted(inside)]:
        if not name.endswith("__main__"):
            importlib.import_module(name)
            found = {m for m in sys.modules if m in ("sympy", "quadpy") or m.startswith("attnlimits.derive")}
            offences += [f"{name} brings in {m}" for m in sorted(found - seen)]
            seen |= found
    names[package.__name__] = inside
print(json.dumps({"names": names, "offences": offences}))
"""


def test_importing_every_module_leaves_sympy_out():
    packages = ["attnlimits.generated", "attnlimits.numerics"]
    # Functions that are compiled as their module is imported import nothing.
    plain = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-c", IMPORT_ALL, *packages]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=plain)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert [package for package in packages if not report["names"][package]] == [], "no modules: nothing was tested"
    assert report["offences"] == []


def test_generated_imports_only_numbers(imports):
    # numpy has no error function of arrays; what is printed for numbers of any kind has `Any` in its signature; vectors
    # give a meaning to the functions behind + and *.
    standard = ("math", "fractions", "operator", "typing")
    allowed = ("numpy", "scipy.special", "numba", "mpmath", *standard, "attnlimits.generated")
    assert [str(i) for i in imports("generated") if not i.within(*allowed)] == []


def test_derive_never_imports_numerics(imports):
    assert [str(i) for i in imports("derive") if i.within("attnlimits.numerics")] == []


def test_numerics_imports_derive_in_the_front_door_only(imports):
    offences = [str(i) for i in imports("numerics") if i.within("attnlimits.derive", "sympy")]
    assert [offence for offence in offences if not offence.startswith("numerics/front/")] == []


@pytest.mark.parametrize("folder", ["derive", "generated", "numerics"])
def test_imports_are_relative_within_a_folder_and_absolute_across(imports, folder):
    offences = [
        str(i)
        for i in imports(folder)
        if i.within("attnlimits")
        and i.relative != i.within(f"attnlimits.{folder}")
        # In the place of `attnlimits`, above all folders.
        and not i.path.startswith("numerics/front/")
    ]
    assert offences == []


@pytest.mark.parametrize("folder", ["derive", "generated", "numerics", "papers"])
def test_no_module_is_imported_by_the_bare_name_of_its_folder(imports, folder):
    """It would work from the root of the source tree, and nowhere else."""
    assert [str(i) for i in imports(folder) if i.within("derive", "generated", "numerics", "papers")] == []


def test_the_reader_of_imports_sees_every_kind(tmp_path, read_imports):
    (tmp_path / "numerics").mkdir()
    path = tmp_path / "numerics" / "a.py"
    path.write_text(
        "import sympy.core as s\n"
        "from attnlimits import derive\n"
        "from ..derive.emit import x\n"
        "from . import b\n"
        "try:\n    from sympy import Symbol\nexcept ImportError:\n    pass\n"
        "class A:\n    import sympy\n"
        "def f():\n    import importlib\n    return importlib.import_module('attnlimits.derive')\n",
        encoding="utf-8",
    )
    assert [(i.module, i.at_load, i.relative) for i in read_imports(path, tmp_path)] == [
        ("sympy.core", True, False),
        ("attnlimits.derive", True, False),
        ("attnlimits.derive.emit.x", True, True),
        ("attnlimits.numerics.b", True, True),
        ("sympy.Symbol", True, False),
        ("sympy", True, False),
        ("importlib", False, False),
        ("attnlimits.derive", False, False),
    ]
