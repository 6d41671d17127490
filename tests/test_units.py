"""Quantities: every unit by its definition, every refusal by its words."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hydra_dse import units
from hydra_dse.errors import UnitError

FINITE = st.floats(min_value=1e-18, max_value=1e18)


@pytest.mark.parametrize(
    ("text", "dimension", "expected"),
    [
        ("512 GB/s", "bytes_per_s", 512e9),
        ("1 TB/s", "bytes_per_s", 1e12),
        ("8 Gbit/s", "bytes_per_s", 1e9),
        ("800 Gbps", "bytes_per_s", 100e9),
        ("64 GiB", "bytes", 64 * 2**30),
        ("16 GB", "bytes", 16e9),
        ("2 MiB", "bytes", 2 * 1024 * 1024),
        ("1e9 B", "bytes", 1e9),
        ("35 ns", "seconds", 35e-9),
        ("2.5us", "seconds", 2.5e-6),
        ("2.5 µs", "seconds", 2.5e-6),
        ("3 ms", "seconds", 0.003),
        ("10 min", "seconds", 600.0),
        ("2 h", "seconds", 7200.0),
        ("1.2 GHz", "hertz", 1.2e9),
        ("312 TFLOP/s", "flops_per_s", 312e12),
        ("312 TFLOPS", "flops_per_s", 312e12),
        ("7 pJ/bit", "joules_per_byte", 56e-12),
        ("56 pJ/B", "joules_per_byte", 56e-12),
        ("0.5 pJ/FLOP", "joules_per_flop", 0.5e-12),
        ("700 W", "watts", 700.0),
        ("1 kW", "watts", 1000.0),
        ("11.1 mm", "mm", 11.1),
        ("45 um", "mm", 0.045),
        ("123.2 mm2", "mm2", 123.2),
        ("1 cm²", "mm2", 100.0),
        ("2 req/s", "rate", 2.0),
        ("30 /min", "rate", 0.5),
        ("7200 1/h", "rate", 2.0),
        ("1 TB/s/mm", "bytes_per_s_per_mm", 1e12),
        ("12 USD", "usd", 12.0),
        ("$12", "usd", 12.0),
        ("90 %", "share", 0.9),
        (0.9, "share", 0.9),
        (3, "count", 3.0),
    ],
)
def test_a_quantity_has_the_value_that_its_unit_defines(text, dimension, expected):
    assert units.parse(text, dimension) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "dimension", "words"),
    [
        ("512 GB", "bytes_per_s", ["is a size in bytes", "a bandwidth is needed", "'GB/s'"]),
        ("35 ns", "hertz", ["is a time", "a frequency is needed", "'GHz'"]),
        (512, "bytes_per_s", ["512 has no unit", "'GB/s'"]),
        ("512", "bytes", ["has no unit", "'GB'"]),
        ("512 gb/s", "bytes_per_s", ["unknown unit 'gb/s'", "did you mean 'GB/s'"]),
        ("3 parsec", "mm", ["unknown unit 'parsec'", "'mm'"]),
        ("-1 GB", "bytes", ["negative"]),
        ("nan GB", "bytes", ["not a finite number"]),
        (float("nan"), "share", ["not a finite number"]),
        (float("inf"), "count", ["not a finite number"]),
        ("-inf s", "seconds", ["not a finite number"]),
        ("1e999 GB", "bytes", ["not a finite number"]),
        ("1e308 TB", "bytes", ["not a finite number"]),
        (10**400, "count", ["not a finite number"]),
        ("fast", "bytes_per_s", ["'fast' is not a bandwidth", "'GB/s'"]),
        ("", "seconds", ["is not a time"]),
        (True, "count", ["True is not a count"]),
        (None, "bytes", ["None is not a size in bytes"]),
        (["1 GB"], "bytes", ["is not a size in bytes"]),
        ("3 tokens", "count", ["unknown unit 'tokens'", "plain number"]),
    ],
)
def test_a_wrong_quantity_is_refused_and_the_message_says_what_would_be_accepted(text, dimension, words):
    with pytest.raises(UnitError) as caught:
        units.parse(text, dimension)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_bits_are_eighths_of_bytes_and_binary_prefixes_are_powers_of_two():
    assert units.parse("8 Gbit/s", "bytes_per_s") == units.parse("1 GB/s", "bytes_per_s")
    assert units.parse("1 GiB", "bytes") / units.parse("1 GB", "bytes") == 2**30 / 1e9


@given(FINITE, st.sampled_from(sorted(units.DIMENSIONS)))
def test_exact_text_reads_back_to_the_same_number(value, dimension):
    assert units.parse(units.exact(value, dimension), dimension) == value


@given(FINITE, st.sampled_from(sorted(units.DIMENSIONS)))
def test_printed_text_reads_back_within_its_digits(value, dimension):
    text = units.format(value, dimension)
    assert units.parse(text, dimension) == pytest.approx(value, rel=5.1e-4)


@given(st.floats(min_value=0, max_value=1e12), st.sampled_from(sorted(units.DIMENSIONS)), st.data())
def test_every_unit_scales_the_number_by_its_factor(number, dimension, data):
    known = units.DIMENSIONS[dimension].units
    if not known:
        return
    unit = data.draw(st.sampled_from(sorted(known)))
    assert units.parse(f"{number!r} {unit}", dimension) == pytest.approx(number * known[unit], rel=1e-14)


@given(st.one_of(st.text(), st.floats(), st.integers(), st.none()), st.sampled_from(sorted(units.DIMENSIONS)))
def test_any_input_gives_a_finite_non_negative_number_or_a_unit_error(value, dimension):
    try:
        result = units.parse(value, dimension)
    except UnitError:
        return
    assert math.isfinite(result)
    assert result >= 0


@pytest.mark.parametrize(
    ("value", "dimension", "text"),
    [
        (512e9, "bytes_per_s", "512 GB/s"),
        (35e-9, "seconds", "35 ns"),
        (0.0, "seconds", "0 s"),
        (90.0, "seconds", "1.5 min"),
        (2.0, "rate", "2 req/s"),
        (3.0, "count", "3"),
        (16e9, "bytes", "16 GB"),
    ],
)
def test_a_value_is_printed_in_the_unit_that_suits_its_size(value, dimension, text):
    assert units.format(value, dimension) == text


def test_a_zero_is_never_negative():
    assert math.copysign(1, units.parse("-0 GB", "bytes")) == 1
