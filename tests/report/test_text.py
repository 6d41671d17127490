"""Values as text: significant digits, no exponents where numbers are readable, the same value read back."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hydra_dse.results.text import number, percent, span


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "n/a"), (math.nan, "n/a"), (0.0, "0"), (1.0, "1"), (32.0, "32"), (12.5, "12.50"), (0.168812, "0.1688"),
        (0.0198, "0.01980"), (2328.4, "2,328"), (123456.0, "123,500"), (-3.25, "-3.250"), (1.5e-6, "1.500e-06"),
        (4.0e9, "4.000e+09"), (math.inf, "inf"),
    ],
)  # fmt: skip
def test_a_number_has_four_significant_digits(value, text):
    assert number(value) == text


@given(st.floats(min_value=1e-12, max_value=1e15))
def test_a_number_reads_back_within_half_a_unit_of_its_last_digit(value):
    assert float(number(value).replace(",", "")) == pytest.approx(value, rel=0.51e-3)


def test_intervals_and_errors():
    assert span(1753.2, 2590.0) == "1,750–2,590"
    assert span(math.nan, 1.0) == "n/a"
    assert (percent(0.0412), percent(-0.1), percent(math.nan)) == ("+4.1 %", "-10.0 %", "n/a")
