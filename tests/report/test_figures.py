"""Figures of paper quality: the same data give the same bytes; what is drawn is the data."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from hydra_dse.report.charts import COLOURS, LINE, XY, Axis, HeatMap, Rule, Series, errors_of
from hydra_dse.report.cycles import over_cycles
from hydra_dse.report.figures import bars_figure, figure_of, heat_figure, image_bytes, xy_figure
from hydra_dse.report.style import COLOUR_OF

from .samples import bars, charts, errors, front, heat, package


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(charts("A")))
def test_a_figure_drawn_twice_has_the_same_bytes(kind):
    for form, start in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        first, second = (image_bytes(figure_of(charts("A")[kind]), form) for _ in range(2))
        assert first.startswith(start)
        assert first == second


def test_a_latency_axis_has_plain_numbers_and_the_unit():
    figure = xy_figure(front())
    figure.canvas.draw()
    axes = figure.axes[0]
    assert axes.get_xscale() == "log" and axes.get_yscale() == "linear"
    labels = [label.get_text() for label in axes.get_xticklabels() if label.get_text()]
    assert {"0.1", "0.2", "0.5", "1"} <= set(labels)
    assert axes.get_xlabel() == "TTFT mean [s]"


def test_names_on_an_axis_run_from_the_top():
    axes = xy_figure(errors("m")).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["m", "m 2"]
    assert axes.yaxis_inverted()


def test_a_missing_value_leaves_its_bar_out():
    widths = [patch.get_width() for patch in bars_figure(bars()).axes[0].patches]
    assert widths == [0.5, 0.0, pytest.approx(0.4)]


def test_a_heat_map_writes_every_value_that_is_known():
    texts = [text.get_text() for text in heat_figure(heat("m")).axes[0].texts]
    assert texts == ["0.90", "", "0.50", "m"]


def test_a_floorplan_has_every_tile_and_the_names_of_its_groups():
    axes = figure_of(package("<b>")).axes[0]
    assert len(axes.patches) == 2
    assert [text.get_text() for text in axes.get_legend().get_texts()][:2] == ["A", "<b>"]


def test_names_are_escaped_in_vector_figures():
    for chart in charts("<b>").values():
        assert b"<b>" not in image_bytes(figure_of(chart), "svg")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["$x", "$\\frac$", "_^{"])
def test_a_dollar_in_a_name_begins_no_formula(name):
    for chart in charts(name).values():
        assert image_bytes(figure_of(chart), "svg").count(name.encode()) >= 1


def test_an_interval_that_is_unknown_has_no_length():
    found = errors_of(np.array([1.0, 2.0]), np.array([0.5, np.nan]), np.array([2.0, np.nan]))
    assert found.tolist() == [[0.5, 0.0], [1.0, 0.0]]


def test_every_place_of_the_palette_has_its_own_colour():
    assert len(set(COLOUR_OF)) == COLOURS


def test_a_narrow_range_of_latencies_is_drawn_on_a_linear_axis_that_has_marks():
    x, y = np.array([0.016, 0.02, 0.023]), np.array([0.1, 0.5, 0.9])
    figure = xy_figure(XY(Axis("TPOT [s]", log=True), Axis("share [1]"), (Series("", LINE, 0, x, y),)))
    figure.canvas.draw()
    axes = figure.axes[0]
    assert axes.get_xscale() == "linear"
    inside = [at for at in axes.get_xticks() if axes.get_xlim()[0] <= at <= axes.get_xlim()[1]]
    assert len(inside) >= 3


@pytest.mark.parametrize("letters", [5, 30, 60])
def test_a_legend_stays_inside_the_figure_however_long_its_labels(letters):
    x = np.array([1.0, 2.0])
    series = tuple(
        Series(("estimated designs of a front " * 3)[:letters] + str(number), LINE, number, x, x) for number in range(4)
    )
    figure = xy_figure(XY(Axis("x"), Axis("y"), series))
    figure.canvas.draw()
    assert figure.axes[0].get_legend().get_window_extent().x1 <= figure.bbox.x1


def test_the_label_of_a_heat_map_is_not_cut_off():
    label = "retained share of all metrics, the least of them [1]"
    figure = figure_of(HeatMap(("all",), ("a", "worst"), np.ones((1, 2)), (("1.00", "1.00"),), label, 0.0, 1.0))
    figure.canvas.draw()
    box = next(text for text in figure.texts if text.get_text() == label).get_window_extent()
    assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1


def test_the_words_of_a_rule_stay_inside_the_axes():
    rules = (Rule("baseline", "x", 1.0), Rule("service level", "y", 1.0))
    x = Series("s", LINE, 0, np.array([1.0, 3.0]), np.array([0.0, 2.0]))
    axes = xy_figure(XY(Axis("ratio [1]"), Axis("y"), (x,), rules)).axes[0]
    axes.figure.canvas.draw()
    words = {text.get_text(): text.get_window_extent() for text in axes.texts}
    line = axes.transData.transform((1.0, 1.0))
    assert set(words) == {"baseline", "service level"}
    assert words["baseline"].x0 >= axes.bbox.x0 and words["baseline"].x1 <= line[0]
    assert words["service level"].y0 >= line[1]
    assert all(box.y0 >= axes.bbox.y0 and box.y1 <= axes.bbox.y1 for box in words.values())


def test_ticks_of_small_numbers_do_not_run_into_each_other():
    x = np.array([0.00740, 0.00775])
    figure = xy_figure(XY(Axis("estimated TPOT [s]"), Axis("y"), (Series("", LINE, 0, x, x),)))
    figure.canvas.draw()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_xticklabels()]
    assert len(boxes) >= 3
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


def test_a_long_label_beside_an_axis_stays_inside_the_figure():
    label = "throughput per package cost [tokens/s/USD]"
    x = np.array([1.0, 2.0])
    figure = xy_figure(XY(Axis("x"), Axis(label), tuple(Series(str(n), LINE, 0, x, x) for n in range(7))))
    figure.canvas.draw()
    box = figure.axes[0].yaxis.label.get_window_extent()
    assert figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1


def test_a_share_on_paper_ends_a_little_beyond_one():
    ones = np.array([1.0, 1.0])
    axes = xy_figure(XY(Axis("x"), Axis("share", share=True), (Series("", LINE, 0, np.arange(2.0), ones),))).axes[0]
    assert axes.get_ylim()[1] == pytest.approx(1.02)


def test_a_line_for_every_task_map_keeps_shares_within_one_and_has_a_colour_however_many_there_are():
    found = {f"map {place}": [(50.0, 0.9, 0.8, 1.3), (10.0, 0.5, -0.2, 0.6)] for place in range(COLOURS + 1)}
    chart = over_cycles("slo_attainment", found)
    first, last = chart.series[0], chart.series[-1]
    assert first.x.tolist() == [10.0, 50.0] and first.y.tolist() == [0.5, 0.9]
    assert (first.y - first.y_error[0]).tolist() == pytest.approx([0.0, 0.8])
    assert (first.y + first.y_error[1]).tolist() == pytest.approx([0.6, 1.0])
    assert last.colour == first.colour and chart.x.label == "length of the cycle of shifts [s]"
