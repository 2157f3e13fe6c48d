"""From weights to overlaps in the replica computation: (129)-(135), (137), (140), (145), (152)-(155), (159)."""

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from attnlimits.derive.registry import CheckOutcome

from .tools import gaussian_moment, matrix, numeric, symbolic, symmetric
from .variational import conjugate_of

Array = NDArray[np.float64]

_N = sp.Symbol("n", positive=True)
_INDICES = 2  # P


def check_129() -> CheckOutcome:
    """Mean and variance of the overlap of a Gaussian matrix with itself: I and O(1/D)."""
    differences: dict[str, sp.Expr | sp.MatrixBase] = {}
    for dimension in (1, 2, 3):
        weights = matrix("w", _INDICES, dimension)
        overlap = weights * weights.T / dimension
        mean = overlap.applyfunc(lambda entry, w=weights: gaussian_moment(entry, list(w)))
        square = overlap.applyfunc(lambda entry, w=weights: gaussian_moment(entry**2, list(w)))
        differences[f"mean, D = {dimension}"] = mean - sp.eye(_INDICES)
        spread = square - mean.applyfunc(lambda entry: entry**2)
        # 2 / D on the diagonal, 1 / D off it.
        differences[f"variance, D = {dimension}"] = dimension * spread - (sp.ones(_INDICES) + sp.eye(_INDICES))
    return symbolic(differences, "mean and D times the variance of W W^T / D against I and 1 + delta, D = 1, 2, 3")


def check_130() -> CheckOutcome:
    """Compare E Z, summed over data, with its integral over overlaps: y = sign(h), D = 2, one replica and the target.

    Two inputs at an angle theta cut the circle of weights into arcs, which are the evidences of the four labels.
    Over overlaps, the Wishart density of two replicas leaves the angle of the weights uniform, and the channel part
    is the orthant probability 1 - angle / pi.
    """
    theta, rho = sp.symbols("theta rho", real=True)
    a, b = sp.symbols("a b", positive=True)  # Q^00 and Q^11; Q^01 = rho sqrt(a b)
    overlap = sp.Matrix([[a, rho * sp.sqrt(a * b)], [rho * sp.sqrt(a * b), b]])
    dimension = 2
    density = sp.simplify(
        sp.exp(-dimension * overlap.trace() / 2) * sp.factor(overlap.det()) ** sp.Rational(dimension - 3, 2)
    )
    radial = sp.integrate(sp.simplify(density * sp.sqrt(a * b) * sp.sqrt(1 - rho**2)), (a, 0, sp.oo), (b, 0, sp.oo))
    # In the angle, d rho = sin(angle) d angle cancels the root; what is left is uniform up to its norm.
    norm = sp.integrate(radial, (theta, 0, sp.pi))
    channel = 1 - theta / sp.pi
    arcs = ((sp.pi - theta) / (2 * sp.pi), theta / (2 * sp.pi))
    one_sample = 2 * sp.Rational(1, 2) ** 2
    two_samples = sp.integrate(2 * arcs[0] ** 2 + 2 * arcs[1] ** 2, (theta, 0, sp.pi)) / sp.pi
    return symbolic(
        {
            "density of the angle": sp.diff(radial, rho),
            "one sample": sp.integrate(radial * channel, (theta, 0, sp.pi)) / norm - one_sample,
            "two samples": sp.integrate(radial * channel**2, (theta, 0, sp.pi)) / norm - two_samples,
        },
        "E Z over overlaps against E Z over data, sign of one index, D = 2, N = 1, 2",
    )


def check_131() -> CheckOutcome:
    """Laplace transform of the prior part, one replica of one index: det(I + Qhat)^{-D/2} for any D."""
    d, k, r, q = sp.symbols("D k r Q", positive=True)
    # In spherical coordinates |w| = r with the surface of the sphere; the delta gives d(r^2) = 2 r dr.
    surface = 2 * sp.pi ** (d / 2) / sp.gamma(d / 2)
    radial = surface * r ** (d - 1) * sp.exp(-(r**2) / 2) / (2 * sp.pi) ** (d / 2) / (2 * r)
    prior_part = radial.subs(r, sp.sqrt(d * q))
    # d(D Q) = D dQ.
    transform = sp.integrate(d * prior_part * sp.exp(-d * k * q / 2), (q, 0, sp.oo), conds="none")
    ratio = sp.powsimp(sp.expand_power_base(sp.simplify(transform * (1 + k) ** (d / 2)), force=True), force=True)
    return symbolic(
        {"transform": sp.simplify(ratio) - 1}, "Laplace transform of I_prior(Q) against (1 + Qhat)^{-D/2}, symbolic D"
    )


def _orthant(correlation: float, nodes: int = 100) -> float:
    """P(h^0 > 0, h^1 > 0) for unit variances: the second replica by its error function, the first by a Gauss rule."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    first = 5.0 * (x + 1.0)  # 0 .. 10
    scale = correlation / math.sqrt(2.0 * (1.0 - correlation**2))
    second = np.array([0.5 * math.erfc(-scale * value) for value in first])
    return float(np.sum(5.0 * w * np.exp(-(first**2) / 2.0) / math.sqrt(2.0 * math.pi) * second))


def check_132() -> CheckOutcome:
    """Channel part of y = sign(h): law of the replicated index given the weights, and the integral over N(0, Q)."""
    residuals = []
    for correlation in (-0.8, 0.1, 0.6, 0.95):
        # Given two weights at this angle, the labels agree unless the input lies between them.
        by_angle = 1.0 - math.acos(correlation) / math.pi
        residuals.append(abs(2.0 * _orthant(correlation) - by_angle))
    # A Gauss rule with 100 nodes on an analytic integrand; rounding remains.
    return numeric(residuals, 1e-12, "I_out(Q) over N(0, Q) against the angle between the weights, sign link")


def check_133() -> CheckOutcome:
    """Invert the Fourier form of the prior part numerically: the density of |w|^2, one replica of one index."""
    step, reach = 0.002, 60.0
    k = np.arange(-reach, reach + step / 2, step)
    residuals = []
    for dimension in (12, 20):
        for q in (0.5, 1.0, 1.7):
            # Qhat = 2 i k turns the exponent of (133) into i k (D Q - |w|^2); the average over w is (136).
            transform = np.exp(1j * k * dimension * q) * (1.0 + 2.0j * k) ** (-dimension / 2)
            inverted = float(np.real(np.sum(transform)) * step / (2.0 * math.pi))
            s = dimension * q
            log_density = (dimension / 2 - 1) * math.log(s) - s / 2 - math.lgamma(dimension / 2)
            exact = math.exp(log_density - dimension / 2 * math.log(2.0))
            residuals.append(abs(inverted / exact - 1.0))
    # The tail beyond the reach is below (2 reach)^{-6} / 6 = 6e-14 of densities of order 0.05.
    return numeric(residuals, 1e-10, "Fourier form of the prior part against the chi-square density, D = 12, 20")


def check_134() -> CheckOutcome:
    """Sort the exponent of (133) by coordinates: one quadratic form per column of the stacked weights."""
    dimension, replicas = 2, 2
    weights = [matrix(f"W{a}", _INDICES, dimension) for a in range(replicas)]
    conjugate = symmetric("K", replicas * _INDICES)

    def block(a: int, b: int) -> sp.Matrix:
        return conjugate[a * _INDICES : (a + 1) * _INDICES, b * _INDICES : (b + 1) * _INDICES]

    pairs = product(range(replicas), repeat=2)
    coupled = sum(((block(a, b) * (weights[a] * weights[b].T).T).trace() for a, b in pairs), sp.S.Zero)
    stacked = sp.Matrix.vstack(*weights)
    columns = [stacked[:, i] for i in range(dimension)]
    return symbolic(
        {
            "conjugate": coupled - sum(((w.T * conjugate * w)[0, 0] for w in columns), sp.S.Zero),
            "prior": sum(e**2 for w in weights for e in w) - sum(((w.T * w)[0, 0] for w in columns), sp.S.Zero),
        },
        "exponent of (133) against a sum over coordinates, P = D = 2, two replicas",
    )


def check_135() -> CheckOutcome:
    """Join the Gaussian of the weights and the conjugate term in one exponent with its norm."""
    size = 3
    w, conjugate = matrix("w", size, 1), symmetric("K", size)
    log_gaussian = -(w.T * w)[0, 0] / 2 - sp.Rational(size, 2) * sp.log(2 * sp.pi)
    joined = -(w.T * (sp.eye(size) + conjugate) * w)[0, 0] / 2 - sp.Rational(size, 2) * sp.log(2 * sp.pi)
    return symbolic(
        {"exponent": log_gaussian - (w.T * conjugate * w)[0, 0] / 2 - joined},
        "N(w; 0, I) times the conjugate exponent of (134) against the exponent of (135), (n + 1) P = 3",
    )


def check_137() -> CheckOutcome:
    """Move the determinant of (136) into the exponent."""
    d, trace = sp.Symbol("D", positive=True), sp.Symbol("t", real=True)
    determinant = sp.Symbol("det", positive=True)
    before = sp.exp(d / 2 * trace) * determinant ** (-d / 2)
    after = sp.exp(d / 2 * (trace - sp.log(determinant)))
    return symbolic(
        {"logarithm": sp.expand_log(sp.log(before) - sp.log(after), force=True)},
        "logarithm of (136) against the exponent of (137)",
    )


def check_140() -> CheckOutcome:
    """Show that an overlap matrix with unit diagonal blocks that no permutation of replicas changes is of this form."""
    replicas, size = 3, 3 * _INDICES
    overlap = symmetric("Q", size)
    blocks = {
        (a, b): overlap[a * _INDICES : (a + 1) * _INDICES, b * _INDICES : (b + 1) * _INDICES]
        for a, b in product(range(replicas), repeat=2)
    }
    equations: list[sp.Expr] = []
    for order in ((1, 0, 2), (0, 2, 1)):  # these two generate all permutations
        for a, b in blocks:
            equations += list(blocks[order[a], order[b]] - blocks[a, b])
    for a in range(replicas):
        equations += list(blocks[a, a] - sp.eye(_INDICES))
    unknowns = sorted(overlap.free_symbols, key=str)
    solutions = list(sp.linsolve(equations, unknowns))
    solved = overlap.subs(dict(zip(unknowns, solutions[0], strict=True)))
    q = solved[:_INDICES, _INDICES : 2 * _INDICES]
    ansatz = sp.Matrix(
        sp.kronecker_product(sp.eye(replicas), sp.eye(_INDICES) - q) + sp.kronecker_product(sp.ones(replicas), q)
    )
    return symbolic(
        {"form": solved - ansatz, "symmetry of q": q - q.T, "freedom": sp.Integer(len(q.free_symbols) - 3)},
        "every permutation-invariant overlap matrix with unit diagonal against the ansatz, three replicas, P = 2",
    )


def _square_root(value: Array) -> Array:
    eigenvalues, vectors = np.linalg.eigh(value)
    return np.asarray(vectors @ np.diag(np.sqrt(eigenvalues)) @ vectors.T)


def check_145() -> CheckOutcome:
    """Gaussian law of the replicated indices at given points against the average (148) over xi, P = 2."""
    rng = np.random.default_rng(145)
    axis = np.arange(-40, 41) * 0.2
    gauss = np.exp(-(axis**2) / 2.0) * 0.2 / math.sqrt(2.0 * math.pi)
    xi = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    weight = np.outer(gauss, gauss).reshape(-1)
    overlap = np.array([[0.5, 0.15], [0.15, 0.3]])
    centres = xi @ _square_root(overlap).T
    rest = np.eye(2) - overlap
    residuals = []
    for replicas in (2, 3):
        full = np.kron(np.eye(replicas), rest) + np.kron(np.ones((replicas, replicas)), overlap)
        for _ in range(3):
            h = rng.standard_normal((replicas, 2))
            _, log_det = np.linalg.slogdet(2.0 * math.pi * full)
            direct = math.exp(-0.5 * h.reshape(-1) @ np.linalg.solve(full, h.reshape(-1)) - 0.5 * log_det)
            spread = h[:, None, :] - centres
            forms = np.einsum("anp,pq,anq->n", spread, np.linalg.inv(rest), spread)
            norm = np.linalg.det(2.0 * math.pi * rest) ** (-replicas / 2)
            residuals.append(abs(float(weight @ np.exp(-forms / 2.0)) * norm / direct - 1.0))
    # The trapezoid of a Gaussian is exact to rounding at this step.
    return numeric(residuals, 1e-11, "density (145) against the average over xi of the factorised one, n + 1 = 2, 3")


def _probability(label: int, *tokens: Array) -> Array:
    """Evaluate a smooth noisy channel with two labels, neither even nor symmetric in the tokens."""
    score = sum(((number + 1.0) * h - 0.4 * h**2 for number, h in enumerate(tokens)), np.zeros(()))
    one = 1.0 / (1.0 + np.exp(-score))
    return one if label else 1.0 - one


def _nodes(step: float = 0.25, reach: float = 8.0) -> tuple[Array, Array]:
    axis = np.arange(-int(reach / step), int(reach / step) + 1) * step
    weights = np.exp(-(axis**2) / 2.0) * step / math.sqrt(2.0 * math.pi)
    return np.asarray(axis, dtype=np.float64), np.asarray(weights, dtype=np.float64)


def _joint(replicas: int, tokens: int, q: float, step: float) -> float:
    """Channel part (132) of one index: a product rule over all replicas and tokens."""
    axis, gauss = _nodes(step, 7.0)
    root = np.linalg.cholesky(np.eye(replicas) * (1.0 - q) + q)
    grid = np.meshgrid(*[axis] * (replicas * tokens), indexing="ij", sparse=True)
    weight: Array = np.ones(())
    for column in np.meshgrid(*[gauss] * (replicas * tokens), indexing="ij", sparse=True):
        weight = weight * column
    total = 0.0
    for label in (0, 1):
        value: Array = np.ones(())
        for a in range(replicas):
            h = [sum((root[a, b] * grid[m * replicas + b] for b in range(a + 1)), np.zeros(())) for m in range(tokens)]
            value = value * _probability(label, *h)
        total += float(np.sum(weight * value))
    return total


def _decoupled(replicas: int, tokens: int, q: float, inner: Callable[[int, tuple[float, ...], float], float]) -> float:
    """Average over xi of the sum over labels of a power of the inner integral."""
    axis, gauss = _nodes(0.4, 7.2)
    total = 0.0
    for places in product(range(len(axis)), repeat=tokens):
        weight = math.prod(float(gauss[place]) for place in places)
        if weight < 1e-14:
            continue
        omega = tuple(math.sqrt(q) * float(axis[place]) for place in places)
        total += weight * sum(inner(label, omega, 1.0 - q) ** replicas for label in (0, 1))
    return total


def _inner_density(label: int, omega: tuple[float, ...], variance: float) -> float:
    """Integral of (152): over h, with the density N(h; omega, V) written out, on a fixed grid of h."""
    axis = np.arange(-48, 49) * 0.2
    weights = [np.exp(-((axis - w) ** 2) / (2.0 * variance)) * 0.2 / math.sqrt(2.0 * math.pi * variance) for w in omega]
    grid = np.meshgrid(*[axis] * len(omega), indexing="ij", sparse=True)
    value = _probability(label, *grid)
    for weight in reversed(weights):
        value = value @ weight
    return float(value)


def _inner_standard(label: int, omega: tuple[float, ...], variance: float) -> float:
    """Integral of (153): over a standard Gaussian z."""
    axis, gauss = _nodes(0.25, 8.0)
    grid = np.meshgrid(*[axis] * len(omega), indexing="ij", sparse=True)
    value = _probability(label, *[w + math.sqrt(variance) * z for w, z in zip(omega, grid, strict=True)])
    for _ in omega:
        value = value @ gauss
    return float(value)


def check_152() -> CheckOutcome:
    """Decouple the replicas: the joint integral (132) against the average over xi of powers, density written out."""
    residuals = []
    for replicas, tokens, q in ((2, 1, 0.4), (3, 1, 0.6), (2, 2, 0.5)):
        joint = _joint(replicas, tokens, q, 0.25 if replicas * tokens < 4 else 0.4)
        residuals.append(abs(_decoupled(replicas, tokens, q, _inner_density) / joint - 1.0))
    # Trapezoids of analytic functions with poles at distance above one: 1e-9 at the coarsest step.
    return numeric(residuals, 1e-7, "joint channel part against the decoupled one, n + 1 = 2, 3, one and two tokens")


def check_153() -> CheckOutcome:
    """Decouple the replicas with a standard Gaussian variable: powers of Z_out averaged over xi, (153) and (155)."""
    residuals = []
    for replicas, tokens, q in ((2, 1, 0.4), (3, 1, 0.6), (2, 2, 0.5)):
        joint = _joint(replicas, tokens, q, 0.25 if replicas * tokens < 4 else 0.4)
        residuals.append(abs(_decoupled(replicas, tokens, q, _inner_standard) / joint - 1.0))
    # As for (152).
    return numeric(residuals, 1e-7, "joint channel part against powers of Z_out averaged over xi, n + 1 = 2, 3")


def check_154() -> CheckOutcome:
    """Partition function of the channel by z and by the density N(h; omega, V), and its sum over labels."""
    residuals = []
    for omega, variance in (((0.3,), 0.7), ((-0.5, 0.9), 0.4), ((1.2, -0.2), 1.0)):
        values = [_inner_standard(label, omega, variance) for label in (0, 1)]
        residuals += [abs(v / _inner_density(label, omega, variance) - 1.0) for label, v in enumerate(values)]
        residuals.append(abs(sum(values) - 1.0))
    # Two trapezoids with different nodes on the same analytic integrand.
    return numeric(residuals, 1e-9, "Z_out over z against Z_out over h, and its sum over labels against one")


def check_159() -> CheckOutcome:
    """First order in n of prior and channel part together against the exponent with the infimum over qhat."""
    alpha = sp.Symbol("alpha", positive=True)
    p, r = sp.symbols("p r", positive=True)
    labels = (p, r, 1 - p - r)  # a channel at one xi; the average over xi is linear
    q, one = symmetric("q", _INDICES), sp.eye(_INDICES)
    log_det = _N * sp.log((one - q).det()) + sp.log((one + _N * q).det())
    channel = sum(z ** (_N + 1) for z in labels)
    exponent = log_det / 2 + alpha * sp.log(channel)
    slope = sp.diff(exponent, _N).subs(_N, 0)
    qhat = conjugate_of(q)
    # log det(I + qhat) = -log det(I - q) at the infimum, proved with (144).
    stated = -(q * qhat).trace() / 2 + qhat.trace() / 2 + sp.log((one - q).det()) / 2
    stated += alpha * sum(z * sp.log(z) for z in labels)
    return symbolic(
        {
            "order n^0": exponent.subs(_N, 0).subs(sp.log(sum(labels)), 0),
            "order n^1": sp.simplify(slope - stated),
            "determinant": (one + qhat).det() * (one - q).det() - 1,
        },
        "slope in n of 1/2 log det Q + alpha log I_out against the exponent of (159) at its infimum, P = 2",
    )
