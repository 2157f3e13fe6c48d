"""The number at the end of a page of `explain`: the threshold that `al.threshold` has, or why there is none."""

import functools
import json

import pytest

import attnlimits as al
from attnlimits.numerics.thresholds import choice
from attnlimits.numerics.thresholds.charts import chart_threshold


@pytest.mark.parametrize(
    ("flags", "model"),
    [
        ("--layers 2 --tokens 2", al.Network(2, 2)),
        ("--layers 2 --rank 2 --skip 1/2 --beta 2", al.Network(2, 2, 2, 0.5, 2.0)),
        ("--layers 1 --tokens 3 --rank 2", al.Network(1, 3, 2)),
        ("--layers 1 --untied --output sequence", al.Network(1, 2, tied=False)),
    ],
)
def test_the_page_ends_with_the_threshold(attnlimits, flags, model):
    said = attnlimits(f"explain {flags}")
    expected = al.threshold(model)
    title, line = said.out.splitlines()[-2:]
    assert (said.status, title) == (0, "Number")
    assert f" of {expected.subspace} = {expected.value} +- {expected.error:.1e} ({expected.how}" in line


@pytest.fixture
def few_samples(monkeypatch):
    """Thresholds from fewer points, each computed once: what is tested is that the page has that of its model."""
    few = functools.cache(lambda model, **how: chart_threshold(model, **how | {"samples": 64}))
    monkeypatch.setattr(choice, "chart_threshold", few)


@pytest.mark.usefixtures("few_samples")
def test_a_sampled_threshold_has_its_error(attnlimits):
    found = json.loads(attnlimits("explain --layers 2 --tokens 3 --untied --json").out)["number"]
    expected = al.threshold(al.Network(2, 3, tied=False))
    assert (found["value"], found["error"], found["how"]) == (expected.value, expected.error, "monte-carlo")
    assert found["at"] == "c = 1, beta = 1" and found["reason"] is None


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ("--layers 3 --tokens 3 --output sequence", "the attention of the last layer as output"),
        ("--layers 2 --tokens 30 --untied", "`attnlimits threshold` computes it"),
    ],
)
def test_without_a_number_the_page_says_why(attnlimits, flags, why):
    said = attnlimits(f"explain {flags}")
    assert said.status == 0
    assert "no threshold here" in said.out.splitlines()[-1] and why in said.out.splitlines()[-1]


def test_the_number_of_heads_side_by_side(attnlimits):
    page = attnlimits("explain --layers 1 --tokens 3 --heads 2 --latex").out
    assert r"$\alpha_c$ of layer 1 = 0.0416666666667" in page and "exactly 1/24" in page


@pytest.mark.parametrize(
    ("flags", "heads"),
    [
        ("", 2),
        pytest.param("--untied", 2, marks=pytest.mark.slow),
        pytest.param("--tokens 3", 3, marks=pytest.mark.slow),
    ],
)
def test_several_layers_of_heads_that_do_not_mix_have_the_number_of_one_over_h(attnlimits, flags, heads):
    found, one = (
        json.loads(attnlimits(f"explain --layers 2 {flags} --heads {count} --json").out)["number"]
        for count in (heads, 1)
    )
    assert found["at"] == "c = 1, beta = 1, o = I" and found["subspace"] == "layer 2"
    assert abs(heads * float(found["value"]) - float(one["value"])) <= heads * found["error"] - one["error"] + 1e-15
    assert 0 < found["error"] < one["error"]


@pytest.mark.slow
def test_the_sampled_threshold_of_two_heads_is_that_of_one_over_two(attnlimits):
    """On the chart of all heads, whose readout weights are the identity."""
    number = json.loads(attnlimits("explain --layers 2 --heads 2 --json").out)["number"]
    found = chart_threshold(al.Network(2, 2, heads=2, readouts=[((1.0, 0.0), (0.0, 1.0))]), samples=64)
    assert abs(float(found.value) - float(number["value"])) < 3 * found.error < 0.1


def test_an_infinite_threshold_of_a_link_is_said(attnlimits):
    line = attnlimits('explain --link "sign(h[1]*h[2]*h[3])"').out.splitlines()[-1]
    assert "no threshold here: converged: infinite at this order" in line


def test_a_flag_leaves_the_number_out(attnlimits):
    said = attnlimits("explain --layers 1 --no-number --json")
    assert "number" not in json.loads(said.out)
    page = attnlimits("explain --layers 1 --no-number").out
    assert attnlimits("explain --layers 1").out.startswith(page.rstrip("\n")) and "Number" not in page
