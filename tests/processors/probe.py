"""Print what the libraries take this processor for, as a JSON object."""

import hashlib
import json
import math
import re

import numpy as np
import scipy.linalg  # noqa: F401 -- brings its own BLAS
from numba import njit
from numpy._core import _multiarray_umath
from threadpoolctl import threadpool_info

__all__ = ["probe"]


@njit(fastmath=True)
def _filled(a, b, c, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = a[i] * b[i] + c[i]


def probe() -> dict[str, object]:
    """Kernels of each BLAS, registers and fused products of compiled code, loops of NumPy, values of the C library."""
    rows = [np.arange(8.0) for _ in range(4)]
    _filled(*rows)
    (assembly,) = _filled.inspect_asm().values()
    exponentials = np.array([math.exp(-k / 997) for k in range(1, 20000)])
    return {
        "blas": sorted({one["architecture"] for one in threadpool_info() if one["internal_api"] == "openblas"}),
        "registers": sorted(set(re.findall(r"[xyz]mm(?=\d)", assembly))),
        "fused": "vfmadd" in assembly,
        "loops": [name for name in _multiarray_umath.__cpu_dispatch__ if _multiarray_umath.__cpu_features__[name]],
        "exponentials": hashlib.sha256(exponentials.tobytes()).hexdigest(),
    }


if __name__ == "__main__":
    print(json.dumps(probe()))
