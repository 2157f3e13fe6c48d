"""Compute the stored truths again: `python tests/calibration/make_truths.py [NAME ..]`.

What is in the files already is kept, so an interrupted run goes on; remove an entry to have it computed afresh.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from deep_sums import last_overlap
from finer_lattices import by_finer_lattice, lattice_cases
from harness import Settings, store_truths
from linear_averages import by_finer_sums, first_alone, linear_cases

from attnlimits.numerics.channel.choice import channel
from attnlimits.numerics.channel.two_layers.channel import TwoLayerQuadrature
from attnlimits.numerics.core.results import EvolutionResult
from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.fixed_point.link import evolve as evolve_link
from attnlimits.numerics.fixed_point.prediction_error import prediction_errors
from attnlimits.numerics.free_energy.psi_out import OutputEntropy, output_entropy
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.first_layer import first_layer
from attnlimits.numerics.thresholds.last_layer import last_layer

Truth = tuple[Any, Any]
# Overlaps just above the threshold of the default model, whose alpha is 0.185.
NEAR = (2e-4, 1e-3, 3e-3, 5e-3, 0.01, 0.02, 0.03, 0.04)
# Ratios alpha at which the last of three layers alone is learned, and about its overlap there.
_LAST_ALONE = (
    (0.2, 0.0), (0.2075, 0.00033), (0.208, 0.00086), (0.209, 0.0019), (0.212, 0.0052), (0.218, 0.0122), (0.225, 0.021),
    (0.25, 0.0573), (0.3, 0.1495), (0.4, 0.39), (0.5, 0.65), (0.6, 0.83), (0.75, 0.94), (0.9, 0.97),
)  # fmt: skip
# Ratios alpha at which hidden layers of three are learned, and to what accuracy: lattices reach further than samples.
_HIDDEN = ((1.02, 1e-3), (1.1, 1e-3), (1.2, 1e-3), (1.3, 1e-3), (1.38, 3e-3), (1.45, 3e-3))
# Relative accuracy of alpha along the branch of the second layer, and points of sampled averages.
_FINE, _MANY = 1e-8, 1024


def _second_alone(skip: float, beta: float, q22: float) -> tuple[float, float, float]:
    """alpha at which (0, q22) is a fixed point, its error, and the growth rate of the first layer there."""
    rules = TwoLayerQuadrature(Network(layers=2, tokens=2, skip=skip, beta=beta), _FINE, 1)
    fine = rules.refinements(np.diag([0.0, q22]))
    alphas = q22 / ((1 - q22) * fine[:, 1])
    return float(alphas[0]), 2 * float(abs(alphas[1] - alphas[0])), float(alphas[0] * fine[0, 2])


def second_layer() -> list[dict[str, Any]]:
    """Overlaps of the second of two layers while the first one is unknown: near zero, up to 0.9, and below threshold.

    alpha is an explicit function of the overlap, which is chosen first and known to the error of alpha over its slope.
    """
    rng = np.random.default_rng(1)
    cases: list[dict[str, Any]] = []
    while len(cases) < 110:
        skip, beta = (float(f"{np.exp(rng.uniform(-0.7, 0.7)):.3g}") for _ in range(2))
        settings = {"skip": skip, "beta": beta}
        if len(cases) % 11 == 10:
            critical = float(last_layer(Network(layers=2, tokens=2, skip=skip, beta=beta), digits=10).value)
            settings["alpha"] = float(critical * (1 - 10 ** rng.uniform(-3, -0.5)))
            cases.append({"settings": settings, "value": 0.0, "error": 0.0})
            continue
        q22 = float(10 ** rng.uniform(-4, -0.5) if rng.integers(2) else rng.uniform(0.1, 0.9))
        cases += _second_at(skip, beta, q22)
    for q22 in NEAR:
        cases += _second_at(1.0, 1.0, q22)
    return cases


def _second_at(skip: float, beta: float, q22: float) -> list[dict[str, Any]]:
    """The case of this overlap, if the iteration ends there: a layer that joins, or a fold, would lead elsewhere."""
    alpha, error, rate = _second_alone(skip, beta, q22)
    slope = (_second_alone(skip, beta, 1.01 * q22)[0] - alpha) / (0.01 * q22)
    if not (rate < 0.98 and slope > 0):
        return []
    off = 2 * (error + 1e-15) / slope
    return [{"settings": {"skip": skip, "beta": beta, "alpha": alpha}, "value": q22, "error": off}]


def model_of(s: Settings) -> Network:
    """Model of stored settings, of which alpha is none."""
    s = {key: value for key, value in s.items() if key != "alpha"}
    if s.get("untied"):
        return Network(layers=1, tokens=s["tokens"], rank=1, tied=False)
    return Network(**s)


def _sampled(s: Settings) -> Truth:
    return _overlaps(evolve(model_of(s), s["alpha"], samples=_MANY, replicas=16, rng=10**6, tol=1e-6))


def _overlaps(found: EvolutionResult) -> Truth:
    assert found.converged, found.status
    return found.overlap.diagonal().tolist(), found.overlap_error.diagonal().tolist()


def _by_rule(accuracy: float) -> Callable[[Settings], Truth]:
    return lambda s: _overlaps(evolve(Network(**s["model"]), s["alpha"], accuracy=accuracy, workers=1))


def _three_layers(s: Settings) -> Truth:
    """Overlaps of three layers, the last one alone from its threshold at 0.2072 on to that of the first at 0.98."""
    guess = dict(_LAST_ALONE)[s["alpha"]]
    value, error = last_overlap(Network(**s["model"]), s["alpha"], guess) if guess else (0.0, 0.0)
    return [0.0, 0.0, value], [0.0, 0.0, error]


def _hidden_layers(s: Settings) -> Truth:
    """Overlaps of three layers of which the hidden ones are learned, of a seed of its own."""
    return _overlaps(evolve(Network(**s["model"]), s["alpha"], accuracy=dict(_HIDDEN)[s["alpha"]], rng=10**6))


def _both_learned() -> list[Settings]:
    """From just above the threshold of the first layer to below recovery, of two models."""
    models = [{"layers": 2, "skip": skip, "beta": beta} for skip, beta in ((1.0, 1.0), (2.0, 0.7))]
    return [
        {"model": model, "alpha": round(factor * float(first_layer(Network(**model), digits=3).value), 3)}
        for model in models
        for factor in (1.02, 1.06, 1.15)
    ]


def _deep_models() -> list[Settings]:
    """Three layers of two tokens, and two layers of three tokens, where a threshold takes seconds."""
    rng = np.random.default_rng(4)
    shapes = [(3, 2, "softmax"), (2, 3, "softmax"), (3, 2, "linear")]
    return [
        {
            "layers": layers,
            "tokens": tokens,
            "activation": activation,
            "skip": float(f"{rng.uniform(0.9, 2):.3g}"),
            "beta": 1.0 if activation == "linear" else float(f"{rng.uniform(0.6, 1.2):.3g}"),
        }
        for layers, tokens, activation in shapes * 3
    ]


def _to_15_digits(s: Settings) -> Truth:
    found = last_layer(Network(**s), digits=15)
    assert found.converged, found.status
    return found.value, found.error


def _of_link(s: Settings) -> Truth:
    kernel = kernel_of(s["link"], noise=s["noise"])
    return _overlaps(evolve_link(kernel, s["alpha"], samples=_MANY // 2, replicas=16, rng=10**6))


def _tied(s: Settings) -> Truth:
    return _overlaps(evolve(model_of(s), s["alpha"], samples=2 * _MANY, replicas=32, rng=12345))


def _two_layers(s: Settings) -> Truth:
    model = Network(**s["model"])
    return _overlaps(evolve(model, s["alpha"], samples=_MANY // 2, replicas=16, rng=10**6, workers=1))


def output_of(s: Settings, **points: int) -> OutputEntropy:
    """Psi_out of the model of stored settings, by so many random points."""
    shape = s["model"]
    model = kernel_of(shape["link"], noise=shape["noise"]) if "link" in shape else model_of(shape)
    if isinstance(model, Network):  # by random points where there is a quadrature, too
        rng = np.random.default_rng(points.pop("rng"))
        return output_entropy(channel(model, **points, rng=rng, workers=1))
    return output_entropy(model, workers=1, **points)


def _output_entropy(s: Settings) -> Truth:
    found = output_of(s, samples=2 * _MANY, replicas=16, rng=10**6).value(np.diag(s["q"]))
    return found.value, found.error


def _layers(alphas: Sequence[float], **shape: Any) -> list[Settings]:
    return [{**shape, "alpha": alpha} for alpha in alphas]


def _prediction(s: Settings) -> Truth:
    """Mean over many seeds, and its standard error from their scatter."""
    model = Network(layers=s["layers"], tokens=s["tokens"], activation=s["activation"])
    seeds = [prediction_errors(model, np.diag(s["q"]), rng=10**6 + k) for k in range(30)]
    values = np.array([[one.value for one in pair] for pair in seeds])
    return values.mean(axis=0).tolist(), (values.std(axis=0, ddof=1) / np.sqrt(len(values))).tolist()


STORES: dict[str, tuple[str, list[Settings] | Callable[[], list[Settings]], Callable[[Settings], Truth]]] = {
    "wide_and_untied": (
        f"evolve with {_MANY} points in each of 16 randomisations and another seed",
        _layers((0.28, 0.4, 0.6, 0.9), untied=True, tokens=2) + _layers((0.2, 0.25), layers=1, tokens=4, rank=3),
        _sampled,
    ),
    "tied": (
        f"evolve with {2 * _MANY} points in each of 32 randomisations and another seed",
        _layers((0.17, 0.19, 0.22, 0.24, 0.26, 0.28, 0.3, 0.32, 0.34, 0.36), layers=1, tokens=3, rank=2),
        _tied,
    ),
    "prediction": (
        "mean over thirty seeds",
        [
            {"layers": len(q), "tokens": m, "activation": activation, "q": q}
            for m, activation, q in [
                (2, "softmax", [0.0]),
                (3, "softmax", [0.3]),
                (2, "linear", [0.7]),
                (2, "softmax", [0.0, 0.0]),
                (2, "softmax", [0.0, 0.5]),
                (2, "softmax", [0.4, 0.99]),
                (3, "softmax", [0.0, 0.2]),
                (2, "linear", [0.3, 0.6]),
                (2, "softmax", [0.0, 0.1, 0.8]),
            ]
        ],
        _prediction,
    ),
    "both_layers": (
        "evolve at an accuracy of 1e-4",
        _both_learned,
        _by_rule(1e-4),
    ),
    "three_layers": (
        "far finer sums over the outputs, and other nodes; up to q = .2 their ratio to the limit of small overlaps",
        [{"model": {"layers": 3}, "alpha": alpha} for alpha, _ in _LAST_ALONE],
        _three_layers,
    ),
    "hidden_layers": (
        "evolve at an accuracy of 1e-3 up to alpha = 1.3, 3e-3 beyond, and another seed",
        [{"model": {"layers": 3}, "alpha": alpha} for alpha, _ in _HIDDEN],
        _hidden_layers,
    ),
    "lattices": (
        "lattices with finer steps and other nodes; errors as stated of lattices with as many nodes",
        lattice_cases,
        by_finer_lattice,
    ),
    "linear_averages": ("sums of 20 times the accuracy", linear_cases, by_finer_sums),
    "deep_thresholds": ("threshold to 15 digits", _deep_models, _to_15_digits),
    "links": (
        f"evolve with {_MANY // 2} points in each of 16 randomisations and another seed",
        [
            {"link": text, "noise": noise, "alpha": alpha}
            for text, noise, values in [
                ("abs(h[1]) + h[2]", "0", (0.3, 0.5, 0.7, 0.9, 1.5)),
                ("abs(h[1]) + h[2]", "0.2", (0.4, 0.7, 1.0)),
            ]
            for alpha in values
        ],
        _of_link,
    ),
    "two_linear_layers": (
        f"evolve with {_MANY // 2} points in each of 16 randomisations and another seed",
        [{"model": {"layers": 2, "activation": "linear"}, "alpha": alpha} for alpha in (0.6, 0.7, 0.8, 0.85)],
        _two_layers,
    ),
    "three_tokens": (
        f"evolve with {_MANY // 2} points in each of 16 randomisations and another seed",
        [{"model": {"layers": 2, "tokens": 3}, "alpha": alpha} for alpha in (0.2, 0.25, 0.3)],
        _two_layers,
    ),
    "output_entropies": (
        f"Psi_out with {2 * _MANY} points in each of 16 randomisations and another seed",
        [
            {"model": model, "q": [q] * 2}
            for model in (
                {"layers": 1, "tokens": 3, "rank": 2},
                {"untied": True, "tokens": 2},
                {"layers": 2, "activation": "linear"},
                {"link": "h[1]*h[2]", "noise": "0"},
                {"link": "abs(h[1]) + h[2]", "noise": "0"},
                {"link": "abs(h[1]) + h[2]", "noise": "0.2"},
            )
            for q in (0.05, 0.3, 0.6, 0.9)
        ],
        _output_entropy,
    ),
}


# One layer alone is learned: alpha is an explicit function of its overlap.
ALONE = {"second_layer": ("1e-8", second_layer), "first_linear_layer": ("1e-6", first_alone)}


def main(names: list[str]) -> None:
    """Write these stores, or all."""
    for name in names or [*ALONE, *STORES]:
        if name in ALONE:
            accuracy, make = ALONE[name]
            how, cases = f"alpha at the overlap, by nested rules to {accuracy}, and the slope there", make()
            known = {tuple(one["settings"].values()): (one["value"], one["error"]) for one in cases}
            store_truths(name, how, [one["settings"] for one in cases], lambda s, known=known: known[tuple(s.values())])
        else:
            how, settings, compute = STORES[name]
            store_truths(name, how, settings() if callable(settings) else settings, compute)


if __name__ == "__main__":
    main(sys.argv[1:])
