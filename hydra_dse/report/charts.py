"""Charts as data: what is drawn, without how; `screen` draws them for the page and `paper` as PNG and SVG files.

A chart holds plain arrays and texts.  Colours are places in a palette (`BLUE` … `GREY`), which each renderer has in
its own shades.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hydra_dse.results import metric
from hydra_dse.results.metrics import UTILIZATION

FloatArray = NDArray[np.float64]

BLUE, ORANGE, GREEN, RED, PURPLE, SKY, YELLOW, GREY = range(8)
COLOURS = 8
NARROW = 3.0
"""Values that differ by less than this factor are drawn on a linear axis: a logarithmic one lacks marks there."""
BEYOND = 0.02
"""How far an axis of shares reaches beyond 0 and 1."""
POINTS, CLOUD, LINE, STEPS, LINE_POINTS, BAND = "points", "cloud", "line", "steps", "line and points", "band"


@dataclass(frozen=True)
class Axis:
    """An axis: label with unit, logarithmic or not, and for an axis of names what stands at 0, 1, 2 and so on.

    `share` says that no value lies below 0 or above 1, so that the axis ends there.
    """

    label: str
    log: bool = False
    names: tuple[str, ...] = ()
    share: bool = False


@dataclass(frozen=True)
class Series:
    """Points that belong together.

    Attributes:
        form: `POINTS`, `CLOUD` (small, many), `LINE`, `STEPS`, `LINE_POINTS` or `BAND` (the area within `x_error`).
        colour: place in the palette.
        x, y: values, shape (n,); those that are not finite are left out.
        x_error, y_error: distances to the ends of an interval, shape (2, n), or None.
        designs: id of each point, where it is a design that a reader may select.
        dashed: a line that is a reference rather than a result.
        square: squares instead of circles, so that colour alone does not tell.
    """

    label: str
    form: str
    colour: int
    x: FloatArray
    y: FloatArray
    x_error: FloatArray | None = None
    y_error: FloatArray | None = None
    designs: tuple[str, ...] = ()
    dashed: bool = False
    square: bool = False

    @property
    def known(self) -> NDArray[np.intp]:
        """Places of the points that can be drawn."""
        return np.flatnonzero(np.isfinite(self.x) & np.isfinite(self.y))


@dataclass(frozen=True)
class Rule:
    """A line across the chart at a value of one axis (`"x"` or `"y"`), e.g. a service level."""

    label: str
    axis: str
    value: float


@dataclass(frozen=True)
class XY:
    """Series over two axes."""

    x: Axis
    y: Axis
    series: tuple[Series, ...]
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True)
class Bar:
    """From `start` to `end`, in a colour that stands for `group`; `low` and `high` are the ends of an interval."""

    start: float
    end: float
    colour: int
    group: str
    low: float = float("nan")
    high: float = float("nan")


@dataclass(frozen=True)
class BarRow:
    """One name with one or several bars; `note` stands behind the longest."""

    label: str
    bars: tuple[Bar, ...]
    note: str = ""


@dataclass(frozen=True)
class Bars:
    """Horizontal bars, first row on top."""

    axis: Axis
    rows: tuple[BarRow, ...]


@dataclass(frozen=True)
class HeatMap:
    """A matrix of values, shape (rows, columns), each written in its cell by `texts`.

    Attributes:
        low, high: values of the lightest and the strongest shade.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: FloatArray
    texts: tuple[tuple[str, ...], ...]
    label: str
    low: float
    high: float


@dataclass(frozen=True)
class Tile:
    """A slot of the floorplan: centre and size in mm, what sits there, its group (for the colour), and a note.

    `words` say the same as the note at length, for those who reach the tile.
    """

    x_mm: float
    y_mm: float
    width_mm: float
    height_mm: float
    label: str
    group: str
    note: str = ""
    words: str = ""


@dataclass(frozen=True)
class Wire:
    """A link of the floorplan from slot centre to slot centre with its load (1 = the most loaded link), and a note."""

    start: tuple[float, float]
    end: tuple[float, float]
    load: float
    note: str = ""


@dataclass(frozen=True)
class Outline:
    """The edge of one of several packages: its corners in mm."""

    left_mm: float
    bottom_mm: float
    right_mm: float
    top_mm: float


@dataclass(frozen=True)
class Package:
    """The package from above, or several packages beside each other with the outline of each."""

    tiles: tuple[Tile, ...]
    wires: tuple[Wire, ...]
    outlines: tuple[Outline, ...] = ()

    @property
    def extent_mm(self) -> Outline:
        """The edge of all that is drawn."""
        left = [tile.x_mm - tile.width_mm / 2 for tile in self.tiles]
        right = [tile.x_mm + tile.width_mm / 2 for tile in self.tiles]
        bottom = [tile.y_mm - tile.height_mm / 2 for tile in self.tiles]
        top = [tile.y_mm + tile.height_mm / 2 for tile in self.tiles]
        return Outline(
            min([*left, *(outline.left_mm for outline in self.outlines)]),
            min([*bottom, *(outline.bottom_mm for outline in self.outlines)]),
            max([*right, *(outline.right_mm for outline in self.outlines)]),
            max([*top, *(outline.top_mm for outline in self.outlines)]),
        )

    @property
    def tiles_across(self) -> float:
        """Its width in widths of its narrowest tile."""
        return (self.extent_mm.right_mm - self.extent_mm.left_mm) / min(tile.width_mm for tile in self.tiles)

    @property
    def groups(self) -> dict[str, int]:
        """Colour of each group, in order of appearance."""
        names = dict.fromkeys(tile.group for tile in self.tiles)
        return {name: index % COLOURS for index, name in enumerate(names)}


Chart = XY | Bars | HeatMap | Package

SHARES = frozenset({
    "slo_attainment", "hbm_utilization", "noi_utilization_max", "kv_occupancy", "state_occupancy", "prefix_hit_share",
    "prefix_occupancy", "rejected_share",
})  # fmt: skip
"""Metrics that are shares of a whole."""


@dataclass(frozen=True)
class Plot:
    """A figure of the report.

    Attributes:
        stem: of its files.
        title: short; `caption` says what to see.
        columns, rows: the data behind it, as a table.
    """

    stem: str
    title: str
    caption: str
    chart: Chart
    columns: Sequence[str]
    rows: Sequence[Sequence[object]] = field(repr=False)


def axis_of(name: str) -> Axis:
    """The axis of a metric: its short label with the unit; latencies on a logarithmic scale."""
    found = metric(name)
    unit = "" if found.unit == "1" else f" [{found.unit}]"
    share = name in SHARES or name.startswith(UTILIZATION)
    return Axis(f"{found.label}{unit}", log=found.unit == "s", share=share)


def shown_ends(ends: FloatArray, values: FloatArray, log: bool) -> FloatArray:
    """Ends of intervals that an axis makes room for: on a logarithmic one none far below the least of the values."""
    return np.maximum(ends, values.min() / NARROW) if log else ends


def errors_of(middle: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Distances to the ends of intervals, shape (2, n); 0 where there is none."""
    return np.asarray(np.nan_to_num(np.maximum(np.array([middle - low, high - middle]), 0.0)), dtype=np.float64)
