"""One layer with a mask or correlated tokens, by what it is as informative as."""

import numpy as np
import pytest

import attnlimits as al
from attnlimits.numerics.channel.charts import ChartChannel
from attnlimits.numerics.channel.structure import normals_of
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.model.reduced import reduced


def test_two_causal_tokens_have_the_threshold_of_their_link():
    found = al.threshold(Network(1, 2, mask="causal"))
    assert abs(float(found.value) - 0.33939764) < 1e-8  # by a quadrature of its own
    assert found.origin.model["blocks"] == "attention(causal)"


@pytest.mark.parametrize(("tokens", "mask"), [(3, "causal"), (4, "causal"), (5, "window:3")])
def test_masks_that_show_the_index_up_to_its_sign_cost_nothing(tokens, mask):
    found = al.threshold(Network(1, tokens, mask=mask))
    assert found.exact == f"1/{tokens * (tokens + 1)}"


@pytest.mark.parametrize("seed", range(10))
def test_one_tied_layer_keeps_its_threshold_for_any_covariance_of_its_tokens(seed):
    rng = np.random.default_rng(seed)
    tokens = 2 + seed % 3
    root = rng.standard_normal((tokens, tokens))
    model = Network(1, tokens, token_covariance=root @ root.T)
    assert al.threshold(model).exact == f"1/{tokens * (tokens + 1)}"
    assert al.evolve(model, 0.3).overlap[0, 0] == al.evolve(Network(1, tokens), 0.3).overlap[0, 0]


def test_what_has_no_simpler_form_stays_as_it_is():
    for model in (
        Network(2, 2, mask="causal"),
        Network(1, 3, mask="window:2"),
        Network(1, 2, mask="causal", noise=0.1),
    ):
        assert reduced(model) == (model, "")


def test_a_covariance_is_seen_by_sampled_posteriors_of_one_layer_alone_as_by_none():
    # The reduction against the chart of the network itself, whose posterior knows of the covariance.
    model = Network(1, 2, tied=False, token_covariance="ar1:0.6")
    q = np.diag([0.4, 0.3])
    found = []
    for at in (Network(1, 2, tied=False), model):
        draws = np.random.default_rng(1).standard_normal((8, 512, normals_of(at)))
        found.append(ChartChannel(at, list(draws), nodes=512, rng=np.random.default_rng(2))(q))
    plain, chart = (averages.g.diagonal(axis1=1, axis2=2) for averages in found)
    scatter = np.hypot(plain.std(axis=0, ddof=1), chart.std(axis=0, ddof=1)) / np.sqrt(8)
    assert (np.abs(plain.mean(axis=0) - chart.mean(axis=0)) < 4 * scatter).all()
