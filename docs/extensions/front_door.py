"""The directive `public`: all public names of a module, in a table and with their documentation."""

import inspect
import re
from importlib import import_module

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

__all__ = ["Public", "setup"]


def kind(value: object) -> str:
    """Which directive of autodoc documents an object."""
    if inspect.isclass(value):
        return "autoexception" if issubclass(value, BaseException) else "autoclass"
    return "autofunction" if callable(value) else "autodata"


class Public(SphinxDirective):
    """Names in `__all__` of a module, without the modules among them."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Leave the work to autosummary and autodoc."""
        module = import_module(self.arguments[0])
        found = {name: getattr(module, name) for name in module.__all__ if not name.startswith("__")}
        found = {name: value for name, value in found.items() if not inspect.ismodule(value)}
        about = "" if module.__name__ == "attnlimits" else inspect.getdoc(module) or ""
        lines = [about, "", "```{eval-rst}", f".. currentmodule:: {module.__name__}", ""]
        lines += [".. autosummary::", "   :nosignatures:", ""]
        lines += [f"   {name}" for name in found] + [""]
        for name, value in found.items():
            lines.append(f".. {kind(value)}:: {name}")
            if inspect.isclass(value):
                lines.append("   :members:")
            lines.append("")
        return self.parse_text_to_nodes("\n".join([*lines, "```"]))


def _skip(app: Sphinx, what: str, name: str, value: object, skip: bool, options: object) -> bool | None:
    """Attributes stand in the section of the class that has them; members without documentation say nothing."""
    if what in ("class", "exception") and not (inspect.isroutine(value) or isinstance(value, property)):
        return True
    return None


def _bars(app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """A bar is that of a norm or of a condition, not a substitution of reStructuredText."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = re.split(r"(``.*?``|`[^`]*`)", line)
            lines[number] = "".join(part if part.startswith("`") else part.replace("|", r"\|") for part in parts)


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("public", Public)
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-docstring", _bars)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
