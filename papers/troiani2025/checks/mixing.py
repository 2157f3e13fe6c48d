"""Deep attention as a sequence multi-index model: (4)-(7), against the network at finite dimension."""

from collections.abc import Sequence

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from attnlimits.derive import mixing
from attnlimits.derive.architecture import Architecture
from attnlimits.derive.primitives import elementary
from attnlimits.derive.registry import CheckOutcome
from attnlimits.derive.softmax_pair import pair_chain
from attnlimits.generated.attention_tied_linear_m2 import numpy64 as linear_kernel
from attnlimits.generated.attention_tied_softmax_m2 import numpy64 as softmax_kernel

from .forward import network, random_weights, reference_mixing
from .tools import numeric, relative

Array = NDArray[np.float64]

# Both routes are some hundred float64 operations on numbers of order one to a hundred.
_ROUNDING = 1e-12
_CASES = (
    (Architecture(layers=3, tokens=2, ranks=(1, 2, 1)), 0.7, 1.3),
    (Architecture(layers=2, tokens=3, ranks=(2, 1)), 1.4, 0.6),
    (Architecture(layers=3, tokens=2, ranks=1, activation="linear"), 0.5, 0.4),
)


def _evaluate(
    matrices: Sequence[sp.Matrix], model: Architecture, indices: Sequence[Array], skip: float, beta: float
) -> list[Array]:
    """Value of derived matrices at given indices; a depth of zero gives a constant matrix."""
    symbols = [entry for matrix in model.index_matrices() for entry in matrix]
    values = [entry for h in indices for entry in h.reshape(-1)]
    function = sp.lambdify([*symbols, model.skip, model.beta], [elementary(m) for m in matrices], "numpy", cse=True)
    return [np.asarray(value, dtype=float) for value in function(*values, skip, beta)]


def check_4() -> CheckOutcome:
    """States of the network against derived mixing matrices times the input."""
    rng = np.random.default_rng(4)
    residuals = []
    for model, skip, beta in _CASES:
        weights = random_weights(rng, model.rank_vector, 50)
        sample = rng.standard_normal((50, model.tokens))
        indices = [weight @ sample / np.sqrt(50) for weight in weights]
        states, _ = network(weights, sample, skip, beta, model.activation_name)
        derived = _evaluate(mixing.mixing_matrices(model), model, indices, skip, beta)
        residuals += [relative(b @ sample.T, state) for b, state in zip(derived, states, strict=True)]
    return numeric(residuals, _ROUNDING, "network states X_l against derived B_l X_0 at D = 50")


def check_5() -> CheckOutcome:
    """Compare the recursion with the triangular chain of M = 2 and with the generated layer kernels."""
    rng = np.random.default_rng(5)
    rotation = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2.0)
    residuals = []
    for skip, beta in ((0.3, 1.0), (1.0, 2.5), (5.0, 0.4)):
        indices = [rng.standard_normal((1, 2)) for _ in range(3)]
        for kernel, activation in ((softmax_kernel, "softmax"), (linear_kernel, "linear")):
            chain = np.eye(2)
            upper, lower = [], []
            for h, expected in zip(indices, reference_mixing(indices, skip, beta, activation)[1:], strict=True):
                vp, vm = (h @ rotation @ chain.T)[0]
                layer = np.array(kernel.layer(vp, vm, skip, beta), dtype=float).reshape(2, 2)
                chain = layer @ chain
                upper.append(layer[0, 1])
                lower.append(layer[1, 1] - skip)
                residuals.append(relative(rotation @ chain @ rotation, expected))
            if activation == "softmax":
                k, s, t = (float(x) for x in pair_chain(skip, upper, lower))
                residuals.append(relative(np.array([[k, s], [0.0, t]]), chain))
    return numeric(residuals, _ROUNDING, "recursion in tokens against generated layers and the triangular chain, M = 2")


def check_6() -> CheckOutcome:
    """Readout of the network against the derived link on the indices."""
    rng = np.random.default_rng(6)
    residuals = []
    for model, skip, beta in _CASES:
        weights = random_weights(rng, model.rank_vector, 60)
        sample = rng.standard_normal((60, model.tokens))
        indices = [weight @ sample / np.sqrt(60) for weight in weights]
        _, readout = network(weights, sample, skip, beta, model.activation_name)
        (derived,) = _evaluate([mixing.link(model)], model, indices, skip, beta)
        residuals.append(relative(derived, readout))
    return numeric(residuals, _ROUNDING, "network readout against the derived link at D = 60")


def check_7() -> CheckOutcome:
    """Readout of a deep network against the generated kernels on the indices of the stacked weights."""
    rng = np.random.default_rng(7)
    dimension, skip, beta = 80, 0.8, 1.1
    residuals = []
    for layers in (1, 2, 5):
        weights = random_weights(rng, (1,) * layers, dimension)
        sample = rng.standard_normal((dimension, 2))
        h = np.vstack(weights) @ sample / np.sqrt(dimension)
        modes = np.stack([h[:, 0] + h[:, 1], h[:, 0] - h[:, 1]], axis=1) / np.sqrt(2.0)
        chain = np.eye(2)
        for row in modes[:-1]:
            vp, vm = chain @ row
            chain = np.array(softmax_kernel.layer(vp, vm, skip, beta), dtype=float).reshape(2, 2) @ chain
        vp, vm = chain @ modes[-1]
        y = np.array(softmax_kernel.link(vp, vm, beta), dtype=float).reshape(2, 2)
        residuals.append(relative(y, network(weights, sample, skip, beta)[1]))
    return numeric(residuals, _ROUNDING, "network readout against generated kernels on W x / sqrt(D), L = 1, 2, 5")
