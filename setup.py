"""Find the packages in the folders of the namespace package `attnlimits`; all else is in pyproject.toml."""

from setuptools import find_packages, setup

FOLDERS = ("derive", "generated", "numerics", "papers")

found = find_packages(include=[name for folder in FOLDERS for name in (folder, f"{folder}.*")])
setup(packages=[f"attnlimits.{name}" for name in found])
