"""All kernel packages: those that are committed, those that the tests derive, and that of any model on demand."""

import functools
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

from ..aim import kernels as aim_kernels
from ..architecture import Architecture
from ..emit.files import write_whole
from ..emit.writer import package_files
from . import linear_m2 as kernels_linear_m2
from . import pair_m2 as kernels_pair_m2
from . import softmax_m2 as kernels_softmax_m2
from . import untied_m2 as kernels_untied_m2
from .fibre import fibre_package
from .kernel import KernelPackage
from .link import link_package

__all__ = ["FIBRES", "LINKS", "PACKAGES", "derived", "write_link_package", "write_package"]

#: Models whose links the tests derive: one of every kind, and the deeper and wider ones of the tied model.
LINKS: tuple[Architecture, ...] = (
    Architecture(layers=1, tokens=2, tied=False),
    Architecture(layers=2, tokens=2, tied=False),
    Architecture(layers=2, tokens=2, output="sequence"),
    Architecture(layers=2, tokens=2, heads=2),
    Architecture(layers=2, tokens=2, ranks=2),
    Architecture(layers=3, tokens=3),
    Architecture(layers=2, tokens=4),
)

#: Models of which the tests derive the fibre: what the output leaves free is a rotation, a rotation and a shift, a
#: scale, a scale and a shift.
FIBRES: tuple[Architecture, ...] = (
    Architecture(layers=1, tokens=3, ranks=2),
    Architecture(layers=1, tokens=2, ranks=2),
    Architecture(layers=1, tokens=2, activation="linear", tied=False),
    Architecture(layers=1, tokens=2, tied=False),
)

#: What numerics loads, committed in ``generated/``.
PACKAGES: tuple[KernelPackage, ...] = (
    kernels_softmax_m2.PACKAGE,
    kernels_pair_m2.PACKAGE,
    kernels_untied_m2.PACKAGE,
    kernels_linear_m2.PACKAGE,
    aim_kernels.PACKAGE,
)


@functools.cache
def derived() -> tuple[KernelPackage, ...]:
    """Return what only tests load: they derive it, and the manifest holds the hashes of its files."""
    return (*(link_package(model) for model in LINKS), *(fibre_package(model) for model in FIBRES))


def write_link_package(model: Architecture, folder: str | Path, progress: Callable[[str], None] | None = None) -> Path:
    """Derive, prove and print the link and the Jacobian of one model into a folder anywhere.

    Parameters
    ----------
    model : Architecture
    folder, progress
        As for `write_package`.

    Returns
    -------
    pathlib.Path
        As for `write_package`.

    Raises
    ------
    ValueError
        If the model's activation cannot be printed.
    ProofError
        If a printed form does not equal its derivation.
    """
    return write_package(link_package(model), folder, progress)


def write_package(package: KernelPackage, folder: str | Path, progress: Callable[[str], None] | None = None) -> Path:
    """Prove and print one package into a folder anywhere.

    Parameters
    ----------
    package : KernelPackage
    folder : str or pathlib.Path
        Made if it does not exist.
    progress : callable, optional
        Called with a line of text: the seconds of every stage.

    Returns
    -------
    pathlib.Path
        The package, a folder ``<name>_<first 16 digits of the derivation hash>_<32 of the hash of its files>`` with
        the modules ``numpy64``, ``numba64`` and ``mp``.  What is there already and is the same is left untouched; every
        file appears whole, so that processes may share the folder.

    Raises
    ------
    ProofError
        If a printed form does not equal its derivation.
    """
    digest, files = package_files(package, progress)
    target = Path(folder) / f"{package.name}_{digest[:16]}_{_content(files)[:32]}"
    target.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = target / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        write_whole(path, text)
    return target


def _content(files: Mapping[str, str]) -> str:
    """Hash of the files of a package, as `load_package` of the numerics takes it before it executes one."""
    lines = (f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n" for name, text in sorted(files.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()
