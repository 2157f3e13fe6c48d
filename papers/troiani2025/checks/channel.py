"""The output channel and the denoiser: (9), (12), (91), (94), (162)-(169).

Three routes meet here: the derived integrand, the adaptive denoiser of the numerics, and a plain trapezoid.
"""

from functools import lru_cache

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from attnlimits.derive.architecture import Architecture
from attnlimits.derive.channel import reduced_channel
from attnlimits.derive.mixing import activate, link, mixing_matrices
from attnlimits.derive.primitives import elementary
from attnlimits.derive.registry import CheckOutcome
from attnlimits.numerics.core.results import DenoiserResult
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.denoiser import denoise, denoise_readout

from .forward import softmax
from .plain import PlainChannel, readout_grid
from .tools import matrix, numeric, symbolic, symmetric

Array = NDArray[np.float64]

_SKIP, _BETA = 0.8, 1.2
_MODEL = Network(layers=2, tokens=2, skip=_SKIP, beta=_BETA)
# A generic point of the channel: both layers partly known, correlated, omega away from every symmetry.
_OMEGA = np.array([[0.4, -0.3], [0.7, 0.2]])
_VARIANCE = np.array([[0.8, 0.15], [0.15, 0.55]])


def _plain(step: float = 0.15) -> PlainChannel:
    return PlainChannel(_OMEGA, _VARIANCE, skip=_SKIP, beta=_BETA, step=step, reach=8.5)


def _labels(readouts: Array) -> Array:
    """Labels y = softmax(beta v^T v), shape (n, 2, 2)."""
    return np.stack([softmax(_BETA * np.outer(v, v)) for v in readouts])


def _denoise(readouts: Array, omega: Array, variance: Array) -> DenoiserResult:
    return denoise(_MODEL, _labels(readouts), omega, variance, workers=1)


def _some_readouts() -> Array:
    return np.array([[1.9, -0.3], [0.4, 1.7], [-0.8, -1.1], [2.6, 0.1], [0.3, -0.2]])


@lru_cache(maxsize=1)
def _over_labels() -> tuple[Array, DenoiserResult]:
    """Area of a cell of v times the density of the denoiser, and the denoiser, at nodes v over all labels."""
    readouts, cell = readout_grid(_SKIP, 0.3, 8.0)
    found = denoise_readout(_MODEL, readouts, _OMEGA, _VARIANCE, tol=1e-9, workers=1)
    return np.exp(found.log_z) * cell, found


def check_9() -> CheckOutcome:
    """Check that the channel integrates to one over the labels, by the denoiser and by a plain sum."""
    readouts, cell = readout_grid(_SKIP, 0.3, 8.0)
    plain = _plain(0.3).moments(readouts).density * cell
    weights, _ = _over_labels()
    # The trapezoid over v is exponentially accurate; the tolerance of the denoiser remains.
    return numeric(
        [abs(plain.sum() - 1.0), abs(weights.sum() - 1.0)], 1e-8, "integral of Z_out over labels against one"
    )


def _log_jacobian(readouts: Array) -> Array:
    """Return log |d(y_12, y_21)/d(v_1, v_2)| by (182), from v."""
    y = _labels(readouts)
    gap = (readouts[:, 0] - readouts[:, 1]) ** 2
    return np.log(2.0 * _BETA**2 * gap * y[:, 0, 0] * y[:, 0, 1] * y[:, 1, 0] * y[:, 1, 1])


def check_12() -> CheckOutcome:
    """Compare the denoiser and its derivative with differences of log Z_out and of the denoiser."""
    readouts = _some_readouts()
    found = _denoise(readouts, _OMEGA, _VARIANCE)
    residuals = []
    for p in range(2):
        for m in range(2):
            slopes, curves = [], []
            for step in (0.02, 0.01):
                shift = np.zeros((2, 2))
                shift[p, m] = step
                up, down = (_denoise(readouts, _OMEGA + sign * shift, _VARIANCE) for sign in (1.0, -1.0))
                slopes.append((up.log_z - down.log_z) / (2.0 * step))
                curves.append((up.g_out - down.g_out) / (2.0 * step))
            slope, curve = ((4.0 * fine - coarse) / 3.0 for coarse, fine in (slopes, curves))
            residuals.append(np.abs(slope - found.g_out[:, p, m]).max())
            residuals.append(np.abs(curve - found.dg_out[:, :, :, p, m]).max())
    # The extrapolated difference leaves step^4 times a fifth derivative, 1e-8 times a number of order ten.
    return numeric(residuals, 1e-6, "g_out and its derivative against differences of log Z_out and g_out")


def check_91() -> CheckOutcome:
    """E_y[g g^T] = -E_y[d g] for every pair of tokens, and E_y[g] = 0."""
    weights, found = _over_labels()
    outer = np.einsum("n,nam,nbk->ambk", weights, found.g_out, found.g_out)
    slope = np.einsum("n,nambk->ambk", weights, found.dg_out)
    mean = np.einsum("n,nam->am", weights, found.g_out)
    return numeric([np.abs(outer + slope).max(), np.abs(mean).max()], 1e-7, "E[g g^T] against -E[d g], E[g] against 0")


def check_94() -> CheckOutcome:
    """E[g (h - omega)^T V^{-1}] over indices of the target, against E[g g^T] over labels."""
    weights, found = _over_labels()
    summed = np.einsum("n,nam,nbm->ab", weights, found.g_out, found.g_out)
    h, weight = _index_nodes(1.0)
    g = denoise_readout(_MODEL, _forward(h)[0], _OMEGA, _VARIANCE, tol=1e-6, workers=1).g_out
    score = np.einsum("ab,bmn->amn", np.linalg.inv(_VARIANCE), h - _OMEGA[:, :, None])
    stein = np.einsum("n,nam,bmn->ab", weight, g, score)
    # A trapezoid of step one over the four indices is what limits the agreement.
    return numeric([np.abs(stein - summed).max() / np.abs(summed).max()], 1e-3, "Stein form against E sum_m g g^T")


def _forward(h: Array) -> tuple[Array, Array]:
    """Return v (n, 2) and y (n, 2, 2) of indices h (2, 2, n), by definition."""
    scores = _BETA * h[0][:, None, :] * h[0][None, :, :]
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    layer = shifted / shifted.sum(axis=1, keepdims=True) + _SKIP * np.eye(2)[:, :, None]
    v = np.einsum("abn,bn->na", layer, h[1])
    scores = _BETA * v[:, :, None] * v[:, None, :]
    shifted = np.exp(scores - scores.max(axis=2, keepdims=True))
    return v, shifted / shifted.sum(axis=2, keepdims=True)


def check_165() -> CheckOutcome:
    """Jacobian of h_2 in v, from the derived reduced channel, against 1 / det B_1."""
    channel = reduced_channel(Architecture(layers=2, tokens=2))
    last = channel.h[1, :]
    jacobian = sp.Matrix(2, 2, lambda i, j: sp.diff(last[i], channel.readout[j])).det()
    # One symbol per exponential: the difference is then a rational function.
    difference = elementary(jacobian * channel.determinant) - 1
    names = {e: sp.Symbol(f"E{k}", positive=True) for k, e in enumerate(sorted(difference.atoms(sp.exp), key=str))}
    return symbolic(
        {"Jacobian": difference.subs(names)}, "d h_2 / d v of the reduced channel against 1 / det B_1, M = 2"
    )


def check_163() -> CheckOutcome:
    """Differentiate log Z_out in omega for a label that any three points h with any weights produce.

    The delta function of (163) is a superposition of points, and both integrals are linear in it.
    """
    indices = tokens = 2
    omega, variance = matrix("omega", indices, tokens), symmetric("V", indices)
    weights = sp.symbols("a_1:4", positive=True)
    points = [matrix(f"h{k}", indices, tokens) for k in range(3)]
    # One name per Gaussian keeps the ratio rational; its derivative is the exponent's times itself.
    exponents = [-((h - omega).T * variance.inv() * (h - omega)).trace() / 2 for h in points]
    names = sp.symbols("N_1:4", positive=True)
    total = sum(a * n for a, n in zip(weights, names, strict=True))
    stated = sum(
        (a * n * variance.inv() * (h - omega) for a, n, h in zip(weights, names, points, strict=True)),
        sp.zeros(indices, tokens),
    )
    gradient = sp.Matrix(
        indices,
        tokens,
        lambda p, m: sum(a * n * sp.diff(e, omega[p, m]) for a, n, e in zip(weights, names, exponents, strict=True)),
    )
    return symbolic(
        {"ratio": ((gradient - stated) / total).applyfunc(sp.factor)},
        "gradient of log Z_out in omega against the ratio of integrals, three points h, P = M = 2",
    )


def check_164() -> CheckOutcome:
    """Isolate the last layer: B_{L-1} of the derived recursion is free of h_L, and the link needs nothing else."""
    differences: dict[str, sp.Expr | sp.MatrixBase] = {}
    for layers, ranks in ((2, (1, 1)), (3, (1, 2, 1)), (2, (1, 2))):
        model = Architecture(layers=layers, tokens=2, ranks=ranks)
        h = model.index_matrices()
        mixing = mixing_matrices(model, h)[-1]
        for number, entry in enumerate(h[-1]):
            differences[f"L = {layers}, ranks {ranks}, entry {number}"] = mixing.diff(entry)
        readout = h[-1] * mixing.T
        differences[f"link, L = {layers}, ranks {ranks}"] = sp.Matrix(
            elementary(link(model, h)) - elementary(activate(model, readout.T * readout))
        )
    return symbolic(differences, "derivative of B_{L-1} in h_L against zero, and the link in terms of h_L B_{L-1}^T")


def _index_nodes(step: float) -> tuple[Array, Array]:
    """Return a product trapezoid over the indices given (omega, V): h (2, 2, n) and Gaussian weights."""
    axis = np.arange(-int(7.0 / step), int(7.0 / step) + 1) * step
    gauss = np.exp(-axis * axis / 2.0) * step / np.sqrt(2.0 * np.pi)
    weight = np.einsum("i,j,k,l->ijkl", *[gauss] * 4).reshape(-1)
    keep = weight > 1e-13  # the nodes left out carry less than 1e-9 in all
    grid = np.stack(np.meshgrid(*[axis] * 4, indexing="ij")).reshape(2, 2, -1)[:, :, keep]
    return _OMEGA[:, :, None] + np.einsum("ab,bmn->amn", np.linalg.cholesky(_VARIANCE), grid), weight[keep]


def check_166() -> CheckOutcome:
    """Mean of a function of the label: over the indices directly, and over v with the reduced density."""
    h, weight = _index_nodes(0.5)
    direct = float(weight @ _test_function(_forward(h)[0]))
    readouts, cell = readout_grid(_SKIP, 0.2, 8.0)
    density = _plain(0.2).moments(readouts).density
    reduced = float(np.sum(density * _test_function(readouts)) * cell)
    # The coarse trapezoid over the four indices is what limits the agreement.
    return numeric([abs(direct / reduced - 1.0)], 1e-6, "mean of a label function over indices against that over v")


def _test_function(v: Array) -> Array:
    """Evaluate a smooth function of the label: even in v, and not symmetric in the tokens."""
    return np.asarray(np.exp(-(v[:, 0] ** 2 + 2.0 * v[:, 1] ** 2) / 12.0) * (2.0 + np.tanh(v[:, 0] * v[:, 1] / 4.0)))


def check_167() -> CheckOutcome:
    """Both branches of the readout enter: reduced density of the denoiser at v and the one over labels."""
    readouts = _some_readouts()
    found = _denoise(readouts, _OMEGA, _VARIANCE)
    density = _plain(0.1).moments(readouts).density
    residual = np.abs(found.log_z + _log_jacobian(readouts) - np.log(density))
    return numeric(residual, 1e-10, "J(y) Z_out of the denoiser against the sum over both branches")


def check_168() -> CheckOutcome:
    """Compare the derived log-integrand, summed on a grid, with the plain density."""
    channel = reduced_channel(Architecture(layers=2, tokens=2))
    symbols = [*channel.variables, *channel.readout, *channel.omega]
    v11, v12, v22 = channel.covariance[0, 0], channel.covariance[0, 1], channel.covariance[1, 1]
    integrand = sp.lambdify(
        [*symbols, v11, v12, v22, channel.model.skip, channel.model.beta],
        elementary(channel.log_integrand),
        "numpy",
        cse=True,
    )
    axis = np.arange(-60, 61) * 0.13 * np.sqrt(_VARIANCE[0, 0])
    first, second = np.meshgrid(_OMEGA[0, 0] + axis, _OMEGA[0, 1] + axis, indexing="ij")
    cell = (axis[1] - axis[0]) ** 2
    readouts = _some_readouts()
    plain = _plain().moments(readouts).density
    residuals = []
    for (v1, v2), expected in zip(readouts, plain, strict=True):
        total = 0.0
        for sign in (1.0, -1.0):
            args = (first, second, sign * v1, sign * v2, *_OMEGA.reshape(-1))
            values = integrand(*args, _VARIANCE[0, 0], _VARIANCE[0, 1], _VARIANCE[1, 1], _SKIP, _BETA)
            total += float(np.exp(values).sum()) * cell
        residuals.append(abs(total / expected - 1.0))
    # Two trapezoids with different steps on a smooth decaying integrand.
    return numeric(residuals, 1e-9, "derived reduced integrand summed on a grid against the plain density")


def check_169() -> CheckOutcome:
    """Denoiser of the numerics against the plain ratio of integrals, several (omega, V)."""
    readouts = _some_readouts()
    cases = (
        (_OMEGA, _VARIANCE),
        (np.zeros((2, 2)), np.eye(2)),
        (np.array([[0.0, 0.0], [1.1, -0.6]]), np.array([[1.0, 0.0], [0.0, 0.3]])),
        (np.array([[-0.5, 0.9], [0.3, 0.4]]), np.array([[0.4, -0.2], [-0.2, 0.6]])),
    )
    residuals = []
    for omega, variance in cases:
        plain = PlainChannel(omega, variance, skip=_SKIP, beta=_BETA, step=0.05, reach=9.0)
        _, g, derivative = plain.denoiser(readouts)
        found = _denoise(readouts, omega, variance)
        residuals.append(np.abs(found.g_out - g).max() / max(1.0, np.abs(g).max()))
        residuals.append(np.abs(found.dg_out - derivative).max() / max(1.0, np.abs(derivative).max()))
    # The plain grid is converged to rounding; the denoiser's tolerance, divided by V twice, remains.
    return numeric(residuals, 1e-10, "denoiser and derivative against the plain ratio of integrals, four channels")
