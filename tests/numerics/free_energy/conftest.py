"""A channel with a free entropy that is a polynomial, so that everything about it is known otherwise."""

from types import SimpleNamespace

import numpy as np
import pytest

from attnlimits.numerics.channel.averages import Averages, ChannelBase


class Polynomial(ChannelBase):
    """Psi_out = (sum_l a_l x_l^2/2 + sum_{l<m} b_lm x_l^2 x_m^2)/2 over the diagonal of q."""

    sampled, solved = False, 0.0

    def __init__(self, own, mixed=0.0):
        self.own, self.mixed = np.array(own), mixed
        size = len(self.own)
        self.model = SimpleNamespace(
            indices=size,
            layers=size,
            kernel_hash="polynomial",
            parameters={"link": "polynomial"},
            describe=lambda: "polynomial",
        )
        self.layers = tuple(range(size))

    def psi(self, x):
        pairs = sum(x[i] ** 2 * x[j] ** 2 for i in range(len(x)) for j in range(i))
        return 0.5 * (0.5 * (self.own * np.square(x)).sum() + self.mixed * pairs)

    def g(self, x):
        squares = np.square(x)
        return self.own * x + 2 * self.mixed * x * (squares.sum() - squares)

    def growth(self, x):
        squares = np.square(x)
        return self.own + 2 * self.mixed * (squares.sum() - squares)

    def __call__(self, q):
        x = q.diagonal()
        growth = np.where(x == 0, self.growth(x), np.nan)
        return Averages.unbiased(np.array([np.diag(self.g(x))] * 2), np.array([growth] * 2), "estimated")

    def log_density(self, q):
        return np.array([self.psi(q.diagonal())] * 2)


@pytest.fixture
def polynomial():
    return Polynomial
