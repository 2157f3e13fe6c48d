"""The examples in docstrings: each one prints what stands below it."""

import doctest
from importlib import import_module

FOLDERS = ("derive", "numerics")
#: Verbs have a test of their own, which asks each of them for an example.
VERBS = "numerics/front/verbs/"


def modules(files, repository):
    """Names of the modules that have examples."""
    for path in files:
        place = path.relative_to(repository)
        shown = place.suffix == ".py" and place.parts[0] in FOLDERS and not place.as_posix().startswith(VERBS)
        if shown and "    >>> " in path.read_text(encoding="utf-8"):
            name = ".".join(["attnlimits", *place.with_suffix("").parts]).removesuffix(".__init__")
            # The folder of the front door is `attnlimits` itself.
            yield name.replace("attnlimits.numerics.front", "attnlimits")


def test_examples_print_what_they_say(repository, source_files):
    found = {name: doctest.testmod(import_module(name)) for name in modules(source_files, repository)}
    assert len(found) > 20
    assert {name: result for name, result in found.items() if result.failed} == {}


def test_a_wrong_example_fails(monkeypatch):
    module = import_module("attnlimits.numerics.core.standard_error")
    monkeypatch.setattr(module.standard_error, "__doc__", ">>> 1 + 1\n3\n")
    assert doctest.testmod(module).failed == 1
