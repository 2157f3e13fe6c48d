"""Large depth: (46)-(54), and the size of what (52) leaves out when depth and skip strength grow together."""

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from attnlimits.derive import depth as derived
from attnlimits.derive import symbols
from attnlimits.derive.architecture import Architecture
from attnlimits.derive.primitives import elementary
from attnlimits.derive.registry import CheckOutcome

from .forward import activate, random_weights, softmax
from .tools import numeric, symbolic

Array = NDArray[np.float64]

_MODELS = (
    Architecture(layers=3, tokens=2, ranks=(1, 2, 1)),
    Architecture(layers=2, tokens=3, ranks=(2, 1)),
    Architecture(layers=3, tokens=2, ranks=1, activation="linear"),
)
_EPSILON = symbols.inverse_skip


def _plain_sigma(model: Architecture, scores: sp.Matrix) -> sp.Matrix:
    """Activation in plain exponentials."""
    scaled = model.beta * scores
    if model.activation == "linear":
        return scaled
    rows, columns = scaled.shape
    return sp.Matrix(
        rows, columns, lambda i, j: sp.exp(scaled[i, j]) / sum(sp.exp(scaled[i, k]) for k in range(columns))
    )


def _rational(difference: sp.Matrix) -> sp.Matrix:
    """Write every exponential as a product of powers of one positive symbol per monomial of its exponent."""
    names: dict[sp.Expr, sp.Symbol] = {}

    def product(exponential: sp.Expr) -> sp.Expr:
        value = sp.S.One
        for term in sp.Add.make_args(sp.expand(exponential.args[0])):
            factor, monomial = term.as_coeff_Mul()
            name = names.setdefault(monomial, sp.Symbol(f"E_{len(names)}", positive=True))
            value *= name**factor
        return value

    return elementary(difference).replace(lambda e: isinstance(e, sp.exp), product)


def _order(matrix: sp.Matrix, power: int) -> sp.Matrix:
    """Taylor coefficient in 1/c of an exact expression, by differentiation."""
    value = elementary(matrix)
    for _ in range(power):
        value = value.diff(_EPSILON)
    return value.subs(_EPSILON, 0) / sp.factorial(power)


def _own_committee(model: Architecture, layers: int) -> sp.Matrix:
    terms = (_plain_sigma(model, h.T * h) for h in model.index_matrices()[:layers])
    return sum(terms, sp.zeros(model.tokens))


def _rescaled_states(
    weights: list[Array], sample: Array, skip: float, beta: float, activation: str
) -> tuple[list[Array], Array]:
    """Network (46), directly: every layer divided by c. Returns X_0 .. X_{L-1} and the readout."""
    tokens, dimension = sample.T, sample.shape[0]
    states = [tokens]
    for weight in weights[:-1]:
        projected = weight @ tokens.T / np.sqrt(dimension)
        tokens = tokens + activate(projected.T @ projected, beta, activation) @ tokens / skip
        states.append(tokens)
    projected = weights[-1] @ tokens.T / np.sqrt(dimension)
    return states, activate(projected.T @ projected, beta, activation)


def check_46() -> CheckOutcome:
    """Network (3) with beta_l = beta / c^{2(l-1)}, divided by c^l, is network (46)."""
    rng = np.random.default_rng(46)
    residuals = []
    for activation in ("softmax", "linear"):
        skip, beta, dimension = 1.8, 0.9, 40
        weights = random_weights(rng, (1, 2, 1, 1), dimension)
        sample = rng.standard_normal((dimension, 3))
        states, readout = _rescaled_states(weights, sample, skip, beta, activation)
        tokens = sample.T
        for number, weight in enumerate(weights, start=1):
            projected = weight @ tokens.T / np.sqrt(dimension)
            attention = activate(projected.T @ projected, beta / skip ** (2 * (number - 1)), activation)
            if number == len(weights):
                residuals.append(float(np.abs(attention - readout).max() / max(1.0, np.abs(readout).max())))
                break
            tokens = skip * tokens + attention @ tokens
            residuals.append(float(np.abs(tokens / skip**number / states[number] - 1.0).max()))
    # Relative differences per entry; an entry may be a hundred times smaller than the terms it sums.
    return numeric(residuals, 1e-11, "network (3) with rescaled temperatures against network (46)")


def check_47() -> CheckOutcome:
    """States of network (46) against the derived rescaled mixing matrices, and its readout."""
    rng = np.random.default_rng(47)
    residuals = []
    for model in _MODELS:
        skip, beta, dimension = 2.5, 0.8, 50
        weights = random_weights(rng, model.rank_vector, dimension)
        sample = rng.standard_normal((dimension, model.tokens))
        states, readout = _rescaled_states(weights, sample, skip, beta, model.activation_name)
        entries = [entry for h in model.index_matrices() for entry in h]
        values = [value for w in weights for value in (w @ sample / np.sqrt(dimension)).reshape(-1)]
        expressions = [*derived.rescaled_mixing(model), derived.rescaled_link(model)]
        function = sp.lambdify(
            [*entries, _EPSILON, model.beta], [elementary(e) for e in expressions], "numpy", cse=True
        )
        *mixing, y = function(*values, 1.0 / skip, beta)
        for b, state in zip(mixing, states, strict=True):
            residuals.append(float(np.abs(b @ sample.T - state).max() / np.abs(state).max()))
        residuals.append(float(np.abs(y - readout).max() / max(1.0, np.abs(readout).max())))
    # Some hundred float64 operations, relative to the largest entry.
    return numeric(residuals, 1e-12, "states of network (46) against the derived rescaled mixing at D = 50")


def check_48() -> CheckOutcome:
    """Order zero of the exact recursion and of the derived expansion: the identity."""
    differences = {}
    for number, model in enumerate(_MODELS, start=1):
        one = sp.eye(model.tokens)
        differences[f"recursion, model {number}"] = _order(derived.rescaled_mixing(model)[-1], 0) - one
        differences[f"expansion, model {number}"] = derived.expand(model).mixing[0] - one
    return symbolic(differences, "order c^0 of the rescaled mixing matrices against the identity")


def check_49() -> CheckOutcome:
    """Order one of every B_l, from the exact recursion, against that of B_{l-1} plus an activation."""
    differences = {}
    for number, model in enumerate(_MODELS, start=1):
        orders = [_order(b, 1) for b in derived.rescaled_mixing(model)]
        for layer, h in enumerate(model.index_matrices()[: model.layers - 1], start=1):
            stated = orders[layer - 1] + _plain_sigma(model, h.T * h)
            differences[f"model {number}, layer {layer}"] = _rational(orders[layer] - stated)
    return symbolic(differences, "derivative of the exact recursion in 1/c against the recursion of first order")


def check_50() -> CheckOutcome:
    """Increments of the derived first order between depths."""
    differences = {}
    for activation in ("softmax", "linear"):
        for layers in (1, 2, 3):
            model = Architecture(layers=layers + 1, tokens=2, ranks=1, activation=activation)
            shallower = Architecture(layers=layers, tokens=2, ranks=1, activation=activation)
            h = model.index_matrices()[layers - 1]
            step = derived.expand(model).mixing[1] - derived.expand(shallower).mixing[1]
            differences[f"{activation}, layer {layers}"] = _rational(step - _plain_sigma(model, h.T * h))
    return symbolic(differences, "increments of the derived first order against the activation of one layer")


def check_51() -> CheckOutcome:
    """First order of B_{L-1}: derived expansion and committee, against the plain sum."""
    differences = {}
    for number, model in enumerate(_MODELS, start=1):
        own = _own_committee(model, model.layers - 1)
        differences[f"expansion, model {number}"] = _rational(derived.expand(model).mixing[1] - own)
        differences[f"committee, model {number}"] = _rational(derived.committee(model) - own)
    return symbolic(differences, "derived first order of the mixing matrix against the sum over layers")


def check_52() -> CheckOutcome:
    """Expand the argument of the last activation to first order, and the readout of a small model."""
    differences = {}
    for number, model in enumerate(_MODELS, start=1):
        last = model.index_matrices()[-1]
        gram = last.T * last
        own = _own_committee(model, model.layers - 1)
        argument = gram + _EPSILON * (own * gram + gram * own.T)
        mixing = derived.rescaled_mixing(model)[-1]
        exact = mixing * gram * mixing.T
        scores = derived.expand(model).scores
        for order in (0, 1):
            stated = _order(argument, order)
            differences[f"exact, order {order}, model {number}"] = _rational(_order(exact, order) - stated)
            differences[f"derived, order {order}, model {number}"] = _rational(scores[order] - stated)
    small = Architecture(layers=2, tokens=2, ranks=1)
    first, last = small.index_matrices()
    own, gram = _plain_sigma(small, first.T * first), last.T * last
    stated = _plain_sigma(small, gram + _EPSILON * (own * gram + gram * own.T))
    for name, value in (
        ("link", derived.rescaled_link(small)),
        ("readout", derived.first_order_output(small)),
    ):
        differences[f"{name}, two layers"] = _rational(_order(value, 1) - _order(stated, 1))
    return symbolic(differences, "exact network to first order in 1/c against (52)")


def _committee_form(model: Architecture, epsilon: sp.Expr, psi: sp.Matrix) -> sp.Matrix:
    """Return the generic form (53) for a given matrix Psi."""
    last = model.index_matrices()[-1]
    gram = last.T * last
    return _plain_sigma(model, gram + epsilon * (psi * gram + gram * psi.T))


def check_53() -> CheckOutcome:
    """Permute the first layers: the generic form with any symmetric sum over layers does not change."""
    differences = {}
    for activation in ("softmax", "linear"):
        model = Architecture(layers=4, tokens=2, ranks=1, activation=activation)
        h = model.index_matrices()
        symbol = sp.Function("psi")  # any function of one layer's Gram matrix, entry by entry
        psi = sum(((m.T * m).applyfunc(symbol) for m in h[:-1]), sp.zeros(2))
        value = _committee_form(model, _EPSILON, psi)
        for a, b in ((0, 1), (1, 2)):  # these generate all permutations
            moved = {x: y for p, q in ((h[a], h[b]), (h[b], h[a])) for x, y in zip(p, q, strict=True)}
            differences[f"{activation}, layers {a + 1}{b + 1}"] = value.subs(moved, simultaneous=True) - value
    return symbolic(differences, "form (53) with a generic sum over layers against its layers exchanged, L = 4")


def check_54() -> CheckOutcome:
    """Put the identification into the generic form: the derived first-order output, and its committee."""
    differences = {}
    for number, model in enumerate(_MODELS, start=1):
        own = _own_committee(model, model.layers - 1)
        gram = model.index_matrices()[-1].T * model.index_matrices()[-1]
        scores = derived.expand(model).scores
        differences[f"order 0, model {number}"] = scores[0] - gram
        differences[f"order 1, model {number}"] = _rational(scores[1] - own * gram - gram * own.T)
        differences[f"committee, model {number}"] = _rational(derived.committee(model) - own)
    linear = _MODELS[-1]
    stated = _committee_form(linear, _EPSILON, _own_committee(linear, linear.layers - 1))
    differences["output, linear"] = derived.first_order_output(linear) - stated
    return symbolic(differences, "generic form with the identified committee against the derived argument of (52)")


def joint_limit_remainder(kappa: float, skip: float, seed: int = 0) -> float:
    """Size of B_{L-1} - I - (1/c) sum_l sigma(h_l^T h_l) at L - 1 = kappa c layers, M = 2, rank one.

    At fixed depth it is of order c^{-2}. Here the layers multiply up: the remainder tends to a number of
    order kappa^2, so that (52) does not describe the joint limit of depth and skip strength.

    Parameters
    ----------
    kappa : float
        Ratio of depth to skip strength, > 0.
    skip : float
        Skip strength c, > 0; kappa times it is rounded to whole layers.
    seed : int
        Of the indices.

    Returns
    -------
    float
        Largest absolute entry of the remainder.
    """
    rng = np.random.default_rng(seed)
    mixing, committee = np.eye(2), np.zeros((2, 2))
    for _ in range(max(1, round(kappa * skip))):
        h = rng.standard_normal((1, 2))
        v = h @ mixing.T
        mixing = mixing + softmax(v.T @ v) @ mixing / skip
        committee = committee + softmax(h.T @ h)
    return float(np.abs(mixing - np.eye(2) - committee / skip).max())
