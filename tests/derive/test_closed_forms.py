import numpy as np
import pytest
import sympy as sp
from scipy.integrate import quad
from scipy.special import erf, k0, k1

from attnlimits.derive import symbols
from attnlimits.derive.closed_forms import (
    TABLE,
    Branch,
    Output,
    find,
    linear_information,
    operator_matrix,
    pair_rank,
    threshold_of_link,
    top_eigenpair,
)
from attnlimits.derive.linearization import single_layer_threshold, untied_operator

PI = sp.pi
LEVEL = sp.Symbol("t", positive=True)
FLIP = sp.Symbol("epsilon", positive=True)

EXACT = {
    "hard_attention": PI**2 / 12,
    "sign_attention": PI**2 / (4 * symbols.tokens * (symbols.tokens - 1)),
    "even_attention": 1 / (2 * symbols.tokens),
    "absolute": sp.Rational(1, 2),
    "identity": 0,
    "sign": 0,
    "sign_product": PI**2 / 4,
    "noisy_sign_product": PI**2 / (4 * (1 - 2 * FLIP) ** 2),
    "sign_triple_product": sp.oo,
    "committee_two": 0,
    "committee_three": 0,
    "all_equal": 3 * PI**2 / 16,
    "maximum": 0,
    "radial": sp.Symbol("P", integer=True, positive=True) / 2,
    "radial_two": 1,
    "ratio": 1,
    "absolute_ratio": 2,
    "direction_three": sp.Rational(1, 2),
    "square_with_sign": 1 / (1 + sp.sqrt(1 + 4 / PI**2)),
    "largest_of_two": PI**2 / 4,
    "largest_of_three": PI**2 / 6,
}


@pytest.mark.slow_for("direction_three", "hard_attention")
@pytest.mark.parametrize("name", EXACT)
def test_exact_values(name):
    entry = find(name)
    assert not entry.formula.has(sp.Float)
    difference = entry.formula - EXACT[name] if EXACT[name] != sp.oo else sp.S.Zero
    assert sp.simplify(difference) == 0
    assert (entry.formula == sp.oo) == (EXACT[name] == sp.oo)
    if entry.formula not in (0, sp.oo) and isinstance(entry.eigenvector, sp.MatrixBase):
        numbers = np.array(entry.eigenvector.evalf(), dtype=float)
        assert np.linalg.eigvalsh(numbers).min() > -1e-12
        assert np.linalg.norm(numbers) == pytest.approx(1, abs=1e-12)


def test_every_entry_is_known_to_a_test():
    attention = {"tied_softmax", "tied_softmax_wide", "tied_linear", "untied_softmax", "untied_linear"}
    assert set(TABLE) == set(EXACT) | attention | {"door", "product", "absolute_product"}
    with pytest.raises(ValueError, match="no closed form is named 'nothing'; there are tied_softmax"):
        find("nothing")


def _polar(h, rng):
    """Another point of the same direction: the radius is drawn anew."""
    radius = np.linalg.norm(rng.normal(size=h.shape), axis=1) / np.linalg.norm(h, axis=1)
    return h * radius[:, None]


def _same_value(label):
    """Another point with the same value of a discrete link: points of equal value change places."""

    def move(h, rng):
        values = label(h)
        made = np.empty_like(h)
        for value in np.unique(values):
            where = np.flatnonzero(values == value)
            made[where] = h[rng.permutation(where)]
        return made

    return move


def _turn(h, rng):
    angle = rng.uniform(0, 2 * np.pi, len(h))
    return np.linalg.norm(h, axis=1)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])


def _second_size(h, rng):
    return np.column_stack([h[:, 0], np.sign(h[:, 1]) * np.abs(rng.normal(size=len(h)))])


def _signs(h, rng):
    return h * rng.choice([-1.0, 1.0], size=h.shape)


# A second point with the same output, independent of the first given the output: E[E[A|y] E[A'|y]] = E[A A'].
COPIES = {
    "absolute": (1, lambda h, rng: -h),
    "sign_product": (2, _same_value(lambda h: np.sign(h).prod(axis=1))),
    "all_equal": (3, _same_value(lambda h: np.abs(np.sign(h).sum(axis=1)) == 3)),
    "radial_two": (2, _turn),
    "ratio": (2, _polar),
    "absolute_ratio": (2, lambda h, rng: _signs(_polar(h, rng), rng)),
    "direction_three": (3, _polar),
    "square_with_sign": (2, _second_size),
    "largest_of_two": (2, _same_value(lambda h: np.abs(h).argmax(axis=1))),
    "largest_of_three": (3, _same_value(lambda h: np.abs(h).argmax(axis=1))),
}


@pytest.mark.slow_for("direction_three")
@pytest.mark.parametrize("name", COPIES)
def test_eigenvalues_against_pairs_of_samples(name):
    """tr(v F(v)) = E tr(v A v A') with A = h h^T - I and A' that of an independent point with the same output."""
    size, copy = COPIES[name]
    rng = np.random.default_rng(12)
    h = rng.normal(size=(200_000, size))
    other = copy(h, rng)
    vector = np.array(find(name).eigenvector.evalf(), dtype=float)
    first, second = (np.einsum("ni,nj->nij", x, x) - np.eye(size) for x in (h, other))
    terms = np.einsum("ij,njk,kl,nli->n", vector, first, vector, second, optimize=True)
    sigma = terms.std() / np.sqrt(len(terms))
    wanted = 1 / float(find(name).formula)
    assert abs(terms.mean() - wanted) < 4 * sigma
    assert sigma < 0.04 * wanted


def test_hard_attention_against_samples():
    """M = 2: the token matrix of each of the three outputs, by plain averages."""
    rng = np.random.default_rng(4)
    h = rng.normal(size=(200_000, 2))
    scores = np.einsum("nm,nl->nml", h, h)
    label = scores.argmax(axis=2) @ [1, 2]
    total = 0.0
    for value in np.unique(label):
        inside = label == value
        total += inside.mean() * ((scores[inside].mean(axis=0) - np.eye(2)) ** 2).sum()
    # The averages err by about 1/sqrt(5e4) each and enter linearly: 12/pi^2 within seven tenths of a percent.
    assert total == pytest.approx(1 / float(find("hard_attention").formula), rel=0.01)


@pytest.mark.parametrize("level", [0.3, 1.0, 2.5])
def test_door_against_quadrature(level):
    inside, _ = quad(lambda x: (x**2 - 1) * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi), -level, level)
    mass = erf(level / np.sqrt(2))
    wanted = 1 / (inside**2 / mass + inside**2 / (1 - mass))
    assert float(find("door").formula.subs(LEVEL, level)) == pytest.approx(wanted, rel=1e-7)


def test_product_against_the_literature_and_quadrature():
    integral, _ = quad(lambda y: 2 / np.pi * y**2 * k1(y) ** 2 / k0(y), 0, 60)
    formula = find("product").formula
    (unevaluated,) = formula.atoms(sp.Integral)
    # The integrand of the formula at a point, and its factor.
    number = float(unevaluated.function.subs(unevaluated.variables[0], 1.5))
    assert number == pytest.approx(1.5**2 * k1(1.5) ** 2 / k0(1.5), rel=1e-12)
    assert formula.subs(unevaluated, 1) == PI / 2
    assert 1 / integral == pytest.approx(0.5937, abs=1e-4)  # the known threshold of h_1 h_2
    assert 1 / (integral - 1) == pytest.approx(1.4615451, abs=1e-6)
    assert sp.simplify(1 / find("absolute_product").formula - 1 / formula + 1) == 0


def test_product_against_samples():
    rng = np.random.default_rng(9)
    y = np.prod(rng.normal(size=(2, 200_000)), axis=0)
    mean = np.abs(y) * k1(np.abs(y)) / k0(np.abs(y))
    terms = (mean - 1) ** 2 + y**2
    sigma = terms.std() / np.sqrt(len(y))
    assert abs(terms.mean() - 1 / 0.59375109822) < 4 * sigma


@pytest.mark.slow
def test_level_sets_of_an_untied_layer_give_its_operator():
    """The full operator on S_2 at M = 2 from coordinates alone, entry by entry."""
    r, rho = sp.symbols("r rho", positive=True)
    theta, x = sp.symbols("theta x", real=True)
    k = r * sp.Matrix([[sp.cos(theta), sp.sin(theta)]])
    q = sp.Matrix([[x + rho / r, x - rho / r]]) / sp.sqrt(2)
    free = ((x, -sp.oo, sp.oo), (r, 0, sp.oo))
    h = sp.Matrix.vstack(k, q)
    output = Output((Branch(h, free), Branch(-h, free)), ((theta, -PI, PI), (rho, 0, sp.oo)))
    # Zero overlap is a fixed point: no linear information.
    assert linear_information([output]).is_zero_matrix
    made = operator_matrix([output])
    wanted = untied_operator(sp.Integer(2))
    assert made == sp.Matrix([[wanted.kk, wanted.cross, 0], [wanted.cross, wanted.qq, 0], [0, 0, wanted.off]])
    value, vector = top_eigenpair(made)
    assert sp.simplify(1 / value - single_layer_threshold(2, tied=False)) == 0
    direction = find("untied_softmax").eigenvector.subs(symbols.tokens, 2)
    assert (vector - direction).evalf(30).norm() < sp.Float("1e-28")


def test_level_sets_of_a_tied_layer_give_its_threshold():
    """y fixes h up to its sign: two points; M = 2."""
    a, b = sp.Symbol("a", real=True), sp.Symbol("b", positive=True)
    h = sp.Matrix([[a, b]])
    known = ((a, -sp.oo, sp.oo), (b, 0, sp.oo))
    assert threshold_of_link([Output((Branch(h), Branch(-h)), known)]).alpha == single_layer_threshold(2)


def test_attention_entries_at_numbers():
    at = {symbols.tokens: 3, pair_rank: 2}
    assert find("tied_softmax").formula.subs(at) == single_layer_threshold(3, 2)
    assert find("tied_linear").formula.subs(at) == single_layer_threshold(3, 2, "linear")
    assert find("tied_softmax_wide").formula.subs({symbols.tokens: 3, pair_rank: 5}) == single_layer_threshold(3, 5)
    assert sp.simplify(find("untied_softmax").formula.subs(at) - single_layer_threshold(3, tied=False)) == 0
    assert find("untied_linear").formula.has(sp.Integral)


def test_level_sets_that_miss_some_points_are_named():
    r = sp.Symbol("r", positive=True)
    with pytest.raises(ValueError, match="must cover all indices once"):
        threshold_of_link([Output((Branch(sp.Matrix([r])),), ((r, sp.S.Zero, sp.oo),))])
    with pytest.raises(ValueError, match="a branch needs 1 coordinates"):
        threshold_of_link([Output((Branch(sp.Matrix([r])),))])


# Texts of formulas with an integral take a while: SymPy evaluates it for the order of the terms.
@pytest.mark.slow_for("direction_three", "absolute_product")
@pytest.mark.parametrize("name", TABLE)
def test_the_exact_thresholds_in_the_paper_readme_are_the_derived_ones(repository, name):
    text = (repository / "papers/troiani2025/README.md").read_text(encoding="utf-8")
    shown = [line.rsplit("|", 2)[1].strip(" `") for line in text.splitlines() if line.startswith("| ") and "`" in line]
    assert str(TABLE[name].formula) in shown
