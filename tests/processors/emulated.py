"""Run a command as another x86-64 processor would: each library takes the code that it has for that one.

python tests/processors/emulated.py haswell -- command ..     runs the command
python tests/processors/emulated.py --list                    prints the processors, and what this machine lacks for one
python tests/processors/emulated.py --choose TEXT             prints the one that a text, a commit's hash, falls on

Five libraries choose code by the processor, and sums, products and functions of float64 then differ in their last bits:

- OpenBLAS (of NumPy and of SciPy) takes the kernels of `OPENBLAS_CORETYPE`;
- numba compiles for `NUMBA_CPU_NAME`; without `NUMBA_CPU_FEATURES` it adds all that the machine's own processor has;
- NumPy leaves out the loops of `NPY_DISABLE_CPU_FEATURES`, which may name those alone that it has and would take;
- the C library has variants of exp, log, sin and others, with AVX2 and fused products: `GLIBC_TUNABLES` hides these;
- XLA (of jax) compiles for `--xla_cpu_max_isa`.

FLINT and GMP choose code, too, for integers: their results do not depend on it.
"""

import argparse
import ast
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

__all__ = ["PROCESSORS", "Processor", "choose", "emulation", "lacking"]

_CACHES = Path(__file__).resolve().parents[2] / "build" / "processors"

# Extensions by NumPy's names, each set with those before it.
_SSE4 = frozenset({"SSE", "SSE2", "SSE3", "SSSE3", "SSE41", "POPCNT", "SSE42", "X86_V2"})
_AVX = _SSE4 | {"AVX"}
_AVX2 = _AVX | {"F16C", "FMA3", "AVX2", "X86_V3"}
_AVX512 = _AVX2 | {"AVX512F", "AVX512CD", "AVX512_SKX", "X86_V4"}
# Those for which the C library has variants of its functions, by its names.
_OF_LIBC = {"AVX": "AVX", "AVX2": "AVX2", "FMA3": "FMA", "FMA4": "FMA4", "AVX512F": "AVX512F"}
_FEATURES = "from numpy._core import _multiarray_umath as m; print([m.__cpu_dispatch__, m.__cpu_features__])"


class Processor(NamedTuple):
    """A processor by the names that the libraries have for it, and what a machine must have to emulate it."""

    name: str
    blas: str
    compiled: str
    isa: str
    has: frozenset[str]
    needs: frozenset[str]
    without: str = ""


#: By name, oldest first. NumPy asks for SSE4.2: of the first, BLAS and compiled code alone have none of it.
PROCESSORS: dict[str, Processor] = {
    one.name: one
    for one in (
        Processor("prescott", "Prescott", "nocona", "SSE4_2", _SSE4, frozenset()),
        Processor("nehalem", "Nehalem", "nehalem", "SSE4_2", _SSE4, frozenset({"sse4_2", "popcnt"})),
        Processor("sandybridge", "Sandybridge", "sandybridge", "AVX", _AVX, frozenset({"avx"})),
        Processor("haswell", "Haswell", "haswell", "AVX2", _AVX2, frozenset({"avx2", "fma", "bmi2"})),
        Processor(
            "skylake-avx512",
            "SkylakeX",
            "skylake-avx512",
            "AVX512",
            _AVX512,
            frozenset({"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}),
        ),
        # Intel's processors have no SSE4A, by which LLVM moves bits of integers.
        Processor("zen", "Zen", "znver1", "AVX2", _AVX2, frozenset({"avx2", "fma", "bmi2"}), "-sse4a"),
    )
}


@cache
def _machine() -> frozenset[str]:
    """Extensions of this machine's processor by the names of Linux."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), ()))


@cache
def _of_numpy() -> tuple[str, ...]:
    """Extensions for which NumPy has loops of its own that this machine's processor runs."""
    plain = {k: v for k, v in os.environ.items() if k != "NPY_DISABLE_CPU_FEATURES"}
    done = subprocess.run([sys.executable, "-c", _FEATURES], env=plain, capture_output=True, text=True, check=True)
    dispatched, found = ast.literal_eval(done.stdout)
    return tuple(name for name in dispatched if found.get(name))


def lacking(processor: Processor) -> str:
    """Sentence on what this machine lacks to emulate a processor; empty where it lacks nothing."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return f"{processor.name} is left out: emulation is of x86-64 under Linux, and this is {platform.platform()}"
    missing = sorted(processor.needs - _machine())
    return f"{processor.name} is left out: this machine's processor has no {', '.join(missing)}" if missing else ""


def emulation(processor: Processor, environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that a command is to have beside those of an environment, or in their place.

    Compiled kernels have a folder of their own, under build/processors.
    """
    hidden = [name for ours, name in _OF_LIBC.items() if ours not in processor.has]
    # Before glibc 2.33 the names ended so; those it does not know it passes over.
    tunable = "glibc.cpu.hwcaps=" + ",".join(f"-{name},-{name}_Usable" for name in hidden)
    return {
        "OPENBLAS_CORETYPE": processor.blas,
        "NUMBA_CPU_NAME": processor.compiled,
        "NUMBA_CPU_FEATURES": processor.without,
        "NUMBA_CACHE_DIR": str(_CACHES / processor.name),
        "NPY_DISABLE_CPU_FEATURES": " ".join(name for name in _of_numpy() if name not in processor.has),
        "GLIBC_TUNABLES": tunable,
        "XLA_FLAGS": f"{environment.get('XLA_FLAGS', '')} --xla_cpu_max_isa={processor.isa}".strip(),
    }


def choose(text: str) -> Processor:
    """One of the processors that this machine can emulate, the same for the same hexadecimal number."""
    able = [one for one in PROCESSORS.values() if not lacking(one)]
    if not able:
        raise ValueError(lacking(PROCESSORS["prescott"]))
    return able[int(text, 16) % len(able)]


def main(words: list[str]) -> int:
    """Do what the command line asks for; a command takes the place of this process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", nargs="?", choices=PROCESSORS, help="the processor")
    parser.add_argument("--list", action="store_true", help="print the processors")
    parser.add_argument("--choose", metavar="TEXT", help="print the processor that a hexadecimal number falls on")
    own, command = words, []
    if "--" in words:
        own, command = words[: words.index("--")], words[words.index("--") + 1 :]
    asked = parser.parse_args(own)
    if asked.list:
        print("\n".join(lacking(one) or one.name for one in PROCESSORS.values()))
    elif asked.choose:
        print(choose(asked.choose).name)
    elif asked.name is None or not command:
        parser.error("expected a processor, -- and a command")
    elif said := lacking(PROCESSORS[asked.name]):
        print(said, file=sys.stderr)
        return 1
    else:
        os.execvpe(command[0], command, {**os.environ, **emulation(PROCESSORS[asked.name], os.environ)})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
