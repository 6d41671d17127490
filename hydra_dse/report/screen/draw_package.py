"""The package from above as an inline drawing; its tiles and links can be reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hydra_dse.report.charts import Package, Tile, Wire
from hydra_dse.report.screen.elements import line, rectangle, text
from hydra_dse.report.screen.frame import INK, TOP, WIDTH, Key, drawing, legend
from hydra_dse.report.screen.letters import SIZE, fitted
from hydra_dse.report.screen.marks import mark, marks, silent

WIDE = 2 * WIDTH
MOST_ACROSS = 6.5
"""Tiles beside each other whose words fit into a drawing of the usual width."""
_MARGIN, _FILLED = 12.0, 0.9
_NOTE_SIZE = 9.5
Place = Callable[[float, float], tuple[float, float]]


def is_wide(chart: Package) -> bool:
    """Whether the drawing takes the width of the page."""
    return chart.tiles_across > MOST_ACROSS


def draw_package(chart: Package, name: str) -> str:
    """Tiles by group, links the darker and wider the more they carry."""
    edge = chart.extent_mm
    across, up = edge.right_mm - edge.left_mm, edge.top_mm - edge.bottom_mm
    width = WIDE if is_wide(chart) else WIDTH
    scale = (width - 2 * _MARGIN) / max(across, up * 0.9)
    keys = [Key(group, colour, "bar") for group, colour in chart.groups.items()]
    keys += [Key("link: the wider, the more it carries", INK, "line")] if chart.wires else []
    words, key_height = legend(keys, _MARGIN, 4.0, width - 2 * _MARGIN)
    top = TOP + key_height

    def at(x_mm: float, y_mm: float) -> tuple[float, float]:
        return _MARGIN + (x_mm - edge.left_mm) * scale, top + (edge.top_mm - y_mm) * scale

    edges = "".join(
        rectangle(*at(found.left_mm, found.top_mm), (found.right_mm - found.left_mm) * scale,
                  (found.top_mm - found.bottom_mm) * scale, "outline")
        for found in chart.outlines
    )  # fmt: skip
    height = top + up * scale + 26
    size = silent(text((_MARGIN, height - 8), f"{across:.1f} mm × {up:.1f} mm", "label"))
    body = words + edges + marks(_tiles(chart, at, scale), f"Tiles of: {name}")
    body += marks(_wires(chart.wires, at), f"Links of: {name}")
    body += silent("".join(_tile_words(tile, at(tile.x_mm, tile.y_mm), scale) for tile in chart.tiles)) + size
    return drawing(body, width, height, name, "group" if chart.tiles else "img")


def _tiles(chart: Package, at: Place, scale: float) -> list[str]:
    """Tiles in the order of reading: from the top, each row from the left."""
    ordered = sorted(chart.tiles, key=lambda tile: (-round(tile.y_mm, 3), tile.x_mm))
    parts = []
    for place, tile in enumerate(ordered):
        width, height = _FILLED * tile.width_mm * scale, _FILLED * tile.height_mm * scale
        x, y = at(tile.x_mm, tile.y_mm)
        kind = f"c{chart.groups[tile.group]} fill tile"
        drawn = rectangle(x - width / 2, y - height / 2, width, height, kind, rx=3.0)
        parts.append(mark(drawn, tile.words or f"{tile.label} {tile.note}".strip(), place, (x, y)))
    return parts


def _wires(wires: Sequence[Wire], at: Place) -> list[str]:
    """Links, the busiest drawn last and reached first."""
    parts = []
    for place, wire in enumerate(sorted(wires, key=lambda found: found.load)):
        start, end = at(*wire.start), at(*wire.end)
        strong = {"stroke_width": f"{0.7 + 6 * wire.load:.1f}", "stroke_opacity": f"{0.25 + 0.75 * wire.load:.2f}"}
        drawn = line(start, end, "ink wire", **strong)
        if wire.note:
            middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
            # A line of a hair's width is hard to hit.
            drawn = mark(line(start, end, "reach") + drawn, wire.note, len(wires) - place, middle)
        parts.append(drawn)
    return parts


def _tile_words(tile: Tile, centre: tuple[float, float], scale: float) -> str:
    width, height = _FILLED * tile.width_mm * scale, _FILLED * tile.height_mm * scale
    x, y = centre[0] - width / 2 + 4, centre[1] - height / 2
    words = text((x, y + SIZE + 1), fitted(tile.label, width - 8), "halo")
    note = fitted(tile.note, width - 6, _NOTE_SIZE)
    if note == tile.note or ", " not in tile.note:
        lines = [note]
    else:  # two lines where one is too narrow
        lines = [fitted(part, width - 6, _NOTE_SIZE) for part in tile.note.split(", ")]
    for place, part in enumerate(reversed(lines)):
        words += text((x, y + height - 5 - 11 * place), part, "halo small") if part else ""
    return words
