"""The registry itself: what it accepts, what it refuses, and what a failing check looks like."""

import json
import math
import subprocess
import sys

import pytest

from attnlimits.derive import registry
from attnlimits.derive.registry import CheckOutcome, Equation, Erratum, RegistryError

HEADER = '[paper]\ncitekey = "p"\nequations = {count}\n'
ENTRY = '[[equation]]\nid = {id}\ntitle = "t"\nlatex = "x = y"\nsource = "restored"\nstatus = "{status}"\n{more}\n'


def _toml(*entries, count=None):
    return HEADER.format(count=len(entries) if count is None else count) + "".join(entries)


REASON = 'reason = "it names something"'


def _entry(number, status="definition", more=""):
    if status in ("definition", "prose") and "reason" not in more and "check" not in more:
        more = f"{more}\n{REASON}"
    return ENTRY.format(id=number, status=status, more=more)


ERRATUM = {
    "id": "threshold",
    "concerns": "(2)",
    "published": "1",
    "correct": "2",
    "evidence": "two routes agree",
    "check": "m:f",
}


def _erratum(**changes):
    fields = {**ERRATUM, **changes}
    lines = [f"{key} = {value!r}" for key, value in fields.items() if value is not None]
    return "[[erratum]]\n" + "\n".join(lines) + "\n"


# Checks that the tests refer to by path; `resolve` finds them through this module's own name.
def passing():
    return CheckOutcome(1e-9, 1e-8, "numeric", "a against b")


def symbolic_passing():
    return CheckOutcome(0.0, 0.0, "symbolic", "a against b")


def failing():
    return CheckOutcome(1.0, 1e-8, "numeric", "a against b")


def not_a_number():
    return CheckOutcome(math.nan, 1.0, "numeric", "a against b")


def raising():
    raise ArithmeticError("it broke")


def returning_nothing():
    return None


NOT_CALLABLE = 3


def _equation(number, status, function=None, code=None):
    check = None if function is None else f"registry_fixture:{function}"
    reason = "it names something" if function is None else None
    return Equation(number, "t", "x", "restored", status, code=code, check=check, reason=reason)


def _found(name, function):
    return Erratum(name, "(2)", "1", "2", "two routes agree", f"registry_fixture:{function}")


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.setitem(sys.modules, "registry_fixture", sys.modules[__name__])


def test_valid_text_is_parsed_in_order():
    text = _toml(_entry(2, "checked", 'check = "m:f"\nnote = "n"'), _entry(1))
    first, second = registry.parse(text, paper="p")
    assert (first.id, first.status, first.check) == (1, "definition", None)
    assert first.reason == "it names something"
    assert (second.id, second.check, second.note) == (2, "m:f", "n")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[paper", "not valid TOML"),
        (_entry(1), r"the table \[paper\] with citekey and equations is missing"),
        ('[paper]\ncitekey = "q"\nequations = 1\n' + _entry(1), "paper.citekey is 'q', expected 'p'"),
        (
            '[paper]\ncitekey = "p"\nequations = "all"\n' + _entry(1),
            "paper.equations must be a positive integer",
        ),
        ("equation = 3\n" + HEADER.format(count=1), "must be an array of tables"),
        (
            _toml(_entry(1, "proven")),
            "unknown status 'proven', expected one of proved, checked, definition, prose",
        ),
        (_toml(_entry(1, "checked")), "status 'checked' claims a check and names none"),
        (_toml(_entry(1, "proved")), "status 'proved' claims a check and names none"),
        (_toml(_entry(1, "prose", 'check = "m:f"')), "status 'prose' contradicts its check"),
        (_toml(_entry(1, "definition", 'check = "m:f"')), "status 'definition' contradicts its check"),
        (_toml(ENTRY.format(id=1, status="definition", more="")), "status 'definition' needs a reason"),
        (_toml(ENTRY.format(id=1, status="prose", more='note = "n"')), "status 'prose' needs a reason"),
        (_toml(_entry(1, "checked", f'check = "m:f"\n{REASON}')), "status 'checked' contradicts its reason"),
        (_toml(_entry(1, "pending")), "unknown status 'pending'"),
        (_toml(_entry(1, "checked", 'check = "m.f"')), "check must be written 'module:function'"),
        (_toml(_entry(1), _entry(1), count=1), r"equation \(1\) occurs more than once"),
        (_toml(_entry(1), _entry(4), count=5), "equations without entry: 2-3, 5"),
        (_toml(_entry(1), _entry(7), count=1), "entries beyond paper.equations = 1: 7"),
        (_toml(_entry(1, more="color = 'red'")), r"equation \(1\): unknown field 'color'"),
        (_toml(_entry(1).replace('title = "t"', 'title = ""')), "field 'title' must be a non-empty string"),
        (_toml(_entry(1).replace('latex = "x = y"\n', "")), "field 'latex' is missing"),
        (
            _toml(_entry(1).replace('"restored"', '"guessed"')),
            "unknown source 'guessed', expected one of restored, derived",
        ),
        (_toml(_entry("true")), "entry number 1: id must be a positive integer, got True"),
        (_toml(_entry(0)), "id must be a positive integer, got 0"),
    ],
)
def test_bad_text_gives_a_sentence(text, sentence):
    with pytest.raises(RegistryError, match=sentence):
        registry.parse(text, paper="p")


def test_all_problems_are_listed_at_once():
    with pytest.raises(RegistryError) as caught:
        registry.parse(_toml(_entry(1, "proven"), _entry(2, "checked"), count=3), paper="p")
    assert len(caught.value.problems) == 3
    assert "3 problem(s)" in str(caught.value)


def test_unknown_paper_names_the_known_ones():
    with pytest.raises(RegistryError, match=r"no such paper; there is a registry for: .*troiani2025"):
        registry.load("nobody1900")


def test_a_claim_without_check_fails_the_run_too():
    with pytest.raises(RegistryError, match=r"equation \(1\): status 'proved' claims a check and names none"):
        registry.run_entries([_equation(1, "proved")])


@pytest.mark.parametrize(
    ("function", "sentence"),
    [("absent", "has no attribute 'absent'"), ("NOT_CALLABLE", "is not callable")],
)
def test_a_missing_check_fails_the_run(function, sentence):
    with pytest.raises(RegistryError, match=sentence):
        registry.run_entries([_equation(1, "checked", function)])


def test_an_unresolvable_code_path_fails_the_run():
    with pytest.raises(RegistryError, match=r"equation \(1\): code: 'attnlimits.derive.nowhere.f' does not resolve"):
        registry.run_entries([_equation(1, "definition", code="attnlimits.derive.nowhere.f")])


def test_unknown_number_is_refused():
    with pytest.raises(RegistryError, match="no equation numbered 9; there are 1-2"):
        registry.run_entries([_equation(1, "definition"), _equation(2, "definition")], ids=[9])


@pytest.mark.parametrize(
    ("status", "function", "ok", "message"),
    [
        ("checked", "passing", True, "a against b"),
        ("checked", "symbolic_passing", True, "a against b"),
        ("proved", "symbolic_passing", True, "a against b"),
        ("proved", "passing", False, "needs a symbolic check"),
        ("checked", "failing", False, "above tolerance"),
        ("checked", "not_a_number", False, "above tolerance"),
        ("checked", "raising", False, "raised ArithmeticError: it broke"),
        ("checked", "returning_nothing", False, "returned NoneType, expected CheckOutcome"),
    ],
)
def test_verdicts(status, function, ok, message):
    (result,) = registry.run_entries([_equation(1, status, function)])
    assert result.ok is ok
    assert message in result.message


def test_entries_without_check_are_counted_and_not_judged():
    results = registry.run_entries([_equation(1, "definition"), _equation(2, "prose")])
    assert [r.ok for r in results] == [None, None]
    assert [r.message for r in results] == ["it names something"] * 2
    report = registry.summary(results)
    assert report["ran"] == 0
    assert report["ok"] is True


def test_shared_checks_run_once(monkeypatch):
    calls = []
    monkeypatch.setattr(sys.modules[__name__], "passing", lambda: calls.append(1) or CheckOutcome(0, 1, "numeric"))
    results = registry.run_entries([_equation(1, "checked", "passing"), _equation(2, "checked", "passing")])
    assert len(calls) == 1
    assert [r.ok for r in results] == [True, True]


def test_selection_and_progress():
    seen = []
    equations = [_equation(i, "checked", "passing") for i in (1, 2, 3)]
    results = registry.run_entries(
        equations, ids=[3, 1, 3], progress=lambda done, total, e: seen.append((done, total, e.id))
    )
    assert [r.id for r in results] == [1, 3]
    assert seen == [(0, 2, 1), (1, 2, 3)]


def test_summary_and_table_name_the_failures():
    results = registry.run_entries(
        [_equation(1, "checked", "passing"), _equation(2, "checked", "failing"), _equation(3, "definition")]
    )
    report = registry.summary(results)
    assert report["counts"] == {"proved": 0, "checked": 2, "definition": 1, "prose": 0}
    assert (report["total"], report["ran"], report["passed"]) == (3, 2, 1)
    assert report["failed"] == [2]
    assert report["ok"] is False
    text = registry.table(results)
    assert "FAILED: (2)" in text
    assert "checked numerically       2" in text
    # Every entry has its line; one without a check says why.
    (line,) = (line for line in text.splitlines() if line.lstrip().startswith("(3)"))
    assert line.split() == ["(3)", "definition", "-", "-", "-", "it", "names", "something"]


def test_errata_are_read_in_order():
    text = _toml(_entry(1)) + _erratum(id="b") + _erratum(id="a")
    assert [e.id for e in registry.parse_errata(text, paper="p")] == ["b", "a"]
    assert registry.parse_errata(_toml(_entry(1)), paper="p") == ()
    assert [e.id for e in registry.parse(text, paper="p")] == [1]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        *(({key: None}, rf"erratum .*: field '{key}' is missing") for key in ERRATUM),
        *(({key: " "}, rf"erratum .*: field '{key}' must be a non-empty string") for key in ERRATUM),
        ({"color": "red"}, "erratum 'threshold': unknown field 'color'"),
        ({"check": "m.f"}, "check must be written 'module:function'"),
        ({"id": "12"}, "id must be a name, numbers are equations"),
        ({"id": 12}, "field 'id' must be a non-empty string, got 12"),
    ],
)
def test_a_bad_erratum_gives_a_sentence(changes, sentence):
    with pytest.raises(RegistryError, match=sentence):
        registry.parse_errata(_erratum(**changes), paper="p")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (_erratum() + _erratum(), "erratum 'threshold': occurs more than once"),
        ("erratum = 3", r"'erratum' must be an array of tables, \[\[erratum\]\]"),
        ("[erratum", "not valid TOML"),
    ],
)
def test_bad_errata_give_a_sentence(text, sentence):
    with pytest.raises(RegistryError, match=sentence):
        registry.parse_errata(text, paper="p")


def test_errata_run_after_the_equations_with_counts_of_their_own():
    entries = [
        _found("b", "passing"),
        _equation(2, "checked", "passing"),
        _found("a", "failing"),
        _equation(1, "prose"),
    ]
    results = registry.run_entries(entries)
    assert [r.id for r in results] == [1, 2, "b", "a"]
    assert [r.ok for r in results] == [None, True, True, False]
    report = registry.summary(results)
    assert report["counts"] == {"proved": 0, "checked": 1, "definition": 0, "prose": 1}
    assert (report["total"], report["ran"], report["passed"]) == (2, 1, 1)
    assert report["errata"] == {"total": 2, "passed": 1}
    assert report["failed"] == ["a"]
    assert report["ok"] is False
    json.dumps(report)  # a record, not objects
    text = registry.table(results)
    equations, errata, _ = text.split("\n\n")
    assert "(2)" in equations and "two routes" not in equations
    assert [line.split()[0] for line in errata.splitlines()] == ["erratum", "b", "a"]
    assert "3 checks, FAILED: a" in text


def test_errata_may_be_selected_by_name():
    entries = [_equation(1, "checked", "passing"), _found("b", "symbolic_passing")]
    (result,) = registry.run_entries(entries, ids=["b"])
    assert (result.id, result.status, result.ok) == ("b", registry.ERRATUM, True)
    with pytest.raises(RegistryError, match="no erratum called c; there are: b"):
        registry.run_entries(entries, ids=["c"])


def test_an_unresolvable_erratum_fails_the_run():
    with pytest.raises(RegistryError, match=r"erratum 'b': check: .*has no attribute 'absent'"):
        registry.run_entries([_found("b", "absent")])


@pytest.mark.parametrize(
    "arguments",
    [(1.0, -1.0, "numeric"), (1.0, math.inf, "numeric"), (0.0, 1e-9, "symbolic"), (0.0, 0.0, "guess")],
)
def test_an_outcome_cannot_be_lenient(arguments):
    with pytest.raises(ValueError, match=r"tolerance|kind"):
        CheckOutcome(*arguments)


@pytest.mark.parametrize(
    "path", ["attnlimits.derive.registry.resolve", "attnlimits.derive.registry:resolve", "math.pi", "json"]
)
def test_paths_resolve(path):
    assert registry.resolve(path) is not None


@pytest.mark.parametrize("path", ["nothing.at.all", "math:tau2", "math.tau2.x", "attnlimits.derive.registry:a.b"])
def test_wrong_paths_do_not(path):
    with pytest.raises(LookupError, match="does not resolve"):
        registry.resolve(path)


def test_reading_a_registry_imports_neither_sympy_nor_numerics():
    code = (
        "import sys; from attnlimits.derive import registry; [registry.load(paper) for paper in registry.papers()];"
        "sys.exit(any(m == 'sympy' or m.startswith('attnlimits.numerics') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
