"""Figures: the same data give the same bytes; what is drawn is the data."""

from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.report.figures import (
    Points,
    Tile,
    Wire,
    floorplan_figure,
    front_figure,
    image_bytes,
    parity_figure,
    shares_figure,
)


def front():
    x, y = np.array([0.1, 0.2, 1.5]), np.array([900.0, 1000.0, 2000.0])
    error = np.full((2, 3), 0.01)
    simulated = Points("simulated", x, y, error, 100 * error)
    return front_figure(
        "ttft_mean_s", "saturation_tokens_per_s", [Points("all", x, y)], Points("front", x, y), simulated
    )


def parity():
    values = np.array([0.1, 0.2, 0.3])
    return parity_figure("ttft_mean_s", values, values * 1.1, np.full((2, 3), 0.05))


def shares():
    return shares_figure(["busy A", "HBM busy"], np.array([0.5, 0.9]), np.array([0.4, np.nan]))


def floorplan():
    tiles = [Tile(x, 5.0, 10.0, 10.0, name, name) for x, name in ((5.0, "A"), (15.0, "<b>"))]
    return floorplan_figure(tiles, [Wire((5.0, 5.0), (15.0, 5.0), 1.0)])


@pytest.mark.parametrize("make", [front, parity, shares, floorplan])
@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_a_figure_drawn_twice_has_the_same_bytes(make, kind, start):
    first, second = image_bytes(make(), kind), image_bytes(make(), kind)
    assert first.startswith(start)
    assert first == second


def test_a_latency_axis_has_plain_numbers_and_the_unit():
    figure = front()
    figure.canvas.draw()
    axes = figure.axes[0]
    assert axes.get_xscale() == "log" and axes.get_yscale() == "linear"
    labels = [label.get_text() for label in axes.get_xticklabels() if label.get_text()]
    assert {"0.1", "0.2", "0.5", "1"} <= set(labels)
    assert axes.get_xlabel() == "TTFT mean [s]"


def test_error_bars_lie_inside_a_parity_figure():
    low, high = parity().axes[0].get_ylim()
    assert low < 0.11 - 0.05 and high > 0.33 + 0.05


def test_a_missing_simulation_leaves_its_bar_out():
    widths = [patch.get_width() for patch in shares().axes[0].patches]
    assert widths == [0.5, 0.9, 0.4, 0.0]


def test_a_floorplan_has_every_tile_and_the_names_of_its_groups():
    axes = floorplan().axes[0]
    assert len(axes.patches) == 2
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend[:2] == ["A", "<b>"]


def test_names_are_escaped_in_vector_figures():
    assert b"<b>" not in image_bytes(floorplan(), "svg")


@pytest.mark.parametrize("name", ["$x", "$\\frac$", "a $ b $ c", "_^{"])
def test_a_dollar_in_a_name_begins_no_formula(name):
    tiles = [Tile(5.0, 5.0, 10.0, 10.0, name, name)]
    for figure in (floorplan_figure(tiles, []), shares_figure([name], np.array([0.5]), np.array([0.5]))):
        assert image_bytes(figure, "svg").count(name.encode()) >= 1
