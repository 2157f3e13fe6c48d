"""Overlaps modulo the symmetries of a link."""

from itertools import permutations, product

import numpy as np
import pytest

from attnlimits.numerics.learning.permutations import signed_permutations
from attnlimits.numerics.learning.symmetry import symmetry
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.model.network import Network


def rotation(size, rng):
    return np.linalg.qr(rng.standard_normal((size, size)))[0]


def block(*parts):
    size = sum(len(p) for p in parts)
    out, at = np.zeros((size, size)), 0
    for p in parts:
        out[at : at + len(p), at : at + len(p)] = p
        at += len(p)
    return out


@pytest.mark.parametrize(
    ("model", "element"),
    [
        (Network(2, 2), lambda rng: np.diag([1.0, -1.0])),
        (Network(1, 3, 3), lambda rng: rotation(3, rng)),
        (Network(2, 2, (2, 1)), lambda rng: block(rotation(2, rng), [[-1.0]])),
        (Network(1, 2, 1, activation="softmax", tied=False), lambda rng: -np.eye(2)),
        (Network(2, 2, tied=False), lambda rng: np.diag([-1.0, -1.0, 1.0, 1.0])),
        (Network(2, 3, (2, 1), tied=False), lambda rng: block(*[rotation(2, rng)] * 2, -np.eye(2))),
        (kernel_of("h[1]**2 + h[2]**2 + h[1]*h[2]"), lambda rng: np.array([[0.0, -1.0], [-1.0, 0.0]])),
        (kernel_of("h[1]**2 + h[2]**3"), lambda rng: np.diag([-1.0, 1.0])),
    ],
    ids=["signs", "O(3)", "O(2) and sign", "untied", "untied layers", "untied O(2) and sign", "exchange", "one sign"],
)
def test_an_image_of_the_teacher_is_the_teacher(model, element, rng):
    r = np.asarray(element(rng))
    h = rng.standard_normal((20, model.indices, model.tokens))
    assert model.link(r @ h) == pytest.approx(model.link(h), abs=1e-9)
    w = rng.standard_normal((model.indices, 500))
    overlap = w @ (r.T @ w).T / 500
    assert symmetry(model).align(overlap) == pytest.approx(w @ w.T / 500, abs=1e-9)


def test_what_is_no_symmetry_stays(rng):
    """h_2 enters with its sign."""
    overlap = np.diag([0.5, -0.4])
    assert symmetry(kernel_of("h[1]**2 + h[2]**3")).align(overlap) == pytest.approx(overlap)
    overlap = np.diag([0.5, -0.4])
    assert symmetry(Network(1, 2, 1, activation="softmax", tied=False)).align(overlap) == pytest.approx(overlap)


def heads(h):
    """Three heads, each a softmax of key times query over two tokens; their order does not matter."""
    scores = np.einsum("...apm,...apk->...amk", h[..., 0::2, None, :], h[..., 1::2, None, :])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (weights / weights.sum(axis=-1, keepdims=True)).sum(axis=-3).reshape(*h.shape[:-2], -1)


def products(h):
    return (h[..., 0::2, :] * h[..., 1::2, :]).sum(axis=-2)


# Links, P, M, and how many signed permutations there are: 2 signs of each head and 3! orders; for products also
# exchanges within each pair; all; signs of an even number only; cyclic orders.
LINKS = {
    "three heads": (heads, 6, 2, 2**3 * 6),
    "products": (products, 6, 1, 4**3 * 6),
    "norm": (lambda h: (h**2).sum(axis=-2), 5, 1, 2**5 * 120),
    "product": (lambda h: h.prod(axis=-2), 5, 1, 2**4 * 120),
    "cycle": (lambda h: (h**2 * np.roll(h, 1, axis=-2)).sum(axis=-2), 5, 1, 5),
    "undefined at zero": (lambda h: np.log(np.abs(h[..., :3, :])).sum(axis=-2) + h[..., 3:, :].sum(axis=-2), 5, 1, 96),
    "none": (lambda h: (h * np.arange(1, 7)[:, None] + h**2).sum(axis=-2), 6, 1, 1),
}


def image(link, h):
    """Refuse what a link of the user's own refuses."""
    y = link(h)
    if not np.isfinite(y).all():
        raise ValueError("not defined")
    return y


def groups(name):
    link, p, m, size = LINKS[name]
    with np.errstate(divide="ignore"):
        return link, p, m, size, signed_permutations(lambda h: image(link, h), p, m)


@pytest.mark.parametrize("name", LINKS)
def test_groups_of_many_indices_are_complete(name, rng):
    """Against all signed permutations, tried one by one."""
    link, p, m, size, group = groups(name)
    assert group.order == size
    h = rng.standard_normal((1, p, m))
    y = link(h)
    orders = np.array(list(permutations(range(p))))
    signs = np.array(list(product((1, -1), repeat=p)))
    moved = h[0][orders][:, None] * signs[None, :, :, None]
    with np.errstate(divide="ignore"):
        fits = np.isclose(link(moved), y, rtol=1e-10, atol=1e-10).all(axis=-1)
    assert fits.sum() == size
    found = {tuple(map(tuple, element)) for element in group.elements()}
    assert len(found) == size
    for order, sign in zip(*np.nonzero(fits), strict=True):
        element = np.zeros((p, p))
        element[np.arange(p), orders[order]] = signs[sign]
        assert tuple(map(tuple, element)) in found


@pytest.mark.parametrize("name", LINKS)
def test_the_best_element_is_the_best_of_all(name, rng):
    _, p, _, _, group = groups(name)
    for _ in range(5):
        overlap = rng.standard_normal((p, p))
        best = max(float((overlap * element).sum()) for element in group.elements())
        assert float((overlap * group.best(overlap)).sum()) == pytest.approx(best, rel=1e-12)
    assert (group.best(np.zeros((p, p))) == np.eye(p)).all()


def test_large_groups_are_not_listed(rng):
    """A norm of eight indices: ten million elements, whose best one is an assignment."""
    group = signed_permutations(lambda h: (h**2).sum(axis=-2), 8, 1)
    assert group.order == 2**8 * 40320
    hidden = np.zeros((8, 8))
    hidden[np.arange(8), rng.permutation(8)] = rng.choice([-1.0, 1.0], 8)
    assert (group.best(hidden + 0.1 * rng.standard_normal((8, 8))) == hidden).all()


def test_heads_of_a_link_are_exchanged(rng):
    """Overlaps of an estimate that has the heads in another order, one of them with the other sign."""
    kernel = kernel_of("h[1]*h[2] + h[3]*h[4] + h[5]*h[6]")
    r = np.zeros((6, 6))
    r[np.arange(6), [4, 5, 0, 1, 3, 2]] = [1, 1, -1, -1, 1, 1]
    w = rng.standard_normal((6, 500))
    assert symmetry(kernel).align(w @ (r.T @ w).T / 500) == pytest.approx(w @ w.T / 500, abs=1e-9)
