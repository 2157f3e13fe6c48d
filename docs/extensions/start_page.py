"""A page at the root of the site that leads to its first page."""

from pathlib import Path

from sphinx.application import Sphinx

__all__ = ["setup"]


def _write(app: Sphinx, failure: Exception | None) -> None:
    if failure is None and app.builder.format == "html":
        target = app.builder.get_target_uri(app.config.root_doc)
        page = (
            f'<!doctype html><title>{app.config.project}</title><meta http-equiv="refresh" content="0; url={target}">'
        )
        Path(app.outdir, "index.html").write_text(
            page + f'<a href="{target}">{app.config.project}</a>\n', encoding="utf-8"
        )


def setup(app: Sphinx) -> dict[str, bool]:
    """Write it at the end of a build."""
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
