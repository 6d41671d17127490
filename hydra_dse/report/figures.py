"""Figures of a run, drawn with matplotlib's object interface (no global state), at paper quality.

Colours are those of Okabe and Ito (2008), which colour-blind readers can tell apart.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hydra_dse.results import metric

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.text import Text

FloatArray = NDArray[np.float64]
BLUE, ORANGE, GREEN, RED, GREY, PURPLE, SKY, YELLOW = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#7F7F7F", "#CC79A7", "#56B4E9", "#F0E442",
)  # fmt: skip
LOADS = ((1.0, "busiest link"), (0.5, "half of its load"), (0.1, "a tenth of it"))
_WIDTH_IN, _HEIGHT_IN = 6.4, 4.2


@dataclass(frozen=True)
class Points:
    """Values of two metrics for some designs; `x_error` and `y_error` are (2, n) distances to a CI, or None."""

    label: str
    x: FloatArray
    y: FloatArray
    x_error: FloatArray | None = None
    y_error: FloatArray | None = None


@dataclass(frozen=True)
class Tile:
    """A slot of the floorplan: centre and size in mm, what sits there, and its group (for the colour)."""

    x_mm: float
    y_mm: float
    width_mm: float
    height_mm: float
    label: str
    group: str


@dataclass(frozen=True)
class Wire:
    """A link of the floorplan from slot centre to slot centre with its load (1 = the most loaded link)."""

    start: tuple[float, float]
    end: tuple[float, float]
    load: float


def new_figure(width_in: float = _WIDTH_IN, height_in: float = _HEIGHT_IN) -> tuple[Figure, Axes]:
    """Return an empty figure and its axes in the style of all our figures."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), layout="constrained", dpi=160)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, linewidth=0.4, alpha=0.4)
    axes.tick_params(labelsize=9)
    return figure, axes


def axis_label(name: str) -> str:
    """Short label of a metric with its unit."""
    found = metric(name)
    return f"{found.label} [{found.unit}]"


def front_figure(x_name: str, y_name: str, clouds: Sequence[Points], front: Points, simulated: Points | None) -> Figure:
    """All scored designs, the estimated front, and the simulated designs with their confidence intervals."""
    figure, axes = new_figure()
    for cloud in clouds:
        axes.scatter(cloud.x, cloud.y, s=9, color=GREY, alpha=0.45, linewidths=0, label=cloud.label, rasterized=True)
    order = np.argsort(front.x)
    axes.plot(front.x[order], front.y[order], "o-", color=BLUE, ms=3.5, lw=1.0, label=front.label)
    if simulated is not None and len(simulated.x):
        axes.errorbar(
            simulated.x, simulated.y, xerr=simulated.x_error, yerr=simulated.y_error, fmt="s", ms=4.5,
            color=RED, ecolor=RED, elinewidth=0.9, capsize=2, label=simulated.label, zorder=4,
        )  # fmt: skip
    for name, axis, set_scale in ((x_name, axes.xaxis, axes.set_xscale), (y_name, axes.yaxis, axes.set_yscale)):
        if metric(name).unit == "s":
            set_scale("log")
            _plain_ticks(axis)
    axes.set_xlabel(axis_label(x_name))
    axes.set_ylabel(axis_label(y_name))
    axes.legend(fontsize=8, frameon=False, markerscale=1.5)
    return figure


def _plain_ticks(axis: Axis) -> None:
    """Plain numbers at 1, 2 and 5 of each decade of a logarithmic axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def parity_figure(name: str, estimate: FloatArray, simulated: FloatArray, error: FloatArray) -> Figure:
    """Simulated value against estimate with the identity line and a band of ±10 %; `error` is (2, n)."""
    figure, axes = new_figure()
    values = np.concatenate((estimate, simulated - error[0], simulated + error[1]))
    margin = 0.06 * float(np.ptp(values)) + 0.01 * float(np.abs(values).max())
    low, high = float(values.min()) - margin, float(values.max()) + margin
    line = np.array([low, high])
    axes.fill_between(line, 0.9 * line, 1.1 * line, color=GREY, alpha=0.15, linewidth=0, label="±10 %")
    axes.plot(line, line, color=GREY, lw=0.8)
    axes.errorbar(estimate, simulated, yerr=error, fmt="o", ms=4, color=BLUE, elinewidth=0.8, capsize=2)
    axes.set(xlim=(low, high), ylim=(low, high))
    axes.set_aspect("equal")
    axes.set_xlabel(f"estimated {axis_label(name)}")
    axes.set_ylabel(f"simulated {axis_label(name)}")
    axes.legend(fontsize=8, frameon=False, loc="upper left")
    return figure


def shares_figure(labels: Sequence[str], estimated: FloatArray, simulated: FloatArray) -> Figure:
    """Shares between 0 and 1 as pairs of bars; NaN leaves its bar out."""
    figure, axes = new_figure()
    places = np.arange(len(labels), dtype=float)
    both = bool(np.isfinite(simulated).any())
    height = 0.38 if both else 0.6
    axes.barh(places - (height / 2 if both else 0), np.nan_to_num(estimated), height, color=BLUE, label="estimated")
    if both:
        axes.barh(places + height / 2, np.nan_to_num(simulated), height, color=ORANGE, label="simulated")
    axes.set_yticks(places, labels)
    _as_written(axes.get_yticklabels())
    axes.invert_yaxis()
    axes.set_xlim(0.0, 1.0)
    axes.set_xlabel("share of time or of capacity [1]")
    axes.grid(visible=False, axis="y")
    axes.legend(fontsize=8, frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0.0, 1.0))
    return figure


def _as_written(texts: Iterable[Text]) -> None:
    """Names are a user's: a dollar sign in them does not begin a formula."""
    for text in texts:
        text.set_parse_math(False)


def floorplan_figure(tiles: Sequence[Tile], wires: Sequence[Wire]) -> Figure:
    """The package from above: tiles coloured by group, links coloured and widened by load."""
    from matplotlib import colormaps
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle

    figure, axes = new_figure()
    groups = list(dict.fromkeys(tile.group for tile in tiles))
    palette = (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW, GREY, RED)
    colours = {group: palette[index % len(palette)] for index, group in enumerate(groups)}
    for tile in tiles:
        corner = (tile.x_mm - 0.42 * tile.width_mm, tile.y_mm - 0.42 * tile.height_mm)
        axes.add_patch(
            Rectangle(corner, 0.84 * tile.width_mm, 0.84 * tile.height_mm, color=colours[tile.group], alpha=0.35)
        )
        # In a corner, where no link runs.
        at = (tile.x_mm - 0.38 * tile.width_mm, tile.y_mm + 0.37 * tile.height_mm)
        axes.text(*at, tile.label, ha="left", va="top", fontsize=7, zorder=4, parse_math=False)
    heat = colormaps["inferno_r"]

    def line(xs: Sequence[float], ys: Sequence[float], load: float, label: str = "") -> Line2D:
        return Line2D(xs, ys, color=heat(0.15 + 0.8 * load), lw=0.6 + 3.4 * load, zorder=3, label=label)

    for wire in wires:
        axes.add_line(line((wire.start[0], wire.end[0]), (wire.start[1], wire.end[1]), wire.load))
    axes.set_aspect("equal")
    axes.autoscale_view()
    axes.grid(visible=False)
    axes.set_xlabel("x [mm]")
    axes.set_ylabel("y [mm]")
    keys: list[Artist] = [Rectangle((0, 0), 1, 1, color=colours[name], alpha=0.35, label=name) for name in groups]
    keys += [line((), (), load, text) for load, text in LOADS] if wires else []
    legend = axes.legend(
        handles=keys, fontsize=8, frameon=False, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.14)
    )
    _as_written(legend.get_texts())
    return figure


def image_bytes(figure: Figure, kind: str) -> bytes:
    """Render as `"png"` or `"svg"`; the same figure gives the same bytes (no date, fixed ids)."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "hydra-dse", "svg.fonttype": "none"}):
        figure.savefig(buffer, format=kind, metadata={"Date": None} if kind == "svg" else {"Software": None})
    return buffer.getvalue()
