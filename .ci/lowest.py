"""Print the lowest versions of the dependencies that pyproject.toml allows, as constraints for pip."""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def wanted(extra: str) -> list[str]:
    """Requirements of an extra, and of those that it names."""
    found: list[str] = []
    for requirement in project["optional-dependencies"][extra]:
        named = re.fullmatch(rf"{project['name']}\[(\w+)\]", requirement)
        found += wanted(named[1]) if named else [requirement]
    return found


for requirement in [*project["dependencies"], *(each for name in sys.argv[1:] for each in wanted(name))]:
    if bound := re.match(r"([\w.-]+)>=([\w.]+)", requirement):
        print(f"{bound[1]}=={bound[2]}")
