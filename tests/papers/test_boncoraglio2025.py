"""The registry of boncoraglio2025: every check passes, and a wrong implementation fails its check."""

import re
from importlib import resources

import numpy as np
import pytest
import sympy as sp

from attnlimits.derive import registry
from attnlimits.papers.boncoraglio2025.checks import plain

PAPER = "boncoraglio2025"
EQUATIONS = registry.load(PAPER)
ERRATA = registry.load_errata(PAPER)
CHECKS = sorted({e.check for e in EQUATIONS if e.check is not None})
FOLDER = resources.files("attnlimits.papers").joinpath(PAPER)


def test_every_path_resolves():
    assert registry.unresolved([*EQUATIONS, *ERRATA]) == []


def test_what_has_no_check_says_why():
    without = {e.id for e in EQUATIONS if e.check is None}
    assert without == {1, 2, 3, 7, 8, 9, 50, 51}
    assert {e.id for e in EQUATIONS if e.status == "prose"} == {8, 9, 50}
    reasons = [e.reason for e in EQUATIONS if e.reason is not None]
    assert len(set(reasons)) == len(reasons) == len(without)


def test_every_check_function_is_named_by_an_entry():
    defined = set()
    for file in FOLDER.joinpath("checks").iterdir():
        if file.name.endswith(".py"):
            module = f"attnlimits.papers.{PAPER}.checks.{file.name[:-3]}"
            pattern = r"^def ([a-z]\w+)\(" if file.name == "errata.py" else r"^def (check_\w+)\("
            for name in re.findall(pattern, file.read_text(encoding="utf-8"), re.MULTILINE):
                defined.add(f"{module}:{name}")
    assert sorted(defined) == sorted({*CHECKS, *(e.check for e in ERRATA)})


# Of half a second: tests/derive/test_aim.py has the series at large noise, against quadrature and at infinite width;
# tests/papers/test_boncoraglio2025_figures.py has curves of hardmax by the same plain sums.
@pytest.mark.slow_for("spectrum:check_19", "evolution:check_53")
@pytest.mark.parametrize("check", CHECKS, ids=lambda path: path.rpartition(".")[2])
def test_claimed_checks_pass(check):
    for result in registry.run_entries([e for e in EQUATIONS if e.check == check], paper=PAPER):
        assert result.ok, f"({result.id}) {result.message}"


@pytest.mark.parametrize("erratum", ERRATA, ids=lambda e: e.id)
def test_errata_are_confirmed(erratum):
    (result,) = registry.run_entries([erratum], paper=PAPER)
    assert result.ok, result.message


def test_the_page_says_what_the_registry_says():
    text = FOLDER.joinpath("README.md").read_text(encoding="utf-8")
    counts = registry.coverage(EQUATIONS)
    assert f"{counts['proved']} are\nproved symbolically, {counts['checked']} checked numerically" in text
    assert f"{counts['definition']} are definitions, and {counts['prose']} are prose" in text
    for erratum in ERRATA:
        assert f"[{erratum.id}]" in text


def test_braces_of_the_formulas_balance():
    for e in EQUATIONS:
        plain_text = e.latex.replace(r"\{", "").replace(r"\}", "")
        assert plain_text.count("{") == plain_text.count("}"), e.id
        assert len(re.findall(r"\\left(?![a-z])", e.latex)) == len(re.findall(r"\\right(?![a-z])", e.latex)), e.id


def test_bibliography_has_the_paper_and_its_code():
    keys = re.findall(r"^@\w+\{(\w+),", FOLDER.joinpath("refs.bib").read_text(encoding="utf-8"), re.MULTILINE)
    assert keys == ["boncoraglio2025", "boncoraglio2025code"]


def test_numbers_of_the_errata_are_those_of_the_curves():
    """0.0786 and 0.00102: the true errors where the public data have 0.315 and 0.0473, rho = 0.5."""
    correct = {e.id: e for e in ERRATA}["hardmax-decay"].correct
    for alpha, text in ((1.0026943807, "0.0786"), (10.0, "0.00102")):
        assert text in correct
        assert plain.fixed_point(0.5, float(text), plain.hardmax_information) == pytest.approx(alpha, rel=5e-3)


# The plain evaluations, by other routes.


@pytest.mark.parametrize("r", [1 / 3, -1 / 3])
def test_bivariate_distribution_is_the_integral_of_its_density(r):
    nodes, weights = np.polynomial.legendre.leggauss(80)
    for k1, k2 in ((0.3, -0.8), (-1.2, -0.4), (1.5, 0.7)):
        x, y = (-8.0 + (k + 8.0) / 2.0 * (nodes + 1.0) for k in (k1, k2))
        density = np.exp(-(x[:, None] ** 2 - 2 * r * x[:, None] * y + y**2) / (2 * (1 - r * r)))
        total = weights @ density @ weights * (k1 + 8) * (k2 + 8) / 4 / (2 * np.pi * np.sqrt(1 - r * r))
        found = plain.bivariate_cdf(np.array([k1]), np.array([k2]), r)[0]
        assert found == pytest.approx(total, abs=1e-13)


def test_support_has_two_components_where_the_noise_leaves_a_gap():
    assert [plain.edges(*place).size for place in ((0.3, 0.02), (0.5, 1.0), (2.0, 0.3))] == [4, 2, 2]


@pytest.mark.parametrize(("rho", "delta"), [(0.3, 0.02), (1.0, 0.1), (2.0, 3.0)])
def test_plain_quadrature_is_converged(rho, delta):
    assert plain.mmse(rho, delta, 300) == pytest.approx(plain.mmse(rho, delta, 200), abs=1e-13)


@pytest.mark.parametrize("c", [1e-6, 1.0, 1e3])
def test_plain_hardmax_sums_are_converged(c):
    assert plain.hardmax_information(c, nodes=240) == pytest.approx(plain.hardmax_information(c, nodes=120), rel=1e-9)


# A wrong implementation must fail its check: each case breaks one function that a check leans on.


def _scaled(factor):
    return lambda f: lambda *args, **kwargs: factor * f(*args, **kwargs)


def _one_changed(f):
    def wrong(*args, **kwargs):
        first, *rest = f(*args, **kwargs).items()
        return dict([(first[0], first[1] + sp.Rational(1, 10**9)), *rest])

    return wrong


# Of each module cheaper ones stay.
@pytest.mark.slow_for(
    "evolution.plain-hardmax_information",
    "evolution.plain-hardmax_entropy--evolution:check_46",
    "evolution.evolution-hardmax_tail--evolution:check_44",
    "evolution.plain-mmse--evolution:check_52",
    "channels.plain-bivariate_cdf--channels:check_35",
    "channels.hardmax-information_at_zero--channels:check_36",
    "spectrum.series-large_noise_series--spectrum:check_19",
)
@pytest.mark.parametrize(
    ("owner", "name", "break_it", "check"),
    [
        ("spectrum.spectrum", "free_cumulant", _scaled(2), "spectrum:check_4"),
        ("spectrum.model", "mean_square_trace", _scaled(2), "spectrum:check_5"),
        ("spectrum.spectrum", "subordinated_cubic", _scaled(2), "spectrum:check_12"),
        ("spectrum.plain", "_cubic", lambda f: lambda x, *a: f(1.001 * x, *a), "spectrum:check_13"),
        ("spectrum.spectrum", "edge_quartic", _scaled(2), "spectrum:check_14"),
        ("spectrum.spectrum", "rie", _scaled(1.0001), "spectrum:check_15"),
        ("spectrum.residues", "modulus_identities", _one_changed, "spectrum:check_16"),
        ("spectrum.spectrum", "rie", _scaled(2), "spectrum:check_17"),
        ("spectrum.plain", "mmse", _scaled(1.000001), "spectrum:check_18"),
        ("spectrum.series", "large_noise_series", _scaled(2), "spectrum:check_19"),
        ("spectrum.evolution", "parameter_count", _scaled(2), "spectrum:check_20"),
        ("spectrum.series", "small_noise_series", _scaled(1.0001), "spectrum:check_21"),
        ("spectrum.series", "critical_coefficient", _scaled(1.0001), "spectrum:check_22"),
        ("spectrum.plain", "mmse", _scaled(0.999), "spectrum:check_23"),
        ("spectrum.residues", "duality_identities", _one_changed, "spectrum:check_24"),
        ("channels.channels", "functional_gradient", _scaled(2), "channels:check_25"),
        ("channels.channels", "softmax_indices", _scaled(2), "channels:check_28"),
        ("channels.channels", "softmax_gradient", _scaled(2), "channels:check_30"),
        ("channels.channels", "information", _scaled(2), "channels:check_31"),
        ("channels.plain", "bivariate_cdf", _scaled(1.01), "channels:check_35"),
        ("channels.hardmax", "information_at_zero", _scaled(1.0001), "channels:check_36"),
        ("channels.plain", "hardmax_information", _scaled(1.001), "channels:check_37"),
        ("channels.plain", "published_tail", _scaled(1.001), "channels:check_38"),
        ("evolution.heads", "head_identities", _one_changed, "evolution:check_59"),
        ("channels.entrywise", "entry_identities", _one_changed, "channels:check_58"),
        ("channels.noise", "noise_identities", _one_changed, "channels:check_57"),
        ("evolution.evolution", "counting_threshold", _scaled(2), "evolution:check_39"),
        ("evolution.plain", "hardmax_information", _scaled(1.001), "evolution:check_42"),
        ("evolution.evolution", "weak_recovery", _scaled(2), "evolution:check_43"),
        ("evolution.evolution", "hardmax_tail", _scaled(1.01), "evolution:check_44"),
        ("evolution.plain", "hardmax_entropy", _scaled(1.0001), "evolution:check_46"),
        ("evolution", "_information", _scaled(1.0001), "evolution:check_48"),
        ("evolution.model", "independent_overlap", _scaled(2), "evolution:check_49"),
        ("evolution.plain", "mmse", _scaled(1.0001), "evolution:check_52"),
        ("evolution.plain", "hardmax_information", _scaled(1.01), "evolution:check_53"),
        ("errata.plain", "bivariate_cdf", _scaled(1.0001), "errata:hardmax_derivative"),
        ("errata.plain", "mmse", _scaled(0.99), "errata:small_width_scaling"),
        ("errata.hardmax", "weak_recovery_threshold", _scaled(1.3963), "errata:weak_recovery_line"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_implementation_fails_its_check(monkeypatch, owner, name, break_it, check):
    place = registry.resolve(f"attnlimits.papers.{PAPER}.checks.{owner}")
    monkeypatch.setattr(place, name, break_it(getattr(place, name)))
    assert not registry.resolve(f"attnlimits.papers.{PAPER}.checks.{check}")().ok
