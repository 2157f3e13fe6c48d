"""Identity of a computation: a hash of the source text of the modules that have a part in it.

The modules are found from the one that holds the computation by following its import statements, without executing
them. Imports inside functions count as well: the identity changes with every module that may have a part in the result,
and with no other. Contents are hashed, and neither names nor places.
"""

import hashlib
import importlib.util
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from .errors import KernelNotFoundError

__all__ = ["kernel_hash", "route_identity", "source_hash", "sources"]

_DISTRIBUTION = __name__.partition(".")[0]
# To parse all sources takes a third of a second, to search them for these a tenth of that. The tests compare both.
_STATEMENT = re.compile(
    r"^[ \t]*(?:import[ \t]+(?P<modules>[\w., \t]+)"
    r"|from[ \t]+(?P<level>\.*)(?P<base>[\w.]*)[ \t]+import[ \t]*(?P<names>\((?:[^)#]|#[^\n]*)*\)|[^(\n][^\n]*))",
    re.MULTILINE,
)
_DOCSTRING = re.compile(r'"""[\s\S]*?"""')
_COMMENT = re.compile(r"#[^\n]*")
_NAME = re.compile(r"([\w.]+)(?:[ \t]+as[ \t]+\w+)?")
# What a module with compiled functions has in it.
_COMPILED = re.compile(rb"\bnjit\b")
# A module that imports this reads the command line, and has a part in no number.
_COMMAND_LINE = "argparse"


class Import(NamedTuple):
    """An import statement: the module it names, and what may be modules in it."""

    base: str
    inner: tuple[str, ...] = ()

    @property
    def modules(self) -> tuple[str, ...]:
        """All that may be modules; the front door hands out names of all of them, and has a part in no number."""
        inner = (f"{self.base}.{name}" for name in self.inner)
        return tuple(inner) if self.base == _DISTRIBUTION else (self.base, *inner)


@cache
def source_hash(*modules: str) -> str:
    """Hash of the sources of some modules and of all that they import.

    Parameters
    ----------
    modules : str
        Full names.

    Returns
    -------
    str
        SHA-256 in hexadecimal digits; the same wherever the files lie.

    Raises
    ------
    KernelNotFoundError
        A module has no source.
    """
    return _hash(sorted(sources(*modules).values()))


def route_identity(modules: tuple[str, ...], formulas: str = "", *, choosers: tuple[str, ...] = ()) -> str:
    """Identity of a route from a model to its numbers.

    Parameters
    ----------
    modules : tuple of str
        Full names of the modules that hold the computation, and of the generated kernels that are loaded by name.
    formulas : str, optional
        Identity of formulas that no module holds: those of a user's own link.
    choosers : tuple of str, optional
        Full names of modules that choose between this route and others; they count without what they import.

    Raises
    ------
    KernelNotFoundError
        A module has no source.
    """
    chosen = [_read(module, _source(module)).digest for module in choosers]
    return _hash([source_hash(*modules), formulas, chosen])


def kernel_hash(module: str) -> str:
    """Hash of the sources whose functions and constants may be part of the machine code of a module.

    They are the module, what it imports, and what that imports in turn as far as it holds compiled functions or is a
    package, which may hand them on. numba itself looks at the file of the compiled function only.

    Parameters
    ----------
    module : str
        Full name; one without a source in this distribution has the hash of nothing.
    """
    found: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = _file(name)
        if name in found or path is None:
            continue
        read = _read(name, path)
        found[name] = read.digest
        if read.compiled or name == module:
            waiting += [inner for statement in read.ours for inner in statement.modules]
    return _hash(sorted(found.values()))


class _Module(NamedTuple):
    """What the text of a module has in it: `ours` imports from this distribution."""

    digest: str
    ours: tuple[Import, ...]
    reads_command_line: bool
    compiled: bool


@cache
def _read(module: str, path: Path) -> _Module:
    content, package = path.read_bytes(), path.name == "__init__.py"
    statements = list(imports(module, content.decode(), package=package))
    return _Module(
        hashlib.sha256(content).hexdigest(),
        tuple(statement for statement in statements if statement.base.partition(".")[0] == _DISTRIBUTION),
        any(statement.base == _COMMAND_LINE for statement in statements),
        package or _COMPILED.search(content) is not None,
    )


def sources(*modules: str) -> dict[str, str]:
    """Hashes of the sources of some modules and of all modules of this distribution that they import, by name.

    Modules of the command line are left out, and what they alone import, unless they are named here; then they are
    taken without what they import.

    Raises
    ------
    KernelNotFoundError
        A module, or all that an import statement names, has no source: an identity would say nothing about it.
    """
    found: dict[str, str] = {}
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module in found:
            continue
        read = _read(module, _source(module))
        if read.reads_command_line and module not in modules:
            continue
        found[module] = read.digest
        if not read.reads_command_line:
            waiting += _packages(module)
            for statement in read.ours:
                waiting += _modules_of(statement, module)
    if not found:
        raise KernelNotFoundError(f"no sources in this installation for {', '.join(modules) or 'no module'}")
    return found


def imports(module: str, text: str, *, package: bool) -> Iterator[Import]:
    """Import statements of a module, wherever they stand in it.

    Parameters
    ----------
    module : str
        Its full name.
    text : str
        Its source.
    package : bool
        Whether it is the ``__init__`` of a package.
    """
    for statement in _STATEMENT.finditer(_DOCSTRING.sub("", text)):
        if statement["modules"] is not None:
            yield from map(Import, _NAME.findall(statement["modules"]))
            continue
        level = len(statement["level"])
        parts = module.split(".")
        parents = parts[: len(parts) - level + package] if level else []
        base = ".".join([*parents, *filter(None, [statement["base"]])])
        yield Import(base, tuple(_NAME.findall(_COMMENT.sub("", statement["names"]))))


def _modules_of(statement: Import, where: str) -> list[str]:
    known = [module for module in statement.modules if _file(module) is not None]
    if not known:
        raise KernelNotFoundError(f"no source of {statement.base}, which {where} imports; install the package again")
    return known


def _packages(module: str) -> list[str]:
    """Packages around a module, up to the folder of the distribution: they are imported before it."""
    parts = module.split(".")
    around = (".".join(parts[:size]) for size in range(2, len(parts)))
    return [package for package in around if _file(package) is not None]


def _source(module: str) -> Path:
    path = _file(module)
    if path is None:
        raise KernelNotFoundError(f"no source of the module {module} in this installation; install it again")
    return path


def _file(module: str) -> Path | None:
    return _files(".".join(module.split(".")[:2])).get(module)


@cache
def _files(package: str) -> dict[str, Path]:
    """Files of a package of the distribution and of all below it, or of a module beside them, by their names."""
    found = importlib.util.find_spec(package)
    if found is not None and found.submodule_search_locations is None and found.origin:
        return {package: Path(found.origin)}
    files: dict[str, Path] = {}
    for place in (found.submodule_search_locations or ()) if found is not None else ():
        for path in Path(place).rglob("*.py"):
            parts = path.relative_to(place).with_suffix("").parts
            files[".".join([package, *(part for part in parts if part != "__init__")])] = path
    return files


def _hash(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
