"""Every entrance refuses what no route serves, in a sentence of its own."""

from itertools import product

import numpy as np
import pytest

from attnlimits.numerics.core.errors import KernelNotFoundError
from attnlimits.numerics.fixed_point.continuation.curve import curve
from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.free_energy.psi_out import output_entropy
from attnlimits.numerics.learning.descent.gradient import square_loss
from attnlimits.numerics.model.network import Network, kernel
from attnlimits.numerics.model.routes import ROUTES, require, serving
from attnlimits.numerics.model.served import served_table
from attnlimits.numerics.posterior.choice import posterior
from attnlimits.numerics.posterior.denoiser import denoise
from attnlimits.numerics.posterior.fibres import fibre_moments
from attnlimits.numerics.posterior.precise.denoiser import denoise_mp
from attnlimits.numerics.thresholds.enclosure.threshold import enclose_last_layer
from attnlimits.numerics.thresholds.first_layer import first_layer
from attnlimits.numerics.thresholds.last_layer import last_layer

VERBS = list(dict.fromkeys(route.verb for route in ROUTES))
EYE = (np.eye(2)[None], np.zeros((2, 2)), np.eye(2))
ENTRANCES = {
    "last layer": last_layer,
    "first layer": first_layer,
    "enclosure": enclose_last_layer,
    "evolve": lambda model: evolve(model, 1.0),
    "curve": lambda model: curve(model, [0.1, 0.2]),
    "free energy": output_entropy,
    "denoise": lambda model: denoise(model, *EYE),
    "denoise-mp": lambda model: denoise_mp(model, *EYE),
    "fibre": lambda model: fibre_moments(model, EYE[0]),
    "gamp": lambda model: posterior(model, np.eye(2)[None]),
    "descend": square_loss,
    "kernel": lambda model: kernel(model, "numpy64"),
}
UNSERVED = [
    Network(2, 2, tied=False),
    Network(2, 2, heads=2, readouts=[np.eye(2)]),
    Network(1, 2, heads=2),
    Network(3, 3, output="sequence"),
    Network(2, 2, activation=np.tanh),
    Network(1, 2, activation=np.tanh, tied=False),
]


#: What charts serve of these.
ON_CHARTS = [
    (verb, model)
    for verb in ("last layer", "evolve", "curve", "free energy", "gamp")
    for model in (*UNSERVED[:2], Network(2, 2, output="sequence"))
]
#: What slopes that are derived serve of these.
DERIVED = [("descend", model) for model in UNSERVED[:4]]


@pytest.mark.parametrize(("verb", "model"), ON_CHARTS, ids=str)
def test_charts_serve_other_architectures(verb, model):
    assert [route.name for route in serving(verb, model)][-1].endswith("sampled on a chart")


@pytest.mark.parametrize(
    ("verb", "model"),
    [pair for pair in product(ENTRANCES, UNSERVED) if pair not in ON_CHARTS + DERIVED],
    ids=lambda value: value.describe() if isinstance(value, Network) else value,
)
def test_what_is_not_served_is_refused(verb, model):
    with pytest.raises(KernelNotFoundError, match=r"no |needs|exists for"):
        ENTRANCES[verb](model)


@pytest.mark.parametrize("verb", VERBS)
def test_a_refusal_names_the_model(verb):
    with pytest.raises(KernelNotFoundError, match="float"):
        require(verb, 1.0)
    if verb not in ("fibre", "descend"):
        with pytest.raises(KernelNotFoundError, match="L=2, M=2, rank 1, c=1, beta=1, H=2, output B_2"):
            require(verb, Network(heads=2, output="sequence", readouts=[np.eye(2)] * 2))


def test_the_preferred_route_is_the_first():
    assert [route.name for route in serving("evolve", Network())] == [
        "quadrature over two layers",
        "outputs sampled, posterior by quadrature",
        "posterior sampled on a chart",
        "sampled posterior",
    ]
    assert require("evolve", Network(1, 3, 2)).how == "monte-carlo"
    assert require("gamp", Network(1, 2, tied=False)).name == "fibre of one untied layer"
    assert require("curve", Network(1, 2, tied=False)).name == "fibre of one untied layer"


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (Network(), "tied softmax attention, L=2, M=2, rank 1, c=1, beta=1"),
        (Network(3, 2, (1, 2, 1), 0.5), "tied softmax attention, L=3, M=2, rank 1,2,1, c=0.5, beta=1"),
        (Network(1, tied=False), "untied softmax attention, L=1, M=2, rank 1, beta=1"),
        (Network(1, heads=2), "tied softmax attention, L=1, M=2, rank 1, c=1, beta=1, H=2"),
        (Network(activation=np.tanh, tied=False), "untied tanh attention, L=2, M=2, rank 1, c=1, beta=1"),
    ],
)
def test_names(model, name):
    assert model.describe() == name


def test_parameters_and_blocks():
    assert Network().parameters == {
        "layers": 2,
        "tokens": 2,
        "rank": 1,
        "skip": 1.0,
        "beta": 1.0,
        "activation": "softmax",
        "untied": False,
    }
    untied = Network(1, tied=False)
    assert list(untied.parameters) == ["layers", "tokens", "rank", "beta", "activation", "untied"]
    assert untied.blocks == [("keys", slice(0, 1)), ("queries", slice(1, 2))]
    assert Network(2, 2, (2, 1)).blocks == [("layer 1", slice(0, 2)), ("layer 2", slice(2, 3))]
    wide = Network(2, 3, (2, 1), tied=False, heads=2, readouts=[np.eye(2)])
    assert wide.blocks[-1][1].stop == wide.indices
    assert wide.output_shape == wide.link(np.zeros((wide.indices, 3))).shape


def test_the_table_of_the_site_is_that_of_the_routes(repository):
    assert served_table() in (repository / "docs/reference/served.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("verb", "model", "command"),
    [
        ("curve", Network(3, 3, output="sequence"), "curve --from 0 --to 1 --layers 3 --tokens 3"),
        ("evolve", Network(3, 3, output="sequence"), "evolve --alpha 1 --layers 3 --tokens 3"),
        ("last layer", Network(3, 3, activation=np.tanh, skip=2.0), "threshold --layers 3 --tokens 3 --skip 2"),
        ("evolve", Network(2, 3, (1, 2), output="sequence"), "evolve --alpha 1 --layers 2 --tokens 3 --rank 1,2"),
        ("enclosure", Network(3, 3, activation="linear"), "threshold --rigorous --layers 2 --tokens 2"),
    ],
)
def test_a_refusal_names_the_nearest_command(verb, model, command):
    with pytest.raises(KernelNotFoundError, match=f"; the nearest that is served: `attnlimits {command}`$"):
        require(verb, model)
