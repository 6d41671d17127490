"""Bars, heat maps and the package as inline drawings."""

from __future__ import annotations

import math
from html import escape

import numpy as np

from hydra_dse.report.charts import Bar, BarRow, Bars, HeatMap, Package, Tile
from hydra_dse.report.screen.elements import element, line, rectangle, shortened, text
from hydra_dse.report.screen.frame import BOTTOM, CHARACTER, INK, RIGHT, TOP, WIDTH, Key, axes, drawing, legend
from hydra_dse.report.screen.scales import Scale, scale_for

_THICK, _GAP = 15.0, 11.0
_STRONGEST = 0.5
"""Of a heat map's shade: text on it stays readable in both themes."""


def draw_bars(chart: Bars, name: str) -> str:
    """Horizontal bars, the first row on top."""
    groups = {bar.group: bar.colour for row in chart.rows for bar in row.bars if bar.group}
    left = 20.0 + CHARACTER * min(28, max((len(row.label) for row in chart.rows), default=0))
    keys, key_height = legend([Key(group, colour, "bar") for group, colour in groups.items()], 12.0, 4.0, WIDTH - 24)
    top = TOP + key_height
    heights = [_GAP + _THICK * max(1, len(row.bars)) for row in chart.rows]
    bottom = top + sum(heights)
    noted = CHARACTER * max((len(row.note) for row in chart.rows), default=0)
    ends = [np.array([bar.start, bar.end, bar.low, bar.high]) for row in chart.rows for bar in row.bars]
    across = scale_for(chart.axis, ends, left, WIDTH - RIGHT - noted - (8 if noted else 0), zero=True)
    parts = [axes(chart.axis, None, across, Scale(0, 1, bottom, top)) if chart.rows else ""]
    y = top
    for row, height in zip(chart.rows, heights, strict=True):
        parts.append(_row(row, y + _GAP / 2, left, across))
        y += height
    return drawing(keys + "".join(parts), WIDTH, bottom + BOTTOM, name)


def _row(row: BarRow, y: float, left: float, across: Scale) -> str:
    middle = y + _THICK * max(1, len(row.bars)) / 2 + 4
    parts = [text((left - 8, middle), shortened(row.label), anchor="end")]
    furthest = across.place(max(across.low, 0.0))
    for index, bar in enumerate(row.bars):
        top = y + _THICK * index
        if math.isfinite(bar.start) and math.isfinite(bar.end):
            parts.append(_bar(bar, top, across))
            ends = [across.place(value) for value in (bar.start, bar.end, bar.high) if math.isfinite(value)]
            furthest = max(furthest, *ends)
    if row.note:
        parts.append(text((furthest + 6, middle), row.note))
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
    left = 20.0 + CHARACTER * min(28, max((len(row) for row in chart.rows), default=0))
    slanted = max((len(column) for column in chart.columns), default=0) * CHARACTER > 70
    head = 16.0 + (0.75 * CHARACTER * min(28, max(len(column) for column in chart.columns)) if slanted else 0.0)
    width = max(46.0, min(110.0, (WIDTH - left - RIGHT) / max(1, len(chart.columns))))
    parts = []
    for index, column in enumerate(chart.columns):
        x = left + width * (index + 0.5)
        turn = {"transform": f"rotate(-40 {x:.1f} {head:.1f})"} if slanted else {}
        parts.append(text((x, head), shortened(column), anchor="start" if slanted else "middle", **turn))
    for number, row in enumerate(chart.rows):
        y = head + 8 + 28.0 * number
        parts.append(text((left - 8, y + 18), shortened(row), anchor="end"))
        for index, words in enumerate(chart.texts[number]):
            x = left + width * index
            shade = _shade(float(chart.values[number, index]), chart)
            parts.append(rectangle(x + 1, y + 1, width - 2, 26, "c0 fill", fill_opacity=f"{shade:.2f}"))
            parts.append(text((x + width / 2, y + 18), words, anchor="middle"))
    bottom = head + 8 + 28.0 * len(chart.rows)
    parts.append(text((left, bottom + 20), chart.label, "label"))
    extra = 0.6 * CHARACTER * 28 if slanted else 0.0
    return drawing("".join(parts), max(WIDTH, left + width * len(chart.columns) + extra), bottom + 32, name)


def _shade(value: float, chart: HeatMap) -> float:
    if not math.isfinite(value) or chart.high <= chart.low:
        return 0.0
    return _STRONGEST * min(max((value - chart.low) / (chart.high - chart.low), 0.0), 1.0)


def draw_package(chart: Package, name: str) -> str:
    """The package from above: tiles by group, links the darker and wider the more they carry."""
    x0 = min(tile.x_mm - tile.width_mm / 2 for tile in chart.tiles)
    x1 = max(tile.x_mm + tile.width_mm / 2 for tile in chart.tiles)
    y0 = min(tile.y_mm - tile.height_mm / 2 for tile in chart.tiles)
    y1 = max(tile.y_mm + tile.height_mm / 2 for tile in chart.tiles)
    scale = (WIDTH - 24) / max(x1 - x0, (y1 - y0) * 0.9)
    keys = [Key(group, colour, "bar") for group, colour in chart.groups.items()]
    keys += [Key("link: the wider, the more it carries", INK, "line")] if chart.wires else []
    words, key_height = legend(keys, 12.0, 4.0, WIDTH - 24)
    top = TOP + key_height

    def at(x_mm: float, y_mm: float) -> tuple[float, float]:
        return 12 + (x_mm - x0) * scale, top + (y1 - y_mm) * scale

    parts = [_tile(tile, chart.groups[tile.group], at(tile.x_mm, tile.y_mm), scale) for tile in chart.tiles]
    for wire in sorted(chart.wires, key=lambda found: found.load):
        thick = f"{0.7 + 6 * wire.load:.1f}"
        strong = f"{0.25 + 0.75 * wire.load:.2f}"
        drawn = line(at(*wire.start), at(*wire.end), "ink wire", stroke_width=thick, stroke_opacity=strong)
        parts.append(element("g", element("title", escape(wire.note)) + drawn) if wire.note else drawn)
    parts += [_tile_words(tile, at(tile.x_mm, tile.y_mm), scale) for tile in chart.tiles]
    size = f"{x1 - x0:.1f} mm × {y1 - y0:.1f} mm"
    height = top + (y1 - y0) * scale + 26
    parts.append(text((12, height - 8), size, "label"))
    return drawing(words + "".join(parts), WIDTH, height, name)


def _tile(tile: Tile, colour: int, centre: tuple[float, float], scale: float) -> str:
    width, height = 0.9 * tile.width_mm * scale, 0.9 * tile.height_mm * scale
    x, y = centre[0] - width / 2, centre[1] - height / 2
    about = element("title", _title(tile))
    return element("rect", about, x=x, y=y, width=width, height=height, rx=3.0, class_=f"c{colour} fill tile")


def _title(tile: Tile) -> str:
    return escape(f"{tile.label} {tile.note}".strip())


def _tile_words(tile: Tile, centre: tuple[float, float], scale: float) -> str:
    width, height = 0.9 * tile.width_mm * scale, 0.9 * tile.height_mm * scale
    most = max(2, int(width / CHARACTER))
    x, y = centre[0] - width / 2 + 4, centre[1] - height / 2 + 13
    words = text((x, y), shortened(tile.label, most), "halo")
    if tile.note:
        words += text((x, y + height - 18), shortened(tile.note, most), "halo small")
    return words
