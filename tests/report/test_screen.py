"""Inline drawings: places are the values, ticks are round, points can be selected."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hydra_dse.report.charts import LINE, POINTS, XY, Axis, Series
from hydra_dse.report.screen import inline_svg
from hydra_dse.report.screen.scales import Scale, linear_ticks, scale_for, tick_text

from .samples import bars, charts, front


def drawn(chart, labels=()):
    return ElementTree.fromstring(inline_svg(chart, "name", dict.fromkeys(labels, "read out")))


def test_ends_of_a_scale_are_ends_of_the_drawing():
    linear, log = Scale(2.0, 4.0, 10.0, 110.0), Scale(0.01, 1.0, 100.0, 0.0, log=True)
    assert linear.at(np.array([2.0, 3.0, 4.0])).tolist() == [10.0, 60.0, 110.0]
    assert log.at(np.array([0.01, 0.1, 1.0])) == pytest.approx([100.0, 50.0, 0.0])


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_ticks_lie_inside_and_are_few_and_evenly_spaced(low, span):
    assume(span > 1e-6 * abs(low))
    ticks = linear_ticks(low, low + span)
    assert 1 <= len(ticks) <= 8
    assert all(low - 1e-6 * span <= tick <= low + 1.000001 * span for tick in ticks)
    if len(ticks) > 2 and span > 1e-3 * abs(low):
        assert np.ptp(np.diff(ticks)) <= 1e-6 * span


def test_a_latency_scale_names_round_values_of_each_decade():
    scale = scale_for(Axis("s", log=True), [np.array([0.011, 3.0])], 0.0, 100.0)
    assert scale.log
    assert scale.ticks() == [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0]
    assert [tick_text(value) for value in (0.01, 2.0, 1500.0, 3e7, 0.0)] == ["0.01", "2", "1,500", "3e+07", "0"]


def test_an_interval_that_reaches_below_zero_ends_at_the_frame_of_a_logarithmic_axis():
    error = np.array([[2.0, 0.1], [2.0, 0.1]])
    points = Series("s", POINTS, 0, np.array([1.0, 10.0]), np.array([1.0, 2.0]), error)
    svg = inline_svg(XY(Axis("x", log=True), Axis("y"), (points,)), "name", {})
    assert "nan" not in svg and "inf" not in svg
    lines = [item for item in ElementTree.fromstring(svg).iter("line") if "whisker" in item.get("class")]
    assert next(item.get("x1") for item in lines) == "68"  # the left end of the frame


def test_a_logarithmic_axis_with_a_zero_becomes_linear():
    assert not scale_for(Axis("s", log=True), [np.array([0.0, 3.0])], 0.0, 100.0).log


def test_no_values_at_all_still_have_a_scale():
    assert scale_for(Axis("s"), [np.array([np.nan])], 0.0, 100.0).ticks()


def test_points_of_designs_are_options_with_their_place_and_words():
    tree = drawn(front("front", "d"), ["d", "d2", "d3"])
    options = [item for item in tree.iter() if item.get("role") == "option"]
    assert [item.get("data-design") for item in options] == ["d", "d2", "d3"]
    assert options[0].get("aria-label") == "front: read out"
    assert [item.get("role") for item in tree.iter() if item.get("role") == "listbox"] == ["listbox"]
    places = [float(item.get("data-x")) for item in options]
    shares = np.diff(np.log([0.1, 0.2, 1.5]))  # a logarithmic axis
    assert np.diff(places) / np.ptp(places) == pytest.approx(shares / shares.sum(), abs=2e-3)


def test_a_line_leaves_out_what_is_not_finite():
    y = np.array([1.0, np.nan, 3.0])
    tree = drawn(XY(Axis("x"), Axis("y"), (Series("s", LINE, 0, np.arange(3.0), y),)))
    [line] = [item.get("d") for item in tree.iter("path")]
    assert len(re.findall("[ML]", line)) == 2


def test_the_length_of_a_bar_is_its_value():
    tree = drawn(bars("b"))
    widths = [float(item.get("width")) for item in tree.iter("rect") if item.get("height") == "13"]
    assert widths[0] / widths[1] == pytest.approx(0.5 / 0.4, rel=0.01)


@pytest.mark.parametrize("kind", sorted(charts("A")))
def test_every_drawing_is_well_formed_and_has_a_name(kind):
    names = ["<&\"'>"] if kind == "front" else []
    tree = drawn(charts("<&\"'>")[kind], names)
    assert tree.get("aria-label") == "name"
    assert tree.get("role") == ("group" if names else "img")
