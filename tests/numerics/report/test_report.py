"""Reports: every number is that of the public function, steps are kept and taken up, and what fails is said."""

import csv
import json
import math
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest

import attnlimits as al
from attnlimits.generated import attention_tied_softmax_m2
from attnlimits.numerics.core.errors import ConvergenceError
from attnlimits.numerics.core.results import load
from attnlimits.numerics.report.commands import command, python
from attnlimits.numerics.report.effort import EFFORTS, effort_named
from attnlimits.numerics.report.evolution import evolution
from attnlimits.numerics.report.page.document import document
from attnlimits.numerics.report.page.plots import as_asked
from attnlimits.numerics.report.served import served
from attnlimits.numerics.report.steps import Runner, Step
from attnlimits.papers.troiani2025.figures import phase_retrieval

NET = al.Network(layers=1, tokens=2)
VOID = {"meta", "link", "br", "hr", "img", "input", "path", "use", "rect"}


class Tags(HTMLParser):
    """Tags that are open at the end, identifiers, and targets within the page."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.targets, self.count = [], [], [], {}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.count[tag] = self.count.get(tag, 0) + 1
        self.ids += [found["id"]] if "id" in found else []
        self.targets += [value for key, value in attrs if key in ("href", "xlink:href") and value.startswith("#")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


class Told:
    """What was said of each step."""

    def __init__(self):
        self.steps = {}

    def __call__(self, part, name, state, seconds):
        self.steps[part, name] = (state, seconds)


@pytest.fixture(scope="module", autouse=True)
def few():
    """Let quick reports have few points of their curves."""
    few = replace(effort_named("quick"), points=4, overlaps=4, dimension=100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(EFFORTS, "quick", few)
        yield few


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder, told = tmp_path_factory.mktemp("report"), Told()
    return al.report(NET, folder, effort="quick", progress=told), told


def outcomes(report, part):
    return next(p for p in report.record["parts"] if p["name"] == part)["outcomes"]


def test_the_report_is_complete(made):
    report, told = made
    assert report.complete and report.status.startswith("complete")
    assert {state for state, _ in told.steps.values()} == {"done"}
    assert sorted(path.name for path in report.folder.iterdir()) == [
        "curve.csv",
        "index.html",
        "numbers.csv",
        "parts",
        "report.json",
    ]
    assert json.loads((report.folder / "report.json").read_text()) == report.record


def test_numbers_are_those_of_the_public_functions(made):
    report, _ = made
    (threshold,) = outcomes(report, "thresholds")[0]["numbers"]
    assert (threshold["value"], threshold["exact"]) == (al.threshold(NET).value, "1/6")
    found = al.free_energy.transitions(al.free_energy.entropy_of(NET, accuracy=1e-2))
    weak = outcomes(report, "entropy")[0]["numbers"][0]
    assert abs(float(weak["value"]) - 1 / 6) <= weak["error"] + 1e-10
    assert outcomes(report, "entropy")[0]["data"]["perfect"]["value"] == found.perfect.value
    points = [o["data"] for o in outcomes(report, "evolution") if "start" in o["data"]]
    for point in points[::3]:
        again = al.evolve(NET, point["alpha"], start=point["start"])
        np.testing.assert_array_equal(again.overlap, point["overlap"])
        assert again.prediction_error.value == point["prediction_error"]["value"]


def test_overlaps_do_not_lift_before_the_threshold(made):
    points = [o["data"] for o in outcomes(made[0], "evolution") if o["data"].get("start") == "uninformed"]
    below = max((p for p in points if p["alpha"] < 1 / 6), key=lambda p: p["alpha"])
    assert below["overlap"] == [[0.0]] and below["alpha"] > 0.999 / 6
    assert all(p["overlap"][0][0] > 0 for p in points if p["alpha"] > 1 / 6)


def test_message_passing_agrees_with_the_state_evolution_beside_it(made):
    found = {o["name"]: o["data"] for o in outcomes(made[0], "instances")}
    (theory,) = (data for data in found.values() if "start" in data)
    (learned,) = (data for data in found.values() if "history" in data)
    # The standard error of four instances, and 1/sqrt(D) of the limit.
    distance = abs(learned["overlap"][0][0] - theory["overlap"][0][0])
    assert distance <= 3 * learned["overlap_error"][0][0] + 3 / math.sqrt(learned["dimension"])


def test_tables_hold_the_same_numbers(made):
    report, _ = made
    with (report.folder / "numbers.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    listed = [n for part in report.record["parts"] for o in part["outcomes"] for n in o["numbers"]]
    assert [(row["name"], row["value"]) for row in rows] == [(n["name"], n["value"]) for n in listed]
    with (report.folder / "curve.csv").open(encoding="utf-8") as stream:
        curve = list(csv.DictReader(stream))
    assert len(curve) == sum("start" in o["data"] for o in outcomes(report, "evolution"))
    assert all(float(row["q_11"]) <= 1 for row in curve)


def test_the_page_is_whole_and_well_formed(made):
    text = made[0].page.read_text(encoding="utf-8")
    tags = Tags(text)
    assert tags.open == [] and len(tags.ids) == len(set(tags.ids))
    assert {target[1:] for target in tags.targets} <= set(tags.ids)
    assert "<script" not in text
    assert re.findall(r'(?:src|href)="(?!#|data:,)[^"]*"', text) == []
    assert tags.count["svg"] == 3 and tags.count["h1"] == 1
    assert "nan" not in text.lower().split() and "None" not in text
    for part in made[0].record["parts"]:
        assert f'<section id="{part["name"]}"' in text


def test_formulas_are_typeset(made):
    pytest.importorskip("latex2mathml", reason="needs latex2mathml: pip install 'attnlimits[report]'")
    text = made[0].page.read_text(encoding="utf-8")
    formulas = [line for s in outcomes(made[0], "derivation")[0]["data"]["sections"] for line in s["lines"]]
    shown = re.findall(r"<math.*?</math>", text)
    assert len(shown) >= sum(line["formula"] for line in formulas) > 5
    assert [math for math in shown if "\\" in math or "merror" in math] == []
    assert "\U0001d4a9" in unescape(text)  # the script N of the Gaussian


def test_the_next_report_takes_up_what_is_finished(made):
    report, told = made
    again = Told()
    kept = al.report(NET, report.folder, effort="quick", progress=again)
    assert set(again.steps) == set(told.steps)
    assert {seconds for _, seconds in again.steps.values()} == {None}
    assert kept.record == report.record
    place = report.folder / "parts" / "thresholds-weak-recovery.json"
    record = json.loads(place.read_text())
    place.write_text(json.dumps(record | {"identity": "of another version"}))
    (damaged,) = (report.folder / "parts").glob("entropy-against*.json")
    damaged.write_text("half of a fi")
    al.report(NET, report.folder, effort="quick", progress=again)
    computed = {step for step, (_, seconds) in again.steps.items() if seconds is not None}
    assert computed == {("thresholds", "weak recovery"), ("entropy", "against the overlap")}


def test_a_step_is_computed_again_where_the_generated_kernel_is_another(tmp_path, monkeypatch):
    def call():
        return (), {}

    call.__module__ = "attnlimits.numerics.report.thresholds"
    step, told, seconds = Step("thresholds", "one", "", {}, call, ("attnlimits.numerics.core.decimals",)), Told(), []
    for _ in range(3):
        Runner(al.Network(layers=1, tokens=2), tmp_path, effort_named("quick"), told).run(step)
        seconds.append(told.steps["thresholds", "one"][1])
        if len(seconds) == 2:
            monkeypatch.setattr(attention_tied_softmax_m2, "DERIVATION_HASH", "of other formulas")
    assert [spent is None for spent in seconds] == [False, True, False]


def test_a_part_that_fails_says_so_and_the_page_is_made(made, monkeypatch):
    report, _ = made

    def fails(*_, **__):
        raise ConvergenceError("it <does> not converge")

    monkeypatch.setattr(al, "gamp", fails)
    place = next((report.folder / "parts").glob("instances-gamp*"))
    kept = place.read_text()
    place.unlink()
    found = al.report(NET, report.folder, effort="quick")
    place.write_text(kept)
    assert found.complete
    assert "it &lt;does&gt; not converge" in found.page.read_text(encoding="utf-8")
    failed = [o for o in outcomes(found, "instances") if o["state"] == "failed"]
    assert [o["reason"] for o in failed] == ["it <does> not converge"]


def test_a_model_without_a_threshold_has_a_page_that_says_why(tmp_path):
    found = al.report(al.Network(layers=3, tokens=3, output="sequence"), tmp_path, effort="quick")
    assert not found.complete and "no last-layer threshold" in found.status
    text = found.page.read_text(encoding="utf-8")
    assert "No weak-recovery threshold" in text and "Not served, and why" in text
    assert outcomes(found, "derivation")[0]["state"] == "done"


@pytest.mark.parametrize(
    "model", [al.Network(1, 2, heads=2), al.Network(1, 2, output="sequence"), al.Network(1, 2, activation="tanh(z)")]
)
def test_what_one_layer_is_computed_by_is_served(model, monkeypatch):
    rows = {row["name"]: row["route"] for row in served(model)}
    assert rows["weak-recovery threshold of the last layer"] == "closed form of one layer"
    assert rows["state evolution"] == "quadrature over one index"
    point = al.evolve(model, 0.1)
    monkeypatch.setattr(al, "evolve", lambda *_, **__: point)
    found = evolution(Runner(model, None, effort_named("quick")), 1 / 6, (), jumps=False)
    assert len(found.outcomes) > 5 and all(outcome.done for outcome in found.outcomes)


def test_a_link_has_its_staircase_and_its_hard_phase(tmp_path, monkeypatch, few):
    """The algorithmic threshold beside that of the figure."""
    monkeypatch.setitem(EFFORTS, "quick", replace(few, points=2, dimension=60, seeds=2))
    evolve, known = al.evolve, {}

    def first_of_its_start(model, alpha, *, start="uninformed", **settings):
        if start not in known:
            known[start] = evolve(model, alpha, start=start, **settings)
        return replace(known[start], alpha=alpha)

    # The overlaps are not looked at.
    monkeypatch.setattr(al, "evolve", first_of_its_start)
    found = al.report(al.Link("h[1]**2"), tmp_path, effort="quick")
    assert found.complete
    names = {n["name"]: n for o in outcomes(found, "entropy") for n in o["numbers"]}
    exact = load(phase_retrieval.DATA)["algorithmic"]
    shown = names["algorithmic threshold, spinodal of the lower branch"]
    assert abs(float(shown["value"]) - exact["value"]) <= shown["error"] + exact["error"]
    assert "Symmetries of the link" in found.page.read_text(encoding="utf-8")


def test_an_effort_that_is_none(tmp_path):
    with pytest.raises(ValueError, match="effort must be one of quick, usual, thorough"):
        al.report(NET, tmp_path, effort="huge")


def test_the_record_of_another_version_is_refused(made):
    with pytest.raises(ValueError, match="make the report again"):
        document(made[0].record | {"schema": 99})


MODELS = [
    (al.Network(), "attnlimits evolve --layers 2 --alpha 0.5", "al.Network(layers=2)"),
    (
        al.Network(3, 2, (1, 2, 1), 0.5, tied=False, noise=0.1),
        "attnlimits evolve --layers 3 --rank 1,2,1 --skip 0.5 --untied --noise 0.1 --alpha 0.5",
        "al.Network(layers=3, rank=(1, 2, 1), skip=0.5, tied=False, noise=0.1)",
    ),
    (
        al.Link("sign(h[1]*h[2])", "1/10"),
        "attnlimits evolve --link 'sign(h[1]*h[2])' --noise 1/10 --alpha 0.5",
        "al.Link('sign(h[1]*h[2])', noise='1/10')",
    ),
]


@pytest.mark.parametrize(("model", "line", "code"), MODELS)
def test_commands_and_constructors_give_the_model_again(model, line, code):
    assert command("evolve", model, {"alpha": 0.5}) == line
    assert python(model) == code
    assert eval(code, {"al": al}) == model


def test_points_are_marked_where_an_accuracy_is_missed_and_not_where_a_record_does_not_keep_that() -> None:
    assert as_asked({"converged": True, "reached": True}) and as_asked({"converged": True})
    assert not as_asked({"converged": True, "reached": False}) and not as_asked({"converged": False})
