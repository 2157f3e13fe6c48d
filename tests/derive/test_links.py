"""Straight-line links and Jacobians of every architecture: derived, proved, printed, run."""

import dataclasses
import functools
import importlib
import importlib.util
import inspect
import sys

import numba
import numpy as np
import pytest
import sympy as sp

from attnlimits.derive.activation import logistic
from attnlimits.derive.architecture import Architecture
from attnlimits.derive.emit.ir import lower
from attnlimits.derive.kernels import link_proof
from attnlimits.derive.kernels.kernel import Kernel
from attnlimits.derive.kernels.link import link_package
from attnlimits.derive.kernels.link_names import constants_of, package_name
from attnlimits.derive.kernels.link_proof import prove
from attnlimits.derive.kernels.packages import LINKS, write_link_package
from attnlimits.derive.mixing import link
from attnlimits.derive.primitives import Exp, Expit, Log1p, LogExpit, elementary
from attnlimits.derive.proof import ProofError, prove_equal
from attnlimits.derive.straightline import straight_jacobian, straight_link
from attnlimits.numerics.core.errors import KernelNotFoundError
from attnlimits.numerics.model import networks
from attnlimits.numerics.model.kernels import load_package
from attnlimits.numerics.model.network import Network

EPS = np.finfo(float).eps
SKIP, BETA = sp.Rational(3, 4), sp.Rational(5, 4)


def relu(x):
    return sp.Max(x, 0)


def silu(x):
    return x / (1 + sp.exp(-x))


NUMPY = {
    "softmax": "softmax",
    "linear": "linear",
    sp.tanh: np.tanh,
    relu: lambda z: np.maximum(z, 0.0),
    silu: lambda z: z / (1 + np.exp(-z)),
}

# Every value of every property at least twice: layers, tokens, ranks, heads, tied, output, activation.
MODELS = [
    Architecture(layers, tokens, ranks, activation, tied, output=output, heads=heads)
    for layers, tokens, ranks, heads, tied, output, activation in [
        (1, 2, 1, 1, True, "last", "softmax"),
        (1, 3, 2, 1, False, "last", "softmax"),
        (1, 2, 1, 2, False, "last", "softmax"),
        (1, 3, 1, 3, True, "sequence", "softmax"),
        (2, 2, (1, 2), 1, True, "sequence", "softmax"),
        (2, 3, (2, 1), 1, False, "sequence", "linear"),
        (2, 2, (1, 2), 2, False, "sequence", "softmax"),
        (2, 2, 1, 3, False, "last", "linear"),
        (3, 2, 1, 2, True, "last", "softmax"),
        (3, 2, (1, 2, 1), 1, False, "last", sp.tanh),
        (2, 2, 1, 2, True, "sequence", sp.tanh),
        (2, 3, (2, 1), 1, False, "sequence", silu),
        (2, 3, 1, 1, True, "last", relu),
    ]
]
IDS = [package_name(model) for model in MODELS]


def _load(path):
    """Import a package from a folder anywhere, under its own name."""
    spec = importlib.util.spec_from_file_location(
        path.name, path / "__init__.py", submodule_search_locations=[str(path)]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def imported():
    """Forget what a test imported from elsewhere."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("link_"):
            del sys.modules[name]


@pytest.fixture
def printing(derived):
    """Return a function that loads one printing of the link of a model."""
    return lambda model, printer: load_package(derived(package_name(model)), printer)


def _network(model, rng, skip=float(SKIP), beta=float(BETA)):
    readouts = [rng.normal(size=(model.heads, model.heads)) for _ in model.readouts]
    return Network(
        layers=model.layers,
        tokens=model.tokens,
        rank=model.rank_vector,
        heads=model.heads,
        tied=model.tied,
        output=model.output,
        skip=skip,
        beta=beta,
        activation=NUMPY[model.activation],
        readouts=readouts,
    )


def _arguments(model, network, h):
    """Arguments of a kernel: the entries of h (last two axes in front), the constants, the readout weights."""
    flat = np.moveaxis(h.reshape(*h.shape[:-2], -1), -1, 0)
    constants = [
        {"c": network.skip, "beta": network.beta}[s.name] for s in constants_of(model)[:2] if s.name in ("c", "beta")
    ]
    return [*flat, *constants, *np.ravel(network.readouts)]


def _relative(made, wanted):
    return np.abs(made - wanted).max() / max(1.0, np.abs(wanted).max())


# Two layers of two heads that show their sequence, and three of two heads: the others have each property at least once.
LONG = (MODELS[6], MODELS[8], MODELS[10])


@pytest.mark.slow_for(
    "link_untied_linear_m2_h3_l2_r1",
    "link_untied_silu_m3_sequence_l2_r2x1_e5714031",
    "link_tied_softmax_m3_sequence_h3_l1_r1",
    "link_untied_linear_m3_sequence_l2_r2x1",
)
@pytest.mark.parametrize(
    "model",
    [
        pytest.param(model, id=name, marks=[pytest.mark.slow] if model in LONG else [])
        for model, name in zip(MODELS, IDS, strict=True)
    ],
)
def test_three_routes_to_the_output(model, rng, tmp_path, imported):
    """Network at finite dimension, numpy link, printed kernel: (2)-(3), (19), (25), (28)-(30)."""
    network = _network(model, rng)
    weights = networks.random_weights(network, 12, rng)
    x = rng.normal(size=(5, 12, model.tokens))
    h = networks.indices(x, weights, network)
    assert h.shape[-2:] == (model.indices, model.tokens)
    value = networks.link(h, network)
    package = write_link_package(model, tmp_path)  # with the proofs of `link_proof.prove`
    facts = _load(package)
    assert len(facts.OUTPUTS) == value[0].size
    kernel = importlib.import_module(f"{package.name}.numpy64")
    assert len(kernel.jacobian(*_arguments(model, network, h))) == value[0].size * h[0].size
    printed = np.moveaxis(np.array(kernel.link(*_arguments(model, network, h))), 0, -1).reshape(value.shape)
    # Some thousand roundings.
    assert _relative(printed, value) < 1e-12
    moved = networks.apply_mixing(x, printed, network) if model.output == "sequence" else printed
    assert _relative(moved, networks.forward(x, weights, network)) < 1e-12


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("output", ["last", "sequence"])
def test_expanded_program_is_the_link(tied, output):
    """The whole tree against `derive.mixing`, and its derivative by SymPy, exactly, where trees are small."""
    model = Architecture(1, 3, tied=tied, output=output, skip=SKIP)
    prove_equal(straight_link(model).expanded().xreplace(_no_shift(model)), link(model), "link")
    jacobian = straight_jacobian(model)
    assert jacobian.outputs.shape == (9, len(jacobian.variables))
    first = elementary(link(model))[1]
    for column, variable in enumerate(jacobian.variables[:3]):
        prove_equal(
            jacobian.expanded().xreplace(_no_shift(model))[1, column], sp.diff(first, variable), f"d/d{variable}"
        )


def _no_shift(model):
    """The largest score of a row cancels; zero in its place is the textbook form."""
    line = straight_link(model)
    known = {}
    for name, value in line.body:
        known[name] = value.xreplace(known)
    return {known[name]: sp.S.Zero for name, _ in line.body if name.name.startswith("m")}


def test_structural_zeros_are_left_out():
    """Layer 1 sees its own block alone, so the indices on other blocks enter nothing."""
    model = Architecture(1, 2, heads=2)
    line = straight_jacobian(model)
    for block in model.index_blocks:
        columns = [line.variables.index(symbol) for symbol in block.symbols(2, 2)]
        zero = all(line.outputs[:, column] == sp.zeros(8, 1) for column in columns)
        assert zero == (block.head != block.block)
    # The last layer's own indices enter its attention only, so B_{L-1} has no derivative in them.
    names = {name.name for name, _ in straight_jacobian(Architecture(2, 2)).body}
    assert "b1_1_1_d1" in names or "s1_1_1_d1" in names or "z1_1_d1" in names
    assert not any(name.startswith(("b1", "s1", "z1")) and name.endswith(("_d3", "_d4")) for name in names)


@pytest.mark.parametrize("which", ["body", "output", "jacobian"])
def test_the_proof_notices_a_wrong_kernel(which):
    model = Architecture(2, 2)
    good_link, good_jacobian = link_package(model).kernels
    name, value = good_link.body[3]
    wrong = {
        "body": (
            dataclasses.replace(good_link, body=(*good_link.body[:3], (name, value + 1), *good_link.body[4:])),
            good_jacobian,
        ),
        "output": (dataclasses.replace(good_link, outputs=good_link.outputs[::-1]), good_jacobian),
        "jacobian": (
            good_link,
            dataclasses.replace(
                good_jacobian, outputs=(("wrong", 2 * good_jacobian.outputs[0][1]), *good_jacobian.outputs[1:])
            ),
        ),
    }[which]
    with pytest.raises(ProofError, match="jacobian: entry 0" if which == "jacobian" else "link"):
        prove(model, wrong)


def test_a_wrong_layer_is_noticed(monkeypatch):
    """The exact part: every stage against `derive.mixing`."""
    from attnlimits.derive import mixing

    model = Architecture(2, 3, output="sequence")
    kernels = link_package(model).kernels
    for name, wrong, message in (
        ("mix", lambda m, b, s, o=None: mixing.mix(m, b, s, o) + sp.eye(3), "mixing"),
        ("score_matrices", lambda *a: tuple(2 * z for z in mixing.score_matrices(*a)), "scores"),
        ("softmax_rows", lambda z: 2 * sp.Matrix(z), "attention"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(link_proof, name, wrong)
            with pytest.raises(ProofError, match=message):
                prove(model, kernels)


def _check_jacobian(oracle, ctx, point, rest):
    """Compare a printed Jacobian with mpmath's differentiation of the link printed beside it."""
    made = oracle.jacobian(ctx, *point, *rest)
    outputs = len(oracle.link(ctx, *point, *rest))
    assert len(made) == outputs * len(point)
    for n, at in enumerate(point):

        @functools.cache
        def along(x, n=n):
            return oracle.link(ctx, *point[:n], x, *point[n + 1 :], *rest)

        for k in range(outputs):
            slope = ctx.diff(lambda x, k=k, along=along: along(x)[k], at)
            # A difference quotient at the precision that makes it good to the context's 50 digits; the outputs and
            # slopes here are at most 1e10.
            assert abs(made[k * len(point) + n] - slope) < ctx.mpf(10) ** -30, (k, n)


def test_exponentials_of_activations_become_logistic_nodes():
    x = sp.Symbol("x", real=True)
    for plain, made in (
        (1 / (1 + sp.exp(x)), Expit(-x)),
        (sp.exp(x) / (1 + sp.exp(x)) ** 2, Expit(x) * Expit(-x)),
        (x * sp.exp(-2 * x) / (1 + sp.exp(-2 * x)), x * Expit(-2 * x)),
        (sp.log(1 + sp.exp(-x)) ** 2, LogExpit(x) ** 2),
        (sp.tanh(sp.log(1 + sp.exp(x))), -sp.tanh(LogExpit(-x))),
        # No logistic function.
        (1 / (2 + sp.exp(x)), 1 / (2 + sp.exp(x))),
        (sp.log(1 + x) * sp.exp(x), sp.log(1 + x) * sp.exp(x)),
    ):
        assert logistic(plain) == made
        prove_equal(made, plain, str(plain))


def test_a_wrong_activation_is_noticed(monkeypatch):
    model = Architecture(1, 2, activation=silu)
    kernels = link_package(model).kernels
    plain = link_proof.activate_score
    with monkeypatch.context() as patch:
        patch.setattr(link_proof, "activate_score", lambda m, score: 2 * plain(m, score))
        with pytest.raises(ProofError, match="activation: entry 0"):
            prove(model, kernels)
    form, value, rate = link_proof.printed_activation(model)
    monkeypatch.setattr(link_proof, "printed_activation", lambda m: (form, 2 * value, rate))
    with pytest.raises(ProofError, match="another expression than its stable form"):
        prove(model, kernels)


@pytest.mark.slow_for("link_tied_softmax_m3_l3_r1", "link_tied_softmax_m4_l2_r1")
@pytest.mark.parametrize("model", LINKS, ids=package_name)
def test_the_jacobian_is_the_derivative_of_the_link(model, printing, context, rng):
    count, oracle, constants = model.indices * model.tokens, printing(model, "mp"), len(constants_of(model))
    assert len(inspect.signature(oracle.link).parameters) == 1 + count + constants
    ctx = context(50)
    for scale in (1.0, 2.5):
        point = [ctx.mpf(float(v)) for v in scale * rng.normal(size=count)]
        rest = [ctx.mpf(float(v)) for v in rng.uniform(0.5, 1.5, size=constants)]
        _check_jacobian(oracle, ctx, point, rest)


@pytest.mark.parametrize("activation", [silu, sp.tanh, relu, "linear"], ids=["silu", "tanh", "relu", "linear"])
def test_printed_jacobian_is_the_derivative_of_the_printed_link(activation, context, rng, tmp_path):
    model = Architecture(2, 2, activation=activation, tied=activation != "linear")
    oracle, ctx = load_package(write_link_package(model, tmp_path), "mp"), context(50)
    # Away from the kinks: scores h_i h_j of either sign, none of them close to zero.
    point = [
        ctx.mpf(float(v))
        for v in rng.uniform(0.4, 0.9, size=model.indices * 2) * rng.choice([-1, 1], size=model.indices * 2)
    ]
    _check_jacobian(oracle, ctx, point, [ctx.mpf(3) / 4, ctx.mpf(5) / 4])


@pytest.mark.parametrize("model", LINKS, ids=package_name)
def test_kernels_against_the_network_and_mp(model, printing, context, rng):
    network = _network(model, rng)
    weights, x = networks.random_weights(network, 16, rng), rng.normal(size=(4, 16, model.tokens))
    h = networks.indices(x, weights, network)
    arguments = _arguments(model, network, h)
    kernel, oracle, ctx = printing(model, "numpy64"), printing(model, "mp"), context(40)
    made = np.moveaxis(np.array(kernel.link(*arguments)), 0, -1)
    value = made.reshape(networks.link(h, network).shape)
    moved = networks.apply_mixing(x, value, network) if model.output == "sequence" else value
    assert _relative(moved, networks.forward(x, weights, network)) < 1e-12
    slopes = np.moveaxis(np.array(kernel.jacobian(*arguments)), 0, -1)
    for n in range(4):
        point = [float(np.broadcast_to(a, 4)[n]) for a in arguments]
        exact = np.array([float(v) for v in oracle.link(ctx, *point)])
        # Scores of a few tens carry that many roundings into each exponential.
        np.testing.assert_allclose(made[n], exact, rtol=1e-13, atol=1e-15)
        exact = np.array([float(v) for v in oracle.jacobian(ctx, *point)])
        np.testing.assert_allclose(slopes[n], exact, rtol=1e-11, atol=1e-13 * np.abs(exact).max())


SMALL = [model for model in LINKS if model.tokens == 2]


@pytest.mark.parametrize("model", SMALL, ids=package_name)
def test_compiled_link_is_the_vectorised_one(model, printing, rng):
    network = _network(model, rng)
    h = rng.normal(size=(6, model.indices, model.tokens))
    arguments = _arguments(model, network, h)
    compiled, vectorised = printing(model, "numba64"), printing(model, "numpy64")
    wanted = np.array(vectorised.link(*arguments))
    for n in range(6):
        point = [float(np.broadcast_to(a, 6)[n]) for a in arguments]
        np.testing.assert_allclose(
            compiled.link(*point), wanted[:, n], rtol=0, atol=32 * EPS * (1 + np.abs(wanted).max())
        )


def test_compiled_jacobian_is_the_vectorised_one(printing, rng):
    model = LINKS[1]
    network = _network(model, rng)
    arguments = _arguments(model, network, rng.normal(size=(1, model.indices, model.tokens)))
    point = [float(np.ravel(a)[0]) for a in arguments]
    wanted = np.array(printing(model, "numpy64").jacobian(*point))
    made = np.array(printing(model, "numba64").jacobian(*point))
    np.testing.assert_allclose(made, wanted, rtol=0, atol=64 * EPS * np.abs(wanted).max())


@pytest.mark.parametrize("model", LINKS, ids=package_name)
@pytest.mark.parametrize("deep", [False, True])
def test_corners_are_finite_and_right(model, deep, printing, context, grid):
    """|h| from 1e-300 to 1e3, and to where the header says that float64 ends."""
    kernel, oracle, ctx = printing(model, "numpy64"), printing(model, "mp"), context(60)
    count = model.indices * model.tokens
    points = grid(30, count)
    if deep:
        points = np.sign(points) * 10.0 ** (140 // model.layers)
    rest = [np.float64(1.3)] * len(constants_of(model))
    made = np.moveaxis(np.array(kernel.link(*points.T, *rest)), 0, -1)
    slopes = np.moveaxis(np.array(kernel.jacobian(*points.T, *rest)), 0, -1)
    assert np.isfinite(made).all()
    assert np.isfinite(slopes).all()
    if deep:
        return
    for point, value, slope in list(zip(points, made, slopes, strict=True))[::9]:
        exact = oracle.link(ctx, *point, *rest)
        # Scores of the size of h^2, times a power of 1 + c, carry their rounding into the exponentials.
        size = 1 + np.abs(point).max() ** 2
        assert all(abs(float(a - b)) < 16 * EPS * size for a, b in zip(value, exact, strict=True))
        exact = [float(v) for v in oracle.jacobian(ctx, *point, *rest)]
        np.testing.assert_allclose(slope, exact, rtol=0, atol=16 * EPS * size * (1 + np.abs(exact).max()))


def test_saturated_rows_keep_the_relative_accuracy_of_their_derivative(printing, context):
    """S (1 - S) as a product of entries: near S = 1 the form S (dz - sum S dz) would have no digit left."""
    model = Architecture(2, 4)
    kernel, oracle, ctx = printing(model, "numpy64"), printing(model, "mp"), context(60)
    # First layer almost uniform, second row entries far apart.
    point = [0.1, -0.2, 0.15, 0.05, 6.0, -1.0, 2.0, 0.5, 1.0, 1.0]
    made = kernel.jacobian(*point)
    exact = [float(v) for v in oracle.jacobian(ctx, *point)]
    small = [n for n, v in enumerate(exact) if 1e-30 < abs(v) < 1e-12]
    assert len(small) > 10
    for n in small:
        # Scores near 60 carry 60 roundings; a few terms of different sign.
        assert made[n] == pytest.approx(exact[n], rel=1e-11)


# --- operations, names, files


def test_operations_before_sharing_are_those_of_the_written_out_trees():
    x, y, u, v, w = sp.symbols("x y u v w", real=True)
    # Every name costs what its value does, as often as it occurs.
    body = ((u, Exp(x) + y), (v, Exp(u) * Log1p(u)), (w, Exp(v) + v))
    program = lower(Kernel("f", (x, y), (("a", Exp(w) + Exp(v)), ("b", Exp(w))), "", (), (), "", body=body))
    of_u = 2
    of_v = 3 + 2 * of_u
    of_w = 2 + 2 * of_v
    assert program.ops_before == (3 + of_w + of_v) + (1 + of_w)
    # Exp(v) and Exp(w) are made once.
    assert program.ops_after == 2 + 3 + (1 + 1) + (1 + 1)
    model = Architecture(1, 3, tied=False, beta=sp.Rational(1), output="sequence")
    written = sum(int(sp.count_ops(value)) for value in straight_link(model).expanded())
    # SymPy merges signs and numbers when names are written out.
    assert lower(link_package(model).kernels[0]).ops_before == pytest.approx(written, rel=0.05)
    jacobian = lower(link_package(Architecture(3, 3)).kernels[1])
    assert jacobian.ops_before > 10**8
    assert jacobian.ops_after < 2000


def test_names_tell_models_apart():
    c, gain = sp.Symbol("c", positive=True), sp.Symbol("gain", positive=True)
    x = sp.Symbol("x")
    models = [
        Architecture(2, 2),
        Architecture(3, 2),
        Architecture(2, 3),
        Architecture(2, 2, 2),
        Architecture(2, 2, (1, 2)),
        Architecture(2, 2, (2, 1)),
        Architecture(2, 2, tied=False),
        Architecture(2, 2, output="sequence"),
        Architecture(2, 2, heads=2),
        Architecture(2, 2, activation="linear"),
        Architecture(2, 2, activation=sp.tanh),
        Architecture(2, 2, activation=sp.Lambda(x, x**2)),
        Architecture(2, 2, activation=sp.Lambda(x, x**3)),
        Architecture(2, 2, skip=1),
        Architecture(2, 2, skip=sp.Rational(1, 2)),
        Architecture(2, 2, skip=2 * c),
        Architecture(2, 2, skip=c**2),
        Architecture(2, 2, beta=gain),
        Architecture(2, 2, beta=2),
    ]
    names = [package_name(model) for model in models]
    assert len(set(names)) == len(models)
    assert all(name.isidentifier() for name in names)


def test_numbers_and_parameters_of_the_model():
    """A numeric skip is no argument; a parameter of the activation is one."""
    gain, x = sp.Symbol("gain", positive=True), sp.Symbol("x")
    package = link_package(Architecture(2, 2, skip=SKIP, activation=sp.Lambda(x, sp.tanh(gain * x))))
    assert [s.name for s in package.kernels[0].arguments[4:]] == ["beta", "gain"]
    assert "c = 3/4" in package.domain
    package.prove()
    single = link_package(Architecture(1, 2))
    assert [s.name for s in single.kernels[0].arguments] == ["h1_1_1", "h1_1_2", "beta"]


def test_models_that_cannot_be_printed_are_named():
    with pytest.raises(
        ValueError, match=r"activation gamma or its derivative cannot be printed.*may hold exp, log.*Piecewise; erf"
    ):
        link_package(Architecture(1, 2, activation=sp.gamma))
    flag = sp.Function("flag")
    with pytest.raises(ValueError, match=r"cannot be printed: .*flag"):
        link_package(Architecture(1, 2, activation=lambda s: s * flag(s)))
    clash = link_package(Architecture(2, 2, skip=sp.Symbol("h1_1_1", positive=True)))
    with pytest.raises(ValueError, match="h1_1_1 stands for two things"):
        lower(clash.kernels[0])


_COMPILED = """
import sys
from attnlimits.numerics.model.kernels import load_package
link = load_package(sys.argv[1], "numba64").link
print(link(0.3, -0.7, 0.2, 0.5, 2.0), sum(link.stats.cache_hits.values()))
"""


def test_processes_share_what_was_compiled(tmp_path, child, monkeypatch):
    """The second process loads the machine code that the first one, this one, kept beside the source."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")  # of whoever runs the tests
    path = write_link_package(Architecture(1, 2, activation="linear", tied=False), tmp_path)
    first = load_package(path, "numba64").link(0.3, -0.7, 0.2, 0.5, 2.0)
    assert list(path.rglob("*.nbi")), "nothing was kept"
    second = child(sys.executable, "-c", _COMPILED, str(path))
    assert (second.status, second.err, second.out) == (0, "", f"{first} 1\n")


def test_packages_on_demand(tmp_path, imported):
    model = Architecture(1, 2, activation=sp.tanh, tied=False, skip=1)
    lines = []
    path = write_link_package(model, tmp_path / "cache", progress=lines.append)
    assert path.parent == tmp_path / "cache"
    assert sorted(p.name for p in path.iterdir()) == ["__init__.py", "mp.py", "numba64.py", "numpy64.py"]
    assert "print" in lines[0]
    package = _load(path)
    assert path.name.startswith(f"{package_name(model)}_{package.DERIVATION_HASH[:16]}_")
    assert package.ARGUMENTS == ("k1_1_1", "k1_1_2", "q1_1_1", "q1_1_2", "beta")
    compiled = importlib.import_module(f"{path.name}.numba64")
    wanted = np.tanh(2.0 * np.outer([0.3, -0.7], [0.2, 0.5]))
    np.testing.assert_allclose(compiled.link(0.3, -0.7, 0.2, 0.5, 2.0), wanted.ravel(), rtol=1e-15)
    # Writing again leaves what is the same and repairs what is not.
    before = (path / "mp.py").stat().st_mtime_ns
    (path / "numpy64.py").write_text("raise SystemExit('executed')", encoding="utf-8")
    for printing in ("numpy64", "mp"):
        with pytest.raises(KernelNotFoundError, match="must end with the hash of its files"):
            load_package(path, printing)
    assert write_link_package(model, tmp_path / "cache") == path
    assert (path / "mp.py").stat().st_mtime_ns == before
    np.testing.assert_allclose(load_package(path, "numpy64").link(0.3, -0.7, 0.2, 0.5, 2.0), wanted.ravel(), rtol=1e-15)
