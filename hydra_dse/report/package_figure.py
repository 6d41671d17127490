"""The floorplan as a figure: tiles by group, links the darker and wider the more they carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hydra_dse.report.charts import Package
from hydra_dse.report.style import COLOUR_OF, new_figure

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_PAPER = {"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 0.6}
"""Behind words that a link may run through."""
LOADS = ((1.0, "busiest link"), (0.5, "half of its load"), (0.1, "a tenth of it"))


def package_figure(chart: Package) -> Figure:
    """The package from above."""
    from matplotlib.patches import Rectangle

    figure, axes = new_figure()
    colours = {name: COLOUR_OF[place] for name, place in chart.groups.items()}
    for tile in chart.tiles:
        corner = (tile.x_mm - 0.42 * tile.width_mm, tile.y_mm - 0.42 * tile.height_mm)
        size = (0.84 * tile.width_mm, 0.84 * tile.height_mm)
        axes.add_patch(Rectangle(corner, *size, color=colours[tile.group], alpha=0.35))
        # In corners, where no link runs.
        left, top = tile.x_mm - 0.38 * tile.width_mm, tile.y_mm + 0.37 * tile.height_mm
        axes.text(left, top, tile.label, ha="left", va="top", fontsize=7, zorder=4, parse_math=False)
        bottom = tile.y_mm - 0.39 * tile.height_mm
        axes.text(
            left, bottom, tile.note, ha="left", va="bottom", fontsize=5.5, zorder=4, parse_math=False, bbox=_PAPER
        )
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
        handles=keys, fontsize=8, frameon=False, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.14)
    )
    for found in legend.get_texts():  # names are a user's: a dollar sign begins no formula
        found.set_parse_math(False)
    return figure


def _line(xs: Sequence[float], ys: Sequence[float], load: float, label: str = "") -> Line2D:
    from matplotlib import colormaps
    from matplotlib.lines import Line2D

    return Line2D(xs, ys, color=colormaps["inferno_r"](0.15 + 0.8 * load), lw=0.6 + 3.4 * load, zorder=3, label=label)
