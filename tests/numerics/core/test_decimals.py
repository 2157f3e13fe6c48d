"""Numbers as text lose no digits, and none that is not zero is shown as zero."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlimits.numerics.core import memory
from attnlimits.numerics.core.decimals import check_size, pm, recorded, significant


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.17203, 6, "0.172030"),
        (0.25, 3, "0.250"),
        (99.96, 3, "100"),
        (0.99999, 3, "1.00"),
        (1e-7, 3, "0.000000100"),
        (123456.0, 3, "123000"),
        (5.0, 1, "5"),
        (0.0, 3, "0.00"),
        (-0.5, 4, "-0.5000"),
    ],
)
def test_significant_digits(value, digits, text):
    assert significant(value, digits) == text


@given(st.floats(1e-12, 1e12), st.integers(1, 17))
def test_significant_digits_are_those_asked_for(value, digits):
    text = significant(value, digits)
    # Half a unit of the last digit, and the rounding of float64 itself.
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    assert abs(float(text) - value) <= 0.5000001 * unit + 2.3e-16 * value
    if "." in text:
        assert len(text.replace(".", "").lstrip("0")) == digits


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.486012, 0.00291, "0.4860 +- 0.0029"),
        (1e-7, 3e-9, "1.000e-07 +- 3.0e-09"),
        (1e-7, 3e-4, "0.00000 +- 0.00030"),
        (0.0, 2e-5, "0 +- 2.0e-05"),
        (0.0, 0.0, "0 +- 0"),
        (0.392196, 2.7e-14, "0.3921960000 +- 2.7e-14"),
        (1.5, math.nan, "1.50000"),
        (1.5, None, "1.50000"),
        (math.inf, 0.0, "inf +- 0"),
        (123456.0, 1234.0, "123456 +- 1.2e+03"),
    ],
)
def test_value_and_error(value, error, text):
    assert pm(value, error) == text


@given(st.floats(1e-300, 1e300), st.floats(1e-17, 10))
def test_what_is_shown_is_within_a_tenth_of_the_error(value, relative):
    error = value * relative
    shown, _, tail = pm(value, error).partition(" +- ")
    assert abs(float(shown) - value) <= max(0.06 * error, 6e-10 * value)
    assert abs(float(tail) - error) <= 0.051 * error
    if relative < 0.5:
        assert float(shown) != 0


@pytest.mark.parametrize("text", ["1e999999999", "1e-999999999", "1" * 10_000, "1/1e99999", "1/" + "3" * 2001])
def test_numbers_too_large_for_exact_arithmetic_are_refused(text):
    with pytest.raises(ValueError, match=r"^--noise must") as caught:
        check_size("--noise", text)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("text", ["0.1", "1/3", "2e-3", "1e300", "x", "", "nan"])
def test_other_text_is_left_to_who_reads_it(text):
    check_size("--noise", text)


def test_memory_is_refused_before_it_is_taken(monkeypatch):
    monkeypatch.setattr(memory, "memory_limit", lambda: 2**30)
    memory.refuse_memory("--samples 10", 2**29, "give fewer")
    with pytest.raises(MemoryError, match=r"--samples 11 would take 3 TiB of memory, and 1 GiB may be .*; give fewer"):
        memory.refuse_memory("--samples 11", 3 * 2**40, "give fewer")
    with pytest.raises(MemoryError, match=r"e\+\d+ YiB"):
        memory.refuse_memory("--samples 11", 1e40, "give fewer")


def test_the_limit_is_below_what_the_machine_has():
    assert 2**20 < memory.memory_limit() < 2**50


@given(st.floats(1e-12, 1e12), st.floats(-20, 1), st.sampled_from([1, -1]))
def test_rounding_of_a_record_adds_nothing_to_its_error(size, exponent, sign):
    value, error = sign * size, size * 10.0**exponent
    # It had twelve digits at most, which were off by more than errors below 1e-12 of the value.
    assert abs(float(recorded(value, error)) - value) <= error / 1000


def test_a_record_without_error_is_exact_or_has_twelve_digits():
    assert float(recorded(1 / 3, 0.0)) == 1 / 3
    assert recorded(1 / 3, None) == recorded(1 / 3, math.nan) == "0.333333333333"
    assert recorded(0.0, 0.0) == "0" and recorded(math.inf, 0.0) == "inf"
