"""The denoiser on a JAX device (here: a CPU) against the compiled one and against reference values."""

import importlib
import json
import sys
from collections import defaultdict
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attnlimits.numerics import posterior
from attnlimits.numerics.core.errors import ConvergenceError, KernelNotFoundError, UnreachableOutputError
from attnlimits.numerics.core.results import DenoiserResult
from attnlimits.numerics.model.network import Network, kernel
from attnlimits.numerics.posterior import denoiser
from attnlimits.numerics.posterior.jax import JaxUnavailable, backend, batches, boxes, denoise_jax
from attnlimits.numerics.posterior.ranges import RANGES

from ...calibration.denoise_cases import Case, exactly, ratios

Array = np.ndarray
FAMILIES = ("softmax", "linear")
TIGHT = 1e-10
# Variances below which V^{-1} magnifies the rounding of moments of 1e-15 to the size of TIGHT.
NEARLY_SINGULAR = 5e-4
NAMES = ("log_z", "g_out", "dg_out")


@pytest.fixture(autouse=True)
def jax(request: pytest.FixtureRequest) -> Any:
    """Return jax, for all tests but those of what happens without it."""
    if "without_jax" in request.node.name:
        return None
    module = pytest.importorskip("jax", reason="the extra attnlimits[gpu] is not installed")
    if (kept := getattr(request.config, "cache", None)) is not None:
        # Three seconds of compiling for each activation, on the first run only.
        module.config.update("jax_compilation_cache_dir", str(kept.mkdir("jax")))
    return module


def draw(model: Network, V: Array, samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Outputs and means of the channel at overlap I - V, whose entries are far above the least double."""
    values, vectors = np.linalg.eigh(np.eye(2) - V)
    root = vectors @ np.diag(np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    omega = root @ rng.standard_normal((8 * samples, 2, 2))
    y = model.link(omega + np.linalg.cholesky(V) @ rng.standard_normal(omega.shape))
    likely = np.flatnonzero((np.abs(y) > 1e-280).all(axis=(1, 2)))[:samples]
    assert likely.size == samples
    return y[likely], omega[likely]


def deviations(made: DenoiserResult, expected: DenoiserResult) -> Array:
    """Largest errors of log Z, g_out and d g_out over the batch, of the latter two beside the size of d g_out."""
    # Its size: g_out itself can vanish.
    scale = np.abs(expected.dg_out).max(axis=(-4, -3, -2, -1))
    off = (np.abs(getattr(made, name) - getattr(expected, name)) for name in NAMES)
    shares = (x.reshape(*scale.shape, -1).max(axis=-1) / (1.0 if k == 0 else scale) for k, x in enumerate(off))
    return np.array([share.max() for share in shares])


PRIORS = {
    "V near I": [[0.999, 0.0], [0.0, 0.999]],
    "correlated": [[0.5, 0.15], [0.15, 0.4]],
    "small second": [[1.0, 0.0], [0.0, 1e-2]],
    "small": [[1e-2, 0.0], [0.0, 1e-2]],
}


@pytest.mark.slow_for("0.1-1.0", "1.0-0.5", "1.0-1.0", "4.0-1.0")
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("beta", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("skip", [0.1, 1.0, 4.0])
def test_against_the_compiled_denoiser(skip: float, beta: float, prior: str, rng: np.random.Generator) -> None:
    """Both to 1e-12 of the mass; V^{-1} magnifies that, as it does d g_out, to which the errors are compared."""
    model, V = Network(skip=skip, beta=beta), np.array(PRIORS[prior])
    # A weak skip connection and a low temperature make sharp kernels, which take a CPU up to a second each.
    samples = 20 if prior == "small" else (20, 6, 3, 1)[(beta == 3) + 2 * (skip == 0.1)]
    y, omega = draw(model, V, samples, rng)
    made = denoise_jax(model, y, omega, V)
    expected = denoiser.denoise(model, y, omega, V, workers=1)
    assert (deviations(made, expected) < TIGHT).all()
    assert (np.abs(made.log_z - expected.log_z) <= made.error + expected.error + 1e-12).all()
    # Where outputs are rare, rounding is the most of it, and stated.
    assert np.median(made.error) <= 2e-12


REFERENCE: dict[tuple[str, float, float], list[dict[str, Any]]] = defaultdict(list)
for _case in json.loads((Path(__file__).parent / "data" / "denoiser_reference.json").read_text(encoding="utf-8")):
    REFERENCE[_case["activation"], _case["skip"], _case["beta"]].append(_case)


@pytest.mark.parametrize("activation", FAMILIES)
@pytest.mark.parametrize(("skip", "beta"), [(0.3, 0.2), (0.3, 1.0), (1.0, 0.2), (1.0, 1.0), (5.0, 1.0), (5.0, 5.0)])
def test_reference(activation: str, skip: float, beta: float) -> None:
    """Arbitrary precision at priors from I to 1e-3, correlated, nearly singular, and at unlikely outputs.

    Where V is nearly singular, V^{-1} magnifies rounding, which differs between processors: by what is stated.
    """
    cases = REFERENCE[activation, skip, beta]
    assert len(cases) == 10
    y, omega, V = (np.array([case[name] for case in cases]) for name in ("y", "omega", "V"))
    model = Network(2, 2, 1, skip, beta, activation)
    made = denoise_jax(model, y, omega, V)
    values = (np.array([case[name] for case in cases], dtype=float) for name in NAMES)
    shapes = (made.log_z.shape, made.g_out.shape, made.dg_out.shape)
    expected = DenoiserResult(
        *(x.reshape(s) for x, s in zip(values, shapes, strict=True)), made.error, made.log_z_error
    )
    regular = np.linalg.eigvalsh(V)[:, 0] >= NEARLY_SINGULAR
    assert regular.sum() == 9
    assert (deviations(_rows(made, regular), _rows(expected, regular)) < TIGHT).all()
    for k in np.flatnonzero(~regular):
        case, known = Case(model, y[k], omega[k], V[k], 1e-13), _rows(expected, k)
        exact = SimpleNamespace(**{name: exactly(getattr(known, name)) for name in NAMES})
        assert max(ratios(case, _rows(made, k), exact)) <= 1


def _rows(result: DenoiserResult, rows: Any) -> DenoiserResult:
    """Results of some outputs of the batch."""
    names = (*NAMES, "error", "log_z_error")
    return DenoiserResult(*(np.asarray(getattr(result, name))[rows] for name in names))


@pytest.mark.parametrize("activation", FAMILIES)
@pytest.mark.parametrize("tokens", [2, 5])
def test_one_layer(activation: str, tokens: int, rng: np.random.Generator) -> None:
    model = Network(1, tokens, activation=activation, beta=0.7)
    V = np.array([[[0.3]], [[1.0]]])
    omega = rng.standard_normal((40, 1, 1, tokens))
    y = model.link(omega + np.sqrt(0.3) * rng.standard_normal(omega.shape))
    made, expected = denoise_jax(model, y, omega, V), denoiser.denoise(model, y, omega, V)
    assert made.g_out.shape == (40, 2, 1, tokens)
    # The same closed form with another library's exponentials.
    assert (deviations(made, expected) < 1e-13).all()


def test_batches_and_global_settings(jax: Any, rng: np.random.Generator) -> None:
    """More samples than one batch holds, shared and own V, single samples, none; jax stays in single precision."""
    model = Network(skip=2.0, beta=0.4)
    V = np.stack([np.eye(2) * 0.5, np.array([[0.6, 0.3], [0.3, 0.4]])])
    y, omega = draw(model, V[0], 70, rng)
    before = jax.numpy.zeros(1).dtype
    made = denoise_jax(model, y[:, None], omega[:, None], V, tol=1e-9, device="cpu")
    assert jax.numpy.zeros(1).dtype == before == np.float32
    assert made.log_z.shape == made.error.shape == (70, 2)
    assert made.dg_out.shape == (70, 2, 2, 2, 2, 2)
    assert (made.error <= 1e-9 + 1e-13).all()
    expected = denoiser.denoise(model, y[:, None], omega[:, None], V)
    assert (deviations(made, expected) < 1e-7).all()
    for name in (*NAMES, "error"):
        assert getattr(made, name).dtype == np.float64
    one = denoise_jax(model, y[69], omega[69], V[1], tol=1e-9)
    assert one.log_z.shape == () and one.g_out.shape == (2, 2)
    # Sums over cells in another order.
    np.testing.assert_allclose(one.g_out, made.g_out[69, 1], rtol=0, atol=1e-12)
    assert denoise_jax(model, y[:0], omega[:0], V[0]).g_out.shape == (0, 2, 2)


def test_large_means_and_unlikely_outputs(rng: np.random.Generator) -> None:
    """Means and readout rows of size 30, drawn apart: the mass is far from the prior's centre, and little."""
    model, V = Network(activation="linear", skip=0.5), np.array([[0.5, 0.1], [0.1, 0.5]])
    omega = 30 * rng.uniform(-1, 1, (12, 2, 2))
    omega[::3] = 0.0
    y = Network(1, activation="linear").link(30 * rng.uniform(-1, 1, (12, 1, 2)))
    made, expected = denoise_jax(model, y, omega, V, tol=1e-9), denoiser.denoise(model, y, omega, V)
    assert expected.log_z.min() < -200
    # V^{-1} takes the tolerance of moments up to fivefold; the rounding of h - omega, in units of the prior, is 1e-13.
    assert (deviations(made, expected) < 1e-7).all()
    assert (np.abs(made.log_z - expected.log_z) < 1e-8).all()


def test_groups_are_halved_where_cells_run_out(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    """As if the list were too short for more than ten samples: the same numbers from 30, 15, 7, 7, .. at once."""
    model, V = Network(), np.eye(2) * 0.9
    y, omega = draw(model, V, 30, rng)
    whole = denoise_jax(model, y, omega, V, tol=1e-9)
    groups = []
    original = batches.program

    def program(*sizes: Any) -> Any:
        def run(numbers: Any, law: Any, cut: Array, *rest: Any) -> Any:
            answer = original(*sizes)(numbers, law, cut, *rest)
            groups.append(int((cut > 0).sum()))
            return answer if groups[-1] <= 10 else answer._replace(complete=answer.complete & False)

        return run

    monkeypatch.setattr(batches, "program", program)
    parts = denoise_jax(model, y, omega, V, tol=1e-9)
    assert groups[:7] == [30, 15, 7, 7, 7, 7, 2]
    np.testing.assert_allclose(parts.g_out, whole.g_out, rtol=0, atol=1e-12)
    np.testing.assert_allclose(parts.log_z, whole.log_z, rtol=0, atol=1e-12)


@pytest.mark.parametrize("activation", FAMILIES)
def test_ranges_enclose_and_agree(activation: str, rng: np.random.Generator) -> None:
    """The branch-free ranges are those of the compiled denoiser, and hold h_2 at points of the box."""
    model = Network(skip=0.3, beta=1.7, activation=activation)
    undo = kernel(model, "numba64").undo
    with backend.double_precision(backend.device_of("cpu")):
        for centre, size in product((0.0, 1.0, 30.0), (1e-3, 1.0, 40.0)):
            low = centre * rng.standard_normal((2, 60)) - size * rng.uniform(0, 1, (2, 60))
            high = low + size
            v = rng.standard_normal(2)
            ends = (low[0], high[0], low[1], high[1])
            made = np.array(boxes.BOXES[activation](v, model.skip, model.beta, ends[:2], ends[2:]))
            p = np.array([*v, model.skip, model.beta, *np.zeros(8)])
            expected = np.array([RANGES[activation](p, *box) for box in zip(*ends, strict=True)]).T
            # Bounds of h_2, which is of the size of v/c.
            np.testing.assert_allclose(made, expected, rtol=1e-12, atol=1e-13)
            inside = low + (high - low) * rng.uniform(0, 1, low.shape)
            h = np.array([undo(*x, *v, model.skip, model.beta)[:2] for x in inside.T]).T
            assert (made[[0, 2]] - 1e-12 <= h).all() and (h <= made[[1, 3]] + 1e-12).all()


@pytest.mark.parametrize("activation", FAMILIES)
def test_the_generated_kernel_runs_on_jax(activation: str, rng: np.random.Generator) -> None:
    """The same straight-line code, also where exponentials under- or overflow."""
    module = kernel(Network(activation=activation), "numpy64")
    x = rng.standard_normal((2, 200)) * np.repeat([1e-3, 1.0, 30.0, 1e3], 50)
    with backend.double_precision(backend.device_of("cpu")):
        made = [np.asarray(z) for z in backend.on_jax(module.undo)(*x, 0.6, -1.1, 0.5, 1.3)]
    for ours, expected in zip(made, module.undo(*x, 0.6, -1.1, 0.5, 1.3), strict=True):
        assert ours.dtype == np.float64
        # h_2 is a difference of terms of the size of (|v| + |b|)/c.
        np.testing.assert_allclose(ours, expected, rtol=1e-13, atol=1e-14)


GOOD, ZERO, EYE = [[0.7, 0.3], [0.2, 0.8]], np.zeros((2, 2)), np.eye(2)
SOFTMAX = Network()


@pytest.mark.parametrize(
    ("model", "y", "omega", "V", "more", "error", "word"),
    [
        (SOFTMAX, [[0.4, 0.6], [0.5, 0.5]], ZERO, EYE, {}, UnreachableOutputError, "y_12 [+] y_21"),
        (SOFTMAX, [[np.nan, 0.3], [0.2, 0.8]], ZERO, EYE, {}, UnreachableOutputError, "finite"),
        (SOFTMAX, GOOD, np.zeros((2, 3)), EYE, {}, ValueError, "omega must be finite with shape"),
        (SOFTMAX, GOOD, [[np.inf, 0.0], [0.0, 0.0]], EYE, {}, ValueError, "omega must be finite"),
        (SOFTMAX, GOOD, "h", EYE, {}, ValueError, "omega must be an array of numbers"),
        (SOFTMAX, GOOD, ZERO, [[1.0, 2.0], [2.0, 1.0]], {}, ValueError, "semi-definite"),
        (SOFTMAX, GOOD, ZERO, np.eye(3), {}, ValueError, "V must have shape"),
        (SOFTMAX, GOOD, ZERO, EYE, {"tol": 0.5}, ValueError, "tol must be a float"),
        (SOFTMAX, GOOD, ZERO, EYE, {"tol": 1}, ValueError, "tol must be a float"),
        (SOFTMAX, GOOD, ZERO, EYE, {"device": "abacus"}, ValueError, "platform of jax with a device here .*cpu"),
        (SOFTMAX, GOOD, ZERO, EYE, {"device": 3}, ValueError, "device must be None or"),
        (Network(3), GOOD, np.zeros((3, 2)), np.eye(3), {}, KernelNotFoundError, "depth 2 with two tokens"),
        (Network(rank=2), GOOD, np.zeros((4, 2)), np.eye(4), {}, KernelNotFoundError, "rank 1"),
    ],
)
def test_bad_input(model: Any, y: Any, omega: Any, V: Any, more: Any, error: type[Exception], word: str) -> None:
    with pytest.raises(error, match=word):
        denoise_jax(model, y, omega, V, **more)


def test_what_misses_its_tolerance_is_refused(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    case = next(case for case in REFERENCE["softmax", 0.05, 5.0] if case["category"] == "half")
    with pytest.raises(ConvergenceError, match=r"sample number 0 is too narrow .* cells; loosen tol"):
        denoise_jax(Network(skip=0.05, beta=5.0), case["y"], case["omega"], case["V"])
    model, V = Network(skip=0.1, beta=0.5), np.eye(2)
    y, omega = draw(model, V, 24, rng)
    monkeypatch.setattr(batches, "_ROUNDS", 1)
    with pytest.raises(ConvergenceError, match=r"missed its tolerance on \d+ of 24 samples; .* loosen tol"):
        denoise_jax(model, y, omega, V)


def test_without_jax_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules are imported again, as if for the first time, where jax cannot be."""
    package = backend.__name__.rpartition(".")[0]
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jax", None)
    # An import sets it.
    monkeypatch.setattr(posterior, "jax", posterior.jax)
    again = importlib.import_module(package)
    assert again.denoise_jax is not denoise_jax
    words = r"pip install 'attnlimits\[gpu\]'.*numerics\.posterior\.denoiser\.denoise"
    with pytest.raises(again.JaxUnavailable, match=words):
        again.denoise_jax(SOFTMAX, GOOD, ZERO, EYE)
    assert issubclass(JaxUnavailable, ImportError)
