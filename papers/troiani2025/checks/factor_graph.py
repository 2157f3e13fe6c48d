"""Belief propagation, its relaxation, the algorithm on data: (76)-(79), (81), (85), (90), (92), (111)-(112), (115)."""

from itertools import product

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from attnlimits.derive.registry import CheckOutcome

from .tools import average, gaussian_moment, matrix, numeric, symbolic, symmetric

Array = NDArray[np.float64]

_INDICES = 2  # P
_TOKENS = 2  # M
_EPS = sp.Symbol("epsilon", positive=True)  # 1 / sqrt(D)


def check_76() -> CheckOutcome:
    """Belief propagation is exact on a tree: three weights in a chain, two samples that share the middle one."""
    values = (0, 1)

    def prior(i: int, w: int) -> sp.Symbol:
        return sp.Symbol(f"p{i}_{w}", positive=True)

    def channel(sample: int, first: int, second: int) -> sp.Symbol:
        return sp.Symbol(f"f{sample}_{first}{second}", positive=True)

    # Sample 0 sees weights 0 and 1, sample 1 sees weights 1 and 2. Leaves send their prior.
    to_middle = [
        {w: sum(prior(0, u) * channel(0, u, w) for u in values) for w in values},
        {w: sum(prior(2, u) * channel(1, w, u) for u in values) for w in values},
    ]
    from_middle = [{w: prior(1, w) * to_middle[1 - sample][w] for w in values} for sample in (0, 1)]
    beliefs = {
        0: {w: prior(0, w) * sum(from_middle[0][u] * channel(0, w, u) for u in values) for w in values},
        1: {w: prior(1, w) * to_middle[0][w] * to_middle[1][w] for w in values},
        2: {w: prior(2, w) * sum(from_middle[1][u] * channel(1, u, w) for u in values) for w in values},
    }
    differences = {}
    for i, w in product(range(3), values):
        exact = sum(
            prior(0, a) * prior(1, b) * prior(2, c) * channel(0, a, b) * channel(1, b, c)
            for a, b, c in product(values, repeat=3)
            if (a, b, c)[i] == w
        )
        differences[f"weight {i}, value {w}"] = beliefs[i][w] - exact
    return symbolic(differences, "beliefs against exact marginals on a chain of three weights, generic channel")


def check_77() -> CheckOutcome:
    """Fourier form of the delta function, on Gaussians (they span test functions), h counted from the centre."""
    h, k, centre = sp.symbols("h k h_0", real=True)
    test = sp.exp(-(h**2) / 2)
    # First over h, which gives the transform of the test function, then over the Fourier variable.
    transform = sp.simplify(sp.integrate(test * sp.exp(sp.I * k * h), (h, -sp.oo, sp.oo)))
    back = sp.integrate(sp.expand(transform * sp.exp(-sp.I * k * centre)), (k, -sp.oo, sp.oo)) / (2 * sp.pi)
    return symbolic(
        {"integral": sp.simplify(back) - test.subs(h, centre)},
        "double integral of (77) against the value at h_0, one entry of h",
    )


def check_78() -> CheckOutcome:
    """Separate one weight in the exponent of (77): the others factorise."""
    dimension = 3
    weights, sample = matrix("w", _INDICES, dimension), matrix("x", dimension, _TOKENS)
    h, wave = matrix("h", _INDICES, _TOKENS), matrix("hhat", _INDICES, _TOKENS)
    whole = (wave.T * (h - _EPS * weights * sample)).trace()
    split = (wave.T * (h - _EPS * weights[:, 0] * sample[0, :])).trace()
    split -= sum((_EPS * (wave.T * weights[:, j] * sample[j, :]).trace() for j in range(1, dimension)), sp.S.Zero)
    return symbolic({"exponent": whole - split}, "exponent of (77) against one weight plus the others, P = M = 2")


_NOISE = 1.0


def _line_denoiser(omega: Array, variance: Array, labels: Array) -> tuple[Array, Array]:
    """Return g and -d g of y = h + noise, one token and one index."""
    return (labels - omega) / (variance + _NOISE), 1 / (variance + _NOISE)


def check_79() -> CheckOutcome:
    """Belief propagation on a grid of weights, against the moments that its relaxation carries: one token, one index.

    The channel is y = h + noise, for which the expansion behind (82) has no further term.
    """
    rng = np.random.default_rng(79)
    samples, dimension, iterations = 3, 3, 6
    x = rng.standard_normal((samples, dimension)) / np.sqrt(dimension)
    y = rng.standard_normal(samples)
    grid = np.linspace(-8.0, 8.0, 97)
    prior = np.exp(-(grid**2) / 2)
    messages = np.tile(prior / prior.sum(), (samples, dimension, 1))
    mean, spread = np.zeros((samples, dimension)), np.ones((samples, dimension))
    residuals = []
    for _ in range(iterations):
        factors = np.empty_like(messages)
        for mu, i in product(range(samples), range(dimension)):
            j, k = (n for n in range(dimension) if n != i)
            rest = y[mu] - x[mu, j] * grid[:, None] - x[mu, k] * grid
            weight = messages[mu, j][:, None] * messages[mu, k]
            for at, w in enumerate(grid):
                factors[mu, i, at] = (weight * np.exp(-((rest - x[mu, i] * w) ** 2) / (2 * _NOISE))).sum()  # (76)
        omega = (mean * x).sum(axis=1, keepdims=True) - mean * x  # (80)
        variance = (spread * x**2).sum(axis=1, keepdims=True) - spread * x**2
        g, slope = _line_denoiser(omega, variance, y[:, None])  # (81)
        field, coupling = x * g, x**2 * slope  # (83)
        for mu in range(samples):
            others = [nu for nu in range(samples) if nu != mu]
            product_of = prior * factors[others].prod(axis=0)
            messages[mu] = product_of / product_of.sum(axis=1, keepdims=True)
            spread[mu] = 1 / (1 + coupling[others].sum(axis=0))  # (84)
            mean[mu] = spread[mu] * field[others].sum(axis=0)
        first = messages @ grid
        residuals += [np.abs(first - mean).max(), np.abs(messages @ grid**2 - first**2 - spread).max()]
    # The trapezoidal rule is exact to rounding on Gaussians; beyond the grid there is e^{-32}.
    return numeric(residuals, 1e-11, "moments of messages on a grid against (80)-(84), six iterations, N = D = 3")


class _Regression:
    """Noisy linear indices, y_m = T h_m + noise, whose posterior is Gaussian and known by least squares.

    For it log Z_out is quadratic, so that relaxed belief propagation is belief propagation, whose means are exact
    where it converges.
    """

    def __init__(self, seed: int, samples: int, dimension: int) -> None:
        rng = np.random.default_rng(seed)
        self.mixing = np.array([[1.0, 0.3], [-0.2, 0.8]])
        self.noise = 1.5
        self.inputs = rng.standard_normal((samples, dimension, _TOKENS))
        weights = rng.standard_normal((_INDICES, dimension))
        indices = np.einsum("pi,nim->npm", weights, self.inputs) / np.sqrt(dimension)
        noise = rng.standard_normal((samples, _INDICES, _TOKENS))
        self.labels = np.einsum("pq,nqm->npm", self.mixing, indices) + np.sqrt(self.noise) * noise
        self.dimension, self.samples = dimension, samples

    def exact(self) -> Array:
        """Posterior mean (P, D) by one linear solve over all weights."""
        # Row (n, p, m) of the design holds d y_npm / d W_qi = T_pq x_nim / sqrt(D).
        design = np.einsum("pq,nim->npmqi", self.mixing, self.inputs) / np.sqrt(self.dimension)
        design = design.reshape(-1, _INDICES * self.dimension)
        precision = design.T @ design / self.noise + np.eye(design.shape[1])
        return np.linalg.solve(precision, design.T @ self.labels.reshape(-1) / self.noise).reshape(_INDICES, -1)

    def denoiser(self, omega: Array, variance: Array, labels: Array) -> tuple[Array, Array]:
        """Return g (.., M, P) and -d g (.., M, P, M, P) at means (.., M, P) and covariances (.., M, P, M, P)."""
        size = _TOKENS * _INDICES
        lift = np.kron(np.eye(_TOKENS), self.mixing)
        shape = omega.shape[:-2]
        full = variance.reshape(*shape, size, size)
        kernel = lift.T @ np.linalg.inv(lift @ full @ lift.T + self.noise * np.eye(size)) @ lift
        rest = np.linalg.solve(lift, labels.reshape(*labels.shape[:-2], size, 1)) - omega.reshape(*shape, size, 1)
        return (kernel @ rest).reshape(*shape, _TOKENS, _INDICES), kernel.reshape(*variance.shape)


def check_85() -> CheckOutcome:
    """Iterate relaxed belief propagation with full edge messages, against the exact posterior mean."""
    model = _Regression(85, samples=5, dimension=14)
    x = model.inputs  # (N, D, M)
    scale = 1.0 / np.sqrt(model.dimension)
    estimate = np.zeros((model.samples, model.dimension, _INDICES))  # hat w_{i -> mu}
    spread = np.broadcast_to(np.eye(_INDICES), (*estimate.shape, _INDICES))
    labels = np.swapaxes(model.labels, 1, 2)[:, None]
    for _ in range(200):
        terms = scale * np.einsum("nip,nim->nimp", estimate, x)
        omega = terms.sum(axis=1, keepdims=True) - terms  # (80)
        spreads = scale**2 * np.einsum("nipq,nim,nik->nimpkq", spread, x, x)
        variance = spreads.sum(axis=1, keepdims=True) - spreads
        g, kernel = model.denoiser(omega, variance, labels)  # (81)
        field = scale * np.einsum("nim,nimp->nip", x, g)  # (83)
        coupling = scale**2 * np.einsum("nim,nik,nimpkq->nipq", x, x, kernel)
        precision = np.eye(_INDICES) + coupling.sum(axis=0) - coupling  # (84), cavity
        spread = np.linalg.inv(precision)
        estimate = np.einsum("nipq,niq->nip", spread, field.sum(axis=0) - field)
    final = np.linalg.solve(np.eye(_INDICES) + coupling.sum(axis=0), field.sum(axis=0)[..., None])[..., 0].T
    # Loopy Gaussian belief propagation has exact means where it converges; 200 iterations leave rounding.
    return numeric([np.abs(final - model.exact()).max()], 1e-11, "relaxed BP on a Gaussian channel and a linear solve")


def _field_terms() -> tuple[sp.Matrix, sp.Matrix]:
    """Return one sample's row of the input and its derivative of the denoiser, per pair of tokens stacked in blocks."""
    return matrix("x", 1, _TOKENS), matrix("d", _INDICES * _TOKENS, _INDICES * _TOKENS)


def _block(derivative: sp.Matrix, m: int, k: int) -> sp.Matrix:
    return derivative[m * _INDICES : (m + 1) * _INDICES, k * _INDICES : (k + 1) * _INDICES]


def check_90() -> CheckOutcome:
    """Average the coupling (83) over the entries of the input, and bound its fluctuation: of order 1 / D in all."""
    row, derivative = _field_terms()
    d, alpha = sp.symbols("D alpha", positive=True)
    pairs = list(product(range(_TOKENS), repeat=2))
    term = -sum((row[m] * row[k] * _block(derivative, m, k) for m, k in pairs), sp.zeros(_INDICES)) / d
    mean = term.applyfunc(lambda entry: gaussian_moment(entry, list(row)))
    stated = -sum((_block(derivative, m, m) for m in range(_TOKENS)), sp.zeros(_INDICES)) / d
    square = term.applyfunc(lambda entry: gaussian_moment(entry**2, list(row)))
    # N = alpha D independent samples add up their variances.
    variance = alpha * d * (square - mean.applyfunc(lambda entry: entry**2))
    return symbolic(
        {"mean": mean - stated, "order of the variance": sp.diff(sp.Matrix(variance * d).applyfunc(sp.expand), d)},
        "mean over the input of the coupling against its diagonal tokens, and N times its variance times D, P = M = 2",
    )


def check_92() -> CheckOutcome:
    """Expand the field in the target weight that the label contains: the signal is the mean slope times w*."""
    row, derivative = _field_terms()
    base, target = matrix("g", _INDICES, _TOKENS), matrix("w", _INDICES, 1)
    shifted = sp.Matrix(base)
    for m, k in product(range(_TOKENS), repeat=2):
        shifted[:, m] += _EPS * _block(derivative, m, k) * target * row[k]  # h*_k holds w* x_k / sqrt(D)
    field = _EPS * shifted * row.T
    mean = field.applyfunc(lambda entry: average(entry, row))
    stated = _EPS**2 * sum((_block(derivative, m, m) for m in range(_TOKENS)), sp.zeros(_INDICES)) * target
    return symbolic(
        {"signal": mean - stated}, "mean of one sample's field over the input against the slope times w* / D, P = M = 2"
    )


def _message_passing(model: _Regression, *, indexed: bool, iterations: int = 400) -> Array:
    """Iterate (111), or (112) without indices on the covariances; estimate (P, D)."""
    x, scale = model.inputs, 1.0 / np.sqrt(model.dimension)
    estimate = np.zeros((model.dimension, _INDICES))
    spread = np.broadcast_to(np.eye(_INDICES), (model.dimension, _INDICES, _INDICES))
    g = np.zeros((model.samples, _TOKENS, _INDICES))
    labels = np.swapaxes(model.labels, 1, 2)
    for _ in range(iterations):
        variance = spread.mean(axis=0)
        omega = scale * np.einsum("ip,nim->nmp", estimate, x) - np.einsum("pq,nmq->nmp", variance, g)
        full = np.einsum("mk,pq->mpkq", np.eye(_TOKENS), variance)
        g, kernel = model.denoiser(omega, np.broadcast_to(full, (model.samples, *full.shape)), labels)
        squares = x**2 if indexed else np.ones_like(x)
        coupling = scale**2 * np.einsum("nim,nmpmq->ipq", squares, kernel)
        field = scale * np.einsum("nim,nmp->ip", x, g) + np.einsum("ipq,iq->ip", coupling, estimate)
        spread = np.linalg.inv(np.eye(_INDICES) + coupling)
        estimate = np.einsum("ipq,iq->ip", spread, field)
    return estimate.T


def _fixed_point(indexed: bool) -> CheckOutcome:
    residuals = []
    for seed, samples, dimension in ((111, 20, 60), (112, 60, 80)):
        model = _Regression(seed, samples, dimension)
        residuals.append(np.abs(_message_passing(model, indexed=indexed) - model.exact()).max())
    # At a fixed point the Onsager terms cancel, whatever the covariances: 400 iterations leave rounding.
    return numeric(residuals, 1e-11, "fixed point on a Gaussian channel against the posterior mean by a linear solve")


def check_111() -> CheckOutcome:
    """Fixed points of the algorithm with a covariance per weight."""
    return _fixed_point(indexed=True)


def check_112() -> CheckOutcome:
    """Fixed points of Algorithm 1, without indices on the covariances."""
    return _fixed_point(indexed=False)


def check_115() -> CheckOutcome:
    """Multiply the prior with side information (114) and the messages (82): the exponent of (115)."""
    rate = sp.Symbol("lambda", positive=True)
    w, s = matrix("w", _INDICES, 1), matrix("s", _INDICES, 1)
    messages = [(symmetric(f"A{n}", _INDICES), matrix(f"b{n}", _INDICES, 1)) for n in range(2)]
    spread = s - sp.sqrt(rate) * w
    log_message = -(w.T * w)[0, 0] / 2 - (spread.T * spread)[0, 0] / 2
    log_message += sum((-(w.T * a * w)[0, 0] / 2 + (b.T * w)[0, 0] for a, b in messages), sp.S.Zero)
    precision = (1 + rate) * sp.eye(_INDICES) + sum((a for a, _ in messages), sp.zeros(_INDICES))
    field = sp.sqrt(rate) * s + sum((b for _, b in messages), sp.zeros(_INDICES, 1))
    stated = -(w.T * precision * w)[0, 0] / 2 + (field.T * w)[0, 0] - (s.T * s)[0, 0] / 2
    return symbolic({"exponent": log_message - stated}, "log prior plus messages against the exponent of (115), P = 2")
