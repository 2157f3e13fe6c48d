"""State evolution on the workers of a cluster: every route sends its parts there, and has the same bits."""

from dataclasses import fields

import numpy as np
import pytest

import attnlimits as al
from attnlimits.numerics.channel.choice import channel
from attnlimits.numerics.channel.deep.channel import DeepQuadrature
from attnlimits.numerics.channel.link.channel import LinkChannel
from attnlimits.numerics.channel.two_layers.channel import TwoLayerQuadrature
from attnlimits.numerics.channel.two_linear.channel import TwoLinearQuadrature
from attnlimits.numerics.core.cluster_pool import ClusterPool
from attnlimits.numerics.model.network import Network

FEW = {"replicas": 3, "nodes": 128}
# Models whose averages are sampled, with their points, by the function of the tasks; of three layers the outputs have
# different numbers of nodes.
SAMPLED = {
    "tied_mean": (Network(1, 3, 3), 64),
    "tied_mean of two indices": (Network(1, 3, 2), 1024),
    "untied_mean": (Network(1, 2, tied=False), 1024),
    "scores": (Network(2, 2), 1024),
    "part_of": (Network(2, 3), 64),
    "part_of of a chart": (Network(1, 2, noise=0.1), 64),
    "part_of of three layers": (Network(3, 2), None),
}


def same(one, other, within=0.0):
    """Whether two results have the same bits, or numbers that differ by rounding."""
    if isinstance(one, np.ndarray):
        return np.allclose(one, other, rtol=within, atol=within, equal_nan=True)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(same(*pair, within) for pair in zip(one, other, strict=True))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key], within) for key in one)
    if hasattr(one, "__dataclass_fields__"):
        return all(same(getattr(one, field.name), getattr(other, field.name), within) for field in fields(one))
    if isinstance(one, float):
        return same(np.array(one), np.array(other), within)
    return one == other


def both(make, q, client):
    """Averages here and there."""
    return make(1)(q), make(ClusterPool(client))(q)


# Three layers go the way of "part_of"; their quadrature has its test below.
@pytest.mark.slow_for("part_of of three layers")
@pytest.mark.parametrize("name", SAMPLED)
def test_posteriors_of_sampled_averages(client, completed, name):
    """And what is drawn from the generator afterwards is the same."""
    (model, samples), left = SAMPLED[name], []

    def make(workers):
        rng = np.random.default_rng(0)
        # Three layers are sampled where their hidden layers are known, with points of their own.
        effort = {"samples": 32, "accuracy": 1e-2} if samples is None else {"samples": samples}
        made = channel(model, **FEW, **effort, rng=rng, workers=workers)
        left.append(rng.random())
        return made

    here, there = both(make, 0.5 * np.eye(model.indices), client)
    assert same(here, there) and left[0] == left[1]
    assert completed.count(name.split()[0]) > 1


def test_points_of_the_quadrature_of_two_layers(client, completed):
    q = np.diag([0.5, 0.6])
    assert same(*both(lambda workers: TwoLayerQuadrature(Network(), 1e-5, workers), q, client))
    sent = completed.count("weighted")
    assert sent > 10
    # Where a point takes less than a task, nothing is sent.
    assert same(*both(lambda workers: TwoLayerQuadrature(Network(), 1e-3, workers), q, client))
    assert completed.count("weighted") == sent


def test_lengths_of_the_quadrature_of_two_linear_layers(client, completed):
    model, q = Network(activation="linear", skip=3.0), np.diag([0.2, 0.3])
    assert same(*both(lambda workers: TwoLinearQuadrature(model, 1e-5, workers), q, client))
    assert completed.count("summed_at") > 10


def test_points_of_the_quadrature_of_more_layers(client, completed):
    def make(workers):
        return DeepQuadrature(Network(3, 2), 0, rng=np.random.default_rng(0), workers=workers)

    assert same(*both(make, np.diag([0.0, 0.2, 0.5]), client))
    assert completed.count("sums_at") > 2


#: Noise so narrow that no rule over the outputs resolves it.
NARROW = al.Link("h[1]*h[2]", noise="1e-7")


def test_randomisations_of_a_link(client, completed):
    kernel, partner = NARROW.kernel, al.Link("h[1]*h[2]").kernel

    def make(workers):
        effort = {"samples": samples, "replicas": 3, "workers": workers}
        return LinkChannel(kernel, rng=np.random.default_rng(0), noiseless=partner, **effort)

    q, samples = 0.5 * np.eye(2), 1024
    assert same(*both(make, q, client)) and same(make(1).operator(q), make(ClusterPool(client)).operator(q))
    assert completed.count("scores_of") == 6
    # Where a randomisation takes less than a task, nothing is sent.
    samples = 64
    assert same(*both(make, q, client)) and completed.count("scores_of") == 6


CASES = {
    "network": lambda **where: al.evolve(al.Network(2, 2), 0.9, samples=64, replicas=3, max_iter=12, **where),
    "link": lambda **where: al.evolve(NARROW, 2.0, samples=1024, replicas=3, **where),
    "chart": lambda **where: al.evolve(
        al.Network(1, 2, noise=0.1), 0.6, samples=64, replicas=3, nodes=128, max_iter=12, **where
    ),
    "chart to an accuracy": lambda **where: al.evolve(al.Network(1, 2, noise=0.1), 0.6, accuracy=0.05, **where),
    "curve of a network": lambda **where: al.curve(al.Network(1, 3, 2), [0.2, 0.6], samples=64, replicas=3, **where),
    "curve of a link": lambda **where: al.curve(NARROW, [0.2, 3.0], samples=1024, replicas=3, **where),
    "curve on a chart": lambda **where: al.curve(
        al.Network(1, 2, noise=0.1), [0.4, 0.9], samples=64, replicas=3, nodes=128, **where
    ),
}


# Those take seconds more than the others, which send the same tasks.
LONG = ("link", "chart", "chart to an accuracy", "curve on a chart")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in LONG)) for n in CASES])
def test_fixed_points_have_the_same_bits(client, completed, name):
    """The numbers, their errors, the evaluations that they took and the sentences."""
    assert same(CASES[name](client=client), CASES[name](workers=1))
    assert completed.found


def test_what_a_model_has_no_parts_for_is_computed_here(client, completed):
    assert same(al.evolve(al.Network(1, 2), 0.4, client=client), al.evolve(al.Network(1, 2), 0.4))
    assert not completed.found


def test_threads_are_refused_beside_a_cluster_of_its_own(client):
    with pytest.raises(ValueError, match="workers is for a local cluster"):
        al.evolve(al.Network(1, 2), 0.4, client=client, workers=2)
    with pytest.raises(ValueError, match="workers is for a local cluster"):
        al.curve(al.Network(1, 2), [0.4], client=client, workers=2)


@pytest.mark.slow  # processes that import the package, one of them twice
def test_a_worker_that_dies_costs_its_tasks_alone(small_clusters, watching):
    """In the middle of an average: what others completed is not done again, and the result is the same."""

    def found(**where):
        return al.evolve(al.Network(2, 3), 0.3, samples=128, replicas=4, nodes=128, max_iter=6, **where)

    with small_clusters(2, processes=True) as client, watching(client, "part_of") as completed:
        there = found(client=client)
    # A process that compiles a kernel has other copies of what it calls than those that find it compiled. Slopes by
    # differences lose more to rounding than overlaps do.
    here = found(workers=1)
    assert same(there.history, here.history, within=1e-12) and same(there, here, within=1e-9)
    assert completed.dead is not None
    repeated = [where for where in completed.found["part_of"].values() if len(where) > 1]
    assert {where[0] for where in repeated} <= {completed.dead} and {len(where) for where in repeated} <= {2}
    assert len(repeated) < completed.count("part_of") / 2
