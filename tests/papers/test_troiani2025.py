"""The registry of troiani2025: complete, resolvable, and every check it claims passes."""

import dataclasses
import math
import re
from importlib import resources

import numpy as np
import pytest
import sympy as sp

from attnlimits.derive import registry
from attnlimits.papers.troiani2025.checks import channel, depth, plain, single_layer, tools

EQUATIONS = registry.load("troiani2025")
ERRATA = registry.load_errata("troiani2025")
CHECKS = sorted({e.check for e in EQUATIONS if e.check is not None})
# These name a model, a notation or a law; everything else asserts something and has a check.
DEFINITIONS = {1, 2, 3, 19, 20, 28, 29, 30, 55, 59, 62, 64, 86, 104, 110, 113, 119, 120, 121}


def test_every_number_has_one_entry():
    assert [e.id for e in EQUATIONS] == list(range(1, 188))


def test_all_but_the_definitions_have_a_check():
    assert {e.id for e in EQUATIONS if e.check is None} == DEFINITIONS
    assert {e.id for e in EQUATIONS if e.status == "definition"} == DEFINITIONS


def test_no_reason_is_given_twice():
    # A reason is about its own entry.
    reasons = [e.reason for e in EQUATIONS if e.reason is not None]
    assert len(set(reasons)) == len(reasons) == len(DEFINITIONS)


def test_every_path_resolves():
    assert registry.unresolved([*EQUATIONS, *ERRATA]) == []


def test_every_check_function_is_named_by_an_entry():
    root = resources.files("attnlimits.papers").joinpath("troiani2025", "checks")
    defined = set()
    for file in root.iterdir():
        if file.name.endswith(".py"):
            module = f"attnlimits.papers.troiani2025.checks.{file.name[:-3]}"
            for name in re.findall(r"^def (check_\w+)\(", file.read_text(encoding="utf-8"), re.MULTILINE):
                defined.add(f"{module}:{name}")
    assert sorted(defined) == CHECKS


# Of half a second and more, with the tests that derive or compute the same in another way.
SLOW = {
    "channel:check_94": "tests/numerics/channel/test_channel_state.py",
    "channel:check_166": "tests/numerics/posterior/test_denoiser.py",
    "depth:check_52": "tests/derive/test_depth.py",
    "evolution:check_14": "tests/numerics/fixed_point/test_state_evolution.py",
    "factor_graph:check_111": "check_112, the same function",
    "linearization:check_185": "tests/numerics/thresholds/test_thresholds.py",
}


@pytest.mark.slow_for(*SLOW)
@pytest.mark.parametrize("check", CHECKS, ids=lambda path: path.rpartition(".")[2])
def test_claimed_checks_pass(check):
    equations = [e for e in EQUATIONS if e.check == check]
    for result in registry.run_entries(equations, paper="troiani2025"):
        assert result.ok, f"({result.id}) {result.message}"


def test_braces_of_the_formulas_balance():
    for e in EQUATIONS:
        plain_text = e.latex.replace(r"\{", "").replace(r"\}", "")
        assert plain_text.count("{") == plain_text.count("}"), e.id
        # A \left needs its \right, including the empty delimiter "."
        assert len(re.findall(r"\\left(?![a-z])", e.latex)) == len(re.findall(r"\\right(?![a-z])", e.latex)), e.id


def test_bibliography_has_the_cited_works():
    text = resources.files("attnlimits.papers").joinpath("troiani2025", "refs.bib").read_text(encoding="utf-8")
    keys = re.findall(r"^@\w+\{(\w+),", text, re.MULTILINE)
    assert len(keys) == len(set(keys))
    assert {"troiani2025", "troiani2024", "aubin2018", "barbier2019", "gerbelot2023"} <= set(keys)


# The tools of the checks: they must be able to fail.


def test_symbolic_reduction_refuses_what_is_not_zero():
    x = sp.Symbol("x", positive=True)
    assert tools.symbolic({"square": (x + 1) ** 2 - x**2 - 2 * x - 1}, "d").ok
    outcome = tools.symbolic({"right": sp.S.Zero, "wrong": sp.Matrix([[0, x - sp.sqrt(x)]])}, "d")
    assert not outcome.ok
    assert outcome.residual == math.inf
    assert "wrong" in outcome.detail and "right" not in outcome.detail


def test_numeric_outcome_keeps_a_nan():
    assert not tools.numeric([0.0, math.nan, 0.0], 1.0, "d").ok
    assert not tools.numeric([0.0, 2.0], 1.0, "d").ok
    with pytest.raises(ValueError, match="at least one"):
        tools.numeric([], 1.0, "d")


def test_average_of_quadratic_forms():
    a, x, y = sp.symbols("a x y")
    assert tools.average(3 + a * x**2 + 5 * x * y + 7 * y, [x, y]) == 3 + a
    with pytest.raises(ValueError, match="degree 4"):
        tools.average(x**2 * y**2, [x, y])


def test_symmetric_gradient_shares_the_pair():
    q = tools.symmetric("q", 2)
    assert tools.symmetric_gradient((q * q).trace(), q) == 2 * q


def test_plain_channel_is_converged():
    # A smooth integrand that decays like a Gaussian: halving the step changes the last digits only.
    omega, variance = np.array([[0.4, -0.3], [0.7, 0.2]]), np.array([[0.8, 0.15], [0.15, 0.55]])
    v = np.array([[1.9, -0.3], [0.4, 1.7]])
    coarse = plain.PlainChannel(omega, variance, step=0.2, reach=8.0).denoiser(v)
    fine = plain.PlainChannel(omega, variance, step=0.1, reach=9.0).denoiser(v)
    for a, b in zip(coarse, fine, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)


def test_single_layer_map_is_converged():
    for q in (0.01, 0.5, 0.9):
        coarse, fine = (single_layer.conjugate_overlap(q, 2, nodes=n) for n in (60, 120))
        # The slope of tanh grows like 1 / (1 - q): nine digits are left at q = 0.9 with 60 nodes.
        assert coarse == pytest.approx(fine, rel=1e-8)


def test_first_order_in_depth_fails_in_the_joint_limit():
    # At fixed depth the remainder falls as c^-2 ...
    fixed = [depth.joint_limit_remainder(3.0 / c, c, seed=1) for c in (1e2, 1e3)]
    assert fixed[0] / fixed[1] == pytest.approx(100.0, rel=0.1)
    # ... but at depth = c it does not fall at all, so (52) is no joint limit.
    joint = [depth.joint_limit_remainder(1.0, c) for c in (1e2, 1e3, 1e4)]
    assert min(joint) > 0.3


# A wrong implementation must fail its check: each case breaks one function that a check leans on.


def _scaled(function, factor):
    return lambda *args, **kwargs: factor * function(*args, **kwargs)


def _shifted_last(function, shift):
    def wrong(*args, **kwargs):
        *first, last = function(*args, **kwargs)
        return (*first, last + shift)

    return wrong


def _shifted_log_z(function, shift):
    def wrong(*args, **kwargs):
        result = function(*args, **kwargs)
        return dataclasses.replace(result, log_z=result.log_z + shift)

    return wrong


def _scaled_first(function, factor):
    def wrong(*args, **kwargs):
        first, *rest = function(*args, **kwargs)
        return (factor * first, *rest)

    return wrong


def _with_first_layer(function):
    """Add what belongs to one layer alone, so that exchanging layers changes the form."""

    def wrong(model, epsilon, psi):
        h = model.index_matrices()[0]
        extra = h.T * h if model.activation == "linear" else sp.zeros(2)  # one failure is enough, and this one is quick
        return function(model, epsilon, psi + extra)

    return wrong


def _swapped(function):
    return lambda *args, **kwargs: function(*args, **kwargs)[::-1]


def _without_last_entry(function):
    def wrong(*args, **kwargs):
        matrix = sp.Matrix(function(*args, **kwargs))
        matrix[-1, -1] = 0
        return matrix

    return wrong


# Of each module cheaper ones stay.
@pytest.mark.slow_for(
    "channel-denoise_readout--channel:check_9",
    "factor_graph._Regression-denoiser--factor_graph:check_112",
    "depth-_committee_form--depth:check_53",
    "depth.derived-committee--depth:check_54",
    "variational-conjugate_of--variational:check_96",
    "prediction-prediction_errors--prediction:check_11",
)
@pytest.mark.parametrize(
    ("module", "name", "break_it", "check"),
    [
        ("mixing.softmax_kernel", "layer", lambda f: _shifted_last(f, 1e-9), "mixing:check_5"),
        ("mixing.mixing", "link", lambda f: _scaled(f, 1 + sp.Rational(1, 10**9)), "mixing:check_6"),
        ("depth.derived", "committee", lambda f: _scaled(f, 2), "depth:check_51"),
        ("inversion.softmax_kernel", "invert", lambda f: _shifted_last(f, 1e-9), "inversion:check_183"),
        ("inversion.derived", "domain_slack", lambda f: _scaled(f, 2), "inversion:check_177"),
        (
            "linearization.derived",
            "single_layer_eigenvalue",
            lambda f: _scaled(f, 2),
            "linearization:check_15",
        ),
        ("linearization.derived", "apply_operator", _without_last_entry, "linearization:check_16"),
        ("channel", "denoise_readout", lambda f: _shifted_log_z(f, 1e-6), "channel:check_9"),
        ("channel", "denoise", lambda f: _shifted_log_z(f, 1e-6), "channel:check_167"),
        ("variational", "prior_potential", lambda f: _scaled(f, 2), "variational:check_101"),
        ("prediction", "prediction_errors", _swapped, "prediction:check_11"),
        ("evolution", "conjugate_overlap", lambda f: _scaled(f, 1.001), "evolution:check_73"),
        ("bayes", "_posterior", lambda f: _scaled(f, 2), "bayes:check_122"),
        ("overlaps", "conjugate_of", lambda f: _scaled(f, 2), "overlaps:check_159"),
        ("overlaps", "_orthant", lambda f: _scaled(f, 1 + 1e-9), "overlaps:check_132"),
        ("overlaps", "_inner_standard", lambda f: _scaled(f, 1.0001), "overlaps:check_153"),
        ("overlaps", "_inner_density", lambda f: _scaled(f, 1.0001), "overlaps:check_152"),
        ("overlaps", "_square_root", lambda f: _scaled(f, 1.001), "overlaps:check_145"),
        ("factor_graph", "gaussian_moment", lambda f: _scaled(f, 2), "factor_graph:check_90"),
        ("factor_graph", "average", lambda f: _scaled(f, 2), "factor_graph:check_92"),
        ("factor_graph", "_line_denoiser", lambda f: _scaled_first(f, 1.001), "factor_graph:check_79"),
        ("factor_graph._Regression", "denoiser", lambda f: _scaled_first(f, 1.001), "factor_graph:check_85"),
        ("factor_graph._Regression", "denoiser", lambda f: _scaled_first(f, 1.001), "factor_graph:check_112"),
        ("flattened_amp", "_onsager", lambda f: _scaled(f, 1.001), "flattened_amp:check_68"),
        ("flattened_amp", "_diagonal_blocks", lambda f: _scaled(f, 1.001), "flattened_amp:check_68"),
        ("interpolation", "covariance", lambda f: _scaled(f, 2), "interpolation:check_61"),
        ("depth.derived", "committee", lambda f: _scaled(f, 2), "depth:check_54"),
        ("depth", "_committee_form", _with_first_layer, "depth:check_53"),
        ("variational", "conjugate_of", lambda f: _scaled(f, 2), "variational:check_96"),
        (
            "architectures.derived",
            "link",
            lambda f: _scaled(f, 1 + sp.Rational(1, 10**9)),
            "architectures:check_untied",
        ),
        (
            "architectures.derived",
            "link",
            lambda f: _scaled(f, 1 + sp.Rational(1, 10**9)),
            "architectures:check_sequence",
        ),
        ("architectures.derived", "link", lambda f: _scaled(f, 1 + sp.Rational(1, 10**9)), "architectures:check_heads"),
        ("architectures", "_rows", lambda f: _scaled(f, 2), "architectures:check_33"),
        ("inversion", "_over_labels", lambda f: _scaled(f, 1 + 1e-8), "inversion:check_171"),
        ("inversion", "_over_labels", lambda f: _scaled(f, 1 + 1e-8), "inversion:check_175"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_implementation_fails_its_check(monkeypatch, module, name, break_it, check):
    owner = registry.resolve(f"attnlimits.papers.troiani2025.checks.{module}")
    channel._over_labels.cache_clear()
    monkeypatch.setattr(owner, name, break_it(getattr(owner, name)))
    outcome = registry.resolve(f"attnlimits.papers.troiani2025.checks.{check}")()
    channel._over_labels.cache_clear()
    assert not outcome.ok
