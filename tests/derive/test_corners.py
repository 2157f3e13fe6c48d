"""Every kernel at the corners of its arguments: right to a stated accuracy, or an error that names what to do."""

import inspect
import itertools
import math
import tomllib
from importlib import resources

import numpy as np
import pytest
import sympy as sp

from attnlimits.derive.architecture import Architecture
from attnlimits.derive.kernels.packages import write_link_package
from attnlimits.numerics.model.kernels import load_package

EPS = np.finfo(float).eps
LARGEST = np.finfo(float).max
MANIFEST = tomllib.loads(resources.files("attnlimits.generated").joinpath("MANIFEST.toml").read_text(encoding="utf-8"))
KNOWN = {name: entry for name, entry in MANIFEST.items() if "functions" in entry}

# Where float64 ends, or nothing is left of an argument: for an argument each, repeated until there are enough.
CORNERS = [
    (1e3,),
    (-1e3,),
    (1e-300,),
    (0.0,),
    (1e3, -1e3),
    (1e3, -1e3, 1e-300),
    (1e-300, 1e3, 0.0),
    (-1e-300, 1.0, 1e3, 0.5, -1e3),
]

CONSTANTS = {"c": 0.75, "beta": 1.25}


def relu(x):
    return sp.Max(x, 0)


def leaky(x):
    return sp.Max(x, x / 10)


def silu(x):
    return x / (1 + sp.exp(-x))


def softplus(x):
    return sp.log(1 + sp.exp(x))


def swish(x):
    return x * sp.exp(2 * x) / (1 + sp.exp(2 * x))


# What users bring: saturating or not, kinked or not, and the deep linear network whose outputs leave float64.
ON_DEMAND = {
    "silu": Architecture(2, 2, activation=silu),
    "silu_sequence": Architecture(2, 3, activation=silu, tied=False, output="sequence"),
    "softplus": Architecture(2, 2, activation=softplus),
    "swish": Architecture(2, 2, activation=swish, tied=False),
    "tanh": Architecture(3, 2, activation=sp.tanh),
    "relu": Architecture(2, 3, activation=relu),
    "leaky": Architecture(2, 2, ranks=2, activation=leaky),
    "linear": Architecture(5, 2, activation="linear"),
    "linear_tokens": Architecture(5, 3, activation="linear"),
}
FAST = ("silu", "tanh")


@pytest.fixture(scope="module")
def place(derived, tmp_path_factory):
    """Return a function from the name of a package to what `load_package` loads it by."""
    folder, made = tmp_path_factory.mktemp("links"), {}

    def find(name):
        if name in KNOWN:
            return name if KNOWN[name].get("committed", True) else derived(name)
        if name not in made:
            made[name] = write_link_package(ON_DEMAND[name], folder)
        return made[name]

    return find


def _names(function):
    return list(inspect.signature(function).parameters)


def _fill(names, corner):
    """Give the entries of h the values of a corner, and every constant its own."""
    values, weights = itertools.cycle(corner), itertools.cycle((0.5, -1.25, 0.75))
    point = []
    for name in names:
        constant = CONSTANTS.get(name, next(weights) if name[0] == "o" else None)
        point.append(next(values) if constant is None else constant)
    return point


def _silent(function, *point):
    with np.errstate(all="raise"):
        return [float(value) for value in function(*point)]


def _agree(made, exact, relative, what):
    """Compare with an error relative to the largest output; below 1e-290 products underflow on the way."""
    size = max(abs(value) for value in exact)
    for number, (value, wanted) in enumerate(zip(made, exact, strict=True)):
        assert abs(value - wanted) <= relative * size + 1e-290, (what, number, value, float(wanted))


def _scores(point, layers, tokens):
    """Bound the scores: |h|^2 times what the mixing matrices, sums of c and of rows that sum to one, make of it."""
    growth = (2.0 * CONSTANTS["c"] + 4.0) ** (layers - 1)
    return CONSTANTS["beta"] * tokens * (max(map(abs, point)) * growth) ** 2


LINKS = [name for name in KNOWN if name.startswith("link_")]
# Jacobians that take numba up to ten seconds to compile.
LARGE = ["link_tied_softmax_m3_l3_r1", "link_tied_softmax_m2_h2_l2_r1", "link_tied_softmax_m4_l2_r1"]


def _check_link(kernels, name, corner, ctx, functions):
    """Softmax outputs are bounded, so nothing may be refused: the functions of each printer against those of mp."""
    entry, oracle = KNOWN[name], kernels("mp")
    point = _fill(_names(oracle.link)[1:], corner)
    # Exponents of the size of the scores carry that many roundings, and 64 others come on top.
    relative = 64 * EPS * (1 + _scores(point, entry["layers"], entry["tokens"]))
    for printer, function in functions:
        exact = getattr(oracle, function)(ctx, *point)
        made = _silent(getattr(kernels(printer), function), *point)
        _agree(made, exact, relative, (name, printer, function, corner))


@pytest.mark.slow_for(
    "link_tied_softmax_m3_l3_r1",
    "link_tied_softmax_m4_l2_r1",
    "link_tied_softmax_m2_h2_l2_r1",
    "link_untied_softmax_m2_l2_r1",
    "link_tied_softmax_m2_l2_r2",
)
@pytest.mark.parametrize("corner", CORNERS, ids=str)
@pytest.mark.parametrize("name", LINKS)
def test_links(name, corner, place, context):
    functions = list(itertools.product(("numpy64", "numba64"), ("link", "jacobian")))
    if name in LARGE:
        functions.remove(("numba64", "jacobian"))
    _check_link(lambda printer: load_package(place(name), printer), name, corner, context(60), functions)


@pytest.mark.slow
@pytest.mark.parametrize("corner", CORNERS, ids=str)
@pytest.mark.parametrize("name", LARGE)
def test_compiled_jacobians_of_large_links(name, corner, place, context):
    assert name in LINKS
    functions = [("numba64", "jacobian")]
    _check_link(lambda printer: load_package(place(name), printer), name, corner, context(60), functions)


# Every compilation takes seconds, those of the large Jacobians ten.
BOTH = [
    pytest.param(name, printer, marks=[pytest.mark.slow] if name not in FAST and printer == "numba64" else [])
    for name in ON_DEMAND
    for printer in ("numpy64", "numba64")
]


@pytest.mark.slow_for("silu-numba64", "silu_sequence-numpy64", "linear_tokens-numpy64", "tanh-numba64")
@pytest.mark.parametrize(("name", "printer"), BOTH)
def test_links_on_demand(name, printer, place, context):
    """Right, or refused where a number does not fit into float64."""
    ctx, oracle, module = context(60), load_package(place(name), "mp"), load_package(place(name), printer)
    for corner, function in itertools.product(CORNERS, ("link", "jacobian")):
        what = (name, function, corner)
        point = _fill(_names(oracle.link)[1:], corner)
        # Scores of 1e6 and a skip strength of one order add up to what later cancels, twice.
        relative = 64 * EPS * (1 + max(map(abs, point)) ** 2)
        exact = getattr(oracle, function)(ctx, *point)
        assert all(ctx.isfinite(value) for value in exact), what
        if max(abs(value) for value in exact) < LARGEST:
            _agree(_silent(getattr(module, function), *point), exact, relative, what)
        else:
            where = (
                r"at h\d_\d_\d = .*use a smaller \|h" if printer == "numpy64" else r"in float64 at finite .*use smaller"
            )
            message = rf"{function}: an output is not finite {where}.*module mp"
            with pytest.raises(OverflowError, match=message):
                getattr(module, function)(*point)


def test_what_overflows_is_what_is_refused(place, context):
    """Five linear layers leave float64; one column of a batch is enough, and the others alone pass."""
    kernel, oracle, ctx = load_package(place("linear"), "numpy64"), load_package(place("linear"), "mp"), context(60)
    names = _names(kernel.link)
    small, large = _fill(names, (0.5,)), _fill(names, (1e3,))
    assert abs(oracle.link(ctx, *large)[0]) > ctx.mpf(10) ** 400
    batch = np.array([small, large, small]).T
    with pytest.raises(OverflowError, match=r"h1_1_1 = 1000.*\(5\), \(6\), \(7\)"):
        kernel.link(*batch)
    assert np.isfinite(kernel.link(*batch[:, ::2])).all()
    # What is not finite on the way in is no overflow.
    batch[0, 1] = np.nan
    assert np.isnan(kernel.link(*batch)[0][1])


def test_arguments_by_name_and_wrong_ones(derived):
    kernel = load_package(derived("link_untied_softmax_m2_l1_r1"), "numpy64")
    made = kernel.link(0.1, 0.2, 0.3, beta=1.0, q1_1_2=[0.4, 0.5])
    np.testing.assert_array_equal(made, kernel.link(0.1, 0.2, 0.3, [0.4, 0.5], 1.0))
    for arguments, named in (((0.1, 0.2), {}), ((0.1,) * 6, {}), ((0.1,) * 4, {"gamma": 1.0})):
        with pytest.raises(TypeError, match=r"link\(\)"):
            kernel.link(*arguments, **named)


# --- the families


FAMILIES = [name for name in KNOWN if name.startswith("attention_")]


@pytest.mark.parametrize("printer", ["numpy64", "numba64"])
@pytest.mark.parametrize("name", FAMILIES)
def test_families(name, printer, context):
    ctx, module, oracle = context(60), load_package(name, printer), load_package(name, "mp")
    functions = set(KNOWN[name]["functions"]) - {"invert"}
    assert functions >= {"layer", "link", "undo", "undo_row", "undo_node", "quadratic"}
    for corner in CORNERS:
        for function in functions:
            names = _names(getattr(oracle, function))[1:]
            point = dict(zip(names, _fill(names, corner), strict=True))
            exact = () if function == "undo_node" else getattr(oracle, function)(ctx, *point.values())
            if function == "undo_node":
                # The parts are bounded so that they do not overflow; together they give `undo`.
                arguments = _names(oracle.undo)[1:]
                x = dict(zip(arguments, _fill(arguments, corner), strict=True))
                exact = oracle.undo(ctx, *x.values())
                x["row1"], x["row2"] = module.undo_row(x["xm"], x["c"], x["beta"])
                if "f1" in point:
                    exponents = module.undo_exponents(x["xp"], x["xm"], x["beta"])
                    x["f1"], x["f2"] = (math.exp(exponent) for exponent in exponents)
                point = {name: x[name] for name in names}
            made = [float(value) for value in getattr(module, function)(*point.values())]
            if function in ("undo_row", "undo_exponents", "undo_ratios"):
                assert np.isfinite(made).all(), (name, function, corner)
                continue
            # Exponents beta z^2 carry their roundings; sums of products lose against the largest output.
            size = 1 + CONSTANTS["beta"] * 2 * max(map(abs, corner)) ** 2
            _agree(made, exact, 64 * EPS * size, (name, function, corner))


@pytest.mark.parametrize("name", FAMILIES)
def test_inverses_say_where_the_range_ends(name, context):
    """Outputs at the corners that are rounded to the edge of the range are refused, by both kinds of numbers."""
    ctx, module, oracle = context(60), load_package(name, "numpy64"), load_package(name, "mp")
    refused = 0
    for corner in CORNERS:
        y = [float(value) for value in oracle.link(ctx, *_fill(("vp", "vm"), corner), CONSTANTS["beta"])]
        edge = min(y) == 0 or y[1] + y[2] >= 1 if "softmax" in name else y[0] == 0
        if edge:
            refused += 1
            for call in (module.invert, lambda *a: oracle.invert(ctx, *a)):
                with pytest.raises(ValueError, match=r"invert: an output is not finite at .*expected .*y"):
                    call(*y, CONSTANTS["beta"])
        else:
            made, exact = module.invert(*y, CONSTANTS["beta"]), oracle.invert(ctx, *y, CONSTANTS["beta"])
            _agree(_silent(lambda *a, values=made: values), exact, 8 * EPS, (name, corner))
    assert refused > 1


# --- the fibres


FIBRES = [name for name in KNOWN if name.startswith("fibre_")]


def _data(names, scale):
    """Fixed products of the size of ``scale``: C positive definite, T not zero."""
    fixed = {"C_1_1": 1.0, "C_1_2": 0.5, "C_2_2": 2.0, "X_1_1": -0.75, "X_2_1": 0.25}
    fixed |= {"T_1_1": 1.5, "T_1_2": -0.5, "T_2_1": 0.75}
    return {name: scale * fixed[name] for name in names if name in fixed}


@pytest.mark.parametrize("printer", ["numpy64", "numba64"])
@pytest.mark.parametrize("scale", [1e6, 1e3, 1e-8, 1e-300])
@pytest.mark.parametrize("name", FIBRES)
def test_fibres(name, scale, printer, derived, context):
    ctx, module, oracle = context(60), load_package(derived(name), printer), load_package(derived(name), "mp")
    names = _names(oracle.fibre)[1:]
    known = _data(names, scale) | {"beta": CONSTANTS["beta"]} | ({"sign": -1.0} if "sign" in names else {})
    free = [n for n in names if n not in known]
    for corner in CORNERS:
        point = known | dict(zip(free, _fill(free, corner), strict=True))
        if any(n[0] == "k" and point[n] == 0 for n in free):
            if printer == "numpy64":
                with pytest.raises(ValueError, match=r"fibre: an output is .*expected data in the range"):
                    module.fibre(**point)
            continue
        *exact, density = oracle.fibre(ctx, **point)
        *made, found = module.fibre(*(point[n] for n in names))
        # A few sums and quotients, each relative to the largest entry; logarithms to their own size.
        _agree(made, exact, 64 * EPS, (name, scale, corner))
        assert abs(found - density) <= 16 * EPS * (1 + abs(density)), (name, scale, corner)


@pytest.mark.parametrize("name", FIBRES)
def test_data_of_fibres(name, derived, context):
    """Outputs of any size give their data; zeros of a softmax are refused."""
    ctx, oracle = context(60), load_package(derived(name), "mp")
    modules = [load_package(derived(name), printer) for printer in ("numpy64", "numba64")]
    names = _names(oracle.data)[1:]
    for entries in ((1e-300, 0.5), (1e-300, 1.0, 0.25), (0.5,), (1e-8, 0.99, 1e-3)):
        point = _fill(names, entries)
        exact = oracle.data(ctx, *point)
        for module in modules:
            made = [float(value) for value in module.data(*point)]
            _agree(made, exact, 16 * EPS, (name, entries))
    if "softmax" in name:
        point = _fill(names, (0.0, 1.0))
        for call in (modules[0].data, lambda *a: oracle.data(ctx, *a)):
            with pytest.raises(ValueError, match=r"data: an output is .*expected y in the range of the link"):
                call(*point)
    with pytest.raises(ValueError, match="fibre: an output"):
        modules[0].fibre(*[0.0] * len(_names(modules[0].fibre)))
