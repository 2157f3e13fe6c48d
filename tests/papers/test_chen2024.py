"""The registry of chen2024: every check passes, and a wrong implementation fails its check."""

import re
from importlib import resources

import numpy as np
import pytest
import sympy as sp

from attnlimits.derive import registry
from attnlimits.numerics.core.results import load
from attnlimits.papers.chen2024.figures import scaling

PAPER = "chen2024"
EQUATIONS = registry.load(PAPER)
CHECKS = sorted({e.check for e in EQUATIONS if e.check is not None})
FOLDER = resources.files("attnlimits.papers").joinpath(PAPER)


def test_every_path_resolves():
    assert registry.unresolved(EQUATIONS) == []


def test_what_has_no_check_says_why():
    assert {e.id for e in EQUATIONS if e.status == "definition"} == {1, 2, 3, 4, 30, 31, 35, 36}
    assert {e.id for e in EQUATIONS if e.status == "prose"} == {5, 6, 20, 43}
    reasons = [e.reason for e in EQUATIONS if e.check is None]
    assert len(set(reasons)) == 12
    # Only what the abstract says is called the paper's own.
    assert {e.id for e in EQUATIONS if e.source == "restored"} == {1, 2, 3, 5, 6}


def test_every_check_function_is_named_by_an_entry():
    defined = set()
    for file in FOLDER.joinpath("checks").iterdir():
        if file.name.endswith(".py"):
            for name in re.findall(r"^def (check_\w+)\(", file.read_text(encoding="utf-8"), re.MULTILINE):
                defined.add(f"attnlimits.papers.{PAPER}.checks.{file.name[:-3]}:{name}")
    assert sorted(defined) == CHECKS


# Of a second each: tests/derive/test_multihead.py has the same identities at fewer sizes.
@pytest.mark.slow_for("parity:check_38", "parity:check_39")
@pytest.mark.parametrize("check", CHECKS, ids=lambda path: path.rpartition(".")[2])
def test_claimed_checks_pass(check):
    """And what claims to be proved has a symbolic check."""
    found = registry.resolve(check)()
    assert found.ok, found.detail
    (entry,) = [e for e in EQUATIONS if e.check == check]
    assert found.kind == ("symbolic" if entry.status == "proved" else "numeric")


def test_the_page_says_what_the_registry_says():
    text = " ".join(FOLDER.joinpath("README.md").read_text(encoding="utf-8").split())
    counts = registry.coverage(EQUATIONS)
    assert f"{counts['proved']} are proved symbolically, {counts['checked']} checked numerically" in text
    assert f"{counts['definition']} are definitions, and {counts['prose']} are prose" in text


def test_braces_of_the_formulas_balance():
    for e in EQUATIONS:
        plain_text = e.latex.replace(r"\{", "").replace(r"\}", "")
        assert plain_text.count("{") == plain_text.count("}"), e.id


def test_bibliography_has_the_paper():
    keys = re.findall(r"^@\w+\{(\w+),", FOLDER.joinpath("refs.bib").read_text(encoding="utf-8"), re.MULTILINE)
    assert keys == [PAPER]


# A wrong implementation must fail its check: each case breaks one function that a check leans on.


def _scaled(factor):
    return lambda f: lambda *args, **kwargs: f(*args, **kwargs) * factor


def _constant(f):
    """Every difference that should vanish is one part in 10^9 instead."""
    return lambda *args, **kwargs: dict.fromkeys(f(*args, **kwargs), sp.Rational(1, 10**9))


@pytest.mark.slow_for(
    "parity.parity-coefficients--parity:check_38", "algorithm.estimates-crude_sum_bias--algorithm:check_22"
)
@pytest.mark.parametrize(
    ("owner", "name", "break_it", "check"),
    [
        ("layer.identifiability", "recovered_theta", _scaled(2), "layer:check_10"),
        ("layer.two_tokens", "equivalence_identities", _constant, "layer:check_12"),
        ("layer.two_tokens", "equivalence_identities", _constant, "layer:check_16"),
        ("layer.layer", "derivative_identities", _constant, "layer:check_7"),
        ("layer.two_tokens", "tanh_identities", _constant, "layer:check_13"),
        ("layer.two_tokens", "three_token_gaps", lambda f: lambda: {"a": sp.zeros(3, 2)}, "layer:check_18"),
        ("layer.rank", "jacobian_rank", lambda f: lambda *a: (f(*a)[0] - 1, f(*a)[1]), "layer:check_21"),
        ("layer", "sensitivity", _scaled(1.001), "layer:check_33"),
        ("algorithm.estimates", "crude_sum_bias", _scaled(2), "algorithm:check_22"),
        ("algorithm", "crude_sum", _scaled(1.001), "algorithm:check_23"),
        ("algorithm", "best_w", _scaled(1.001), "algorithm:check_32"),
        ("algorithm.estimates", "agreement_identities", _constant, "algorithm:check_25"),
        ("algorithm", "attention", lambda f: lambda x, t: f(x, 1.01 * t), "algorithm:check_28"),
        ("algorithm", "nmse", _scaled(1.001), "algorithm:check_34"),
        ("parity.teachers", "hidden_bit", _scaled(-1), "parity:check_37"),
        ("parity.parity", "coefficients", lambda f: lambda n: tuple(2 * c for c in f(n)), "parity:check_38"),
        ("parity.parity", "tanh_determinant", lambda _: lambda n: {"tanh": sp.Rational(1, 10**9)}, "parity:check_39"),
        ("parity.teachers", "parity_coefficients", _scaled(1 + 1e-12), "parity:check_41"),
        ("parity.teachers", "sq_correlations", lambda f: lambda n, d: f(n + 1, d), "parity:check_42"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_implementation_fails_its_check(monkeypatch, owner, name, break_it, check):
    place = registry.resolve(f"attnlimits.papers.{PAPER}.checks.{owner}")
    monkeypatch.setattr(place, name, break_it(getattr(place, name)))
    if name == "coefficients":  # sums of the right ones may be known
        monkeypatch.setattr(place, "_sums", place._sums.__wrapped__)
    try:
        passed = registry.resolve(f"attnlimits.papers.{PAPER}.checks.{check}")().ok
    except (ValueError, IndexError):
        passed = False
    assert not passed


def test_certification_that_is_not_the_minimum_fails_its_check(monkeypatch):
    algorithm = registry.resolve(f"attnlimits.papers.{PAPER}.checks.algorithm")
    right = algorithm.simplex_regression

    def uniform(x, y, s):
        found = right(x, y, s)
        return found._replace(alpha=np.full_like(found.alpha, 1 / x.shape[1]))

    monkeypatch.setattr(algorithm, "simplex_regression", uniform)
    assert not algorithm.check_24().ok


def test_the_stored_exponents_are_those_of_the_stored_points():
    record = load(scaling.DATA)
    assert list(record["sweeps"]) == list(scaling.SWEEPS)
    for name, sweep in scaling.SWEEPS.items():
        assert set(record["sweeps"][name]) == set(scaling.METHODS)
        for method, table in record["sweeps"][name].items():
            points = [record["points"][method][" ".join(map(str, place))] for place in sweep]
            assert [tuple(place) for place in table["places"]] == list(sweep)
            axis = [float(place["mkd".index(name)]) for place in sweep]
            for what, (slope, _) in table["exponents"].items():
                # The slope of a straight line by another route.
                fit = np.polyfit(np.log(axis), np.log([point[what] for point in points]), 1)
                assert slope == pytest.approx(fit[0], abs=1e-10)
            for (m, k, d), point in zip(sweep, points, strict=True):
                # Fewer outputs than parameters cannot fix them: N k d < 2 m d^2.
                assert point["samples"] >= 2 * m * d / k
                assert point["seconds"] > 0


def test_an_exact_power_has_its_exponent():
    slope, error = scaling.exponent([1.0, 2.0, 5.0], [3.0, 12.0, 75.0])
    assert slope == pytest.approx(2.0, abs=1e-12)
    assert error < 1e-12
