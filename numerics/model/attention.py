"""A model with its numbers, its link, and the generated kernels that serve it."""

import hashlib
import importlib
import pkgutil
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlimits import generated

from ..core.errors import KernelNotFoundError
from ..core.identity import source_hash
from ..core.memory import refuse_memory
from ..core.validation import choice, positive, whole
from . import networks
from .networks import ACTIVATIONS, Network

__all__ = ["ACTIVATIONS", "Attention", "available_kernels", "kernel", "kernel_modules", "load_package"]

Array = NDArray[np.float64]

# The generated packages, by (activation, tokens).
_KERNELS = {
    ("softmax", 2): "attention_tied_softmax_m2",
    ("linear", 2): "attention_tied_linear_m2",
}
_PRINTINGS = ("numpy64", "numba64", "mp", "posterior64")
# Where no kernel was generated: the posterior of one layer, and of several.
_ONE_LAYER = "attnlimits.numerics.posterior.fibres"
_SEVERAL_LAYERS = "attnlimits.numerics.posterior.sampled"


@dataclass(frozen=True)
class Attention:
    """Tied deep attention (2)-(7) as a sequence multi-index model.

    y = sigma(beta v_L^T v_L) with v_l = h_l B_{l-1}^T and
    B_l = [c I + sigma(beta v_l^T v_l)] B_{l-1}, B_0 = I; the indices are h = W x / sqrt(D).

    Parameters
    ----------
    layers : int
        Depth L >= 1.
    tokens : int
        Sequence length M >= 2.
    rank : int or tuple of int
        Rank of every layer, or one rank per layer; each >= 1.
    skip : float
        Strength c > 0 of the skip connection.
    beta : float
        Inverse temperature > 0; the activation acts on beta v^T v.
    activation : {"softmax", "linear"}
        Row-wise softmax, or the identity.

    Raises
    ------
    ValueError
        An argument is outside its range; the message names it.

    References
    ----------
    troiani2025, (2)-(7).
    """

    layers: int = 2
    tokens: int = 2
    rank: int | tuple[int, ...] = 1
    skip: float = 1.0
    beta: float = 1.0
    activation: str = "softmax"

    def __post_init__(self) -> None:
        """Validate and normalise the fields."""
        layers = whole("layers", self.layers, 1, "(2)")
        # Before a tuple of all ranks is made.
        refuse_memory(f"layers = {layers} (overlaps of every two layers)", 8 * layers**2, "take fewer layers")
        set_ = object.__setattr__
        set_(self, "layers", layers)
        set_(self, "tokens", whole("tokens", self.tokens, 2, "(1)"))
        ranks = self.rank if isinstance(self.rank, tuple) else (self.rank,) * layers
        if len(ranks) != layers:
            raise ValueError(f"rank must be one integer or one per layer: got {len(ranks)} for L = {layers}")
        ranks = tuple(whole("rank", r, 1, "(2)") for r in ranks)
        set_(self, "rank", ranks[0] if len(set(ranks)) == 1 else ranks)
        set_(self, "skip", positive("skip", self.skip, "(2)-(3)"))
        set_(self, "beta", positive("beta", self.beta, "(3)"))
        choice("activation", self.activation, ACTIVATIONS, "(3)")

    @property
    def ranks(self) -> tuple[int, ...]:
        """Rank of each layer, first layer first."""
        return self.rank if isinstance(self.rank, tuple) else (self.rank,) * self.layers

    @property
    def indices(self) -> int:
        """Number P of indices: the sum of the ranks."""
        return sum(self.ranks)

    @property
    def parameters(self) -> dict[str, object]:
        """What defines the model, by the names of the flags of the command."""
        return {
            "layers": self.layers,
            "tokens": self.tokens,
            "rank": self.rank,
            "skip": self.skip,
            "beta": self.beta,
            "activation": self.activation,
            "untied": False,
        }

    def describe(self) -> str:
        """Return one line that names the model."""
        rank = self.rank if isinstance(self.rank, int) else ",".join(map(str, self.rank))
        return (
            f"tied {self.activation} attention, L={self.layers}, M={self.tokens}, rank {rank}, "
            f"c={self.skip:g}, beta={self.beta:g}"
        )

    @cached_property
    def _network(self) -> Network:
        return Network(self.layers, self.tokens, self.ranks, skip=self.skip, beta=self.beta, activation=self.activation)

    def mixing(self, h: ArrayLike) -> Array:
        """Mixing matrix B_{L-1}(h) of the last layer (5).

        Parameters
        ----------
        h : array_like, shape (..., P, M)
            Indices; the rows of the last layer do not enter.

        Returns
        -------
        ndarray, shape (..., M, M)
        """
        return networks.mixing(h, self._network)

    def link(self, h: ArrayLike) -> Array:
        """Output y = g(h) (6)-(7).

        Parameters
        ----------
        h : array_like, shape (..., P, M)
            Indices h = W x / sqrt(D).

        Returns
        -------
        ndarray, shape (..., M, M)

        Raises
        ------
        ValueError
            If h has another shape or an entry is not finite.
        OverflowError
            If the output exceeds float64, which the linear activation can reach.
        """
        return networks.link(h, self._network)

    @cached_property
    def kernel_hash(self) -> str:
        """Derivation hash of the generated kernel of the model; where there is none, hash of its link and posterior."""
        if _has_kernel(self):
            return str(importlib.import_module(_kernel_package(self.activation, self.tokens)).DERIVATION_HASH)
        return source_hash(networks.__name__, _ONE_LAYER if self.layers == 1 else _SEVERAL_LAYERS)


def _has_kernel(model: Attention) -> bool:
    """Whether a kernel of the model was generated."""
    return (model.activation, model.tokens) in _KERNELS and set(model.ranks) == {1}


def kernel_modules(activation: str, tokens: int) -> tuple[str, ...]:
    """Full names of the modules of the generated kernel of tied attention; none where there is no kernel."""
    if (activation, tokens) not in _KERNELS:
        return ()
    package = _kernel_package(activation, tokens)
    return (package, *(f"{package}.{printing}" for printing in _PRINTINGS))


def _kernel_package(activation: str, tokens: int) -> str:
    return f"{generated.__name__}.{_KERNELS[activation, tokens]}"


def available_kernels() -> list[dict[str, object]]:
    """List the generated packages: name, title, activation, tokens, derivation hash, paper and its equations."""
    out: list[dict[str, object]] = []
    for found in sorted(pkgutil.iter_modules(generated.__path__), key=lambda module: module.name):
        if not found.ispkg:
            continue
        package = importlib.import_module(f"{generated.__name__}.{found.name}")
        out.append(
            {
                "name": found.name,
                "title": (package.__doc__ or "").splitlines()[0].rstrip("."),
                "activation": package.ACTIVATION,
                "tokens": package.TOKENS,
                "hash": package.DERIVATION_HASH,
                "paper": package.PAPER,
                "equations": list(package.EQUATIONS),
            }
        )
    return out


def load_package(place: str | Path, printer: str) -> ModuleType:
    """Load one printing of a generated package by its name, or by its folder if `attnlimits derive` wrote it.

    Parameters
    ----------
    place : str or path
        Name of a package of `available_kernels`, or the folder that `attnlimits derive --layers ..` printed.
    printer : {"numpy64", "numba64", "mp"}
        Which printing of it.

    Returns
    -------
    module
        With the functions that the docstring of the package lists, such as `link` and `jacobian`.

    Raises
    ------
    KernelNotFoundError
        No such package, or it has no such printing; the message lists what exists. Or a folder whose files were
        changed since they were written.
    """
    names = [str(entry["name"]) for entry in available_kernels()]
    file = Path(place) / f"{printer}.py"
    if str(place) in names and printer in ("numpy64", "numba64", "mp"):
        return importlib.import_module(f"{generated.__name__}.{place}.{printer}")
    if not file.is_file():
        raise KernelNotFoundError(
            f"no printing {printer!r} of a package {str(place)!r}; printings: numpy64, numba64, mp; "
            f"generated packages: {', '.join(names)}"
        )
    # The name makes its compiled functions kernels of this package, whose machine code is kept with a checksum; to load
    # that, numba looks the module up by its name.
    module = ModuleType(f"{generated.__name__}.{file.parent.resolve().name}.{printer}")
    module.__file__ = str(file)
    code = compile(_checked(file), str(file), "exec")
    sys.modules[module.__name__] = module
    exec(code, module.__dict__)
    return module


def _checked(file: Path) -> bytes:
    """Source of a printing, if the name of its folder ends with the hash of what the folder holds."""
    sources = {path.name: path.read_bytes() for path in sorted(file.parent.glob("*.py"))}
    lines = (f"{hashlib.sha256(source).hexdigest()}  {name}\n" for name, source in sources.items())
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    if file.parent.resolve().name.rpartition("_")[2] != digest[:32]:
        raise KernelNotFoundError(
            f"{file.parent} is not what `attnlimits derive` wrote: its name must end with the hash of its files; "
            "derive the package again"
        )
    return sources[file.name]


def kernel(model: Attention, printer: str) -> ModuleType:
    """Load the generated kernel of a model.

    Parameters
    ----------
    model : Attention
    printer : {"numpy64", "numba64", "mp", "posterior64"}
        Which printing of it.

    Raises
    ------
    KernelNotFoundError
        No kernel was generated for this architecture; the message lists what exists.
    """
    if not _has_kernel(model):
        have = "; ".join(f"{a}, M={m}, rank 1, any depth" for a, m in _KERNELS)
        raise KernelNotFoundError(f"no kernel for {model.describe()}; generated so far: {have}")
    return importlib.import_module(f"{_kernel_package(model.activation, model.tokens)}.{printer}")
