"""The table of reference constants: its claims, a sample of its entries again, and how its making goes on."""

import re
from decimal import Decimal
from fractions import Fraction

import pytest

from attnlimits.numerics.core.errors import ConvergenceError
from attnlimits.papers.troiani2025 import constants
from attnlimits.papers.troiani2025.constants import CASES, Case, Constant, compute, read, recompute


def digits_of(value):
    return len(Decimal(value).as_tuple().digits)


def test_the_table_holds_every_case_and_its_digits():
    table = read()
    assert tuple(constant.case for constant in table) == CASES
    for constant in table:
        assert digits_of(constant.value) == constant.case.digits
        # The error is at most half a unit of the last digit, and what the sum itself adds.
        unit = 10.0 ** Decimal(constant.value).as_tuple().exponent
        assert 0 < constant.error <= 0.51 * unit, constant
        assert constant.how in ("rigorous", "estimated")


def sample(least, most):
    return [constant for constant in read() if least <= constant.seconds < most]


@pytest.mark.parametrize("constant", sample(0, 1.6), ids=lambda constant: constant.case.command)
def test_what_is_cheap_comes_out_again(constant):
    assert compute(constant.case).value == constant.value


@pytest.mark.slow
@pytest.mark.parametrize("constant", sample(1.6, 150.0), ids=lambda constant: constant.case.command)
def test_the_rest_comes_out_again(constant):
    assert compute(constant.case).value == constant.value


def test_entries_agree_only_where_theory_says_so():
    """Two linear layers depend on beta/skip alone: B_1 = c (I + (beta/c) h h^T)."""

    def key(case):
        alone = case.activation == "linear" and case.layers == 2
        scale = (Fraction(case.beta) / Fraction(case.skip),) if alone else (case.skip, case.beta)
        return case.layers, case.tokens, case.activation, *scale

    found = {}
    for constant in read():
        found.setdefault(key(constant.case), set()).add(constant.value[:9])
    assert all(len(values) == 1 for values in found.values())
    assert len({min(values) for values in found.values()}) == len(found)


CHEAP = tuple(Case(2, 2, "softmax", skip, "1", 6) for skip in ("1", "2", "4"))


def test_an_interrupted_run_goes_on(tmp_path, monkeypatch):
    path = tmp_path / "table.toml"
    asked = []

    def stopping(case):
        asked.append(case)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return compute(case)

    monkeypatch.setattr(constants, "compute", stopping)
    with pytest.raises(KeyboardInterrupt):
        recompute(path, CHEAP, progress=lambda done, total: None)
    assert not path.exists()
    assert [constant.case for constant in read(tmp_path / "table.toml.part")] == [CHEAP[0]]
    seen = []
    assert recompute(path, CHEAP, progress=lambda done, total: seen.append((done, total))) == []
    # The entry in flight is computed again, the finished one is not.
    assert asked == [CHEAP[0], CHEAP[1], CHEAP[1], CHEAP[2]]
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert [constant.value for constant in read(path)] == ["0.185478", "0.174270", "0.169136"]
    assert not (tmp_path / "table.toml.part").exists()


def test_a_failure_keeps_the_old_table_and_the_other_entries(tmp_path, monkeypatch, capsys):
    path = tmp_path / "table.toml"
    path.write_text("", encoding="utf-8")

    def failing(case):
        if case == CHEAP[1]:
            raise ConvergenceError("no luck")
        return Constant(case, "0.5", 0.1, "estimated", 1.0)

    monkeypatch.setattr(constants, "compute", failing)
    assert recompute(path, CHEAP, progress=lambda done, total: None) == [CHEAP[1]]
    assert path.read_text(encoding="utf-8") == ""
    assert [constant.case for constant in read(tmp_path / "table.toml.part")] == [CHEAP[0], CHEAP[2]]
    assert "no luck" in capsys.readouterr().err


def test_commands_are_those_of_the_command_line():
    from attnlimits.numerics.cli.command import parser

    for case in CASES:
        words = case.command.split()
        arguments = parser().parse_args(words[1:])
        assert (arguments.layers, arguments.tokens, arguments.digits) == (case.layers, case.tokens, case.digits)
        assert re.fullmatch(r"[\d.]+", case.skip) and float(case.skip) == arguments.skip
