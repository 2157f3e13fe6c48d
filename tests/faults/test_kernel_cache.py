"""Compiled kernels: what is damaged is compiled again, and nothing that a disk does ends a computation."""

import ast
import errno
import importlib.util
import os
import pickle
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.caching import CacheImpl, FunctionCache, IndexDataCacheFile, IPythonCacheLocator
from numba.core.dispatcher import Dispatcher

from attnlimits.numerics.core import identity, kernel_files

SOURCE = """
from numba import njit

@njit("f8(f8)", cache=True)
def root(x):
    s = 0.0
    for k in range(4):
        s += x * k + 0.5
    return s
"""
VALUE = 1.25 * 6 + 2.0
NO_CACHE = "attnlimits: compiled kernels cannot be kept: neither the installation nor the user's cache folder"


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Return a function that loads the module of one kernel anew, as a module of this package or of another one."""
    path = tmp_path / "source.py"
    path.write_text(SOURCE, encoding="utf-8")
    # Files are those of numba alone: Python's own may be written or not.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(kernel_files, "_said", [])
    # Set first: it is then as it was when the test ends, also where the kernels set it.
    monkeypatch.setenv(kernel_files.PRIVATE, "")
    monkeypatch.delenv(kernel_files.PRIVATE)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))

    def load(package="attnlimits"):
        spec = importlib.util.spec_from_file_location(f"{package}.source", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.root

    return load


def files(folder):
    """The index and the data of the one kernel."""
    (index,), (data,) = folder.rglob("*.nbi"), folder.rglob("*.nbc")
    return index, data


def hits(function):
    return sum(function.stats.cache_hits.values())


def test_a_kernel_is_compiled_once(kernel, tmp_path, capsys):
    assert (kernel()(1.25), hits(kernel())) == (VALUE, 1)
    assert all("checked" in path.name for path in files(tmp_path / "cache"))
    assert capsys.readouterr().err == ""


def test_no_universal_function_is_kept(repository):
    """Its loop and its kernel are two files, whose names for each other differ from process to process.

    Two processes that compiled one at the same time left the loop of one and the kernel of the other, and the next
    process crashed.
    """
    sources = (path.read_text(encoding="utf-8") for path in (repository / "numerics").rglob("*.py"))
    assert not any("guvectorize" in source or "@vectorize" in source for source in sources)


def test_no_kernel_closes_over_another(repository):
    """The key of one that does is new in each process: it was never found, and one more copy of it kept each time."""
    nested = [
        f"{path.relative_to(repository)}:{inner.lineno}"
        for path in sorted((repository / "numerics").rglob("*.py"))
        if "cache=True" in (text := path.read_text(encoding="utf-8"))
        for outer in ast.walk(ast.parse(text))
        if isinstance(outer, ast.FunctionDef)
        for inner in ast.walk(outer)
        if isinstance(inner, ast.FunctionDef) and inner is not outer
        if any("cache=True" in ast.unparse(decorator) for decorator in inner.decorator_list)
    ]
    assert nested == []


@pytest.mark.parametrize("edited", ["boxes", "constants"])
def test_an_edit_of_what_a_kernel_holds_changes_its_identity(edited, tmp_path, monkeypatch):
    """As it was once in the lattice: its sums stand in other files than the function that is called from Python."""
    files_of = {name: tmp_path / f"{name}.py" for name in ("source", "boxes", "constants")}
    files_of["source"].write_text(SOURCE.replace("import njit", "import njit\nfrom .boxes import inner"))
    files_of["boxes"].write_text("from numba import njit\nfrom .constants import SHARE")
    files_of["constants"].write_text("SHARE = 0.5")
    known = {f"attnlimits.{name}": path for name, path in files_of.items()}
    monkeypatch.setattr(identity, "_file", known.get)
    hashes = set()
    for text in ("", "# edited", "# again"):
        identity._read.cache_clear()
        files_of[edited].write_text(files_of[edited].read_text() + text)
        hashes.add(identity.kernel_hash("attnlimits.source"))
    assert len(hashes) == 3
    identity._read.cache_clear()


def test_a_kernel_is_compiled_again_where_what_it_holds_was_edited(kernel, monkeypatch):
    assert (kernel()(1.25), hits(kernel())) == (VALUE, 1)
    monkeypatch.setattr(kernel_files, "kernel_hash", lambda module: "of another text")
    assert hits(kernel()) == 0
    assert (kernel()(1.25), hits(kernel())) == (VALUE, 1)


def test_every_damage_is_seen(kernel, tmp_path, capsys, monkeypatch, rng):
    """Of 40 changed bits, numba alone passed over 23, died at 4, raised at 12, and gave another number at one."""
    kernel()
    for path in files(tmp_path / "cache"):
        whole = path.read_bytes()
        texts = [b"", whole[:-1], whole[: len(whole) // 2], whole + b"\0", b"\0" * len(whole)]
        for position in rng.integers(0, len(whole), 4):
            texts.append(whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :])
        for text in texts:
            monkeypatch.setattr(kernel_files, "_said", [])
            path.write_bytes(text)
            found = kernel()
            assert (found(1.25), hits(found)) == (VALUE, 0)
            assert capsys.readouterr().err == (
                f"attnlimits: the compiled kernel {path} is damaged (NUMBA_CACHE_DIR={tmp_path / 'cache'}); it is "
                "compiled again\n"
            )
            assert path.read_bytes() != text  # it is written again as well
            assert hits(kernel()) == 1


def test_data_of_another_signature_is_not_taken(kernel, tmp_path):
    """Two processes that compile two signatures of one function both write the file number one."""
    kernel()
    _, data = files(tmp_path / "cache")
    key, payload = pickle.loads(data.read_bytes())
    (signature, *rest) = key
    other = kernel_files.CheckedFile(str(data.parent), "unused", None)
    other._save_data(data.name, (((*signature, numba.int64), *rest), payload))
    found = kernel()
    assert (found(1.25), hits(found)) == (VALUE, 0)


def test_arguments_of_classes_that_are_no_more(tmp_path, monkeypatch):
    """A new version may have renamed a class that the file of the old one names, or moved its module."""
    former = types.ModuleType("attnlimits.former")
    former.Pair = type("Pair", (), {"__module__": former.__name__})
    monkeypatch.setitem(sys.modules, former.__name__, former)
    kept = kernel_files.CheckedFile(str(tmp_path), "kernel", "old")
    kept.save(("signature", former.Pair), 1)
    assert kept.load(("signature", former.Pair)) == 1
    new = kernel_files.CheckedFile(str(tmp_path), "kernel", "new")
    del former.Pair
    assert new.load(("signature",)) is None
    monkeypatch.delitem(sys.modules, former.__name__)
    assert new.load(("signature",)) is None
    new.save(("signature",), 2)
    assert new.load(("signature",)) == 2


@pytest.mark.parametrize("fails", ["write", "replace", "fsize"])
def test_a_full_disk_costs_the_cache_alone(kernel, tmp_path, capsys, monkeypatch, fails):
    if fails == "fsize":  # a real one: no file of this process may be longer
        import resource
        import signal

        usual, before = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, usual[1]))
        try:
            assert kernel()(1.25) == VALUE
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, usual)
            signal.signal(signal.SIGXFSZ, before)
    else:

        def full(*args, **_):
            raise OSError(errno.ENOSPC, "No space left on device", str(args[0]))

        with monkeypatch.context() as patch:
            patch.setattr(*((os, "replace") if fails == "replace" else (IndexDataCacheFile, "_dump")), full)
            assert kernel()(1.25) == VALUE
    said = capsys.readouterr().err
    assert said.startswith("attnlimits: compiled kernels cannot be kept in ")
    assert f"(NUMBA_CACHE_DIR={tmp_path / 'cache'}): " in said
    assert said.count("\n") == 1
    assert list(tmp_path.rglob("*.tmp.*")) == []
    assert kernel()(1.25) == VALUE
    assert hits(kernel()) == 1


def test_a_folder_that_cannot_be_made(kernel, tmp_path, capsys, monkeypatch):
    """The next choice is the folder of the source, as numba has it."""
    (tmp_path / "cache").write_text("", encoding="utf-8")
    assert kernel()(1.25) == VALUE
    assert capsys.readouterr().err == (
        f"attnlimits: NUMBA_CACHE_DIR={tmp_path / 'cache'} cannot be written, so compiled kernels are not kept there; "
        "set it to a folder that can\n"
    )
    assert files(tmp_path / "__pycache__")
    assert hits(kernel()) == 1


@pytest.mark.parametrize("temporary", [True, False])
def test_without_any_folder(kernel, tmp_path, capsys, monkeypatch, temporary):
    monkeypatch.setattr(kernel_files.Locator, "usual", ())
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    removed = []
    monkeypatch.setattr(kernel_files.atexit, "register", lambda *call: removed.append(call))
    if temporary:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
        (tmp_path / "tmp").mkdir()
    else:
        monkeypatch.setattr(tempfile, "mkdtemp", lambda **_: (_ for _ in ()).throw(FileNotFoundError(2, "none")))
    assert kernel()(1.25) == VALUE
    said = capsys.readouterr().err
    assert said.startswith(NO_CACHE)
    assert said.count("\n") == 1
    assert hits(kernel()) == temporary
    if temporary:
        (folder,) = (tmp_path / "tmp").iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        ((remove, *call),) = removed
        remove(call[0], os.getpid() + 1)  # a copy of the process leaves the folder to the first one
        assert folder.exists()
        remove(*call)
        assert not folder.exists()


@pytest.mark.skipif(os.name != "posix", reason="files have no modes")
def test_a_folder_of_others_is_not_inherited(kernel, tmp_path, monkeypatch):
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    monkeypatch.setenv(kernel_files.PRIVATE, str(theirs))
    monkeypatch.setattr(kernel_files.Locator, "usual", ())
    kernel()
    assert files(theirs)
    for change in (lambda: theirs.chmod(0o770), lambda: monkeypatch.setattr(os, "getuid", lambda: 12345)):
        theirs.chmod(0o700)
        monkeypatch.setenv(kernel_files.PRIVATE, str(theirs))
        change()
        assert kernel_files._private_folder() != str(theirs)


def test_other_packages_are_cached_as_ever(kernel, tmp_path):
    kernel("others")
    assert all("checked" not in path.name for path in files(tmp_path / "cache"))
    index, _ = files(tmp_path / "cache")
    index.write_bytes(b"")
    with pytest.raises(EOFError):
        kernel("others")


def test_numba_has_what_is_replaced(kernel):
    """Another numba may have it under other names; then this fails, and not a user's run."""
    assert Dispatcher.enable_caching.__module__ == kernel_files.__name__
    assert isinstance(kernel()._cache, kernel_files.CheckedCache) and type(kernel("others")._cache) is FunctionCache
    usual = [kind for kind in CacheImpl._locator_classes if kind is not IPythonCacheLocator]
    assert list(kernel_files.Locator.usual) == usual


@pytest.mark.slow_for("attnlimits.numerics")  # the order of every command
@pytest.mark.parametrize("first", ["numba", "attnlimits.numerics"])
def test_either_may_be_imported_first(first):
    code = (
        f"import {first}, numba, attnlimits.numerics; from attnlimits.numerics.posterior.ranges import RANGES; "
        "from numba.core.dispatcher import Dispatcher; print(Dispatcher.enable_caching.__module__, "
        "{type(f._cache).__name__ for f in RANGES.values()})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{kernel_files.__name__} {{'CheckedCache'}}\n"


def test_a_read_only_installation_without_a_home(child, installation, locked):
    """Every kernel of a module is compiled, one line said, and the private folder gone at the end."""
    code = (
        "import os, numpy; from attnlimits.numerics.posterior import ranges; "
        "print(ranges.__file__); print(os.environ['ATTNLIMITS_PRIVATE_KERNELS'])"
    )
    done = child(sys.executable, "-c", code, cwd=locked, PYTHONPATH=str(installation), HOME=str(locked))
    assert done.status == 0, done.err
    where, folder = done.out.splitlines()
    assert Path(where).is_relative_to(installation)
    assert len(done.lines) == 1
    assert done.lines[0].startswith(NO_CACHE)
    assert not Path(folder).exists()
    assert not list(installation.rglob("*.nb[ic]"))


@pytest.mark.slow
@pytest.mark.parametrize("home", ["/proc", "{locked}/nobody"])
def test_a_home_that_is_none(child, installation, locked, tmp_path, home):
    code = "from attnlimits.numerics.committee import noise"
    home = home.format(locked=locked)
    done = child(sys.executable, "-c", code, cwd=tmp_path, PYTHONPATH=str(installation), HOME=home)
    assert (done.status, done.out, len(done.lines)) == (0, "", 1)
    assert done.err.startswith(NO_CACHE)
    assert [path.name for path in tmp_path.iterdir()] == ["locked"]


def test_without_a_home_no_folder_is_named_tilde(kernel, tmp_path, monkeypatch, capsys):
    """Of a user whom the system does not know, as in a container: `~` stays as it is."""
    monkeypatch.setattr(kernel_files.Locator, "usual", (kernel_files.UserWideCacheLocator,))
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    monkeypatch.chdir(tmp_path)
    assert kernel()(1.25) == VALUE
    assert capsys.readouterr().err.startswith(NO_CACHE)
    assert [path.name for path in tmp_path.iterdir()] == ["source.py"]


def test_numbers_do_not_depend_on_the_cache(kernel):
    values = np.linspace(-2, 2, 9)
    fresh, cached = kernel(), kernel()
    assert (hits(fresh), hits(cached)) == (0, 1)
    assert [fresh(x) for x in values] == [cached(x) for x in values]


def test_kernels_are_compiled_without_the_entry_for_callers_in_c(kernel):
    for package, entries in (("attnlimits", 0), ("another", 1)):
        (result,) = kernel(package).overloads.values()
        names = [function.name for function in result.library.get_defined_functions()]
        assert sum(name.startswith("cfunc.") for name in names) == entries
