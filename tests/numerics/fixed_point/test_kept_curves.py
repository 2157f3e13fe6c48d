"""A curve that is interrupted keeps its points, and goes on from them to the same numbers."""

import json
from dataclasses import fields
from functools import cache

import numpy as np
import pytest

import attnlimits as al
from attnlimits.numerics.channel.averages import Averages
from attnlimits.numerics.fixed_point.continuation.kept import Kept

MODELS = {
    "two layers": (al.Network(2, 2), [0.1, 0.2, 0.3], {"accuracy": 1e-2}),
    "on a chart": (al.Network(1, 2, tied=False), [0.1, 0.2, 0.3], {"samples": 16}),
    "both starts": (al.Network(1, 2), [0.15, 0.3], {"start": "both"}),
    "both starts of two layers": (al.Network(2, 2), [0.15, 0.3], {"accuracy": 1e-2, "start": "both"}),
}
# The informed start of two layers takes ten times as long as one layer from both starts, which are kept alike.
SLOW = {"both starts of two layers"}


@cache
def whole_curve(accuracy):
    """The curve of two layers that is interrupted in different ways."""
    return al.curve(al.Network(2, 2), [0.1, 0.3], accuracy=accuracy)


class Count:
    """Progress that interrupts once, and channels that count their evaluations."""

    def __init__(self, stop):
        self.stop = stop

    def __call__(self, done, total):
        if done == self.stop:
            raise KeyboardInterrupt


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in MODELS])
def test_an_interrupted_curve_goes_on(tmp_path, name):
    model, values, settings = MODELS[name]
    path = tmp_path / "curve.json"
    whole = al.curve(model, values, **settings)
    total = len(values) * len(whole.points)
    with pytest.raises(KeyboardInterrupt, match=rf"^interrupted after 2 of {total} points, which are in .*goes on"):
        al.curve(model, values, keep=path, progress=Count(2), **settings)
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert (kept["converged"], kept["interrupted"]) == (False, True)
    assert sum(map(len, kept["points"].values())) == 2
    for start, points in kept["points"].items():
        found = {point.parameter: point for point in whole.points[start]}
        for point in points:
            np.testing.assert_array_equal(np.array(point["overlap"]), found[point["parameter"]].overlap)
    assert al.curve(model, values, keep=path, **settings).to_dict() == whole.to_dict()


def test_averages_are_kept_with_all_that_they_state(tmp_path):
    """Averages by two methods are no neighbours (`Refinable.alike`): what is read back has the method, too."""
    square, row = np.diag([0.1, 0.2]), np.array([0.3, 0.4])
    given = Averages(square[None] * [[[1.0]], [[1.5]]], row[None], square / 7, "estimated", "a note", row / 3, "series")
    first = Kept(tmp_path / "curve.json")
    first.open({"of": "these averages"})
    assert first.channel(0.5, lambda q: given)(square) is given
    first.write("alpha", {"uninformed": [al.curve(al.Network(1, 2), [0.3]).points["uninformed"][0]]}, 2)
    again = Kept(first.path)
    again.open({"of": "these averages"})
    found = again.channel(0.5, None)(square)
    for field in fields(Averages):
        np.testing.assert_array_equal(getattr(found, field.name), getattr(given, field.name), field.name)


def test_averages_of_the_file_are_not_taken_again(tmp_path, monkeypatch):
    path, model = tmp_path / "curve.json", al.Network(2, 2)
    with pytest.raises(KeyboardInterrupt):
        al.curve(model, [0.1, 0.3], keep=path, progress=Count(2), accuracy=1e-2)
    monkeypatch.setattr("attnlimits.numerics.channel.two_layers.channel.TwoLayerQuadrature.__call__", None)
    monkeypatch.setattr("attnlimits.numerics.channel.two_layers.channel.TwoLayerQuadrature.operator", None)
    assert al.curve(model, [0.1, 0.3], keep=path, accuracy=1e-2).converged


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """What an interrupted curve of two layers leaves, as text."""
    path = tmp_path_factory.mktemp("kept") / "curve.json"
    with pytest.raises(KeyboardInterrupt):
        al.curve(al.Network(2, 2), [0.1, 0.3], keep=path, progress=Count(2), accuracy=5e-3)
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("damage", ["other settings", "cut short", "a result", "a byte"])
def test_a_file_of_something_else_is_passed_over(tmp_path, begun, damage):
    path, model = tmp_path / "curve.json", al.Network(2, 2)
    settings = {"accuracy": 1e-2}
    path.write_text(begun, encoding="utf-8")
    if damage == "cut short":
        path.write_text(begun[: len(begun) // 2], encoding="utf-8")
    elif damage == "a result":
        path.write_text('{"points": {}, "unfinished": []}', encoding="utf-8")
    elif damage == "a byte":
        path.write_text(begun.replace('"bytes": "', '"bytes": "!'), encoding="utf-8")
        settings = {"accuracy": 5e-3}
    found = al.curve(model, [0.1, 0.3], keep=path, **settings)
    assert found.to_dict() == whole_curve(**settings).to_dict()
