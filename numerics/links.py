"""Kernels of the user's own links: load them from the cache or from a path."""

import hashlib
import importlib.util
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .cache import cache_folder
from .errors import KernelNotFoundError

__all__ = ["FORMAT", "LinkKernel", "Region", "load_link", "remember", "stored_kernel"]

Array = NDArray[np.float64]
Entries = Sequence[Array]

#: Layout of the kernel modules that this version reads.
FORMAT = 1


@dataclass(frozen=True)
class Region:
    """Part of the space of h on which the link is smooth; entries of h are counted token by token.

    Attributes
    ----------
    constant : tuple of float or None
        Outputs, where they do not vary.
    bounds : dict
        Open intervals of single entries.
    depends : tuple of int
        Entries in the output.
    active : tuple of int
        Entries in the output or in a condition on several entries.
    output : callable
        Outputs from the entries.
    conditions : callable or None
        Functions of the entries, all positive on the region.
    branches : dict
        For an entry: how many solutions of y = g(h), the solutions (NaN where not real), and the slope dg/dh.
    critical : tuple of float
        Values of y at which densities are not smooth.
    centres : dict
        Values of entries at critical points.
    """

    constant: tuple[float, ...] | None
    bounds: dict[int, tuple[float, float]]
    depends: tuple[int, ...]
    active: tuple[int, ...]
    output: Callable[[Entries], tuple[Array, ...]]
    conditions: Callable[[Entries], tuple[Array, ...]] | None
    branches: dict[int, tuple[int, Callable[[Array, Entries], tuple[Array, ...]], Callable[[Entries], tuple[Array]]]]
    critical: tuple[float, ...]
    centres: dict[int, tuple[float, ...]]

    def interval(self, entry: int) -> tuple[float, float]:
        """Bounds of one entry."""
        return self.bounds.get(entry, (-math.inf, math.inf))


@dataclass(frozen=True)
class LinkKernel:
    """A link of the user's own, as derived.

    Attributes
    ----------
    text : tuple of str
        Outputs.
    indices, tokens : int
        P and M.
    noise : float
        Variance of the noise of every output.
    kind : {"discrete", "real", "mixed"}
    exact : str or None
        Closed form of alpha_c; `exact_value` is its value (0 and inf included), `reason` why it holds.
    flips : tuple of tuple of int
        Changes of sign of the entries of h that leave the link as it is.
    regions : tuple of Region
    kernel_hash : str
    path : Path
    """

    text: tuple[str, ...]
    indices: int
    tokens: int
    noise: float
    kind: str
    exact: str | None
    exact_value: float | None
    reason: str
    flips: tuple[tuple[int, ...], ...]
    regions: tuple[Region, ...]
    kernel_hash: str
    path: Path
    outputs: Callable[[ArrayLike], Array]

    @property
    def size(self) -> int:
        """Number of entries of h, P M."""
        return self.indices * self.tokens

    def describe(self) -> str:
        """Return one line that names the link."""
        noise = f" + noise of variance {self.noise:g}" if self.noise else ""
        return f"y = {'; '.join(self.text)}{noise}, P={self.indices}, M={self.tokens}"

    def link(self, h: ArrayLike) -> Array:
        """Outputs g(h) without noise.

        Parameters
        ----------
        h : array_like, shape (..., P, M)

        Returns
        -------
        ndarray, shape (..., K)
        """
        array = np.asarray(h, dtype=np.float64)
        if array.ndim < 2 or array.shape[-2:] != (self.indices, self.tokens):
            raise ValueError(
                f"h must have shape (..., P, M) = (..., {self.indices}, {self.tokens}), got {array.shape} (1)"
            )
        if not np.isfinite(array).all():
            raise ValueError("h must be finite, got NaN or infinity")
        return self.outputs(array)


def load_link(path: Path) -> LinkKernel:
    """Load a kernel that `attnlimits derive --link` wrote.

    Raises
    ------
    KernelNotFoundError
        No such file, or written by a version with another layout.
    """
    if not path.is_file():
        raise KernelNotFoundError(f"no link kernel at {path}; `attnlimits derive --link EXPR` writes one")
    spec = importlib.util.spec_from_file_location(f"attnlimits_link_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise KernelNotFoundError(f"{path} is no Python module; expected a kernel that `attnlimits derive` wrote")
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if getattr(module, "FORMAT", None) != FORMAT:
        raise KernelNotFoundError(f"{path} has another layout than this version reads; derive the link again")
    return LinkKernel(
        text=tuple(module.TEXT),
        indices=module.INDICES,
        tokens=module.TOKENS,
        noise=module.NOISE,
        kind=module.KIND,
        exact=module.EXACT,
        exact_value=module.EXACT_VALUE,
        reason=module.REASON,
        flips=module.FLIPS,
        regions=tuple(Region(**region) for region in module.REGIONS),
        kernel_hash=module.DERIVATION_HASH,
        path=path,
        outputs=module.link,
    )


@cache
def _derivation() -> str:
    """Digest of the sources that derive links, and the version of SymPy; neither is imported for it."""
    found = importlib.util.find_spec("attnlimits.derive")
    assert found is not None and found.submodule_search_locations
    folder = Path(next(iter(found.submodule_search_locations)))
    digest = hashlib.sha256(metadata.version("sympy").encode())
    for path in sorted([*folder.glob("link*.py"), folder / "primitives.py", folder / "emit" / "link_source.py"]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _request(text: str, tokens: int | None, indices: int | None, noise: str) -> str:
    # Spaces do not matter to the grammar, so neither here.
    # What derives the kernel belongs to the request: another version may answer otherwise.
    key = json.dumps([FORMAT, _derivation(), " ".join(text.split()), tokens, indices, noise])
    return hashlib.sha256(key.encode()).hexdigest()


def stored_kernel(text: str, tokens: int | None, indices: int | None, noise: str) -> Path | None:
    """Return the kernel that this request was answered with before, if it is still in the cache."""
    folder = cache_folder("links")
    note = folder / "requests" / _request(text, tokens, indices, noise)
    if not note.is_file():
        return None
    path = folder / f"{note.read_text(encoding='utf-8').strip()}.py"
    return path if path.is_file() else None


def remember(text: str, tokens: int | None, indices: int | None, noise: str, kernel_hash: str) -> None:
    """Note which kernel answers a request."""
    note = cache_folder("links") / "requests" / _request(text, tokens, indices, noise)
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(kernel_hash + "\n", encoding="utf-8")
