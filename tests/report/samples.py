"""One chart of each kind and a whole report, with any text in every place where a user's text may stand."""

from __future__ import annotations

import numpy as np

from hydra_dse.report.charts import (
    BAND,
    CLOUD,
    LINE_POINTS,
    POINTS,
    XY,
    Axis,
    Bar,
    BarRow,
    Bars,
    Chart,
    HeatMap,
    Package,
    Plot,
    Rule,
    Series,
    Tile,
    Wire,
)
from hydra_dse.report.records import Detail, Report, Section, Table


def front(text: str = "front", design: str = "d") -> XY:
    x, y = np.array([0.1, 0.2, 1.5]), np.array([900.0, 1000.0, 2000.0])
    error = np.full((2, 3), 0.01)
    return XY(
        Axis("TTFT mean [s]", log=True),
        Axis("saturation [tokens/s]"),
        (
            Series(text, CLOUD, 7, x, y),
            Series(text, LINE_POINTS, 0, x, y, designs=(design, f"{design}2", f"{design}3")),
            Series(text, POINTS, 3, x, y, error, 100 * error, square=True),
            Series(f"{text} band", BAND, 3, x, y, error),
        ),
        (Rule(text, "y", 1500.0), Rule(text, "x", 0.5)),
    )


def errors(text: str = "metric") -> XY:
    series = Series(text, POINTS, 0, np.array([-5.0, 8.0]), np.array([0.0, 1.0]))
    return XY(Axis("error [%]"), Axis("", names=(text, f"{text} 2")), (series,))


def bars(text: str = "bar") -> Bars:
    two = (Bar(0.0, 0.5, 0, text, 0.4, 0.6), Bar(0.0, float("nan"), 1, f"{text} 2"))
    return Bars(Axis("share [1]"), (BarRow(text, two, text), BarRow(text, (Bar(0.5, 0.9, 0, text),))))


def heat(text: str = "model") -> HeatMap:
    values = np.array([[0.9, float("nan")], [0.5, 1.0]])
    return HeatMap((text, f"{text} 2"), (text, f"{text} 2"), values, (("0.90", ""), ("0.50", text)), text, 0.0, 1.0)


def package(text: str = "A") -> Package:
    tiles = tuple(Tile(x, 5.0, 10.0, 10.0, name, name, text) for x, name in ((5.0, "A"), (15.0, text)))
    return Package(tiles, (Wire((5.0, 5.0), (15.0, 5.0), 1.0),))


def charts(text: str) -> dict[str, Chart]:
    return {
        "front": front(text, text), "errors": errors(text), "bars": bars(text), "heat": heat(text),
        "package": package(text),
    }  # fmt: skip


def report(text: str) -> Report:
    plots = tuple(
        Plot(stem, text, text, chart, ("design", text), [(text, 1.5), (text, float("nan"))])
        for stem, chart in charts(text).items()
    )
    designs = Table(
        text, ["design", text], [[text, text], ["b", "2"]], 1, designs=[text, "b"], order=[["", text], ["", 2]]
    )
    plain = Table(text, [text, "x"], [[text, text]], wrap_last=True)
    detail = Detail(text, text, ((text, text),), ((text, text, text, text, text),))
    sections = (
        Section("front", (text,), plots, (designs,), explorer=True),
        Section(f"more {text}", (text,), (), (plain,), choices=(Section(text, (text,), (), (plain,)),)),
        Section(f"none {text}", absent=text),
    )
    return Report(text, text, sections, (detail,), text)
