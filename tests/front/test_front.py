"""`import attnlimits as al`: every name is there, nothing is loaded before it is used, and the examples run."""

import doctest
import functools
import importlib
import inspect
import pydoc
import subprocess
import sys

import numpy as np
import pytest

import attnlimits as al

FIELDS = ("aim", "blocks", "classifier", "committee", "free_energy", "learning", "multihead")
NET = al.Network(layers=1, tokens=2)
LINK = al.Link("h[1]**2")
LAYER = (lambda made: (made.X, made.Y))(
    al.multihead.make_examples(*al.multihead.make_teacher("gauss", 2, 6, rng=1), samples=1500, tokens=2, rng=2)
)


@functools.cache
def transitions():
    """Those of the link, which take seconds."""
    return al.free_energy.transitions(al.free_energy.entropy_of(LINK))


def test_importing_loads_nothing_else():
    code = "import sys; import attnlimits; print([m for m in ('numpy', 'scipy', 'numba', 'sympy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(("words", "status"), [(["--version"], 0), (["models", "--json"], 0), (["solve"], 2)])
def test_the_package_runs_as_the_command(words, status):
    done, same = (
        subprocess.run([sys.executable, "-m", module, *words], capture_output=True, text=True, check=False, timeout=60)
        for module in ("attnlimits", "attnlimits.numerics.cli.main")
    )
    assert done.returncode == same.returncode == status and done.stderr == same.stderr
    if words == ["--version"]:
        assert done.stdout == f"attnlimits {al.__version__}\n"


@pytest.mark.parametrize("name", al.__all__)
def test_every_public_name_is_there_and_says_what_it_is(name):
    assert name in dir(al)
    assert (getattr(al, name).__doc__ or "").strip()


def test_another_name_is_refused_with_those_there_are():
    with pytest.raises(AttributeError, match=r"no attribute 'thresold'; it has .*threshold"):
        al.thresold  # noqa: B018


EXAMPLES = (
    *("curve", "denoise", "descend", "evolve", "explain", "free_entropy", "from_flax", "from_torch", "from_weights"),
    *("gamp", "make_data", "threshold", "write_data"),
)


@pytest.mark.parametrize("name", [*EXAMPLES, pytest.param("report", marks=pytest.mark.slow)])
def test_examples_run(name):
    found = doctest.testmod(importlib.import_module(f"attnlimits.verbs.{name}"))
    assert found.failed == 0 and found.attempted > 0


def test_networks_and_links_go_through_the_same_verbs(rng):
    assert al.threshold(NET).exact == "1/6" and al.threshold(al.Link("abs(h[1])")).value is not None
    assert al.threshold(al.Network(1, 2, tied=False, heads=2)).converged
    assert al.evolve(NET, 0.1).overlap[0, 0] == 0.0
    heads = al.evolve(al.Network(1, 2, heads=2), 0.1)
    assert heads.alpha == 0.1 and heads.overlap[0, 0] == al.evolve(NET, 0.2).overlap[0, 0]
    assert al.evolve(LINK, 0.3).converged
    assert [len(al.curve(one, [0.1, 0.2]).points["uninformed"]) for one in (NET, LINK)] == [2, 2]
    assert [al.free_entropy(one, 0.5)(np.zeros((1, 1))).value for one in (NET, LINK)] == [0.0, 0.0]
    weights = al.teacher(NET, 40, rng=1)
    x, y = al.make_data(NET, weights, 2.0, rng=2)
    assert al.gamp(NET, x, y, teacher=weights, max_iter=40).weights.shape == (1, 40)
    assert al.descend(NET, x, y, method="gd", epochs=2).weights.shape == (1, 40)
    assert len(al.staircase(al.Link("h[1]**2")).steps) == 1


def test_denoisers_of_both_precisions_agree():
    y, omega, v = [[0.7, 0.3], [0.2, 0.8]], [[0.1, 0.2]], [[0.5]]
    y = NET.link(np.array([[0.4, -0.3]]))
    one, many = al.denoise(NET, y, omega, v), al.denoise(NET, y, omega, v, digits=20)
    assert float(many.log_z) == pytest.approx(float(one.log_z), abs=1e-10)


def test_results_are_loaded_as_they_were_saved(tmp_path):
    found = al.evolve(NET, 0.4)
    found.save(tmp_path / "point.json")
    assert al.load(tmp_path / "point.json").to_dict() == found.to_dict()


def test_a_link_from_an_expression():
    sp = pytest.importorskip("sympy")
    one, two = sp.symbols("h_1 h_2")
    assert al.Link(sp.sign(one * two)).kernel.kernel_hash == al.Link("sign(h[1]*h[2])").kernel.kernel_hash


def test_routes_are_listed(capsys):
    from attnlimits.numerics.cli.main import main
    from attnlimits.numerics.model.routes import ROUTES

    assert main(["models", "--routes"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(ROUTES)


@pytest.mark.parametrize(
    "found",
    [
        lambda: al.threshold(al.Link("abs(h[1])")),
        lambda: al.staircase(LINK),
        lambda: al.curve(NET, [0.1, 0.2]),
        lambda: al.gamp(NET, *al.make_data(NET, al.teacher(NET, 20, rng=1), 2.0, rng=2), max_iter=3),
        lambda: al.descend(NET, *al.make_data(NET, al.teacher(NET, 20, rng=1), 2.0, rng=2), epochs=2),
        lambda: al.denoise(NET, NET.link(np.array([[0.4, -0.3]])), np.zeros((1, 2)), np.eye(1)),
        lambda: al.denoise(NET, NET.link(np.array([[0.4, -0.3]])), np.zeros((1, 2)), np.eye(1), digits=20),
        lambda: al.aim.evolve(0.1, 0.5, al.aim.channel("softmax", 2)),
        lambda: al.aim.perfect_recovery("0.5", al.aim.channel("softmax", 2)),
        lambda: al.aim.denoise_matrix(np.eye(6), 0.5, 0.1),
        lambda: al.committee.committee_threshold(3),
        lambda: al.free_energy.located(al.free_entropy(LINK, 1.05)).points[0],
        transitions,
        lambda: al.multihead.learn_multihead(*LAYER, 2, strict=False, rng=0),
        lambda: al.multihead.sculpt(*LAYER, 2, strict=False, rng=0),
    ],
    ids=[
        *("threshold", "staircase", "curve", "gamp", "descend", "denoise", "denoise to 20 digits", "aim evolve"),
        *("aim threshold", "aim denoise", "committee", "stationary", "transitions", "multihead", "sculpt"),
    ],
)
def test_every_result_is_short_and_comes_back(found, tmp_path):
    result = found()
    assert 2 <= len(repr(result).splitlines()) <= 6
    assert type(result).__name__ in result._repr_html_() and "@software" in result.cite()
    result.save(tmp_path / "result.json")
    again = al.load(tmp_path / "result.json")
    assert type(again) is type(result) and again.to_dict() == result.to_dict()


def test_curves_are_arrays_and_pictures():
    found = al.curve(NET, [0.05, 0.1], start="both")
    data = found.to_xarray()
    assert dict(data.sizes) == {"start": 2, "alpha": 2, "i": 1, "j": 1}
    assert float(data.overlap.sel(start="informed", alpha=0.1)[0, 0]) == found.points["informed"][1].overlap[0, 0]
    assert len(found.plot().containers) == 2
    steps = al.evolve(NET, 0.4)
    assert len(steps.plot().lines[0].get_xdata()) == len(steps.history)


def test_a_link_is_taken_where_a_network_is():
    weights = al.teacher(LINK, 20, rng=1)
    assert weights.shape == (1, 20)
    found, same = al.free_energy.transitions(LINK), transitions()
    assert found.weak == same.weak and found.recovery == same.recovery


def public():
    """Functions and classes of the front door and of its fields, by their full names."""
    for module in (al, *(getattr(al, name) for name in FIELDS)):
        for name in module.__all__:
            if callable(found := getattr(module, name)):
                yield f"{module.__name__}.{name}", found


@pytest.mark.parametrize(("name", "found"), list(public()), ids=[name for name, _ in public()])
def test_help_begins_with_the_text_of_its_own(name, found):
    """A signature names its types as they are written, and does not spell out what they stand for."""
    try:
        signature = str(inspect.signature(found))
    except ValueError:  # of an exception
        signature = ""
    assert "_typing" not in signature and len(signature) < 600
    first = inspect.getdoc(found).splitlines()[0]
    assert -1 < pydoc.plain(pydoc.render_doc(found)).find(first) < 900
