"""Results on disk and as text: every field to the last digit, and nothing executed from a file."""

import importlib
import json
import math
from dataclasses import fields, replace

import numpy as np
import pytest

from attnlimits.numerics.core import saved
from attnlimits.numerics.core.results import Estimate, EvolutionResult, Origin, ThresholdResult
from attnlimits.numerics.core.saved import load, save

FOUND = EvolutionResult(
    alpha=0.1 + 0.2,
    overlap=np.array([[0.1, math.pi], [math.pi, 1e-300]]),
    overlap_error=np.full((2, 2), 5e-324),
    estimation_error=Estimate(0.5, 1e-3, "monte-carlo"),
    prediction_error=Estimate(-0.0, math.inf, "estimated"),
    plugin_error=Estimate(1 / 3, 0.0, "rigorous"),
    stability=np.array([np.nan, -np.inf]),
    converged=True,
    status="converged <after> 3 evaluations",
    n_iter=3,
    residual=0.0,
    tol=1e-5,
    history=np.zeros((0, 2, 2)),
    seed=2**70,
    kernel_hash="0" * 64,
    origin=Origin({"layers": 2, "beta": 1.0}, {"accuracy": None, "start": [0.5, math.nan]}),
)


def _same(one: object, other: object) -> None:
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert isinstance(other, np.ndarray)
        assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    elif isinstance(one, dict):
        assert isinstance(other, dict) and list(one) == list(other)
        for key in one:
            _same(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert isinstance(other, list | tuple) and len(one) == len(other)
        for pair in zip(one, other, strict=True):
            _same(*pair)
    elif hasattr(one, "__dataclass_fields__"):
        for f in fields(one):  # type: ignore[arg-type]
            _same(getattr(one, f.name), getattr(other, f.name))
    else:
        assert repr(one) == repr(other)


def test_a_result_is_read_as_it_was_written(tmp_path):
    FOUND.save(tmp_path / "new" / "result.json")
    _same(load(tmp_path / "new" / "result.json"), FOUND)


def test_results_are_equal_where_all_their_fields_are(tmp_path):
    FOUND.save(tmp_path / "result.json")
    assert load(tmp_path / "result.json") == FOUND
    assert replace(FOUND, overlap=FOUND.overlap + 1e-15) != FOUND
    assert FOUND != "a text"
    assert FOUND.how == FOUND.estimation_error.how == "monte-carlo"


@pytest.mark.parametrize("name", saved._PLACES)
def test_every_class_of_the_table_is_there(name):
    found = getattr(importlib.import_module(f"attnlimits.numerics.{saved._PLACES[name]}"), name.rpartition(".")[2])
    assert found.__dataclass_params__.frozen


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "delimiter|Expecting|property"),
        ("[]", "not written by"),
        ('{"format": "attnlimits result", "schema": 9, "result": null}', "layout is 9"),
        ('{"format": "attnlimits result", "schema": 1, "result": {"class": "os.system", "fields": {}}}', "no class"),
        ('{"format": "attnlimits result", "schema": 1, "result": {"class": "Estimate", "fields": {}}}', "missing"),
        (
            '{"format": "attnlimits result", "schema": 1, "result": {"array": [{}], "dtype": "O", "shape": [1]}}',
            "array",
        ),
        ('{"format": "attnlimits result", "schema": 1, "result": {}}', "mapping"),
    ],
)
def test_what_is_no_result_is_refused_by_name(text, why, tmp_path):
    path = tmp_path / "other.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=f"other.json is not a result that can be read: .*({why})"):
        load(path)


def test_what_has_no_place_in_a_file_is_named(tmp_path):
    with pytest.raises(TypeError, match=r"EvolutionResult\.origin\.settings\['f'\] is a function"):
        save(replace(FOUND, origin=Origin({}, {"f": _same})), tmp_path / "x.json")
    assert list(tmp_path.iterdir()) == []


def test_text_is_short_and_escaped():
    text = repr(FOUND)
    assert text.splitlines()[0] == "EvolutionResult(layers=2, beta=1.0)"
    assert "q_11 = 0.1" in text and text.endswith("converged <after> 3 evaluations")
    assert len(text.splitlines()) <= 6
    assert "&lt;after&gt;" in FOUND._repr_html_()
    long = replace(FOUND, overlap=np.eye(9), overlap_error=np.zeros((9, 9)))
    assert "(9 in all)" in repr(long)


def test_plain_types_and_citation():
    record = FOUND.to_dict()
    assert json.loads(json.dumps(record, allow_nan=False))["overlap"][0][1] == math.pi
    assert record["stability"] == [None, None]
    assert "@software{attnlimits" in FOUND.cite() and "2502.00901" in FOUND.cite()
    assert issubclass(ThresholdResult, type(FOUND).__mro__[1])
