"""The files of the source tree, and their imports, as the packaging tests see them."""

import ast
import functools
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

# What a source tree without git (an unpacked archive) leaves out by name.
NOT_SOURCE = {".git", ".venv", "build", "dist", "results", "__pycache__"}


@dataclass(frozen=True)
class Import:
    """One imported module: its absolute name, where it stands, and whether importing the file runs it."""

    module: str
    path: str
    line: int
    at_load: bool
    relative: bool

    def within(self, *roots: str) -> bool:
        """Whether the module is one of the roots or inside one."""
        return any(self.module == root or self.module.startswith(root + ".") for root in roots)

    def __str__(self) -> str:
        return f"{self.path}:{self.line} imports {self.module}"


def imports_of(path: Path, repository: Path) -> list[Import]:
    """Return every import of a file, with relative ones resolved and `import_module("name")` included."""
    where = path.relative_to(repository)
    package = ["attnlimits", *where.parent.parts]
    found: list[Import] = []

    def add(module: str, node: ast.AST, at_load: bool, relative: bool = False) -> None:
        found.append(Import(module, where.as_posix(), getattr(node, "lineno", 0), at_load, relative))

    def visit(node: ast.AST, at_load: bool) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                add(alias.name, node, at_load)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *(node.module or "").split(".")]).rstrip(".")
            # `from attnlimits import derive` names a module in its second half.
            for alias in node.names:
                add(f"{stem}.{alias.name}", node, at_load, bool(node.level))
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                add(node.args[0].value, node, at_load)
        inside = at_load and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            visit(child, inside)

    visit(ast.parse(path.read_text(encoding="utf-8"), filename=str(path)), True)
    return found


@pytest.fixture(scope="session")
def read_imports() -> Callable[[Path, Path], list[Import]]:
    """Return `imports_of`."""
    return imports_of


@pytest.fixture(scope="session")
def source_files(repository: Path) -> list[Path]:
    """Every file of the source tree: tracked or new, not ignored."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    if (repository / ".git").exists() and done.returncode == 0:
        files = [repository / name for name in done.stdout.split("\0") if name]
    else:
        files = [path for path in repository.rglob("*") if not NOT_SOURCE & set(path.relative_to(repository).parts)]
    return sorted(path for path in files if path.is_file())


@pytest.fixture(scope="session")
def imports(repository: Path, source_files: list[Path]) -> Callable[[str], Iterator[Import]]:
    """Return a function that gives every import under one of the top-level folders."""

    def under(folder: str) -> Iterator[Import]:
        files = [p for p in source_files if p.suffix == ".py" and p.is_relative_to(repository / folder)]
        assert files, f"no Python file under {folder}/"
        for path in files:
            yield from read(path)

    @functools.cache
    def read(path: Path) -> list[Import]:
        return imports_of(path, repository)

    return under
