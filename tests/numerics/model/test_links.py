"""Kernels of links: those of what can be learned, and those of data."""

import numpy as np

import attnlimits as al


def test_data_are_of_the_outputs_as_they_are_written():
    """What holds the same as a simpler output is not that output: its numbers are a user's."""
    assert al.Link("2*h[1]").kernel.text == ("h_1_1",) and al.Link("2*h[1]").observed.text == ("2*h_1_1",)
    link = al.Link("3*h[1]*h[2]")
    weights = al.teacher(link, 60, rng=0)
    x, y = al.make_data(link, weights, alpha=3.0, rng=0)
    h = x[:, 0] @ weights.T / np.sqrt(60)
    assert np.allclose(y[:, 0], 3 * h[:, 0] * h[:, 1], rtol=1e-12)
    one = al.gamp(link, x, y, rng=1, teacher=weights)
    same = al.gamp(al.Link("h[1]*h[2]"), x, y / 3, rng=1, teacher=weights)
    assert one.n_iter == same.n_iter and np.allclose(one.overlap[-1], same.overlap[-1], atol=1e-6)
