"""The cache of links: whatever others or a fault put there is not executed, and what is missing is derived again."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attnlimits.numerics.core import cache as caches
from attnlimits.numerics.core import identity
from attnlimits.numerics.core.errors import KernelNotFoundError
from attnlimits.numerics.model import link_store
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.model.link_store import Request, keep, stored
from attnlimits.numerics.model.links import load_link

COMMAND = (sys.executable, "-m", "attnlimits.numerics.cli.main")
LINK = "abs(h)"
REQUEST = Request(LINK)
posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes of files")
root = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Source of the kernel of |h|, derived once."""
    from attnlimits.derive.emit.link_source import render
    from attnlimits.derive.links.link import link

    return render(link(LINK)).encode()


@pytest.fixture
def folder(tmp_path, monkeypatch, source):
    """A cache that answers |h|; what is derived again is counted by `derived`."""
    monkeypatch.setenv("ATTNLIMITS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(caches, "_instead", {})
    keep(REQUEST, source)
    return tmp_path / "cache" / "links"


@pytest.fixture
def derived(monkeypatch, source):
    """Count the derivations, which take a second each."""
    calls = []
    monkeypatch.setattr(
        "attnlimits.numerics.model.link_kernels.source_of", lambda request: calls.append(request) or source
    )
    return calls


def files(folder):
    (kernel,), (note,) = folder.glob("*.py"), (folder / "requests").iterdir()
    return kernel, note


def planted(folder, value="1/3"):
    """Write another kernel under the hash of what it holds, and return its path."""
    true = "EXACT, EXACT_VALUE, REASON = '1/2', 0.5"
    text = files(folder)[0].read_text()
    assert true in text
    text = text.replace(true, true.replace("1/2", value))
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()}.py"
    path.write_text(text)
    return path


def test_what_was_derived_is_found_again(folder, derived):
    assert kernel_of(LINK).exact == "1/2" and derived == []
    kernel, note = files(folder)
    assert kernel.stem == hashlib.sha256(kernel.read_bytes()).hexdigest()
    assert note.read_text() == f"{note.name} {kernel.stem}\n"


@posix
def test_folders_and_files_are_closed_to_others(folder):
    kernel, note = files(folder)
    assert [path.stat().st_mode & 0o777 for path in (folder.parent, folder, note.parent)] == [0o700] * 3
    assert [path.stat().st_mode & 0o777 for path in (kernel, note)] == [0o600] * 2


@pytest.mark.parametrize("fault", ["edited", "truncated", "empty", "binary", "a folder", "missing"])
def test_a_kernel_that_is_not_what_was_written_is_derived_again(folder, derived, fault, capsys):
    kernel, _ = files(folder)
    text = kernel.read_bytes()
    kernel.unlink()
    if fault == "a folder":
        kernel.mkdir()
    elif fault != "missing":
        kernel.write_bytes(
            {
                "edited": text.replace(b"'1/2', 0.5", b"'1/3', 0.3"),
                "truncated": text[: len(text) // 2],
                "empty": b"",
                "binary": b"\0\xff" * 100,
            }[fault]
        )
    assert kernel_of(LINK).exact == "1/2" and len(derived) == 1
    if fault != "a folder":
        assert capsys.readouterr().err == "" and kernel.read_bytes() == text
        assert kernel_of(LINK).exact == "1/2" and len(derived) == 1


@pytest.mark.parametrize(
    "content", ["../../planted", "/etc/passwd", "", "\0", "x" * 64, "{digest}", "{other} {digest}"]
)
def test_a_note_names_a_hash_and_its_own_request_only(folder, derived, content):
    _, note = files(folder)
    evil = folder.parent / "planted.py"
    evil.write_text("raise SystemExit('executed')")
    digest = planted(folder).stem
    note.write_text(content.format(digest=digest, other="0" * 64))
    assert kernel_of(LINK).exact == "1/2" and len(derived) == 1
    # Also where the note is that of this request, and what it names is elsewhere.
    note.write_text(f"{note.name} ../../planted\n")
    assert kernel_of(LINK).exact == "1/2" and len(derived) == 2


def test_compiled_files_beside_a_kernel_are_not_executed(folder, derived):
    """Python would take __pycache__/<hash>.pyc for the module, if its dates fit."""
    import py_compile

    kernel, _ = files(folder)
    text, dates = kernel.read_text(), kernel.stat()
    evil = "raise SystemExit('executed')"
    kernel.write_text(evil + " " * (len(text) - len(evil)))
    os.utime(kernel, (dates.st_atime, dates.st_mtime))
    py_compile.compile(str(kernel), doraise=True)
    kernel.write_text(text)
    os.utime(kernel, (dates.st_atime, dates.st_mtime))
    assert kernel_of(LINK).exact == "1/2" and derived == []
    assert load_link(kernel).exact == "1/2"


@posix
@pytest.mark.parametrize("which", [0, 1], ids=["kernel", "note"])
@pytest.mark.parametrize("fault", ["others may write", "a link", "a pipe", pytest.param("another owner", marks=root)])
def test_files_of_others_are_not_read(folder, derived, which, fault):
    path = files(folder)[which]
    if fault == "others may write":
        path.chmod(0o666)
    elif fault == "another owner":
        os.chown(path, 12345, -1)
    else:
        content = path.read_bytes()
        path.unlink()
        if fault == "a pipe":
            os.mkfifo(path)
        else:
            elsewhere = folder.parent / "elsewhere"
            elsewhere.write_bytes(content)
            path.symlink_to(elsewhere)
    assert kernel_of(LINK).exact == "1/2" and len(derived) == 1
    assert kernel_of(LINK).exact == "1/2" and len(derived) == 1
    # A pipe is nothing that a file replaces: a temporary folder takes its place.
    assert fault == "a pipe" or (path.stat().st_uid == os.geteuid() and path.is_file() and not path.is_symlink())


@posix
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o755])
def test_a_folder_of_ones_own_is_closed(folder, derived, mode):
    folder.chmod(mode)
    assert kernel_of(LINK).exact == "1/2" and derived == []
    assert folder.stat().st_mode & 0o777 == 0o700


def refused(folder, derived, capsys, says):
    """Nothing is taken from the folder or written there: derived once, kept in a temporary folder, one line."""
    before = sorted(folder.rglob("*")) if folder.is_dir() else []
    for _ in range(2):
        kernel = kernel_of(LINK)
        assert kernel.exact == "1/2" and kernel.path.is_file() and folder not in kernel.path.parents
        assert kernel.path.parent.stat().st_mode & 0o777 == 0o700
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line and "ATTNLIMITS_CACHE" in line and len(derived) == 1
    assert before == (sorted(folder.rglob("*")) if folder.is_dir() else [])


@root
@pytest.mark.parametrize("mode", [0o777, 0o700])
@pytest.mark.parametrize("level", ["links", "requests", "cache"])
def test_a_folder_of_another_owner_is_not_used(folder, derived, capsys, level, mode):
    place = {"links": folder, "requests": folder / "requests", "cache": folder.parent}[level]
    place.chmod(mode)
    os.chown(place, 12345, -1)
    refused(folder, derived, capsys, "belongs to another user")


@posix
def test_a_cache_that_others_may_write_is_not_used(folder, derived, capsys):
    folder.parent.chmod(0o777)
    refused(folder, derived, capsys, "others may write")


@posix
def test_a_sticky_folder_keeps_what_is_ones_own(folder, derived):
    folder.parent.chmod(0o1777)
    assert kernel_of(LINK).exact == "1/2" and derived == []


@posix
def test_the_packages_own_folder_made_under_a_lax_mask_is_closed(folder, derived, monkeypatch):
    monkeypatch.delenv("ATTNLIMITS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent.parent))
    own = folder.parent.rename(folder.parent.parent / "attnlimits")
    own.chmod(0o775)
    monkeypatch.setattr("sys.platform", "linux")
    assert kernel_of(LINK).exact == "1/2" and derived == []
    assert own.stat().st_mode & 0o777 == 0o700


@posix
@pytest.mark.parametrize("level", ["links", "requests"])
def test_a_link_to_another_folder_is_not_followed(folder, derived, capsys, level):
    place = folder if level == "links" else folder / "requests"
    place.rename(folder.parent / "elsewhere")
    place.symlink_to(folder.parent / "elsewhere")
    refused(folder, derived, capsys, "is a link or a file")


def test_a_file_where_the_cache_should_be(tmp_path, derived, capsys, monkeypatch):
    monkeypatch.setattr(caches, "_instead", {})
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ATTNLIMITS_CACHE", str(tmp_path / "file"))
    refused(tmp_path / "file" / "links", derived, capsys, "cannot be made")


@pytest.mark.parametrize("temporary", [True, False])
def test_a_full_disk_loses_nothing_but_the_cache(folder, derived, capsys, monkeypatch, temporary):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    files(folder)[1].unlink()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        if not temporary:
            patch.setattr("tempfile.mkdtemp", full)
        assert kernel_of(LINK).exact == "1/2" and len(derived) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "cannot be written (No space left on device)" in line
    assert list(folder.rglob("*.part")) == []


def test_no_home(tmp_path, child, modes_bind, locked):
    done = child(*COMMAND, "threshold", "--link", LINK, HOME=str(locked))
    assert done.status == 0 and "1/2 exactly" in done.out
    assert sum("temporary folder" in line for line in done.lines) == 1
    assert list(locked.rglob("*")) == []


def test_sources_that_are_not_found_are_named(monkeypatch, tmp_path):
    """The cache would answer with the kernels of another version."""

    class Found:
        submodule_search_locations = (str(tmp_path),)

    def forget():
        identity._files.cache_clear()
        identity._read.cache_clear()
        identity.source_hash.cache_clear()
        link_store.derivation.cache_clear()

    with monkeypatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda name: Found)
        forget()
        with pytest.raises(KernelNotFoundError, match=r"no source of the module attnlimits\.derive\.links\.worker"):
            kernel_of(LINK)
        (tmp_path / "links").mkdir()
        (tmp_path / "links" / "parser.py").write_text("")
        (tmp_path / "links" / "worker.py").write_text("from . import parser")
        forget()
        one = link_store.derivation()
        (tmp_path / "links" / "parser.py").write_text("#")
        forget()
        assert link_store.derivation() != one
        (tmp_path / "links" / "parser.py").unlink()
        forget()
        with pytest.raises(KernelNotFoundError, match=r"no source of attnlimits\.derive\.links"):
            kernel_of(LINK)
    forget()


_WRITER = """
import sys
from pathlib import Path
from attnlimits.derive.emit.files import write_whole
from attnlimits.numerics.model.link_store import Request, keep, stored
source = Path(sys.argv[1]).read_bytes()
sys.stdin.readline()
for k in range(50):
    request = Request("abs(h)", indices=k + 1)
    assert keep(request, source).exact == "1/2"
    found = stored(request)
    assert found is not None and found.exact == "1/2"
    write_whole(Path(sys.argv[2]), source.decode())
    assert Path(sys.argv[2]).read_bytes() == source
"""


def test_writers_of_the_same_link_do_not_meet(folder, source, tmp_path):
    """Two processes write the same fifty links at once, and read them while the other one writes."""
    (tmp_path / "kernel.py").write_bytes(source)
    command = [sys.executable, "-c", _WRITER, str(tmp_path / "kernel.py"), str(tmp_path / "derived.py")]
    writers = [subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    errors = [writer.communicate("go\n")[1] for writer in writers]
    assert errors == ["", ""] and [writer.returncode for writer in writers] == [0, 0]
    assert [path.name for path in folder.glob("*.py")] == [f"{hashlib.sha256(source).hexdigest()}.py"]
    assert list(tmp_path.rglob("*.part")) == []


def test_a_kernel_that_is_edited_is_refused_by_its_path(folder):
    kernel, _ = files(folder)
    kernel.write_text(kernel.read_text() + "#")
    with pytest.raises(KernelNotFoundError, match="sha256"):
        load_link(kernel)
    assert stored(REQUEST) is None


@pytest.mark.slow
def test_first_derivations_of_a_link_at_once(tmp_path):
    """The whole way, by three commands at a time."""
    for _ in range(5):
        cache = tmp_path / "cache"
        command = [*COMMAND, "threshold", "--link", "h**2"]
        environment = os.environ | {"ATTNLIMITS_CACHE": str(cache)}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        running = [subprocess.Popen(command, env=environment, **pipes) for _ in range(3)]
        said = [process.communicate() for process in running]
        assert [process.returncode for process in running] == [0, 0, 0], said
        assert len({out for out, _ in said}) == 1 and {err for _, err in said} == {""}
        for path in Path(cache).rglob("*"):
            path.chmod(0o700) if path.is_dir() else path.unlink()
