"""What does not fit into memory is refused before it is taken, in one line that names the flags; what fits, fits."""

import math
import time
import tracemalloc

import numpy as np
import pytest

from attnlimits.numerics.aim import data as aim_data
from attnlimits.numerics.core import memory
from attnlimits.numerics.learning import data as gamp_data
from attnlimits.numerics.multihead import size as multihead_size

TOO_LARGE = {
    "gamp --layers 1 --alpha 1 --dimension 200000": "--dimension 200000 at --alpha 1 would take 298 GiB",
    "gamp --layers 1 --alpha 1 --dimension 100 --tokens 100000000000": "--dimension 100 at --alpha 1 would take",
    "gamp --layers 1 --alpha 1e12 --dimension 100": "--alpha 1e+12 would take",
    "gamp --layers 1 --alpha 1e-300 --dimension 1000000000000": "--dimension 1000000000000 at",
    'gamp --link "h[1]**2" --alpha 1 --dimension 10000000': "--dimension 10000000 at",
    "descend --layers 1 --alpha 1 --dimension 200000": "--dimension 200000 at --alpha 1 would take",
    "descend --alpha 1 --dimension 10 --tokens 100000000000": "--dimension 10 at --alpha 1 would take",
    "make-data --layers 1 --alpha 1e12 --dimension 100 --out none": "--dimension 100 at --alpha 1e+12 would take",
    "make-data --alpha 1 --dimension 10 --tokens 100000000000 --out none": "--dimension 10 at --alpha 1 would take",
    "aim amp --rho 0.5 --alpha 0.1 --dimension 200000": "--dimension 200000 at --alpha 0.1 with --tokens 2 would take",
    "aim amp --rho 0.5 --alpha 0.1 --dimension 60 --tokens 100000000000": "--tokens 100000000000 would take",
    "multihead demo --samples 1000000000000": "--samples 1000000000000 --seq 2 --dim 8 --heads 2 would take",
    "multihead demo --dim 1000000": "--dim 1000000",
    "multihead demo --seq 10000000": "--seq 10000000",
    "multihead demo --heads 1000000000": "--heads 1000000000",
    "multihead hardness --samples 100000000000": "samples = 100000000000",
    "multihead hardness --dim 10000000": "dim = 10000000",
    "trec --made --questions 1000000000000": "--questions",
    "trec --write-corpus none --questions 100000000000": "--questions",
}


@pytest.mark.parametrize("command", TOO_LARGE)
def test_what_is_too_large(attnlimits, monkeypatch, command):
    monkeypatch.setattr(memory, "memory_limit", lambda: 1 << 34)
    begin = time.process_time()
    said = attnlimits(command)
    assert (said.status, said.out, len(said.lines_of_error)) == (1, "", 1), said.err
    assert TOO_LARGE[command] in said.err and "of memory, and 16 GiB may be taken here; " in said.err
    assert time.process_time() - begin < 10


@pytest.mark.parametrize(
    ("module", "command"),
    [
        (gamp_data, "gamp --layers 1 --alpha 2 --dimension 1000 --seeds 1 --max-iter 2 --workers 1"),
        (gamp_data, "gamp --layers 1 --tokens 6 --alpha 500 --dimension 12 --seeds 1 --max-iter 2 --workers 1"),
        (gamp_data, "descend --layers 1 --alpha 2 --dimension 1000 --seeds 1 --epochs 1 --workers 1"),
        (aim_data, "aim amp --rho 0.5 --alpha 0.02 --dimension 300 --seeds 1 --max-iter 2"),
        (multihead_size, "multihead demo --samples 3000 --starts 1 --noise 0.3"),
    ],
)
def test_what_is_estimated_is_taken(attnlimits, monkeypatch, module, command):
    """Not less than what arrays take, and not much more."""
    sizes = []
    monkeypatch.setattr(module, "refuse_memory", lambda what, size, remedy: sizes.append(size))
    attnlimits(command + " --json")  # what is compiled and imported takes memory too
    tracemalloc.start()
    attnlimits(command + " --json")
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert max(sizes) / 8 < taken < 1.1 * max(sizes)


@pytest.mark.parametrize(
    "command",
    [
        "gamp --layers 1 --x X --y Y",
        "descend --layers 1 --x X --y Y",
        "aim amp --rho 0.5 --x X --y Y",
        "aim denoise --rho 0.5 --delta 0.1 --y S",
        "multihead fit --x X --y X",
    ],
)
def test_large_files_that_take_no_disk(attnlimits, tmp_path, monkeypatch, command):
    """Files with holes: mapped they cost nothing, but what a run keeps of them does."""
    monkeypatch.setattr(memory, "memory_limit", lambda: 1 << 30)
    shapes = {"X": (1 << 28, 2, 3), "Y": (1 << 28, 2, 2), "S": (1 << 15, 1 << 15)}
    for name, shape in shapes.items():
        if f" {name}" in command:
            with (tmp_path / f"{name}.npy").open("wb") as stream:
                header = {"descr": "<f4", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(stream, header)
                stream.truncate(stream.tell() + 4 * math.prod(shape))
            command = command.replace(f" {name}", f" {tmp_path / name}.npy")
    begin = time.process_time()
    said = attnlimits(command)
    assert (said.status, said.out, len(said.lines_of_error)) == (1, "", 1), said.err
    assert "of memory, and 1 GiB may be taken here; " in said.err
    assert time.process_time() - begin < 10
