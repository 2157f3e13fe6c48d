"""Print the lowest versions of the dependencies that pyproject.toml allows, as constraints for pip."""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
wanted = [*project["dependencies"], *(each for name in sys.argv[1:] for each in project["optional-dependencies"][name])]
for requirement in wanted:
    if bound := re.match(r"([\w.-]+)>=([\w.]+)", requirement):
        print(f"{bound[1]}=={bound[2]}")
