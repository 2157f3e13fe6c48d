"""The denoiser beside a plain compiled trapezoid and beside the exponentials it cannot do without.

Per sample and on one thread. The peer's grid is the cheapest one that reaches the tolerance on 95 % of the samples; the
denoiser controls every sample's error, so its 99.9th percentile and its worst are the other half of the comparison.
"""

import inspect
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from attnlimits.generated.attention_tied_softmax_m2 import numba64, posterior64
from attnlimits.generated.fastmath import exp_array
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior import lattice
from attnlimits.numerics.posterior.denoiser import denoise_readout
from attnlimits.numerics.posterior.ranges import RANGES

from .drawn import draw
from .ratios import Ratios

Array = NDArray[np.float64]
MODEL = Network()
OVERLAPS = [np.diag([0.0, 0.5]), np.diag([0.3, 0.99])]
TOLERANCES = [1e-10, 1e-6]
ROUNDS = 7


def interleaved(calls: list[Callable[[], Any]], rounds: int) -> list[float]:
    """Least seconds of each call; they take turns, so that a busy machine slows all of them."""
    best = [np.inf] * len(calls)
    for _ in range(rounds):
        for k, call in enumerate(calls):
            start = time.perf_counter()
            call()
            best[k] = min(best[k], time.perf_counter() - start)
    return best


@njit
def _counting_pair(parameters, pieces, n, step, sums):  # type: ignore[no-untyped-def]
    posterior64.pair_moments(parameters, pieces, n, step, sums)
    parameters[lattice.N_PARAMETERS] += pieces[2, :n].sum()


@njit
def _counting_branch(parameters, pieces, n, step, sign, sums):  # type: ignore[no-untyped-def]
    posterior64.branch_moments(parameters, pieces, n, step, sign, sums)
    parameters[lattice.N_PARAMETERS + 1] += pieces[2, :n].sum()


@njit
def _counting_rows(parameters, pieces, n, step):  # type: ignore[no-untyped-def]
    posterior64.undo_rows(parameters, pieces, n, step)
    parameters[lattice.N_PARAMETERS + 2] += n


def count_nodes(call: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> Array:
    """What one call of the denoiser evaluates: [nodes with both branches, nodes with one, pieces of rows]."""
    run, counts = lattice.compiled(), np.zeros(3)
    functions = lattice.bind(_counting_pair, _counting_branch, RANGES["softmax"], _counting_rows, numba64.undo)

    def spy(_, parameters, *rest):  # type: ignore[no-untyped-def]
        # The kernels read the first columns only; more carry the counts.
        wide = np.zeros((len(parameters), lattice.N_PARAMETERS + counts.size))
        wide[:, : lattice.N_PARAMETERS] = parameters
        run(functions, wide, *rest)
        parameters[:] = wide[:, : lattice.N_PARAMETERS]
        counts[:] += wide[:, lattice.N_PARAMETERS :].sum(axis=0)

    with monkeypatch.context() as patch:
        patch.setattr(lattice, "compiled", lambda: spy)
        call()
    return counts


def exponentials_of_each() -> Array:
    """Exponentials that the generated kernels take for each of `count_nodes`."""
    source = {
        name: inspect.getsource(getattr(posterior64, name).py_func) for name in ("pair_moments", "branch_moments")
    }
    nodes = [source[name].count("exp2_fast(") for name in ("pair_moments", "branch_moments")]
    row = inspect.getsource(numba64.undo_row.py_func).count("_fast(")
    return np.array([*nodes, row + inspect.getsource(posterior64.undo_rows.py_func).count("exp_fast(")], dtype=float)


@pytest.fixture(scope="module")
def rows(table: Callable[[str], None]) -> Callable[[str], None]:
    table("")
    table(
        f"{'q':>14} {'tol':>6} | {'ours us':>8} {'peer us':>8} {'peer/ours':>9} | {'peer grid':>14} | "
        f"{'ours: p95':>9} {'p99.9':>8} {'max':>8} | {'peer: p95':>9} {'p99.9':>8} {'max':>8} | "
        f"{'exp/sample':>10} {'floor us':>8} {'ours/floor':>10} {'numpy exp us':>12}"
    )
    return table


@pytest.mark.slow  # the plain trapezoid is compiled for it alone; the short benchmarks run it, too
@pytest.mark.parametrize("tol", TOLERANCES)
@pytest.mark.parametrize("q", OVERLAPS, ids=lambda q: f"q=diag({q[0, 0]:g},{q[1, 1]:g})")
def test_denoiser_beside_a_plain_trapezoid(
    benchmark: Any,
    peer: ModuleType,
    rows: Callable[[str], None],
    ratio: Ratios,
    monkeypatch: pytest.MonkeyPatch,
    q: Array,
    tol: float,
) -> None:
    quick = benchmark.disabled  # part of the ordinary tests: the numbers, not the times
    samples = 24 if quick else 500
    if quick:
        tol = max(tol, 1e-6)
    v, omega, covariance = draw(MODEL, q, samples)
    settings = {"skip": MODEL.skip, "beta": MODEL.beta}

    def ours() -> Any:
        return denoise_readout(MODEL, v, omega, covariance, tol=tol, workers=1)

    reference = denoise_readout(MODEL, v, omega, covariance, tol=1e-13, workers=1).g_out
    setting = peer.tune(v, omega, covariance, reference, tol, **settings)

    def theirs() -> Any:
        return peer.g_out(v, omega, covariance, setting, **settings)

    errors = [peer.relative_error(g, reference) for g in (ours().g_out, theirs())]
    # Both must have solved the same problem. Ours bounds moments relative to the mass; some g_out are small.
    assert np.percentile(errors[1], 95) <= tol
    assert np.percentile(errors[0], 95) <= tol

    numbers = np.linspace(-30.0, 0.0, 2**15)
    calls = [ours, theirs, lambda: exp_array(numbers), lambda: np.exp(numbers)]
    seconds = interleaved(calls, 1 if quick else ROUNDS)
    our, their, own_exp, numpy_exp = seconds
    spent = float(count_nodes(ours, monkeypatch) @ exponentials_of_each()) / samples
    assert spent > 0
    floor = 1e6 * spent * own_exp / numbers.size
    micro = 1e6 / samples
    tails = [np.percentile(e, [95, 99.9, 100]) for e in errors]
    rows(
        f"({q[0, 0]:g}, {q[1, 1]:g})".rjust(14)
        + f" {tol:6.0e} | {our * micro:8.1f} {their * micro:8.1f} {their / our:9.2f} | "
        + f"{setting.nodes}^2, +-{setting.box:g}".rjust(14)
        + " | "
        + f"{tails[0][0]:9.0e} {tails[0][1]:8.0e} {tails[0][2]:8.0e} | "
        + f"{tails[1][0]:9.0e} {tails[1][1]:8.0e} {tails[1][2]:8.0e} | "
        + f"{spent:10.0f} {floor:8.1f} {our * micro / floor:10.2f} {1e6 * spent * numpy_exp / numbers.size:12.1f}"
    )
    where = f"q = ({q[0, 0]:g}, {q[1, 1]:g}), {tol:.0e}"
    ratio(f"compiled trapezoid / denoiser, {where}", their / our, better="more")
    ratio(f"denoiser / its exponentials, {where}", our * micro / floor, better="less")
    benchmark.pedantic(ours, rounds=1 if quick else 3)
