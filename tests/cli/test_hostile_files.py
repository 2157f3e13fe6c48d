"""Files that are none, that lie about their size, or that never end: one line, exit status 2, and no memory taken."""

import io
import os
import resource
import struct
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

#: Verbs that read arrays from .npy files; BAD is the file, GOOD one that fits.
VERBS = {
    "gamp x": "gamp --layers 1 --x BAD --y GOOD",
    "gamp y": "gamp --layers 1 --x GOOD --y BAD",
    "descend y": "descend --layers 1 --x GOOD --y BAD",
    "aim amp x": "aim amp --rho 0.5 --x BAD --y GOOD",
    "aim amp y": "aim amp --rho 0.5 --x GOOD --y BAD",
    "aim denoise": "aim denoise --rho 0.5 --delta 0.1 --y BAD",
    "multihead x": "multihead fit --x BAD --y GOOD",
    "multihead y": "multihead fit --x GOOD --y BAD",
}
GOOD = np.random.default_rng(0).standard_normal((6, 2, 2))


def npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    """A .npy file with this header, whatever it says."""
    text = header.encode() + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + data


def claims(shape: str, descr: str = "'<f8'") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"


def saved(array: np.ndarray, **settings: bool) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **settings)
    return stream.getvalue()


RECORDS = np.zeros(6, dtype=[("a", "f8"), ("b", "i4")])
CONTENTS = {
    "empty": (b"", "is no .npy"),
    "text": (b"no array\n", "is no .npy"),
    "cut short": (saved(GOOD)[:-9], "cut short"),
    "cut in the header": (saved(GOOD)[:40], "is no .npy"),
    "1e15 entries": (npy(claims("(1000000000000000,)"), b"0" * 64), "cut short"),
    "negative": (npy(claims("(-6, 2, 2)"), b"0" * 192), "no array has the shape"),
    "two negatives": (npy(claims("(-6, -2, 2)"), b"0" * 192), "no array has the shape"),
    "overflow": (npy(claims("(4294967296, 4294967296, 4294967296)")), "more entries than memory has addresses"),
    "overflow of none": (npy(claims("(0, 4611686018427387904, 4)")), "more entries than memory has addresses"),
    "header of 4 GB": (b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b" " * 64, "longer than"),
    "nested header": (npy("(" * 9000), "is no .npy"),
    "unknown version": (npy(claims("(6,)")).replace(b"Y\x01", b"Y\x09", 1), "unknown"),
    "objects": (saved(np.array([None, "import os"], dtype=object), allow_pickle=True), "never unpickled"),
    "records": (saved(RECORDS), "records of several fields"),
    "records of arrays": (npy(claims("(1,)", "[('a', '<f8', (1000, 1000))]")), "records of several fields"),
    "complex": (saved(GOOD + 0j), "complex numbers"),
    "truth values": (saved(GOOD > 0), "True and False"),
    "strings": (saved(np.array([["a", "b"]])), "no numbers"),
    "dates": (saved(np.array(["2020-01-01"], dtype="M8[D]")), "no numbers"),
}


@pytest.fixture
def verb_with(attnlimits, tmp_path):
    """Return a function that runs a verb on a bad file."""
    np.save(tmp_path / "good.npy", GOOD)

    def run(command: str, bad: Path):
        words = command.replace("BAD", str(bad)).replace("GOOD", str(tmp_path / "good.npy"))
        return attnlimits(words)

    return run


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("what", CONTENTS)
def test_what_is_no_array_of_numbers(verb_with, tmp_path, verb, what):
    content, words = CONTENTS[what]
    bad = tmp_path / "bad.npy"
    bad.write_bytes(content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said = verb_with(VERBS[verb], bad)
    assert (said.status, said.out, len(said.lines_of_error)) == (2, "", 1), said.err
    assert words in said.err or (verb.startswith("multihead") and "is no .npy or .npz file" in said.err)
    assert str(bad) in said.err
    # Some megabytes are modules that the verb loads.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_no_regular_file(verb_with, tmp_path, verb):
    os.mkfifo(tmp_path / "pipe.npy")
    for place in (tmp_path / "pipe.npy", Path("/dev/zero"), tmp_path):
        said = verb_with(VERBS[verb], place)
        assert (said.status, said.out, len(said.lines_of_error)) == (2, "", 1), said.err
        assert "is no regular file" in said.err or "is a folder" in said.err
    said = verb_with(VERBS[verb], tmp_path / "none.npy")
    assert said.status == 2 and "No such file" in said.err


def zipped(*members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return stream.getvalue()


def bomb() -> bytes:
    """64 MiB of zeros in 64 KiB, of which the header names 64 bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("X.npy", "w") as member:
        member.write(npy(claims("(2, 2, 2)")))
        for _ in range(64):
            member.write(bytes(1 << 20))
    return stream.getvalue()


def with_size(content: bytes, size: int) -> bytes:
    """The same file, with another inflated size of all its members in the directory."""
    parts = content.split(b"PK\x01\x02")
    return b"PK\x01\x02".join(parts[:1] + [part[:20] + struct.pack("<I", size) + part[24:] for part in parts[1:]])


def named(content: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    return zipped(*((f"{name}.npy", content) for name in ("X", "y", "omega", "V")), method=method)


ARCHIVES = {
    "empty": (b"", "is no .npz"),
    "text": (b"PK, and no more", "is no .npz"),
    "cut short": (named(saved(GOOD))[:-30], "is no .npz"),
    "damaged": (named(saved(GOOD)).replace(b"PK\x03\x04", b"PK\x03\x05"), "is no .npz"),
    "of nothing": (zipped(), "must hold"),
    "text inside": (named(b"no array"), "is no .npz"),
    "huge header": (named(npy(claims("(1000000000000000,)"))), "are stored"),
    "header of less": (named(npy(claims("(2, 2, 2)"), bytes(800))), "are stored"),
    "directory of more": (with_size(named(saved(GOOD)), 0xFFFFFFF0), "cannot inflate"),
    "another method": (named(saved(GOOD), zipfile.ZIP_LZMA), "another way"),
    "objects": (named(saved(np.array([None], dtype=object), allow_pickle=True)), "never unpickled"),
    "complex": (named(saved(GOOD + 0j)), "complex numbers"),
    "records": (named(saved(RECORDS)), "records of several fields"),
}


@pytest.mark.parametrize("command", ["denoise --input BAD", "multihead fit --x BAD"])
@pytest.mark.parametrize("what", ARCHIVES)
def test_what_is_no_archive_of_numbers(verb_with, tmp_path, command, what):
    content, words = ARCHIVES[what]
    bad = tmp_path / "bad.npz"
    bad.write_bytes(content)
    said = verb_with(command, bad)
    assert (said.status, said.out, len(said.lines_of_error)) == (2, "", 1), said.err
    assert words in said.err or "is no .npy or .npz file" in said.err


def test_no_more_is_inflated_than_the_header_names(verb_with, tmp_path):
    bad = tmp_path / "bomb.npz"
    bad.write_bytes(bomb())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said = verb_with("multihead fit --x BAD", bad)
    assert said.status == 2 and "are stored" in said.err
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000


def test_nested_text(verb_with, tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text("[" * 100_000, encoding="utf-8")
    said = verb_with("denoise --input BAD", bad)
    assert (said.status, said.out, len(said.lines_of_error)) == (2, "", 1), said.err
    said = verb_with("denoise --input BAD", Path("/dev/zero"))
    assert said.status == 2 and "is no regular file" in said.err


@pytest.mark.parametrize("change", ["fortran", "big-endian", "f4", "compressed", "integers"])
def test_other_layouts_of_the_same_numbers(attnlimits, tmp_path, change):
    """Rows along any axis, bytes in any order: the same estimate."""
    generator = np.random.default_rng(1)
    x = generator.standard_normal((400, 2, 20))
    if change == "integers":
        x = np.sign(x)
    w = generator.standard_normal(20)
    h = x @ w / np.sqrt(20)
    scores = h[:, :, None] * h[:, None, :]
    y = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
    if change == "f4":
        x = x.astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    command = f"gamp --layers 1 --x {tmp_path / 'x.npy'} --y {tmp_path / 'y.npy'} --json --max-iter 5"
    plain = attnlimits(command)
    if change == "fortran":
        np.save(tmp_path / "x.npy", np.asfortranarray(x))
        np.save(tmp_path / "y.npy", np.asfortranarray(y))
    elif change == "big-endian":
        np.save(tmp_path / "x.npy", x.astype(">f8"))
        np.save(tmp_path / "y.npy", y.astype(">f8"))
    again = attnlimits(command)
    assert '"weights"' in plain.out
    cut = slice(0, plain.out.index('"seconds"'))
    assert plain.out[cut] == again.out[cut]


X = np.random.default_rng(2).standard_normal((12, 2, 6))
H = X.sum(axis=2) / np.sqrt(6)
Y = np.exp(H[:, :, None] * H[:, None, :])
Y /= Y.sum(axis=2, keepdims=True)
OUT_OF_RANGE = {
    "no outputs": ("gamp --layers 1 --x GOOD --y BAD", X, Y[:0], "Y must hold at least one output"),
    "infinity": ("aim amp --rho 0.5 --x GOOD --y BAD", np.where(X == X[3, 0, 0], np.inf, X), Y, "x must be finite"),
    "1e300": ("aim amp --rho 0.5 --x GOOD --y BAD", 1e300 * X, Y, "x must be finite"),
    "1e300 of a start": ("gamp --layers 1 --start spectral --x GOOD --y BAD", 1e300 * X, Y, "variance 1"),
    "no tokens": ("aim amp --rho 0.5 --x GOOD --y BAD", 0 * X, Y, "the covariance of h given them is singular"),
    "1e308": ("descend --layers 1 --x GOOD --y BAD", X, 1e308 * Y, "scale Y"),
    "1e300 of Y": ("multihead fit --x GOOD --y BAD", X, 1e300 * X, "Y must have entries whose squares float64 holds"),
    "1e-320": ("multihead fit --x GOOD --y BAD", X, 1e-320 * X, "Y must have entries whose squares float64 holds"),
    "a matrix of 1e308": ("aim denoise --rho 0.5 --delta 0.1 --y BAD", X, 1e308 * np.eye(5), "at most 1e+100"),
    "no matrix": ("aim denoise --rho 0.5 --delta 0.1 --y BAD", X, np.zeros((0, 0)), "d >= 1"),
}


@pytest.mark.parametrize("what", OUT_OF_RANGE)
def test_numbers_out_of_range(verb_with, tmp_path, what):
    """One line, and no warning of NumPy beside it."""
    command, x, y, words = OUT_OF_RANGE[what]
    np.save(tmp_path / "good.npy", x)
    np.save(tmp_path / "bad.npy", y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        said = verb_with(command, tmp_path / "bad.npy")
    assert said.status in (1, 2) and said.out == "" and len(said.lines_of_error) == 1, said.err
    assert words in said.err


def test_bytes_that_are_no_text(attnlimits, tmp_path):
    np.save(tmp_path / "x.json", GOOD)
    said = attnlimits(f"denoise --input {tmp_path / 'x.json.npy'}")
    assert said.status == 2 and "is no JSON" in said.err and len(said.lines_of_error) == 1


def test_tokens_that_are_all_the_same(verb_with, tmp_path):
    """Nothing can be learned; the best layer is shown, without a warning of a division by zero."""
    np.save(tmp_path / "good.npy", 0 * X + 1)
    np.save(tmp_path / "bad.npy", X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        said = verb_with("multihead fit --heads 1 --starts 1 --x GOOD --y BAD", tmp_path / "bad.npy")
    assert said.status == 1 and len(said.lines_of_error) == 1
    assert "the number of examples whose tokens differ is 0" in said.err
