"""Thresholds of links whose labels are replaced by others, against likelihoods written out."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

import attnlimits as al


@pytest.mark.parametrize("flipped", ["0.01", "1/10", "0.45"])
def test_two_labels_that_are_as_likely(flipped):
    """E[h h^T - I | y] is (1 - 2 eps) times that without noise, and so for any sign."""
    share = 1 - 2 * (0.1 if flipped == "1/10" else float(flipped))
    found = al.threshold(al.Link("sign(h[1]*h[2])", label_noise=flipped))
    assert found.converged
    assert abs(float(found.value) * share**2 / (math.pi**2 / 4) - 1) <= found.error / float(found.value) + 1e-12


def matrix(replaced, count):
    return np.full((count, count), replaced / (count - 1)) + np.eye(count) * (1 - replaced * count / (count - 1))


def moments(low, high):
    """Integrals of 1 and h^2 - 1 over (low, high)."""
    edge = [0.0 if math.isinf(x) else x * math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi) for x in (low, high)]
    return ndtr(high) - ndtr(low), edge[0] - edge[1]


def test_four_labels():
    """sign(h_1 h_2) + 3 sign(h_1^2 - 1): the operator on symmetric matrices, from the moments of half strips."""
    inner = 1 - math.exp(-0.5)
    cells = []
    for sign in (-1, 1):
        for (low, high), first in (((0, 1), inner), ((1, math.inf), 1 - inner)):
            # h_1 in +-(low, high), h_2 of the sign that sign(h_1 h_2) leaves.
            mass, square = (2 * x for x in moments(low, high))
            half = 0.5 * mass
            product = 2 * sign * first / math.sqrt(2 * math.pi) * math.sqrt(2 / math.pi) * 0.5
            cells.append([half, 0.5 * square, product])
    seen = matrix(0.2, 4) @ np.array(cells)
    diagonal, beside = (seen[:, 1:] ** 2 / seen[:, :1]).sum(axis=0)
    mixed = (seen[:, 1] * seen[:, 2] / seen[:, 0]).sum()
    # M = (m_11, m_12, m_22) -> E G M G with G = [[g, p], [p, 0]].
    operator = np.array([[diagonal, 2 * mixed, beside], [mixed, beside, 0.0], [beside, 0.0, 0.0]])
    exact = 1 / np.abs(np.linalg.eigvals(operator)).max()
    found = al.threshold(al.Link("sign(h[1]*h[2]) + 3*sign(h[1]**2 - 1)", label_noise=0.2))
    assert found.converged
    assert abs(float(found.value) - exact) <= found.error + 1e-12


def test_a_staircase():
    """sign(h_1^2 - 1); sign(h_2^2 - 4): each index by itself, the second one with the first one known."""
    inner = [moments(-math.sqrt(cut), math.sqrt(cut)) for cut in (1.0, 4.0)]
    # Of the labels of one entry: mass and integral of h^2 - 1.
    labels = [np.array([[m, s], [1 - m, -s]]) for m, s in inner]
    share = matrix(0.15, 4)

    def rate(first, second):
        """E (E[h^2 - 1 | y])^2 from the masses of labels of one entry and the moments of those of the other."""
        joint = np.array([[a * z, a * s] for a in first for z, s in second])
        z, s = (share @ joint).T
        return (s**2 / z).sum()

    one, two = labels
    steps = [1 / rate(two[:, 0], one)]
    # h_1 known: its label is, and what is seen of it tells whether the labels were replaced.
    known = sum(one[k, 0] * rate(np.eye(2)[k], two) for k in range(2))
    steps.append(1 / known)
    assert steps[0] < 1 / rate(one[:, 0], two)
    # The order of the labels does not matter to the noise.
    found = al.staircase(al.Link("sign(h[1]**2 - 1); sign(h[2]**2 - 4)", label_noise=0.15), given="perfect")
    assert [step.subspace for step in found.steps] == ["index 1", "index 2 given index 1"]
    for step, exact in zip(found.steps, steps, strict=True):
        assert step.converged
        assert abs(float(step.value) - exact) <= step.error + 1e-12


def test_what_vanishes_vanishes_with_noise():
    nothing, all_of_it = (
        al.threshold(al.Link(text, label_noise=0.3)) for text in ("sign(h[1]*h[2]*h[3])", "sign(h[1])")
    )
    assert (nothing.exact, all_of_it.exact) == ("oo", "0")


@pytest.mark.parametrize("link", ["sign(h[1]*h[2] + h[3]*h[4])"])
def test_more_entries_are_sampled(link):
    """Of two labels that are as likely, as above."""
    clean, noisy = al.threshold(al.Link(link)), al.threshold(al.Link(link, label_noise=0.1))
    assert noisy.how == "monte-carlo"
    ratio = 0.64 * float(noisy.value) / float(clean.value)
    assert abs(ratio - 1) < 4 * (noisy.error / float(noisy.value) + clean.error / float(clean.value))
