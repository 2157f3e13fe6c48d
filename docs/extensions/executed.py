"""The blocks of a page that are executed, and the lines that draw a figure of a paper: without Sphinx."""

import ast
import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from typing import Any

__all__ = ["blocks", "drawing", "execute"]

FENCE = re.compile(r"^```\{run\} (\w+)\n(.*?)^```$", re.M | re.S)
_DRAWING = """\
from attnlimits.numerics.core.plots import styled
from attnlimits.numerics.core.results import load
from {module} import FIGURE

record = load(FIGURE.data)  # FIGURE.remake() computes it again
print(*FIGURE.headline(record).lines, sep="\\n")
with styled("paper"):
    picture = FIGURE.draw(record, FIGURE.width)
picture"""


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Language and code of the blocks of a page that are executed."""
    yield from ((found[1], found[2]) for found in FENCE.finditer(text))


def execute(language: str, code: str, names: dict[str, Any]) -> tuple[str, object]:
    """Run a block; return what it printed, and the figure of its last line, if it is one.

    Raises
    ------
    RuntimeError
        A command failed.
    """
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        value = _commands(code) if language == "sh" else _python(code, names)
        figure = getattr(value, "figure", value) if hasattr(value, "savefig") or hasattr(value, "figure") else None
        if value is not None and figure is None:
            print(value)
    return out.getvalue(), figure


def _python(code: str, names: dict[str, Any]) -> object:
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<page>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<page>", "eval"), names) if isinstance(last, ast.Expr) else None


def _commands(code: str) -> None:
    from attnlimits.numerics.cli import main as cli

    for command in code.splitlines():
        with contextlib.redirect_stderr(io.StringIO()) as err:
            if cli.main(shlex.split(command)[1:]) != 0:
                raise RuntimeError(f"{command}: {err.getvalue()}")


def drawing(module: str) -> str:
    """Lines of Python that draw the figure of a module from its stored data, and say what number stands for it."""
    return _DRAWING.format(module=module)
