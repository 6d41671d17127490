"""Bars and heat maps as inline drawings; their rows and cells can be reached."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from hydra_dse.report.charts import Bar, BarRow, Bars, HeatMap
from hydra_dse.report.screen.elements import line, rectangle, shortened, text
from hydra_dse.report.screen.frame import BOTTOM, RIGHT, TOP, WIDTH, Key, axes, drawing, legend
from hydra_dse.report.screen.letters import text_width
from hydra_dse.report.screen.marks import mark, marks, silent
from hydra_dse.report.screen.scales import Scale, scale_for
from hydra_dse.results.text import number

_THICK, _GAP = 15.0, 11.0
_STRONGEST = 0.5
"""Of a heat map's shade: text on it stays readable in both themes."""


def draw_bars(chart: Bars, name: str) -> str:
    """Horizontal bars, the first row on top."""
    groups = {bar.group: bar.colour for row in chart.rows for bar in row.bars if bar.group}
    left = 20.0 + _widest(shortened(row.label) for row in chart.rows)
    keys, key_height = legend([Key(group, colour, "bar") for group, colour in groups.items()], 12.0, 4.0, WIDTH - 24)
    top = TOP + key_height
    heights = [_GAP + _THICK * max(1, len(row.bars)) for row in chart.rows]
    bottom = top + sum(heights)
    noted = _widest(row.note for row in chart.rows)
    ends = [np.array([bar.start, bar.end, bar.low, bar.high]) for row in chart.rows for bar in row.bars]
    across = scale_for(chart.axis, ends, left, WIDTH - RIGHT - noted - (8 if noted else 0), zero=True)
    parts = [axes(chart.axis, None, across, Scale(0, 1, bottom, top)) if chart.rows else ""]
    y, rows = top, []
    for place, (row, height) in enumerate(zip(chart.rows, heights, strict=True)):
        target = rectangle(0.0, y, WIDTH, height, "reach")
        drawn = target + _row(row, y + _GAP / 2, left, across)
        rows.append(mark(drawn, _row_words(row), place, (left, y + height / 2)))
        y += height
    body = keys + "".join(parts) + marks(rows, f"Rows of: {name}")
    return drawing(body, WIDTH, bottom + BOTTOM, name, "group" if rows else "img")


def _row_words(row: BarRow) -> str:
    """A row as it is read out: its name, its values with their intervals, and its note."""
    if row.note:
        groups = dict.fromkeys(bar.group for bar in row.bars if bar.group)
        return f"{row.label}: {', '.join([*groups, row.note])}"
    values = []
    for bar in row.bars:
        if not (math.isfinite(bar.start) and math.isfinite(bar.end)):
            continue
        value = number(bar.end, 3) if bar.start == 0 else f"{number(bar.start, 3)} to {number(bar.end, 3)}"
        known = math.isfinite(bar.low) and math.isfinite(bar.high)
        interval = f" ({number(bar.low, 3)} to {number(bar.high, 3)})" if known else ""
        values.append(f"{bar.group} {value}{interval}".strip())
    return f"{row.label}: {', '.join(values) or 'no value'}"


def _widest(names: Iterable[str]) -> float:
    return max(map(text_width, names), default=0.0)


def _row(row: BarRow, y: float, left: float, across: Scale) -> str:
    middle = y + _THICK * max(1, len(row.bars)) / 2 + 4
    parts = [silent(text((left - 8, middle), shortened(row.label), anchor="end"))]
    furthest = across.place(max(across.low, 0.0))
    for index, bar in enumerate(row.bars):
        top = y + _THICK * index
        if math.isfinite(bar.start) and math.isfinite(bar.end):
            parts.append(_bar(bar, top, across))
            ends = [across.place(value) for value in (bar.start, bar.end, bar.high) if math.isfinite(value)]
            furthest = max(furthest, *ends)
    if row.note:
        parts.append(silent(text((furthest + 6, middle), row.note)))
    return "".join(parts)


def _bar(bar: Bar, top: float, across: Scale) -> str:
    start, end = sorted((across.place(bar.start), across.place(bar.end)))
    drawn = rectangle(start, top + 1, max(end - start, 1.0), _THICK - 2, f"c{bar.colour} fill")
    if math.isfinite(bar.low) and math.isfinite(bar.high):
        y = top + _THICK / 2
        drawn += line((across.place(bar.low), y), (across.place(bar.high), y), "whisker ink")
    return drawn


def draw_heat(chart: HeatMap, name: str) -> str:
    """A matrix of shaded cells, each with its value."""
    left = 20.0 + _widest(map(shortened, chart.rows))
    widest = _widest(map(shortened, chart.columns))
    slanted = widest > 70
    head = 16.0 + (0.7 * widest if slanted else 0.0)
    width = max(46.0, min(110.0, (WIDTH - left - RIGHT) / max(1, len(chart.columns))))
    parts: list[str] = []
    cells: list[str] = []
    for index, column in enumerate(chart.columns):
        x = left + width * (index + 0.5)
        turn = f"rotate({-40 if slanted else 0} {x:.1f} {head:.1f})"
        parts.append(text((x, head), shortened(column), anchor="start" if slanted else "middle", transform=turn))
    for place, row in enumerate(chart.rows):
        y = head + 8 + 28.0 * place
        parts.append(text((left - 8, y + 18), shortened(row), anchor="end"))
        for index, words in enumerate(chart.texts[place]):
            x = left + width * index
            shade = _shade(float(chart.values[place, index]), chart)
            cell = rectangle(x + 1, y + 1, width - 2, 26, "c0 fill cell", fill_opacity=f"{shade:.2f}")
            cell += silent(text((x + width / 2, y + 18), words, anchor="middle"))
            said = f"{row}, {chart.columns[index]}: {words or 'no value'}"
            cells.append(mark(cell, said, len(cells), (x + width / 2, y + 14)))
    bottom = head + 8 + 28.0 * len(chart.rows)
    parts.append(text((left, bottom + 20), chart.label, "label"))
    extra = 0.8 * text_width(shortened(chart.columns[-1])) if slanted else 0.0
    wide = max(WIDTH, left + width * len(chart.columns) + extra)
    body = silent("".join(parts)) + marks(cells, f"Cells of: {name}")
    return drawing(body, wide, bottom + 32, name, "group" if cells else "img")


def _shade(value: float, chart: HeatMap) -> float:
    if not math.isfinite(value) or chart.high <= chart.low:
        return 0.0
    return _STRONGEST * min(max((value - chart.low) / (chart.high - chart.low), 0.0), 1.0)
