"""Charts as figures of paper quality, drawn with matplotlib's object interface (no global state).

Colours are those of Okabe and Ito (2008), which colour-blind readers can tell apart.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from hydra_dse.report.charts import (
    BAND,
    BEYOND,
    CLOUD,
    LINE,
    LINE_POINTS,
    NARROW,
    POINTS,
    STEPS,
    XY,
    Axis,
    Bars,
    Chart,
    HeatMap,
    Rule,
    Series,
    shown_ends,
)
from hydra_dse.report.package_figure import package_figure
from hydra_dse.report.style import BEHIND_WORDS, COLOUR_OF, COLUMN_IN, LABEL_PT, PAGE_IN, SMALL_PT, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis as Side
    from matplotlib.figure import Figure
    from matplotlib.text import Text

_DPI = 400
_LEGEND_IN = 2.9
"""Width that a legend may take."""
_LETTER_IN = 0.06
"""Mean width of a letter of a tick or a legend."""
_LEGEND_LETTERS = 44
"""Letters on a line of a legend."""
_MOST_TICKS = 6
"""Parts that the ticks divide an axis into: those of small numbers are as long as `0.00740`."""
_LABEL_LETTERS = 32
"""Letters on a line beside an upright axis."""
_LONG = 22
"""Letters of a name beside an axis from which on a figure takes the width of a page."""


def figure_of(chart: Chart) -> Figure:
    """The figure of a chart."""
    if isinstance(chart, XY):
        return xy_figure(chart)
    if isinstance(chart, Bars):
        return bars_figure(chart)
    return heat_figure(chart) if isinstance(chart, HeatMap) else package_figure(chart)


def xy_figure(chart: XY) -> Figure:
    """Series over two axes, with their intervals and the rules across."""
    names = chart.y.names
    figure, axes = new_figure(_width(names), max(1.5, 0.9 + 0.17 * len(names)) if names else 2.6)
    for series in chart.series:
        _draw(axes, series)
    for rule in chart.rules:
        _rule(axes, rule)
    _scale(axes.xaxis, chart.x, [series.x for series in chart.series])
    _scale(axes.yaxis, chart.y, [series.y for series in chart.series])
    if axes.get_xscale() == "linear" and not chart.x.names:
        axes.locator_params(axis="x", nbins=_MOST_TICKS)
    if names:
        axes.set_ylim(len(names) - 0.4, -0.6)
    _legend(axes)
    return figure


def _rule(axes: Axes, rule: Rule) -> None:
    """A line across with its words along it: upwards from the axis, where the next line leaves them room."""
    upright = rule.axis == "x"
    (axes.axvline if upright else axes.axhline)(rule.value, color="black", lw=0.7, ls=(0, (4, 2)))
    if rule.label:
        at, aside = ((rule.value, 0.0), (-1, 3)) if upright else ((0.0, rule.value), (3, 1))
        place = axes.get_xaxis_transform() if upright else axes.get_yaxis_transform()
        words = axes.annotate(
            rule.label, at, aside, xycoords=place, textcoords="offset points", fontsize=SMALL_PT,
            ha="right" if upright else "left", va="bottom", rotation=90 if upright else 0, zorder=4.5,
            bbox=BEHIND_WORDS,
        )  # fmt: skip
        as_written([words])


def _draw(axes: Axes, series: Series) -> None:
    known = series.known
    x, y, colour = series.x[known], series.y[known], COLOUR_OF[series.colour]
    label = series.label or "_nolegend_"
    marker = "s" if series.square else "o"
    if not len(x):
        return
    if series.form == CLOUD:
        axes.scatter(x, y, s=5, color=colour, alpha=0.4, linewidths=0, label=label, rasterized=True)
        return
    if series.form == BAND and series.x_error is not None:
        below, above = series.x_error[:, known]
        axes.fill_betweenx(y, x - below, x + above, color=colour, alpha=0.25, linewidth=0, label=label)
        return
    if series.form in (LINE, STEPS, LINE_POINTS):
        axes.plot(
            x, y, color=colour, lw=0.8 if series.dashed else 1.1, ls=(0, (4, 2)) if series.dashed else "-",
            drawstyle="steps-post" if series.form == STEPS else "default", label=label,
            marker=marker if series.form == LINE_POINTS else None, ms=2.6,
        )  # fmt: skip
        label = "_nolegend_"
    if series.form == POINTS or series.x_error is not None or series.y_error is not None:
        errors = [None if error is None else error[:, known] for error in (series.x_error, series.y_error)]
        axes.errorbar(
            x, y, xerr=errors[0], yerr=errors[1], fmt=marker, ms=3.2, color=colour, ecolor=colour, elinewidth=0.8,
            capsize=1.6, label=label, zorder=4,
        )  # fmt: skip


def _scale(side: Side, axis: Axis, values: Sequence[np.ndarray]) -> None:
    """Label and ticks; logarithmic where asked for and all values are positive."""
    label = axis.label if side is side.axes.xaxis else fill(axis.label, _LABEL_LETTERS)
    side.set_label_text(label, parse_math=False)
    if axis.names:
        side.set_ticks(range(len(axis.names)), list(axis.names))
        as_written(side.get_ticklabels())
        return
    known = np.concatenate([part[np.isfinite(part)] for part in values]) if values else np.zeros(0)
    if axis.log and len(known) and (known > 0).all() and known.max() >= NARROW * known.min():
        from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

        (side.axes.set_xscale if side is side.axes.xaxis else side.axes.set_yscale)("log")
        few = known.max() / known.min() < 100
        side.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
        side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        side.set_minor_formatter(NullFormatter())
        least, most = side.get_view_interval()
        least, most = shown_ends(np.array([least, most]), known, log=True).tolist()
        side.set_view_interval(least, most, ignore=True)
    elif axis.share and len(known):
        least, most = side.get_view_interval()
        bounds = min(known.min(), 0.0) - BEYOND, max(known.max(), 1.0) + BEYOND
        side.set_view_interval(max(least, bounds[0]), min(most, bounds[1]), ignore=True)


def bars_figure(chart: Bars) -> Figure:
    """Horizontal bars, the first row on top."""
    count = sum(max(1, len(row.bars)) for row in chart.rows)
    names = [f"{row.label}{row.note}" for row in chart.rows]
    figure, axes = new_figure(_width(names), max(1.4, 0.8 + 0.13 * count + 0.05 * len(chart.rows)))
    named: set[str] = set()
    for place, row in enumerate(chart.rows):
        thick = 0.76 / max(1, len(row.bars))
        for index, bar in enumerate(row.bars):
            y = place + (index - (len(row.bars) - 1) / 2) * thick
            label = bar.group if bar.group and bar.group not in named else "_nolegend_"
            named.add(bar.group)
            width = np.nan_to_num(bar.end - bar.start)
            axes.barh(y, width, thick, left=np.nan_to_num(bar.start), color=COLOUR_OF[bar.colour], label=label)
            if np.isfinite(bar.low) and np.isfinite(bar.high):
                axes.plot((bar.low, bar.high), (y, y), color="black", lw=0.8, marker="|", ms=3)
        ends = [end for bar in row.bars for end in (bar.start, bar.end, bar.high) if np.isfinite(end)]
        if row.note:
            axes.text(max(ends, default=0.0), place, f"  {row.note}", fontsize=SMALL_PT, va="center", parse_math=False)
    axes.set_yticks(range(len(chart.rows)), [row.label for row in chart.rows])
    as_written(axes.get_yticklabels())
    axes.set_ylim(len(chart.rows) - 0.4, -0.6)
    axes.margins(x=0.12)
    axes.set_xlabel(chart.axis.label, parse_math=False)
    axes.grid(visible=False, axis="y")
    if named - {""}:
        _legend(axes)
    return figure


def heat_figure(chart: HeatMap) -> Figure:
    """A matrix of shaded cells, each with its value."""
    columns, rows = len(chart.columns), len(chart.rows)
    left, below = (_LETTER_IN * max(map(len, names), default=0) for names in (chart.rows, chart.columns))
    width_in = max(COLUMN_IN, 0.6 + left + 0.33 * columns, 0.5 + 1.2 * _LETTER_IN * len(chart.label))
    figure, axes = new_figure(width_in, max(1.6, 0.7 + 0.5 * below + 0.2 * rows))
    axes.imshow(
        np.nan_to_num(chart.values, nan=chart.low), cmap="Blues", vmin=chart.low, vmax=2 * chart.high - chart.low,
        aspect="auto",
    )  # fmt: skip
    for row, texts in enumerate(chart.texts):
        for column, words in enumerate(texts):
            axes.text(column, row, words, ha="center", va="center", fontsize=SMALL_PT, parse_math=False)
    axes.set_xticks(range(columns), list(chart.columns), rotation=30, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(rows), list(chart.rows))
    for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
        as_written(labels)
    # Below the whole figure, which is wider than its cells where their names are long.
    figure.supxlabel(chart.label, fontsize=LABEL_PT, parse_math=False)
    axes.grid(visible=False)
    return figure


def _width(names: Sequence[str]) -> float:
    """A column, or a page where names beside the axis are long."""
    return PAGE_IN if max(map(len, names), default=0) > _LONG else COLUMN_IN


def _legend(axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    labels = [fill(label, _LEGEND_LETTERS) for label in labels]
    if handles:
        legend = axes.legend(
            handles, labels, fontsize=SMALL_PT, frameon=False, ncols=_columns(labels), loc="lower left",
            bbox_to_anchor=(0.0, 1.0), handlelength=1.4, columnspacing=1.0, handletextpad=0.5, borderpad=0.2,
        )  # fmt: skip
        as_written(legend.get_texts())


def _columns(labels: Sequence[str]) -> int:
    """Columns of a legend above the axes: as many as fit beside each other, three at most."""
    widest_in = max(map(len, labels)) * 0.9 * _LETTER_IN + 0.35
    return max(1, min(3, len(labels), int(_LEGEND_IN / widest_in)))


def as_written(texts: Iterable[Text]) -> None:
    """Names are a user's: a dollar sign in them does not begin a formula."""
    for text in texts:
        text.set_parse_math(False)


def image_bytes(figure: Figure, kind: str) -> bytes:
    """Render as `"png"` or `"svg"`; the same figure gives the same bytes (no date, fixed ids)."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "hydra-dse", "svg.fonttype": "none"}):
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(buffer, format=kind, metadata=metadata, dpi=_DPI)
    return buffer.getvalue()
