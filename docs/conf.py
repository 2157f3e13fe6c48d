"""How the site is built: `make docs` runs Sphinx over docs/ and the pages of papers/, with warnings as errors."""

import sys
from datetime import UTC, datetime
from importlib.metadata import version as version_of
from pathlib import Path

# The directives of the folder beside this file.
sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "attnlimits"
author = "The attnlimits developers"
copyright = f"{datetime.now(tz=UTC).year}, {author}"  # the name that Sphinx reads
release = version = version_of("attnlimits")

# The source folder is the repository, so that links between docs/ and papers/ are the same here and in a clone.
root_doc = "docs/index"
include_patterns = ["CHANGELOG.md", "docs/**", "papers/**"]
exclude_patterns = [".*", "build", "derive", "dist", "generated", "numerics", "results", "tests", "**/__pycache__"]
source_suffix = {".md": "markdown"}

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
    "front_door",
    "registries",
    "reports",
    "run",
    "shell",
    "start_page",
]

myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3
# Code that is shown in `text` blocks is output, not a program.
copybutton_exclude = ".linenos, .gp, .go"

autodoc_typehints = "none"  # numpydoc's sections state types, shapes and domains
autodoc_member_order = "bysource"
autosummary_generate = False  # the tables of the reference lead to entries of the same page
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

smartquotes = False  # flags keep their two hyphens

html_theme = "furo"
html_title = "attnlimits"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
