"""Inline drawings: places are the values, ticks are round, points can be selected."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hydra_dse.report.charts import (
    LINE,
    LINE_POINTS,
    POINTS,
    XY,
    Axis,
    Bar,
    BarRow,
    Bars,
    Outline,
    Package,
    Series,
    Tile,
    Wire,
)
from hydra_dse.report.screen import inline_svg, is_wide
from hydra_dse.report.screen.letters import fitted, text_width
from hydra_dse.report.screen.scales import Scale, linear_ticks, scale_for, tick_text

from .samples import bars, charts, front, heat


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
    assert tree.get("role") == ("img" if kind == "errors" else "group")  # parts of the others can be reached


def marks(tree, group: str) -> list[dict[str, str]]:
    [found] = [item for item in tree.iter("g") if item.get("aria-label") == group]
    return sorted((item.attrib for item in found.iter("g") if item.get("class") == "mark"), key=by_order)


def by_order(about: dict[str, str]) -> int:
    return int(about["data-order"])


def test_tiles_are_reached_in_the_order_of_reading_and_links_the_busiest_first():
    places = [(15.0, 5.0), (5.0, 15.0), (15.0, 15.0), (5.0, 5.0)]
    tiles = tuple(Tile(x, y, 10.0, 10.0, "A", "A", "5 %", f"at {x:g}, {y:g}") for x, y in places)
    wires = tuple(Wire((5.0, 5.0), (15.0, 5.0), load, f"load {load:g}") for load in (0.5, 1.0, 0.1))
    tree = drawn(Package(tiles, wires))
    assert [about["aria-label"] for about in marks(tree, "Tiles of: name")] == [
        "at 5, 15", "at 15, 15", "at 5, 5", "at 15, 5",
    ]  # fmt: skip
    assert [about["aria-label"] for about in marks(tree, "Links of: name")] == ["load 1", "load 0.5", "load 0.1"]
    upper, lower = (float(marks(tree, "Tiles of: name")[place]["data-y"]) for place in (0, 2))
    assert upper < lower


def test_cells_and_rows_say_their_names_and_values():
    cells = [about["aria-label"] for about in marks(drawn(heat("m")), "Cells of: name")]
    assert cells == ["m, m: 0.90", "m, m 2: no value", "m 2, m: 0.50", "m 2, m 2: m"]
    rows = [about["aria-label"] for about in marks(drawn(bars("b")), "Rows of: name")]
    assert rows == ["b: b, b 2, b", "b: b 0.500 to 0.900"]


def test_a_package_of_many_tiles_is_drawn_wide_with_the_edges_of_packages():
    tiles = tuple(Tile(5.0 + 10.0 * place, 5.0, 10.0, 10.0, "A", "A") for place in range(8))
    tree = drawn(Package(tiles, (), (Outline(0.0, 0.0, 40.0, 10.0), Outline(40.0, 0.0, 80.0, 10.0))))
    assert tree.get("viewBox").split()[2] == "1120"
    edges = [item for item in tree.iter("rect") if item.get("class") == "outline"]
    places = [float(edge.get(name)) for edge in edges for name in ("x", "width")]
    assert places == pytest.approx([12.0, 548.0, 560.0, 548.0])
    assert not is_wide(Package(tiles[:6], ()))


@given(st.text(max_size=40), st.floats(10.0, 300.0))
def test_words_are_cut_to_the_room_that_they_have(words, width):
    kept = fitted(words, width)
    assert text_width(kept) <= max(width, text_width(words[:1] + "…"))
    assert kept == words or (kept.endswith("…") and words.startswith(kept[:-1]))


def test_names_of_wide_letters_stay_inside_the_drawing():
    row = BarRow("WWWWWWWWWWWWWWWWWWWWWWWWWWWW", (Bar(0.0, 1.0, 0, ""),))
    [label] = [item for item in drawn(Bars(Axis("x"), (row,))).iter("text") if item.text == row.label]
    assert float(label.get("x")) - text_width(row.label) >= 0.0


def test_an_interval_far_below_its_value_does_not_stretch_a_logarithmic_axis():
    scale = scale_for(Axis("s", log=True), [np.array([0.01, 0.1])], 0.0, 1.0, [np.array([1e-7, 0.3])])
    assert scale.log and 0.01 / 3.0 * 0.5 < scale.low < 0.01 and scale.high > 0.3


def test_an_axis_of_shares_ends_a_little_beyond_one_unless_a_value_lies_there():
    share = Axis("s", share=True)
    assert scale_for(share, [np.array([1.0, 1.0])], 0.0, 1.0).high == pytest.approx(1.02)
    assert scale_for(share, [np.array([0.0, 1.2])], 0.0, 1.0).high > 1.2


def test_points_on_a_line_are_told_apart_in_the_legend():
    x = np.array([1.0, 2.0])
    series = [Series(name, LINE_POINTS, 0, x, x, square=name == "b") for name in ("a", "b")]
    tree = drawn(XY(Axis("x"), Axis("y"), tuple(series)))
    legend = next(item for item in tree.iter("g") if item.get("aria-hidden") == "true")
    assert [len(list(legend.iter(tag))) for tag in ("line", "circle", "rect")] == [2, 1, 1]
