"""Priors by their names, wherever a prior is taken."""

import numpy as np
import pytest

import attnlimits as al
from attnlimits.numerics.priors import GAUSSIAN, Binary, GaussBernoulli, as_prior, prior_named

SIGN = al.Link("sign(h[1])")


def test_names():
    assert as_prior(None) is as_prior("gaussian") is GAUSSIAN
    assert isinstance(as_prior("binary"), Binary) and isinstance(prior_named("sparse", 0.3), GaussBernoulli)


@pytest.mark.parametrize("wrong", ["binry", "sparse", 3, GaussBernoulli])
def test_what_is_none_is_refused(wrong):
    for take in (
        as_prior,
        lambda prior: al.evolve(SIGN, 1.0, prior=prior),
        lambda p: al.free_entropy(SIGN, 1.0, prior=p),
    ):
        with pytest.raises(ValueError, match="prior"):
            take(wrong)


@pytest.mark.parametrize(("name", "density"), [("binary", 0.3), ("sparse", None), ("other", None)])
def test_densities_are_of_the_sparse_prior(name, density):
    with pytest.raises(ValueError, match=r"density belongs|prior must be"):
        prior_named(name, density)


@pytest.mark.parametrize(
    "number",
    [
        lambda prior: al.evolve(SIGN, 1.2, prior=prior).overlap[0, 0],
        lambda prior: al.curve(SIGN, [1.2], prior=prior).points["uninformed"][0].overlap[0, 0],
        lambda prior: float(al.staircase(al.Link("sign(h[1])*abs(h[2])"), prior=prior).steps[1].value),
        lambda prior: al.free_entropy(SIGN, 1.2, prior=prior)([[0.5]]).value,
        lambda prior: al.free_energy.answer(SIGN, 1.2, prior=prior).points[0].free_entropy.value,
        lambda prior: al.teacher(SIGN, 50, rng=3, prior=prior).std(),
    ],
)
def test_verbs_take_names(number):
    by_name, plain = number("binary"), number("gaussian")
    assert by_name == number(Binary()) and plain == number(GAUSSIAN)


def test_message_passing_takes_names():
    weights = al.teacher(SIGN, 100, rng=0, prior="binary")
    x, y = al.make_data(SIGN, weights, 1.2, rng=1)
    found = [al.gamp(SIGN, x, y, teacher=weights, prior=prior, max_iter=20) for prior in ("binary", Binary())]
    assert np.array_equal(found[0].weights, found[1].weights)
