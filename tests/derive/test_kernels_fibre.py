"""Kernels of fibres: every readout on them gives the output, and the measure on them gives its density."""

import functools

import numpy as np
import pytest

from attnlimits.derive.architecture import Architecture
from attnlimits.derive.kernels.fibre import fibre_package
from attnlimits.derive.kernels.packages import FIBRES
from attnlimits.derive.proof import ProofError
from attnlimits.numerics.model.kernels import load_package
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.model.networks import link
from attnlimits.numerics.posterior.fibres import fibre_moments

BETA = 1.3


@pytest.fixture
def printing(derived):
    """Return a function from a model to the package of its fibre and one printing of it."""

    def load(model, printer="numpy64"):
        package = fibre_package(model)
        return package, load_package(derived(package.name), printer)

    return load


def network(model):
    return Network(1, model.tokens, model.rank_vector, tied=model.tied, beta=BETA, activation=model.activation)


def on_fibre(package, module, y, free):
    """Readout (..., P, M) and log density at free variables (.., one last axis per variable)."""
    data_kernel, fibre_kernel = package.kernels
    tokens = y.shape[-1]
    known = {f"y{a + 1}{b + 1}": y[..., a, b] for a in range(tokens) for b in range(tokens)} | {"beta": BETA}
    data = module.data(*(known[s.name] for s in data_kernel.arguments))
    values = dict(zip([name for name, _ in data_kernel.outputs], data, strict=True)) | {"beta": BETA} | free
    *readout, log_density = module.fibre(*(values[s.name] for s in fibre_kernel.arguments))
    return np.stack(readout, axis=-1).reshape(*np.shape(log_density), -1, tokens), log_density


@pytest.mark.parametrize("model", FIBRES, ids=lambda model: fibre_package(model).name)
def test_every_point_of_the_fibre_gives_the_output(model, printing, rng):
    package, module = printing(model)
    y = link(rng.normal(size=(50, model.indices, model.tokens)), network(model))
    names = [s.name for s in package.kernels[1].arguments if s.name[0] in "tnkup"]
    assert names, "a fibre that is not finite has free variables"
    for _ in range(5):
        free = {name: rng.normal(size=50) for name in names}
        free |= {"sign": rng.choice([-1.0, 1.0], size=50)}
        readout, _ = on_fibre(package, module, y, free)
        # Keys close to zero make queries large: 1e-9 leaves room for a condition of 1e6.
        np.testing.assert_allclose(link(readout, network(model)), y, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("model", FIBRES, ids=lambda model: fibre_package(model).name)
def test_the_measure_is_the_jacobian_of_the_readout(model, printing, context, rng):
    """``log_density`` against the determinant of mpmath's derivatives of the readout printed beside it."""
    (package, oracle), ctx = printing(model, "mp"), context(50)
    names = [s.name for s in package.kernels[1].arguments]
    fixed = {"C_1_1": 1.3, "C_2_2": 0.9, "beta": BETA, "sign": -1.0}
    point = {name: ctx.mpf(fixed.get(name, rng.uniform(0.2, 0.7))) for name in names}
    along = [name for name in names if name not in ("beta", "sign")]
    rows = []
    for name in along:

        @functools.cache
        def moved(x, name=name):
            return oracle.fibre(ctx, **{**point, name: x})

        rows.append([ctx.diff(lambda x, k=k, moved=moved: moved(x)[k], point[name]) for k in range(len(along))])
    made = oracle.fibre(ctx, **point)
    assert len(made) == len(along) + 1, "as many entries of the readout as data and free variables"
    # The data are the coordinates of y over beta, up to terms below the diagonal.
    coordinates = len(package.kernels[0].outputs)
    wanted = ctx.log(abs(ctx.det(ctx.matrix(rows)))) - coordinates * ctx.log(point["beta"])
    # The derivatives are good to the 50 digits of the context, but for a few lost in the determinant.
    assert abs(made[-1] - wanted) < ctx.mpf(10) ** -40


@pytest.mark.parametrize("rank", [2])
def test_the_measure_integrates_to_the_density_tied(rank, printing, rng):
    """Against the rule of `numerics.posterior.fibres`, which integrates the shift in closed form."""
    model = Architecture(1, 2, rank)
    package, module = printing(model)
    covariance = np.array([[0.7, 0.2], [0.2, 0.5]])
    omega = rng.normal(size=(rank, 2))
    y = link(rng.normal(size=(rank, 2)), network(model))
    theta = np.arange(256) * 2 * np.pi / 256
    n = np.linspace(-9, 9, 400)
    free = {"theta_1_1": theta[:, None], "n_1_1": n[None, :]}
    v, log_density = on_fibre(package, module, y, free)
    away = v - omega
    form = np.einsum("...am,ab,...bm->...", away, np.linalg.inv(covariance), away)
    weight = np.exp(log_density - 0.5 * form) / (4 * np.pi**2 * np.linalg.det(covariance))
    made = np.log(weight.sum() * (2 * np.pi / 256) * (n[1] - n[0]))
    # `fibre_moments` takes the density of (y_12, y_21), this one of the log-ratios: their Jacobian, row by row.
    jacobian = np.log(y[0, 0] * y[0, 1] * y[1, 0] * y[1, 1])
    wanted = fibre_moments(Network(1, 2, rank, activation="softmax", beta=BETA), y, omega, covariance).log_z
    assert made - jacobian == pytest.approx(float(wanted), abs=1e-9)


def test_the_measure_integrates_to_the_density_untied(printing, rng):
    model = Architecture(1, 2, tied=False)
    package, module = printing(model)
    covariance = np.array([[0.7, 0.2], [0.2, 0.5]])
    omega = rng.normal(size=(2, 2))
    y = link(rng.normal(size=(2, 2)), network(model))
    names = [s.name for s in package.kernels[1].arguments if s.name[0] in "ku"]
    key, shift = (next(n for n in names if n[0] == letter) for letter in "ku")
    # k = +-exp(s): the integrand vanishes fast at k = 0, where the queries run away, and at infinity.
    s, u = np.linspace(-9, 3, 600), np.linspace(-12, 12, 800)
    total = 0.0
    for k in (np.exp(s), -np.exp(s)):
        v, log_density = on_fibre(package, module, y, {key: k[:, None], shift: u[None, :]})
        away = v - omega
        form = np.einsum("...am,ab,...bm->...", away, np.linalg.inv(covariance), away)
        total += (np.exp(log_density - 0.5 * form) * np.abs(k)[:, None]).sum()
    made = np.log(total * (s[1] - s[0]) * (u[1] - u[0]) / (4 * np.pi**2 * np.linalg.det(covariance)))
    jacobian = np.log(y[0, 0] * y[0, 1] * y[1, 0] * y[1, 1])
    wanted = fibre_moments(Network(1, 2, 1, activation="softmax", tied=False, beta=BETA), y, omega, covariance).log_z
    assert made - jacobian == pytest.approx(float(wanted), abs=1e-8)


def test_a_wrong_readout_is_noticed():
    model = FIBRES[1]
    package = fibre_package(model)
    data, fibre = package.kernels
    name, value = fibre.outputs[0]
    from dataclasses import replace

    from attnlimits.derive.kernels import fibre as kernels_fibre

    wrong = replace(fibre, outputs=((name, -value), *fibre.outputs[1:]))
    with pytest.raises(ProofError, match="on the fibre"):
        kernels_fibre._prove(model, kernels_fibre.fibre(model), (data, wrong))
    name, value = fibre.outputs[-1]
    wrong = replace(fibre, outputs=(*fibre.outputs[:-1], (name, value + 1)))
    with pytest.raises(ProofError, match=r"log_density is .* as printed"):
        kernels_fibre._prove(model, kernels_fibre.fibre(model), (data, wrong))
