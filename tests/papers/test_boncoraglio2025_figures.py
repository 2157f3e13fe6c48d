"""Figures of boncoraglio2025: what is stored is what other computations say."""

import json

import numpy as np
import pytest

from attnlimits.numerics.aim.amp import amp
from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.data import make_data, teacher
from attnlimits.numerics.aim.prediction import prediction_errors
from attnlimits.numerics.aim.state_evolution import evolve, iterate
from attnlimits.numerics.cli.main import main
from attnlimits.numerics.core.results import load
from attnlimits.papers.boncoraglio2025.checks import plain
from attnlimits.papers.boncoraglio2025.figures import (
    amp_runs,
    descent_runs,
    figure_1,
    figure_2,
    figure_3,
    figure_4,
    figure_5,
    panels,
    prediction,
    prediction_runs,
    published,
)

FIGURES = [module.SPEC for module in (figure_1, figure_2, figure_3, figure_4, figure_5)]
RUNS = load(amp_runs.DATA)["runs"]


def curves(figure):
    return [c for panel in load(panels.data_path(figure))["panels"] for c in panel["curves"]]


def expected(run):
    return evolve(run["alpha"], run["rho"], channel(run["activation"], run["tokens"])).mmse.value


@pytest.mark.parametrize("figure", FIGURES, ids=lambda f: str(f.number))
def test_stored_curves_are_what_the_state_evolution_gives_now(figure):
    for curve in curves(figure):
        output = channel(curve["activation"], curve["tokens"])
        size = len(curve["alpha"])
        for at in (size // 3, size - 2):
            now = evolve(curve["alpha"][at], curve["rho"], output).mmse
            # Starts of the search differ, results within both errors.
            assert abs(now.value - curve["mmse"][at]) <= now.error + curve["error"][at] + 1e-14
        assert curve["converged"]
        assert max(curve["error"]) < 1e-9
        mmse = np.array(curve["mmse"])
        assert (np.diff(mmse) <= 2e-10).all() and mmse[0] <= 1 and mmse[-1] >= 0


def test_stored_curves_are_limits_of_the_plain_iteration():
    """One point of every finite width, by iterating both equations from q = rho."""
    for figure in FIGURES[1:4]:
        for curve in curves(figure):
            at = len(curve["alpha"]) // 4
            found = iterate(curve["alpha"][at], curve["rho"], channel(curve["activation"], curve["tokens"]), tol=1e-8)
            assert found.converged
            assert found.mmse.value == pytest.approx(curve["mmse"][at], abs=1e-6)


def test_hardmax_curves_by_plain_sums():
    """Both curves at rho = 0.5 through the plain evaluations of the registry: alpha from the stored error."""
    for curve in curves(figure_1.SPEC):
        if curve["rho"] != 0.5:
            continue
        variant = curve["activation"] == "hardmax_published"
        for at in (12, 30):
            alpha = plain.fixed_point(
                0.5, curve["mmse"][at], lambda c, v=variant: plain.hardmax_information(c, published=v)
            )
            assert alpha == pytest.approx(curve["alpha"][at], rel=1e-5)


def test_curves_end_at_their_thresholds():
    for figure in FIGURES[1:4]:
        for curve in curves(figure):
            rho, tokens = curve["rho"], curve["tokens"]
            functionals = tokens * (tokens + 1) // 2 - (curve["activation"] == "softmax")
            threshold = (2 * rho - rho**2 if rho < 1 else 1) / (2 * functionals)
            alpha, mmse = np.array(curve["alpha"]), np.array(curve["mmse"])
            assert (mmse[alpha < threshold * (1 - 1e-9)] > 0).all()
            assert (mmse[alpha > threshold * (1 + 1e-9)] == 0).all()


def test_the_widest_curve_is_a_straight_line():
    (curve,) = (c for c in curves(figure_2.SPEC) if c["rho"] > 2)
    line = np.maximum(1 - 4 * np.array(curve["alpha"]), 0)
    # Of the order of 1/rho, and less than rho^(-1/2) next to the end.
    assert np.abs(np.array(curve["mmse"]) - line).max() < 1e-3
    assert abs(curve["mmse"][10] - line[10]) < 2e-6


def test_one_curve_for_all_numbers_of_tokens():
    two, three = (c for c in load(panels.data_path(figure_2.SPEC))["panels"][1]["curves"])
    grid = np.linspace(0, 0.9, 31)
    values = [np.interp(grid, s * np.array(c["alpha"]), c["mmse"]) for s, c in ((4, two), (10, three))]
    assert np.allclose(*values, atol=1e-9)  # The same grid after scaling, up to rounding.


@pytest.mark.parametrize("figure", FIGURES, ids=lambda f: str(f.number))
def test_stored_dots_are_the_stored_runs(figure):
    for panel, stored in zip(figure.panels, load(panels.data_path(figure))["panels"], strict=True):
        for run in stored["runs"]:
            assert run in RUNS
            assert panel.span[0] <= run["alpha"] * max(c.scale for c in panel.curves if c.tokens == run["tokens"])
        assert stored["runs"] or panel.dimension is None


def scale_doubt(run):
    """What the error of a hardmax dot holds of the scale of S, which labels do not tell: see `amp`."""
    return 2 * (1 + run["rho"]) / (run["rho"] * run["dimension"] ** 2) if run["activation"] == "hardmax" else 0.0


def test_message_passing_lies_on_its_curve():
    """Within 4 standard errors and the bias of finite d: 6 per cent, and 1/d next to perfect recovery."""
    dots = [r for r in RUNS if r["method"] == "amp" and r["dimension"] >= 100]
    assert len(dots) >= len(amp_runs.CASES)
    for run in dots:
        theory = expected(run)
        bias = 1 / run["dimension"] + 0.06 * theory + scale_doubt(run)
        assert -4 * run["error"] < run["mmse"] - theory < 4 * run["error"] + bias, run


def test_message_passing_of_hardmax_is_far_below_the_published_curve():
    """The evidence of the erratum: no estimate can be below a Bayes-optimal curve."""
    below = []
    for run in RUNS:
        if (run["activation"], run["method"], run["tokens"]) != ("hardmax", "amp", 2) or run["alpha"] < 0.1:
            continue
        variant = evolve(run["alpha"], run["rho"], channel("hardmax_published")).mmse.value
        if scale_doubt(run) < variant / 2:
            assert run["mmse"] + 10 * run["error"] < variant, run
            below.append(variant / run["mmse"])
    assert len(below) >= 14 and max(below) > 5


def test_published_numbers_belong_to_the_variant():
    variant, right = channel("hardmax_published"), channel("hardmax")
    for marks, near in ((published.HARDMAX_EVOLUTION, 0.02), (published.HARDMAX_AMP, 0.05)):
        for alpha, error in marks.points:
            assert error == pytest.approx(evolve(alpha, 0.5, variant).mmse.value, rel=near)
            assert error > 1.4 * evolve(alpha, 0.5, right).mmse.value
    for tokens, marks in published.SOFTMAX_AMP.items():
        for alpha, error in marks.points:
            theory = evolve(alpha, 0.5, channel("softmax", tokens)).mmse.value
            assert theory < error < 1.15 * theory
    single, mean = (published.DESCENT[name].points for name in ("gd", "agd"))
    for (alpha, one), (same, averaged) in zip(single, mean, strict=True):
        assert alpha == same
        assert evolve(alpha, 0.5, channel("softmax")).mmse.value < averaged < one


def test_a_case_is_run_again():
    """A small instance: mean and standard error of two seeds by hand."""
    case, output = amp_runs.Case("softmax", 2, 0.5, 24, 0.1), channel("softmax")
    errors = []
    for seed in (0, 1):
        S = teacher(case.dimension, case.rho, seed)
        x, y = make_data(S, case.alpha, output, seed)
        errors.append(amp(x, y, output, case.rho, teacher=S, max_iter=400).mmse)
    made = amp_runs.run(case, 2)
    assert made["mmse"] == pytest.approx(sum(errors) / 2, rel=1e-9)
    # Of two values the standard error is half their difference.
    assert made["error"] == pytest.approx(abs(errors[0] - errors[1]) / 2, rel=1e-6)
    assert made["seeds"] == 2 and {"activation", "tokens", "rho", "dimension", "alpha", "method"} < set(made)


def test_every_case_is_stored():
    for case in amp_runs.CASES:
        assert amp_runs.stored(case.__dict__ | {"method": "amp"}), case


def test_descents_are_run_and_recorded():
    """Two small instances: one student is worse than many, and no better than the state evolution of large d."""
    one, many = descent_runs.run(0.12, seeds=2, dimension=20, steps=150)
    assert (one["method"], many["method"]) == ("gd", "agd")
    assert many["mmse"] < one["mmse"]
    assert one["seeds"] == 2 and set(one) == set(amp_runs.run(amp_runs.Case("linear", 2, 0.5, 8, 0.1), 2)) - {
        "converged"
    }


def test_stored_descents_are_near_the_public_ones():
    """At the same alphas; theirs are of d = 200, ours of d = 100, whose bias is up to 10 per cent."""
    for method, marks in published.DESCENT.items():
        stored = amp_runs.stored({"method": method, "tokens": 2})
        assert [(r["alpha"], r["seeds"] >= 4) for r in stored] == [(alpha, True) for alpha, _ in marks.points]
        for run, (_, public) in zip(stored, marks.points, strict=True):
            assert abs(run["mmse"] - public) < 3 * run["error"] + 0.1 * public
            assert run["mmse"] > 1.05 * expected(run)


@pytest.mark.parametrize("method", ["gd", "agd"])
def test_descents_of_all_tokens_are_alike_at_the_same_functionals(method):
    """Against those of two tokens, by the standard errors of both; with four instances the factor of Student is 3."""
    for two in amp_runs.stored({"method": method, "tokens": 2})[1:3]:
        for tokens in (3, 4, 5, 6):
            place = round(4 * two["alpha"] / (tokens**2 + tokens - 2), 5)
            (run,) = amp_runs.stored({"method": method, "tokens": tokens, "alpha": place})
            assert abs(run["mmse"] - two["mmse"]) < 3 * np.hypot(run["error"], two["error"])
            assert run["mmse"] > 1.05 * expected(run)


def test_stored_errors_of_prediction_are_those_of_now():
    """At two alphas of each curve; the plug-in is never the better one, and the errors end at recovery."""
    for curve in load(prediction.DATA)["curves"]:
        output = channel(curve["activation"], 2, curve["beta"])
        assert curve["scale"] == pytest.approx(prediction.scale(curve["activation"], curve["beta"]), rel=1e-8)
        for at in (3, 24):
            found = prediction_errors(evolve(curve["alpha"][at], 0.5, output).mmse, 0.5, output)
            for kind in prediction.KINDS:
                now = getattr(found, kind)
                assert abs(now.value - curve[kind][at]) <= now.error + curve[f"{kind}_error"][at] + 1e-14
        mean, plug = (np.array(curve[kind]) for kind in prediction.KINDS)
        assert (mean <= plug + 1e-9).all() and (np.diff(mean) <= 1e-8).all() and mean[0] < curve["scale"]
        assert curve["converged"] and (mean[-1] == 0) == (curve["activation"] == "softmax")


def test_stored_predictions_of_message_passing_are_on_the_curves():
    """Within three errors of the limit, but for the bias of d = 100, up to 9 per cent."""
    runs = prediction_runs.stored()
    assert len(runs) == len(prediction_runs.CASES)
    for run in runs:
        output = channel(run["activation"], 2, run["beta"])
        # At the middle of the estimate: its error is far below those of the runs.
        limit = prediction_errors(evolve(run["alpha"], 0.5, output).mmse.value, 0.5, output)
        for kind in prediction.KINDS:
            value, error = run[kind]
            expected = getattr(limit, kind).value
            assert expected - 3 * error < value < 1.09 * expected + 3 * error
            assert error < 0.1 * expected


def test_a_run_of_prediction_is_a_mean_over_instances():
    run = prediction_runs.run(prediction_runs.Case("softmax", 1.0, 0.3, dimension=16), 2)
    assert run["seeds"] == 2 and run["posterior_mean"][0] <= run["plug_in"][0] < 0.41


def test_missing_cases_are_added_once(tmp_path, monkeypatch):
    monkeypatch.setattr(amp_runs, "DATA", tmp_path / "runs.json")
    case = amp_runs.Case("softmax", 2, 0.5, 20, 0.1)
    monkeypatch.setattr(amp_runs, "CASES", (case,))
    monkeypatch.setattr(
        amp_runs, "run", lambda c, n: c.__dict__ | {"method": "amp", "mmse": 0.5, "error": 0.1, "seeds": n}
    )
    for _ in range(2):
        steps = []
        found = load(amp_runs.compute(lambda *done, steps=steps: steps.append(done)))
        assert len(found["runs"]) == 1 and steps == [(1, 1)]
    # Another of the same place takes it, one of another method is added.
    again, other = found["runs"][0] | {"mmse": 0.4}, found["runs"][0] | {"method": "gd"}
    amp_runs.add([again, other])
    assert amp_runs.stored({"tokens": 2}) == [again, other]


def test_a_figure_is_made_from_the_command_line(tmp_path, capsys):
    assert main(["aim", "figure", "3", "--points", "5", "--out", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["value"] == "0.125000000000000" and found["how"] == "rigorous" and found["converged"]
    (made,) = found["figures"]
    assert (tmp_path / "boncoraglio2025-3.png").stat().st_size > 10_000
    assert {p.name for p in tmp_path.iterdir()} == {f"boncoraglio2025-3.{kind}" for kind in ("json", "png", "pdf")}
    record = load(tmp_path / "boncoraglio2025-3.json")
    # Four curves of two pieces, but for rho = 1 and 2 that share a threshold.
    assert [len(c["alpha"]) for c in record["panels"][0]["curves"]] == [9] * 4
    assert (
        main(
            [
                "figure",
                "boncoraglio2025-3",
                "--points",
                "5",
                "--format",
                "png",
                "--out",
                str(tmp_path / "again"),
                "--json",
            ]
        )
        == 0
    )
    assert json.loads(capsys.readouterr().out)["value"] == made["value"]


@pytest.mark.parametrize(
    ("line", "says"),
    [("aim figure 6", "are 1, 2, 3, 4, 5, prediction, got 6"), ("aim figure 1 --points 3", "--points must be >= 4")],
)
def test_bad_flags_of_figures_are_refused(line, says, capsys):
    assert main(line.split()) == 2
    assert says in capsys.readouterr().err


def test_all_figures_are_made_where_none_is_named(monkeypatch, capsys, tmp_path):
    from attnlimits.numerics.cli import figure as cli_figure

    asked = []

    def make(name, args, pool):
        asked.append(name)
        done = name != "boncoraglio2025-4"
        return {
            "figure": name,
            "value": "1",
            "error": 0.0,
            "how": "rigorous",
            "quantity": "",
            "converged": done,
            "summary": [],
        }

    monkeypatch.setattr(cli_figure, "_make", make)
    assert main(["aim", "figure", "--out", str(tmp_path)]) == 1
    assert asked == [f"boncoraglio2025-{name}" for name in (1, 2, 3, 4, 5, "prediction")]
    assert "not converged: boncoraglio2025-4" in capsys.readouterr().err
