"""Find the packages in the folders of the repository, below the front door; all else is in pyproject.toml."""

from setuptools import find_packages, setup

FOLDERS = ("derive", "generated", "numerics", "papers")
# It is `attnlimits` itself.
FRONT = "numerics.front"

found = find_packages(include=[name for folder in FOLDERS for name in (folder, f"{folder}.*")], exclude=[FRONT])
setup(packages=["attnlimits", *(f"attnlimits.{name}" for name in found)])
