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

FloatArray = NDArray[np.float64]

BLUE, ORANGE, GREEN, RED, PURPLE, SKY, YELLOW, GREY = range(8)
COLOURS = 8
NARROW = 3.0
"""Values that differ by less than this factor are drawn on a linear axis: a logarithmic one lacks marks there."""
POINTS, CLOUD, LINE, STEPS, LINE_POINTS, BAND = "points", "cloud", "line", "steps", "line and points", "band"


@dataclass(frozen=True)
class Axis:
    """An axis: label with unit, logarithmic or not, and for an axis of names what stands at 0, 1, 2 and so on."""

    label: str
    log: bool = False
    names: tuple[str, ...] = ()


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
    """A slot of the floorplan: centre and size in mm, what sits there, its group (for the colour), and a note."""

    x_mm: float
    y_mm: float
    width_mm: float
    height_mm: float
    label: str
    group: str
    note: str = ""


@dataclass(frozen=True)
class Wire:
    """A link of the floorplan from slot centre to slot centre with its load (1 = the most loaded link), and a note."""

    start: tuple[float, float]
    end: tuple[float, float]
    load: float
    note: str = ""


@dataclass(frozen=True)
class Package:
    """The package from above."""

    tiles: tuple[Tile, ...]
    wires: tuple[Wire, ...]

    @property
    def groups(self) -> dict[str, int]:
        """Colour of each group, in order of appearance."""
        names = dict.fromkeys(tile.group for tile in self.tiles)
        return {name: index % COLOURS for index, name in enumerate(names)}


Chart = XY | Bars | HeatMap | Package


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
    return Axis(f"{found.label}{unit}", log=found.unit == "s")


def errors_of(middle: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Distances to the ends of intervals, shape (2, n); 0 where there is none."""
    return np.asarray(np.nan_to_num(np.maximum(np.array([middle - low, high - middle]), 0.0)), dtype=np.float64)
