"""The floorplan as a figure: tiles by group, links the darker and wider the more they carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hydra_dse.report.charts import Package
from hydra_dse.report.style import BEHIND_WORDS, COLOUR_OF, COLUMN_IN, PAGE_IN, SMALL_PT, new_figure

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

TILES_A_COLUMN = 4.5
"""Tiles beside each other whose letters fit into a column and leave their links to be seen."""
LOADS = ((1.0, "busiest link"), (0.5, "half of its load"), (0.1, "a tenth of it"))


def package_figure(chart: Package) -> Figure:
    """The package from above."""
    from matplotlib.patches import Rectangle

    # As wide as the letters of its smallest tile ask for.
    width_in = PAGE_IN if chart.tiles_across > TILES_A_COLUMN else COLUMN_IN
    edge = chart.extent_mm
    shape = (edge.top_mm - edge.bottom_mm) / (edge.right_mm - edge.left_mm)
    figure, axes = new_figure(width_in, max(1.8, min(7.0, (width_in - 0.6) * shape + 1.0)))
    colours = {name: COLOUR_OF[place] for name, place in chart.groups.items()}
    for tile in chart.tiles:
        corner = (tile.x_mm - 0.42 * tile.width_mm, tile.y_mm - 0.42 * tile.height_mm)
        size = (0.84 * tile.width_mm, 0.84 * tile.height_mm)
        axes.add_patch(Rectangle(corner, *size, color=colours[tile.group], alpha=0.35))
        # In corners, where no link runs.
        left, top = tile.x_mm - 0.38 * tile.width_mm, tile.y_mm + 0.37 * tile.height_mm
        axes.text(left, top, tile.label, ha="left", va="top", fontsize=SMALL_PT, zorder=4, parse_math=False)
        bottom = tile.y_mm - 0.39 * tile.height_mm
        axes.text(
            left, bottom, tile.note.replace(", ", "\n"), ha="left", va="bottom", fontsize=SMALL_PT, zorder=4,
            parse_math=False, bbox=BEHIND_WORDS, linespacing=1.0,
        )  # fmt: skip
    for outline in chart.outlines:
        size = (outline.right_mm - outline.left_mm, outline.top_mm - outline.bottom_mm)
        axes.add_patch(Rectangle((outline.left_mm, outline.bottom_mm), *size, fill=False, lw=0.6, ls=(0, (4, 2))))
    for wire in chart.wires:
        axes.add_line(_line((wire.start[0], wire.end[0]), (wire.start[1], wire.end[1]), wire.load))
    axes.set_aspect("equal")
    axes.autoscale_view()
    axes.grid(visible=False)
    axes.set_xlabel("x [mm]")
    axes.set_ylabel("y [mm]")
    keys: list[Artist] = [Rectangle((0, 0), 1, 1, color=colour, alpha=0.35, label=n) for n, colour in colours.items()]
    keys += [_line((), (), load, words) for load, words in LOADS] if chart.wires else []
    legend = axes.legend(
        handles=keys,
        fontsize=SMALL_PT,
        frameon=False,
        ncols=3,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        handlelength=1.4,
        columnspacing=1.0,
    )
    for found in legend.get_texts():  # names are a user's: a dollar sign begins no formula
        found.set_parse_math(False)
    return figure


def _line(xs: Sequence[float], ys: Sequence[float], load: float, label: str = "") -> Line2D:
    from matplotlib import colormaps
    from matplotlib.lines import Line2D

    return Line2D(xs, ys, color=colormaps["inferno_r"](0.15 + 0.8 * load), lw=0.4 + 2.4 * load, zorder=3, label=label)
