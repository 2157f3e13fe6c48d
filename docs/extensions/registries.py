"""What the registries know: directives `routes`, `equations`, `coverage`, `errata`, `constants` and `figures`."""

import ast
import re
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from docutils import nodes
from executed import drawing
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from attnlimits.numerics.model.routes import ROUTES

__all__ = ["Constants", "Coverage", "Equations", "Errata", "Figures", "Routes", "drawing", "setup"]


def table(head: Sequence[str], rows: Iterable[Sequence[str | nodes.Node]]) -> nodes.table:
    """A table of texts and nodes."""
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=1) for _ in head]
    group += nodes.thead("", _row(head))
    group += nodes.tbody("", *(_row(row) for row in rows))
    return nodes.table("", group, classes=["docutils"])


def _row(cells: Sequence[str | nodes.Node]) -> nodes.row:
    return nodes.row(
        "", *(nodes.entry("", nodes.paragraph("", "", nodes.Text(c) if isinstance(c, str) else c)) for c in cells)
    )


class _FromPapers(SphinxDirective):
    """A directive on papers/."""

    optional_arguments = 1

    @property
    def papers(self) -> Path:
        """Folder of the papers."""
        return Path(self.env.srcdir, "papers")

    def registry(self, citekey: str) -> dict[str, Any]:
        """Equations and errata of a paper; the page is built again when they change."""
        path = self.papers / citekey / "equations.toml"
        self.env.note_dependency(str(path))
        return tomllib.loads(path.read_text(encoding="utf-8"))

    def registries(self) -> dict[str, dict[str, Any]]:
        """Those of all papers, by citekey."""
        found = sorted(self.papers.glob("*/equations.toml"))
        return {path.parent.name: self.registry(path.parent.name) for path in found}


class Routes(SphinxDirective):
    """The routes by verb, in the order of preference."""

    def run(self) -> list[nodes.Node]:
        """Write them."""
        rows = [(route.verb, route.name, route.how, route.note) for route in ROUTES]
        return [table(("what is computed", "route", "error", "limits"), rows)]


class Equations(_FromPapers):
    """Every numbered equation of a paper: formula, status, and what was proved or checked."""

    def run(self) -> list[nodes.Node]:
        """Write them."""
        found: list[nodes.Node] = []
        for entry in self.registry(self.arguments[0])["equation"]:
            number, latex = entry["id"], entry["latex"]
            head = nodes.paragraph("", "", nodes.strong("", f"({number}) {entry['title']}"), ids=[f"equation-{number}"])
            head += nodes.Text(f" · {entry['status']}")
            found += [head, nodes.math_block(latex, latex, nowrap=False, number=None, label=None)]
            note = " ".join(" ".join(entry[key].split()) for key in ("note", "reason") if entry.get(key))
            if note:
                found.append(nodes.paragraph("", note))
        return found


class Coverage(_FromPapers):
    """How many equations of each paper are proved, checked, definitions and prose."""

    def run(self) -> list[nodes.Node]:
        """Count them."""
        kinds = ("proved", "checked", "definition", "prose")
        rows = []
        for citekey, registry in self.registries().items():
            entries = registry["equation"]
            counts = [str(sum(entry["status"] == kind for entry in entries)) for kind in kinds]
            rows.append((citekey, str(len(entries)), *counts, str(len(registry.get("erratum", [])))))
        return [table(("paper", "equations", *kinds, "errata"), rows)]


class Errata(_FromPapers):
    """What is published, what holds, and why we are sure."""

    def run(self) -> list[nodes.Node]:
        """Write them."""
        rows = [
            (citekey, entry["concerns"], entry["published"], entry["correct"], entry["evidence"])
            for citekey, registry in self.registries().items()
            for entry in registry.get("erratum", [])
        ]
        return [table(("paper", "where", "published", "what holds", "evidence"), rows)]


class Constants(_FromPapers):
    """The thresholds of `make constants`, with all their digits."""

    def run(self) -> list[nodes.Node]:
        """Write them."""
        path = self.papers / "troiani2025/constants.toml"
        self.env.note_dependency(str(path))
        keys = ("layers", "tokens", "activation", "skip", "beta")
        constants = tomllib.loads(path.read_text(encoding="utf-8"))["constant"]
        rows = [(*(str(c[key]) for key in keys), nodes.literal("", c["value"]), c["how"]) for c in constants]
        return [table(("layers", "tokens", "activation", "c", "beta", "threshold of the last layer", "error"), rows)]


class Figures(_FromPapers):
    """Every stored figure of a paper: what it shows, the commands that make it again, the lines that draw it."""

    def run(self) -> list[nodes.Node]:
        """Write them."""
        folder = self.papers / self.arguments[0] / "figures"
        found: list[nodes.Node] = []
        for picture in sorted(folder.glob("*.png")):
            source = self._source(picture)
            described = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or picture.stem
            # What it shows, and the caption.
            about, *caption = (" ".join(part.split()) for part in described.split("\n\n")[:2])
            figure = nodes.figure("", nodes.image(uri=f"/{picture.relative_to(self.env.srcdir)}", alt=about))
            figure += nodes.caption("", "", nodes.strong("", about), nodes.Text(f" {' '.join(caption)}"))
            module = f"attnlimits.papers.{self.arguments[0]}.figures.{source.stem}"
            lines = drawing(module)
            found_commands = re.findall(r"`((?:attnlimits|python -m) [^`]+)`", described)
            commands = [" ".join(command.split()) for command in found_commands] or [f"python -m {module}"]
            figure += nodes.legend("", *(nodes.paragraph("", "", nodes.literal("", command)) for command in commands))
            found += [figure, nodes.literal_block(lines, lines, language="python")]
        return found

    def _source(self, picture: Path) -> Path:
        """The module that writes a picture: that of its name, or the one that names it.

        Raises
        ------
        LookupError
            No module does.
        """
        named = picture.with_suffix(".py")
        if named.exists():
            return named
        for path in sorted(picture.parent.glob("*.py")):
            if picture.stem in path.read_text(encoding="utf-8"):
                return path
        raise LookupError(f"no module beside it makes {picture}")


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directives."""
    for directive in (Routes, Equations, Coverage, Errata, Constants, Figures):
        app.add_directive(directive.__name__.lower(), directive)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
