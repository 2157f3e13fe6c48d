"""Grids: what they enumerate, when two points are the same, and what is refused."""

import json
import subprocess
import sys
import time

import pytest

from attnlimits.numerics.model import link_store
from attnlimits.numerics.sweeps import Function, register, store, tasks, verb
from attnlimits.numerics.sweeps.grid import Grid, read_grid, shipped


def keys(grid):
    return [point.key for point in grid.points]


def one(task, **fixed):
    """Key of the only point of a grid."""
    return Grid.of({"task": task, "fixed": fixed, "axes": {"seed": [0]}}).points[0].key


def test_the_last_axis_runs_fastest(grid_of):
    grid = grid_of('task = "threshold"\n[fixed]\nlayers = 1\n[axes]\ntokens = [2, 3]\nrank = [1, 2, 3]')
    assert grid.shape == (2, 3)
    assert [(p.parameters["tokens"], p.parameters["rank"]) for p in grid.points] == [
        (tokens, rank) for tokens in (2, 3) for rank in (1, 2, 3)
    ]
    assert all(point.parameters["layers"] == 1 for point in grid.points)
    assert grid.describe() == "threshold over tokens (2) x rank (3)"
    assert len(set(keys(grid))) == 6


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("{ linspace = [0, 1, 5] }", [0.0, 0.25, 0.5, 0.75, 1.0]),
        ("{ linspace = [0.1, 0.7, 3] }", [0.1, 0.4, 0.7]),  # 0.39999999999999997 before it is rounded
        ("{ geomspace = [0.5, 8, 5] }", [0.5, 1.0, 2.0, 4.0, 8.0]),
        ("{ geomspace = [1, 2, 3] }", [1.0, 1.41421356237, 2.0]),
        ("{ geomspace = [3, 1, 1] }", [3.0]),
        ("[2, 1.5]", [2.0, 1.5]),
    ],
)
def test_axes(grid_of, written, values):
    grid = grid_of(f'task = "evolve"\n[axes]\nalpha = {written}')
    assert [point.parameters["alpha"] for point in grid.points] == values


def test_the_shipped_grids_can_be_read():
    assert "troiani2025-skip" in shipped()
    for name in shipped():
        assert read_grid(name).points


def test_a_grid_survives_being_written(grid_of):
    grid = grid_of(
        'task = "evolve"\n[fixed]\nmax-iter = 50\n[axes]\nalpha = { linspace = [0, 1, 3] }\nrank = [1, [1, 2]]'
    )
    again = Grid.of(json.loads(json.dumps(grid.as_record())))
    assert keys(again) == keys(grid)
    assert grid.points[1].parameters["rank"] == [1, 2]
    assert grid.points[0].parameters["max_iter"] == 50


def test_the_same_point_has_the_same_key_however_it_is_written():
    assert one("threshold") == one("threshold", layers=2, skip=1, beta=1.0, untied=False)
    assert one("evolve", alpha=1, **{"max-iter": 9}) == one("evolve", max_iter=9, alpha=1.0)
    assert one("threshold", layers=2, rank=[1, 1]) != one("threshold", layers=2, rank=[1, 2])


def test_different_points_have_different_keys(monkeypatch):
    first = one("threshold", skip=0.1)
    # The nearest float is another point.
    assert first != one("threshold", skip=0.1 + 2**-56)
    assert first != one("threshold", skip=0.1, digits=13)
    assert one("threshold", layers=2) != one("evolve", layers=2, alpha=0.5)
    assert one("threshold", link="h[1]**2") != one("threshold", link="-h[1]**2")
    monkeypatch.setattr(store, "SCHEMA", store.SCHEMA + 1)
    assert first != one("threshold", skip=0.1)


LINK = "h[1]*h[2]"
POINTS = {
    "last": ("threshold", {}),
    "linear": ("threshold", {"activation": "linear"}),
    "first": ("threshold", {"layer": 1}),
    "heads": ("threshold", {"layers": 1, "heads": 2}),
    "evolve": ("evolve", {"alpha": 0.5}),
    "link": ("threshold", {"link": LINK}),
    "link evolve": ("evolve", {"link": LINK, "alpha": 0.5}),
}
LINKS = ["link", "link evolve"]
# What an edit of a module makes stale.
EDITS = {
    "numerics.thresholds.last_layer": ["last", "linear", "heads", "evolve", *LINKS],
    "numerics.thresholds.first_layer": ["first"],
    "numerics.channel.two_layers.sums": ["first", "evolve", "link evolve"],
    "numerics.fixed_point.evolve": ["evolve", "link evolve"],
    "numerics.model.network": ["last", "linear", "first", "heads", "evolve", *LINKS],
    "numerics.quadrature.rules": [*POINTS],
    "numerics.posterior.link.quadrature": LINKS,
    "numerics.fixed_point.link": ["link evolve"],
    "numerics.thresholds.choice": ["last", "linear", "first", "heads"],
    "numerics.thresholds.heads": ["heads"],
    "numerics.thresholds.link.choice": LINKS,
    "numerics.fixed_point.heads": ["evolve"],
    "numerics.fixed_point.link_limit": ["link evolve"],
    "generated.attention_tied_softmax_m2.posterior64": ["last", "first", "heads", "evolve"],
    "generated.attention_tied_linear_m2.mp": ["linear"],
    "generated.exact": [*POINTS],
    "derive.links.branches": LINKS,
    "derive.kernels.softmax_m2": [],  # `make derive` edits the kernels
    "numerics.cli.flags": [],
    "numerics.cli.threshold": [],
    "numerics.core.plots": [],
    "numerics.sweeps.view": [],
    "numerics.learning.gamp.loop": [],
}


def _keys():
    link_store.derivation.cache_clear()
    return {name: one(task, **fixed) for name, (task, fixed) in POINTS.items()}


@pytest.fixture(scope="module")
def before():
    return _keys()


@pytest.mark.parametrize("module", EDITS)
def test_an_edit_makes_the_points_stale_that_it_may_change(edited, before, module):
    with edited(f"attnlimits.{module}"):
        after = _keys()
    link_store.derivation.cache_clear()
    assert [name for name in POINTS if after[name] != before[name]] == EDITS[module]


def test_parameters_of_a_point_are_those_that_its_numbers_depend_on():
    model = (
        "activation",
        "beta",
        "blocks",
        "heads",
        "label_noise",
        "layers",
        "link",
        "mask",
        "noise",
        "output",
        "rank",
        "readouts",
        "skip",
        "token_covariance",
        "tokens",
        "untied",
    )
    prior = ("density", "prior", "row_covariance", "spectrum")
    side = ("known", "side_strength")
    effort = ("accuracy", "max_iter", "nodes", "replicas", "samples", "seed", "start", "tol")
    assert set(tasks.TASKS["evolve"].canonical({"alpha": 0.5})) == {"alpha", *model, *prior, *side, *effort}
    threshold = ("accuracy", "digits", "given", "layer", "replicas", "rigorous", "samples", "seed", "staircase")
    assert set(tasks.TASKS["threshold"].canonical({})) == {*model, *prior, *threshold}
    with pytest.raises(ValueError, match="task evolve has no parameter 'plot'"):
        tasks.TASKS["evolve"].canonical({"alpha": 0.5, "plot": "picture.png"})


def test_a_link_has_an_identity_of_its_own():
    task = tasks.TASKS["threshold"]
    links = ({"link": LINK}, {"link": f"-{LINK}"}, {"link": LINK, "noise": 0.1}, {})
    found = {task.identity(task.canonical(link)) for link in links}
    assert len(found) == len(links)


def test_points_on_charts_depend_on_what_derives_the_charts(monkeypatch):
    task = tasks.TASKS["evolve"]
    points = [{"alpha": 0.1}, {"alpha": 0.1, "untied": True}, {"alpha": 0.1, "rank": [1, 2]}]
    before = [task.identity(task.canonical(point)) for point in points]
    monkeypatch.setattr(verb, "derivation", lambda: "another")
    after = [task.identity(task.canonical(point)) for point in points]
    assert [old != new for old, new in zip(before, after, strict=True)] == [False, True, True]


def test_a_route_without_sources_is_refused(monkeypatch):
    monkeypatch.setattr(verb, "_NUMERICS", "attnlimits.nowhere.")
    with pytest.raises(ValueError, match=r"no source of the module attnlimits\.nowhere\.thresholds"):
        one("threshold")


def test_keys_do_not_depend_on_the_process(grid_of, tmp_path):
    grid = grid_of(
        'task = "threshold"\n[axes]\nskip = { geomspace = [0.3, 10, 4] }\nactivation = ["softmax", "linear"]'
    )
    code = (
        "import json, sys; from attnlimits.numerics.sweeps.grid import read_grid; "
        "print(json.dumps([point.key for point in read_grid(sys.argv[1]).points]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "grid.toml")],
        env={"PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == keys(grid)


BAD = [
    ("task = ", "is no TOML"),
    ("task = 'threshold'\nskip = 1\n[axes]\nskip = [1]", "unknown entry 'skip'"),
    ("[axes]\nskip = [1]", "task is missing"),
    ("task = 'solve'\n[axes]\nskip = [1]", "task must be one of evolve, threshold, got 'solve'"),
    ("task = 3\n[axes]\nskip = [1]", "task must be one of"),
    ("task = 'threshold'", "[axes] is empty"),
    ("task = 'threshold'\n[axes]", "[axes] is empty"),
    ("task = 'threshold'\naxes = 3", "axes must be a table"),
    ("task = 'threshold'\n[axes]\nskip = []", "axis skip is empty"),
    ("task = 'threshold'\n[axes]\nskip = 1", "axis skip must be a list of values"),
    ("task = 'threshold'\n[axes]\nalpha = [1]", "no parameter 'alpha'; it has accuracy, activation, beta"),
    ("task = 'threshold'\n[fixed]\nwidth = 2\n[axes]\nskip = [1]", "no parameter 'width'"),
    ("task = 'threshold'\n[fixed]\nworkers = 2\n[axes]\nskip = [1]", "workers is no parameter of a point"),
    ("task = 'threshold'\n[fixed]\njson = true\n[axes]\nskip = [1]", "no parameter 'json'"),
    ("task = 'threshold'\n[fixed]\nskip = 2\n[axes]\nskip = [1]", "skip is both fixed and an axis"),
    ("task = 'threshold'\n[fixed]\nskip = nan\n[axes]\nbeta = [1]", "fixed parameter skip must be finite"),
    ("task = 'threshold'\n[fixed]\nskip = 1979-05-27\n[axes]\nbeta = [1]", "must be a number, true or false, a word"),
    ("task = 'threshold'\n[axes]\nskip = [1, inf]", "a value of axis skip must be finite"),
    ("task = 'threshold'\n[axes]\nskip = [1, 1.0]", "an axis has the same value twice: skip=1.0"),
    ("task = 'threshold'\n[axes]\nskip = ['much']", "task threshold: argument --skip: invalid float value: 'much'"),
    ("task = 'threshold'\n[axes]\noutput = ['all']", "argument --output: invalid choice: 'all'"),
    ("task = 'evolve'\n[axes]\nskip = [1]", "task evolve needs the parameter 'alpha'"),
    ("task = 'evolve'\n[axes]\nalpha = [1]\n[fixed]\nmax-iter = 1\nmax_iter = 2", "a name twice"),
    ("task = 'threshold'\n[axes]\nskip = { range = [1, 2, 3] }", "axis skip must have one of linspace, geomspace"),
    ("task = 'threshold'\n[axes]\nskip = {}", "axis skip must have one of linspace, geomspace, got nothing"),
    ("task = 'threshold'\n[axes]\nskip = { linspace = [1, 2] }", "linspace must be [start, stop, number]"),
    ("task = 'threshold'\n[axes]\nskip = { linspace = [1, 2, 'x'] }", "linspace must be [start, stop, number]"),
    ("task = 'threshold'\n[axes]\nskip = { linspace = [1, 2, 0] }", "linspace needs a number of values >= 1"),
    ("task = 'threshold'\n[axes]\nskip = { linspace = [1, 2, 2.5] }", "linspace needs a number of values >= 1"),
    ("task = 'threshold'\n[axes]\nskip = { linspace = [1, 2, 100000000] }", "linspace gives at most 1000000 values"),
    ("task = 'threshold'\n[axes]\nskip = { linspace = [1, inf, 3] }", "both ends of linspace must be finite"),
    ("task = 'threshold'\n[axes]\nskip = { geomspace = [0, 1, 3] }", "both ends of geomspace must be finite and > 0"),
    (
        "task = 'threshold'\n[axes]\nskip = { linspace = [1, 2, 2000] }\nbeta = { linspace = [1, 2, 2000] }",
        "at most 1000000 points, got 4000000",
    ),
    (
        "task = 'threshold'\n[axes]\n" + "\n".join(f"{name} = {{ linspace = [1, 2, 1000] }}" for name in "abc"),
        "at most 1000000 points, got 1000000000",
    ),
    (
        "task = 'threshold'\n[axes]\n" + "\n".join(f"a{k} = {{ linspace = [1, 2, 1000000] }}" for k in range(900)),
        "at most 1000000 points, got 10^15 or more",
    ),
    ("task = " + "[" * 100_000, "its brackets are nested too deep"),
    ("task = " + "9" * 10_000, "is no TOML: Exceeds the limit"),
    (f"task = 'threshold'\n[axes]\nskip = {{ linspace = [1, {10**400}, 3] }}", "both ends of linspace must be finite"),
    (f"task = 'threshold'\n[axes]\nskip = [{10**400}]", "task threshold: skip must be finite, got 1000"),
    ("task = 'threshold'\n[axes]\nskip = ['1e999']", "task threshold: skip must be finite, got '1e999'"),
    ("task = 'threshold'\n[axes]\nskip = [true]", "argument --skip: expected one argument"),
    ("task = 'threshold'\n[axes]\nuntied = [2]", "argument --untied: ignored explicit argument '2'"),
]


@pytest.mark.parametrize(("text", "words"), BAD, ids=[words for _, words in BAD])
def test_a_bad_grid_is_refused_in_a_sentence(toml, text, words):
    path = toml(text)
    with pytest.raises(ValueError) as refused:
        read_grid(path)
    assert words in str(refused.value)
    assert str(refused.value).startswith(str(path))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match=r"neither a TOML file nor one that is shipped \(.*troiani2025-skip"):
        read_grid(tmp_path / "nothing.toml")


GRIDS = {
    "flags of all kinds": {
        "task": "evolve",
        "fixed": {"max-iter": 50, "start": "informed"},
        "axes": {"alpha": [0, 0.25, "0.5"], "rank": [1, [1, 2], "2,1"], "untied": [False, True]},
    },
    "a link": {
        "task": "threshold",
        "fixed": {"link": "h[1] = --noise", "noise": 0.5},
        "axes": {"digits": [3, 5], "seed": [0, 7, 2**70]},
    },
    "corners": {"task": "threshold", "axes": {"beta": [5e-324, 0.1, 1e12, -0.0], "skip": ["1_0", " 1", "-2", 3]}},
    "empty": {"task": "threshold", "fixed": {"link": ""}, "axes": {"activation": ["", "--skip", "=", "softmax"]}},
}


@pytest.mark.parametrize("name", [*GRIDS, *shipped()])
def test_flags_read_one_by_one_are_those_of_the_whole_line(name):
    """Each point by the parser of the command, as a point is computed by hand: the keys of old stores stay."""
    grid = Grid.of(GRIDS[name]) if name in GRIDS else read_grid(name)
    for point, values in zip(grid.points, grid._combinations(), strict=True):
        given = grid.fixed | values
        found = vars(verb._parse([grid.task.name, *verb._flags(given)]))
        parameters = {
            k: list(v) if isinstance(v, tuple) else v
            for k, v in sorted(found.items())
            if k not in ("verb", "run", "json", "quiet", "plot", "workers", "dask")
        }
        assert json.dumps(point.parameters) == json.dumps(parameters)
        assert point.key == store.key_of(grid.task.name, parameters, grid.task.identity(parameters))


def test_points_are_made_quickly():
    """Without a line of the command parsed for each; twice the bound, as other processes may have the machine."""
    Grid.of({"task": "evolve", "axes": {"alpha": [0.5]}})
    axes = {"alpha": {"linspace": [0, 1, 2500]}}
    begin = time.process_time()
    assert len(Grid.of({"task": "evolve", "axes": axes}).points) == 2500
    assert (time.process_time() - begin) / 2500 < 2e-4


def test_tasks_of_ones_own(toy, grid_of):
    register(toy)
    with pytest.raises(ValueError, match="there is a task 'toy' already"):
        register(Function("toy", dict))
    grid = grid_of('task = "toy"\n[axes]\na = [1, 2]')
    assert [point.parameters for point in grid.points] == [{"a": a, "b": 0, "fail": False} for a in (1, 2)]
    with pytest.raises(ValueError, match="task toy: got an unexpected keyword argument 'c'"):
        grid_of('task = "toy"\n[axes]\na = [1, 2]\nc = [1]')


def test_the_command_of_a_point_has_its_parameters():
    point = Grid.of({"task": "evolve", "axes": {"alpha": [0.0], "max_iter": [7]}}).points[0]
    assert tasks.task_named("evolve").command(point.parameters) == "attnlimits evolve --alpha=0.0 --max-iter=7 --json"
