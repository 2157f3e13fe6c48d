"""The directive `reports`: pages of the records beside it, as `attnlimits report` makes them, written with the site."""

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from registries import table
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from attnlimits.numerics.report.page.document import document

__all__ = ["FOLDER", "Reports", "setup"]

#: Where the records are, and the pages in the site.
FOLDER = "docs/reports"


def records(root: Path) -> dict[str, dict[str, Any]]:
    """Records of reports by their names."""
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(Path(root, FOLDER).glob("*.json"))
    }


class Reports(SphinxDirective):
    """A table of the reports, with links to their pages."""

    def run(self) -> list[nodes.Node]:
        """Write it."""
        rows = []
        for name, record in records(Path(self.env.srcdir)).items():
            self.env.note_dependency(str(Path(self.env.srcdir, FOLDER, f"{name}.json")))
            numbers = next(part for part in record["parts"] if part["name"] == "thresholds")["outcomes"][0]["numbers"]
            page = nodes.reference("", record["model"], refuri=f"{name}.html", internal=True)
            rows.append((page, numbers[0]["value"] if numbers else "none", nodes.literal("", record["command"])))
        return [table(("model", "weak recovery, alpha = N/D", "command"), rows)]


def _write(app: Sphinx, failure: Exception | None) -> None:
    if failure is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir, FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    for name, record in records(Path(app.srcdir)).items():
        (folder / f"{name}.html").write_text(document(record), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive, and write the pages at the end of a build."""
    app.add_directive("reports", Reports)
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
