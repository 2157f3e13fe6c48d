"""Files for command lines: good ones of every kind, and each of them spoiled in every way."""

import json
import zipfile
from pathlib import Path

import numpy as np

__all__ = ["FILES", "make_files"]

_GOOD = (
    "x.npy x32.npy y.npy y_link.npy tokens.npy outputs.npy symmetric.npy mx.npy my.npy m.npz samples.npz samples.json "
    "one.json grid.toml grid_link.toml train.txt test.txt"
).split()
_SPOILED = [f"{kind}_{name}" for name in _GOOD for kind in ("half", "start", "flipped")]
_ODD = (
    "empty.npy empty.npz empty.json empty.toml object.npy structured.npy complex.npy text.npy nan.npy "
    "inf.npy zero.npy scalar.npy booleans.npy huge_header.npy negative_header.npy code_header.npy "
    "text.npz object.npz huge.npz nested.json nan.json digits.json keys.json numbers.json bytes.json "
    "nested.toml large.toml nan.toml wrong.toml axis.toml bytes.toml tall.npy wide.npy integers.npy "
    "huge_values.npy bomb.npz "
).split()
_PLACES = (".", "/dev/null", "/dev/zero", "missing.npy", "missing.npz", "missing.json", "missing.toml", "")
_PLACES += ("~nosuchuser/x.npy", "x" * 300, "x.npy/inside", "/proc/self/mem", "embeddings")
#: Names of all files, folders and places that are none.
FILES = (*_GOOD, *_SPOILED, *_ODD, *_ODD, *_PLACES, *_PLACES)


def make_files(folder: Path) -> None:
    """Write all files; the same ones every time."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    _arrays(folder, rng)
    _texts(folder)
    _spoil(folder, rng)
    _odd_arrays(folder)
    _odd_texts(folder)


def _softmax(h: np.ndarray) -> np.ndarray:
    e = np.exp(h - h.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _arrays(folder: Path, rng: np.random.Generator) -> None:
    n, m, d = 16, 2, 6
    x = rng.standard_normal((n, m, d))
    h = x @ rng.standard_normal(d) / d**0.5
    save = {
        "x": x,
        "x32": x.astype(np.float32),
        "y": _softmax(h[:, :, None] * h[:, None, :]),
        "y_link": h[:, :1] ** 2,
        "tokens": x[:10],
        "symmetric": (lambda a: a + a.T)(rng.standard_normal((5, 5))),
    }
    product = x[:10] @ x[:10].transpose(0, 2, 1) / d**0.5
    save["outputs"] = _softmax(product)
    save["mx"] = rng.choice([-1.0, 1.0], (60, 2, 3))
    scores = save["mx"] @ rng.standard_normal((3, 3)) @ save["mx"].transpose(0, 2, 1)
    save["my"] = _softmax(scores) @ save["mx"] @ rng.standard_normal((3, 3))
    for name, array in save.items():
        np.save(folder / f"{name}.npy", array)
    np.savez(folder / "m.npz", X=save["mx"], Y=save["my"])
    np.savez(folder / "samples.npz", y=save["y"][:2], omega=np.zeros((1, 2)), V=np.eye(1))


def _texts(folder: Path) -> None:
    one = {"y": [[0.7, 0.3], [0.2, 0.8]], "omega": [[0.1, 0.2]], "V": [[1]]}
    (folder / "one.json").write_text(json.dumps(one))
    (folder / "samples.json").write_text(json.dumps([one, one | {"omega": [[0, 0]]}]))
    (folder / "grid.toml").write_text('task = "threshold"\n[fixed]\nlayers = 1\n[axes]\ntokens = [2, 3]\n')
    (folder / "grid_link.toml").write_text(
        'task = "evolve"\n[fixed]\nlayers = 1\nsamples = 32\nreplicas = 2\n'
        "[axes]\nalpha = { linspace = [0.1, 0.4, 2] }\n"
    )
    questions = "".join(f"{label}\tquestion {k} of {label}\n" for k, label in enumerate(("A", "B", "A", "B")))
    (folder / "train.txt").write_text(questions)
    (folder / "test.txt").write_text(questions)
    (folder / "embeddings").mkdir(exist_ok=True)
    records = folder / "hostile_records"
    records.mkdir(exist_ok=True)
    for name, text in (("a", "[" * 100_000), ("b", '{"value": NaN}'), ("c", '{"value": 1e999}'), ("d", "")):
        (records / f"{name}.json").write_text(text)
    (records / "records.jsonl").write_text("[" * 100_000 + "\n")


def _spoil(folder: Path, rng: np.random.Generator) -> None:
    for name in _GOOD:
        data = bytearray((folder / name).read_bytes())
        (folder / f"half_{name}").write_bytes(data[: len(data) // 2])
        (folder / f"start_{name}").write_bytes(data[:7])
        for _ in range(3):
            data[int(rng.integers(len(data)))] ^= int(rng.integers(1, 256))
        (folder / f"flipped_{name}").write_bytes(data)


def _header(text: str) -> bytes:
    """An .npy file of version 1.0 with this header and no data."""
    head = text.encode("latin-1").ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head


def _odd_arrays(folder: Path) -> None:
    arrays = {
        "object": np.array([{"a": 1}, None], dtype=object),
        "structured": np.zeros((4, 2), dtype=[("a", "f8"), ("b", "i4")]),
        "complex": np.ones((16, 2, 2)) * (0.5 + 1j),
        "text": np.array(["a", "b"]),
        "nan": np.full((16, 2, 6), np.nan),
        "inf": np.full((16, 2, 2), np.inf),
        "zero": np.zeros((0, 2, 6)),
        "scalar": np.array(1.0),
        "booleans": np.ones((16, 2, 2), dtype=bool),
        "tall": np.ones((100_000, 1)),
        "wide": np.ones((1, 1, 100_000)),
        "integers": np.ones((16, 2, 2), dtype=np.int64) * 2**62,
        "huge_values": np.full((16, 2, 6), 1e308),
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=True)
    np.savez(folder / "text.npz", X=arrays["text"], Y=arrays["text"], y=arrays["text"])
    np.savez(folder / "object.npz", X=arrays["object"], Y=arrays["object"], y=arrays["object"])
    shape = "{'descr': '<f8', 'fortran_order': False, 'shape': (%s), }"
    (folder / "huge_header.npy").write_bytes(_header(shape % "1000000000000, 2, 6") + bytes(64))
    (folder / "negative_header.npy").write_bytes(_header(shape % "-1, 2, 6") + bytes(64))
    (folder / "code_header.npy").write_bytes(_header("__import__('os').getpid()") + bytes(64))
    with zipfile.ZipFile(folder / "huge.npz", "w") as archive:
        for name in ("X", "Y", "y", "omega", "V"):
            archive.writestr(f"{name}.npy", _header(shape % "1000000000, 2, 6") + bytes(64))
    with zipfile.ZipFile(folder / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("X", "Y", "y", "omega", "V"):
            archive.writestr(f"{name}.npy", _header(shape % "16, 2, 2") + bytes(20_000_000))


def _odd_texts(folder: Path) -> None:
    texts = {
        "nested.json": '{"y": ' + "[" * 100_000,
        "nan.json": '{"y": [[NaN, 1], [1, 0]], "omega": [[0, Infinity]], "V": [[1e999]]}',
        "digits.json": '{"y": [[0.7, 0.3], [0.2, 0.8]], "omega": [[0, 0]], "V": [[' + "1" * 10_000 + "]]}",
        "keys.json": '{"y": 1, "omega": {"a": 2}, "V": null}',
        "numbers.json": "[1, 2, 3]",
        "nested.toml": "task = " + "[" * 100_000,
        "large.toml": 'task = "threshold"\n[axes]\nskip = { linspace = [0, 1, 999999999999] }\n',
        "nan.toml": 'task = "threshold"\n[fixed]\nskip = nan\n[axes]\ntokens = [2, 1e400]\n',
        "wrong.toml": 'task = ["threshold"]\nfixed = 3\naxes = { a = [[[1]]] }\n',
        "axis.toml": 'task = "threshold"\n[axes]\nlayers = ["a", -1, ' + "9" * 5000 + "]\n",
        "empty.npy": "",
        "empty.npz": "",
        "empty.json": "",
        "empty.toml": "",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    for name in ("bytes.json", "bytes.toml"):
        (folder / name).write_bytes(b'\xff\xfe{"y"\x00: 1}')
