"""Kernels of the user's own links: what they hold, and how they are loaded."""

import hashlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import KernelNotFoundError
from ..core.shown import few_lines
from .label_noise import LabelNoise, labels_of
from .link_regions import Part, Region, joined

__all__ = ["FORMAT", "LinkKernel", "Loaded", "Part", "Region", "load_link", "load_source"]

Array = NDArray[np.float64]

_ENTRY = re.compile(r"\bh_(\d+)_(\d+)\b")

#: Layout of the kernel modules that this version reads.
FORMAT = 4


@few_lines
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
    steps : dict
        The same pair for the other indices, once those named (counted from 1) are known.
    directions : dict
        PSD eigenvectors of these closed forms, over all indices, none where they are 0 or oo; the empty key is for
        `exact`.
    table : str
        The same link in the table of closed forms, empty if it is not there.
    flips : tuple of tuple of int
        Changes of sign of the entries of h that leave the link as it is.
    parts : tuple of Part
    kernel_hash : str
    path : Path
    outputs : callable
        All outputs from the entries of h.
    source : bytes
        What the kernel was loaded from; a copy for another process is loaded from it again.
    label_noise : LabelNoise or None
        Of discrete outputs, which then are one part: all of them together are one label.
    """

    text: tuple[str, ...]
    indices: int
    tokens: int
    noise: float
    kind: str
    exact: str | None
    exact_value: float | None
    reason: str
    steps: dict[tuple[int, ...], tuple[str, float]]
    directions: dict[tuple[int, ...], tuple[tuple[float, ...], ...]]
    table: str
    flips: tuple[tuple[int, ...], ...]
    parts: tuple[Part, ...]
    kernel_hash: str
    path: Path
    outputs: Callable[[ArrayLike], Array]
    source: bytes = field(repr=False, compare=False)
    label_noise: LabelNoise | None = None

    def __reduce__(self) -> tuple[Callable[[bytes, Path, float], "LinkKernel"], tuple[bytes, Path, float]]:
        """Functions that were compiled from a text travel as the text."""
        return load_source, (self.source, self.path, self.replaced)

    @property
    def replaced(self) -> float:
        """Probability that a label is replaced by another one."""
        return self.label_noise.probability if self.label_noise is not None else 0.0

    @property
    def random(self) -> bool:
        """Whether outputs are random given h."""
        return self.noise > 0 or self.label_noise is not None

    @property
    def regions(self) -> tuple[Region, ...]:
        """Regions of all parts."""
        return tuple(region for part in self.parts for region in part.regions)

    @property
    def size(self) -> int:
        """Number of entries of h, P M."""
        return self.indices * self.tokens

    def entries_of(self, output: int) -> set[int]:
        """Entries of h in an output, counted token by token."""
        return {(int(m) - 1) * self.indices + int(p) - 1 for p, m in _ENTRY.findall(self.text[output])}

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of one output, (K,)."""
        return (len(self.text),)

    @property
    def blocks(self) -> list[tuple[str, slice]]:
        """Names and rows of what is learned as one: single indices."""
        return [(f"index {p + 1}", slice(p, p + 1)) for p in range(self.indices)]

    @property
    def coupled(self) -> bool:
        """Whether the posterior given y alone couples the indices: it may."""
        return True

    @property
    def parameters(self) -> dict[str, object]:
        """What defines the link."""
        named: dict[str, object] = {"link": list(self.text), "indices": self.indices, "tokens": self.tokens}
        named["noise"] = self.noise
        return named | ({"label_noise": self.replaced} if self.label_noise is not None else {})

    def describe(self) -> str:
        """Return one line that names the link."""
        noise = f" + noise of variance {self.noise:g}" if self.noise else ""
        if self.label_noise is not None:
            noise = f", replaced by another label with probability {self.replaced:g}"
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
        # A huge output may overflow: infinite, it still has its place in the order.
        with np.errstate(over="ignore", invalid="ignore"):
            y = self.outputs(array)
        if np.isnan(y).any():
            raise ValueError(f"the link {'; '.join(self.text)} is not defined at some of the h given (1)")
        return y

    def observed(self, y: Array, normals: Array) -> Array:
        """Outputs with their noise, from standard normal numbers of the same shape."""
        if self.label_noise is not None:
            return self.label_noise.observed(y, normals)
        return y + math.sqrt(self.noise) * normals

    def with_label_noise(self, probability: float) -> "LinkKernel":
        """The same link with labels that are replaced by another one with this probability.

        Raises
        ------
        ValueError
            Outputs that are not discrete, or have noise already; or a probability with which labels say nothing.
        """
        if self.kind != "discrete" or self.noise:
            what = "have Gaussian noise" if self.noise else f"are {self.kind}"
            raise ValueError(f"label noise is of discrete outputs, and those of {'; '.join(self.text)} {what}")
        labels = labels_of(self.link, self.indices, self.tokens)
        count = len(labels)
        if not 0 < probability < 1 - 1 / count:
            raise ValueError(
                f"label noise must be >= 0 and less than 1 - 1/K = {1 - 1 / count:.6g} of the K = {count} labels of "
                f"{'; '.join(self.text)}, got {probability:g}"
            )
        # The matrix of the labels is invertible: it keeps what vanishes and what does not, and no other closed form.
        kept = self.exact_value if self.exact_value in (0.0, math.inf) else None
        return replace(
            self,
            exact=None if kept is None else self.exact,
            exact_value=kept,
            steps={learned: step for learned, step in self.steps.items() if step[1] in (0.0, math.inf)},
            table="",
            parts=(joined(self.parts),),
            kernel_hash=hashlib.sha256(f"{self.kernel_hash} {probability!r}".encode()).hexdigest(),
            label_noise=LabelNoise(probability, labels),
        )


@dataclass(frozen=True)
class Loaded:
    """A kernel, which equals any other that was loaded from the same source and has the same noise."""

    source: bytes
    noise: float
    replaced: float
    kernel: LinkKernel = field(compare=False, repr=False)

    @classmethod
    def of(cls, kernel: LinkKernel) -> "Loaded":
        """The kernel as a key of what is kept for it."""
        return cls(kernel.source, kernel.noise, kernel.replaced, kernel)

    def part(self, entries: Sequence[int]) -> Part:
        """The part of the kernel with these entries of h."""
        return next(part for part in self.kernel.parts if sorted(part.entries) == sorted(entries))


def load_link(path: Path) -> LinkKernel:
    """Load a kernel that `attnlimits derive --link` wrote.

    Raises
    ------
    KernelNotFoundError
        No such file, one that was changed since, or one of a version with another layout.
    """
    try:
        source = path.read_bytes()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise KernelNotFoundError(f"no link kernel at {path}; `attnlimits derive --link EXPR` writes one") from None
    if hashlib.sha256(source).hexdigest() != path.stem:
        raise KernelNotFoundError(
            f"{path} is not what `attnlimits derive` wrote: its name must be the sha256 of what it holds; derive the "
            "link again"
        )
    return load_source(source, path)


def load_source(source: bytes, path: Path, replaced: float = 0.0) -> LinkKernel:
    """Execute the source of a kernel that was derived here, or whose hash was checked.

    Parameters
    ----------
    source : bytes
        What was checked, and not what lies at `path` by now; compiled files beside it are not looked at either.
    path : Path
        For messages.
    replaced : float
        Probability that a label is replaced by another one.

    Raises
    ------
    KernelNotFoundError
        Written by a version with another layout.
    """
    module: Any = ModuleType(f"attnlimits_link_{path.stem}")
    module.__file__ = str(path)
    exec(compile(source, str(path), "exec"), module.__dict__)
    if getattr(module, "FORMAT", None) != FORMAT:
        raise KernelNotFoundError(f"{path} has another layout than this version reads; derive the link again")
    kernel = LinkKernel(
        text=tuple(module.TEXT),
        indices=module.INDICES,
        tokens=module.TOKENS,
        noise=module.NOISE,
        kind=module.KIND,
        exact=module.EXACT,
        exact_value=module.EXACT_VALUE,
        reason=module.REASON,
        steps=module.STEPS,
        directions=module.DIRECTIONS,
        table=module.TABLE,
        flips=module.FLIPS,
        parts=tuple(
            Part(**{**part, "regions": tuple(Region(**region) for region in part["regions"])}) for part in module.PARTS
        ),
        kernel_hash=module.DERIVATION_HASH,
        path=path,
        outputs=module.link,
        source=source,
    )
    return kernel.with_label_noise(replaced) if replaced else kernel
