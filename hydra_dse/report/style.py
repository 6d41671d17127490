"""What all figures share: size, grid, and the palette of Okabe and Ito (2008)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, RED, GREY, PURPLE, SKY, YELLOW = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#7F7F7F", "#CC79A7", "#56B4E9", "#F0E442",
)  # fmt: skip
COLOUR_OF = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, YELLOW, GREY)
"""By place in the palette of `charts`."""


COLUMN_IN, PAGE_IN = 3.5, 7.16
"""Widths of a column and of a page of two columns, at which figures are printed as they are."""
SMALL_PT, LABEL_PT = 7.0, 8.0
"""Letters of ticks, legends and notes, and of the labels of axes: nothing is smaller."""


BEHIND_WORDS = {"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 0.6}
"""Of words that something may run through."""


def new_figure(width_in: float = COLUMN_IN, height_in: float = 2.6) -> tuple[Figure, Axes]:
    """Return an empty figure and its axes in the style of all our figures."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), layout="constrained", dpi=160)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[:].set_linewidth(0.6)
    axes.grid(visible=True, linewidth=0.4, alpha=0.4)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", labelsize=SMALL_PT, width=0.6)
    axes.xaxis.label.set_fontsize(LABEL_PT)
    axes.yaxis.label.set_fontsize(LABEL_PT)
    return figure, axes
