"""The directive `run`: a block of Python or of commands, executed when the site is built, with what it shows.

All blocks of a page share their names. The value of a last line that is an expression is shown as in a notebook: a
plot as a picture, all else as text.
"""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from executed import execute
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

__all__ = ["Run", "setup"]

#: Where the pictures go, below the source folder; ignored by git.
PICTURES = "build/pictures"


@contextlib.contextmanager
def inside(folder: str) -> Iterator[None]:
    """Work in a folder."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


class Run(SphinxDirective):
    """Show a block, run it, show what came out."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Run it."""
        language, code = self.arguments[0], "\n".join(self.content)
        state = self.env.temp_data.setdefault("run", {"names": {"__name__": "page"}, "folder": tempfile.mkdtemp()})
        try:
            with inside(state["folder"]):
                printed, figure = execute(language, code, state["names"])
        except Exception as error:
            raise self.error(f"the block fails: {type(error).__name__}: {error}") from error
        shown: list[nodes.Node] = [nodes.literal_block(code, code, language=language)]
        if printed.strip():
            box = nodes.container(classes=["output"])
            box += nodes.literal_block(printed.rstrip(), printed.rstrip(), language="text")
            shown.append(box)
        if figure is not None:
            name = hashlib.sha256(f"{self.env.docname}{self.lineno}".encode()).hexdigest()[:16]
            path = Path(self.env.srcdir, PICTURES, f"{name}.svg")
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, bbox_inches="tight")  # type: ignore[attr-defined]
            shown.append(nodes.image(uri=f"/{PICTURES}/{path.name}", alt=_title(figure)))
        return shown


def _title(figure: Any) -> str:
    """What the axes of a figure show."""
    return "; ".join(f"{axes.get_ylabel()} against {axes.get_xlabel()}" for axes in figure.axes) or "a figure"


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("run", Run)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
