"""The generated kernels: which there are, and how they are loaded."""

import hashlib
import importlib
import importlib.util
import pkgutil
import sys
from pathlib import Path
from types import ModuleType

from attnlimits import generated

from ..core.errors import KernelNotFoundError

__all__ = ["available_kernels", "kernel_modules", "kernel_package", "load_package", "served"]

# The generated packages, by (activation, tokens).
_KERNELS = {
    ("softmax", 2): "attention_tied_softmax_m2",
    ("linear", 2): "attention_tied_linear_m2",
}
_PRINTINGS = ("numpy64", "numba64", "mp", "posterior64")


def served() -> tuple[tuple[str, int], ...]:
    """Activations and numbers of tokens for which a kernel of tied attention of rank 1 was generated."""
    return tuple(_KERNELS)


def kernel_modules(activation: str, tokens: int) -> tuple[str, ...]:
    """Full names of the modules of the generated kernel of tied attention; none where there is no kernel."""
    if (activation, tokens) not in _KERNELS:
        return ()
    package = kernel_package(activation, tokens)
    return (package, *(f"{package}.{printing}" for printing in _PRINTINGS))


def kernel_package(activation: str, tokens: int) -> str:
    """Full name of the generated package of tied attention; KeyError where there is none."""
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
        Which printing of it. Those that numerics loads are committed.

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
    committed = f"{generated.__name__}.{place}.{printer}"
    if str(place) in names and printer in ("numpy64", "numba64", "mp") and importlib.util.find_spec(committed):
        return importlib.import_module(committed)
    if not file.is_file():
        raise KernelNotFoundError(
            f"no printing {printer!r} of a package {str(place)!r}; printings are numpy64, numba64 and mp, of which a "
            "generated package has those that this library loads; "
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
