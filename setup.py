"""Find the packages in the folders of the repository, below the front door; all else is in pyproject.toml."""

from setuptools import find_packages, setup

FOLDERS = ("derive", "generated", "numerics", "papers")
# It is `attnlimits` itself.
FRONT = "numerics.front"

found = find_packages(include=[name for folder in FOLDERS for name in (folder, f"{folder}.*")])
setup(packages=[f"attnlimits.{name}".replace(f".{FRONT}", "") for name in found])
