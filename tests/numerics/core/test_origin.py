"""The model and the settings that made a result: in every result, plain, and enough to make it again."""

import json

import numpy as np
import pytest

from attnlimits.numerics.cli import main as cli
from attnlimits.numerics.core.results import Origin, as_dict
from attnlimits.numerics.fixed_point.continuation import curve as continued
from attnlimits.numerics.fixed_point.evolve import curve, evolve
from attnlimits.numerics.fixed_point.link import evolve as evolve_link
from attnlimits.numerics.learning.descent import descend
from attnlimits.numerics.learning.gamp import gamp, make_data, teacher
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.denoiser import denoise
from attnlimits.numerics.thresholds.first_layer import first_layer
from attnlimits.numerics.thresholds.last_layer import last_layer, one_layer
from attnlimits.numerics.thresholds.link.staircase import staircase
from attnlimits.numerics.thresholds.link.thresholds import threshold

pytestmark = pytest.mark.usefixtures("few_means")

MODEL = Network(skip=0.7, beta=1.5)
LINK = {"link": ["h_1_1*h_2_1"], "indices": 2, "tokens": 1, "noise": 0.25}


def built(origin: Origin) -> Network:
    """The model again."""
    parameters = dict(origin.model)
    assert parameters.pop("untied") is False
    return Network(**parameters)


def is_plain(origin: Origin) -> bool:
    return json.loads(json.dumps(as_dict(origin))) == {"model": origin.model, "settings": origin.settings}


@pytest.mark.parametrize("start", ["informed", [[0.2, 0.0], [0.0, 0.6]]])
def test_a_fixed_point_is_made_again_from_its_origin(start: object) -> None:
    result = evolve(MODEL, 0.6, start=start, samples=16, replicas=2, tol=1e-4, max_iter=2, rng=5, workers=1)
    assert is_plain(result.origin) and built(result.origin) == MODEL
    settings = dict(result.origin.settings)
    again = evolve(MODEL, result.alpha, **settings | {"rng": settings.pop("seed")}, workers=1)
    np.testing.assert_array_equal(again.history, result.history)


def test_defaults_are_in_the_settings() -> None:
    settings = evolve(Network(1), 0.1).origin.settings
    assert settings == {
        "start": "uninformed",
        "samples": 4096,
        "replicas": 8,
        "tol": 1e-5,
        "max_iter": 200,
        "seed": 0,
        "nodes": 2048,
        "accuracy": None,
    }


def test_points_of_a_curve_and_the_curve() -> None:
    point = curve(MODEL, [0.1], samples=64, replicas=4, workers=1)[0]
    assert built(point.origin) == MODEL and point.origin.settings["start"] == "continued"
    whole = continued(Network(1, skip=2.0), [0.5, 1.0], along="skip", alpha=0.1, samples=64, replicas=4)
    assert is_plain(whole.origin) and built(whole.origin) == Network(1, skip=2.0)
    assert whole.origin.settings["values"] == [0.5, 1.0] and whole.origin.settings["alpha"] == 0.1


def test_thresholds_of_attention() -> None:
    assert last_layer(MODEL, digits=4).origin == Origin(MODEL.parameters, {"digits": 4, "seed": 0})
    assert built(last_layer(Network(1, 3, skip=0.3)).origin) == Network(1, 3, skip=0.3)
    assert one_layer(3, tied=False).origin.model["untied"] is True
    first = first_layer(MODEL, given="perfect").origin
    assert built(first) == MODEL and first.settings["given"] == "perfect" and is_plain(first)


def test_links() -> None:
    square = kernel_of("h[1]**2", noise="0.25")
    for result in (threshold(square), staircase(square)):
        assert result.origin.model == LINK | {"link": ["h_1_1**2"], "indices": 1} and is_plain(result.origin)
    result = evolve_link(kernel_of("h[1]*h[2]", noise="0.25"), 0.5, start="informed", samples=64, replicas=4)
    assert result.origin.model == LINK and is_plain(result.origin)
    assert result.origin.settings["inner"] == 1


def test_estimates_from_data() -> None:
    model = Network(1, 2, 1, activation="softmax", tied=False)
    weights = teacher(model, 40, 0)
    x, y = make_data(model, weights, 1.0, 0)
    found = gamp(x, y, model, max_iter=3, rng=7)
    assert found.origin.model == model.parameters and found.origin.model["untied"] is True
    assert found.origin.settings["seed"] == 7 and found.origin.settings["max_iter"] == 3
    descended = descend(x, y, model, start=weights, epochs=2)
    assert is_plain(descended.origin) and descended.origin.settings["start"] == "given"


def test_a_denoiser() -> None:
    result = denoise(MODEL, [[0.7, 0.3], [0.2, 0.8]], np.zeros((2, 2)), np.eye(2), tol=1e-10)
    assert result.origin == Origin(MODEL.parameters, {"tol": 1e-10})


@pytest.mark.parametrize(
    "line",
    [
        "threshold --layers 1 --heads 3",
        "evolve --layers 1 --heads 2 --alpha 0.1 --seed 3",
        "curve --layers 1 --from 0 --to 0.2 --points 2",
        "free-energy --link h[1]**2 --alpha 1.05",
        "gamp --link h[1]**2 --alpha 1.5 --dimension 60 --seeds 1",
        "descend --link h[1]**2 --alpha 3 --dimension 40 --seeds 1 --start spectral --epochs 2",
    ],
)
def test_the_command_prints_it_beside_the_name_of_the_model(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main([*line.split(), "--json"])
    record = json.loads(capsys.readouterr().out)
    assert isinstance(record["model"], str)
    model, settings = record["origin"]["model"], record["origin"]["settings"]
    assert set(model) & {"link", "layers"} and settings
    if "--heads" in line:
        assert model["heads"] > 1
    if "spectral" in line:
        assert settings["start"] == "spectral"


def test_noise_that_is_too_small_for_float64_stays_in_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["threshold", "--link", "h[1]**2", "--noise", "1e-40", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["origin"]["model"]["noise"] == 1e-40
