"""The frame of a drawing: size, axes with ticks and grid, and its legend; colours come from the style sheet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hydra_dse.report.charts import Axis
from hydra_dse.report.screen.elements import element, line, rectangle, shortened, text
from hydra_dse.report.screen.letters import text_width
from hydra_dse.report.screen.scales import Scale, tick_text

WIDTH, HEIGHT = 560.0, 380.0
LEFT, RIGHT, TOP, BOTTOM = 68.0, 14.0, 12.0, 48.0
LEGEND_LINE = 18.0
INK = -1
"""In place of a colour: that of the text."""


@dataclass(frozen=True)
class Key:
    """An entry of the legend.

    Its sign is `"dot"`, `"square"`, `"line"`, `"dash"`, `"bar"`, `"band"`, `"line dot"` or `"line square"`.
    """

    label: str
    colour: int
    sign: str


def drawing(body: str, width: float, height: float, name: str, role: str = "img") -> str:
    """The drawing with its name for those who cannot see it; `role` is `"group"` where parts of it can be reached."""
    about = {"viewBox": f"0 0 {width:g} {height:g}", "role": role, "aria_label": name, "class_": "drawing"}
    return element("svg", body, **about)


def legend(keys: Sequence[Key], left: float, top: float, width: float) -> tuple[str, float]:
    """The legend in lines of at most `width`; returns it with its height."""
    parts, x, row = [], left, 0
    for key in keys:
        label = shortened(key.label, 44)
        needs = 32.0 + text_width(label)
        if x > left and x + needs > left + width:
            x, row = left, row + 1
        y = top + LEGEND_LINE * row + 8
        parts.append(_sign(key, x, y) + text((x + 18, y + 4), label))
        x += needs
    return element("g", "".join(parts), aria_hidden="true") if parts else "", LEGEND_LINE * (row + 1) if parts else 0.0


def _sign(key: Key, x: float, y: float) -> str:
    colour = "ink" if key.colour == INK else f"c{key.colour}"
    if key.sign == "dot":
        return element("circle", cx=x + 8, cy=y, r=4.0, class_=f"{colour} fill")
    if key.sign in ("square", "bar"):
        return rectangle(x + 3, y - 5, 10, 10, f"{colour} fill")
    if key.sign == "band":
        return rectangle(x + 1, y - 5, 14, 10, f"{colour} fill band")
    kind = "dash" if key.sign == "dash" else ""
    drawn = line((x + 1, y), (x + 15, y), f"{colour} stroke {kind}".strip())
    if key.sign == "line dot":
        drawn += element("circle", cx=x + 8, cy=y, r=3.4, class_=f"{colour} fill")
    return drawn + (rectangle(x + 4.6, y - 3.4, 6.8, 6.8, f"{colour} fill") if key.sign == "line square" else "")


def axes(x: Axis, y: Axis | None, across: Scale, up: Scale) -> str:
    """Grid, ticks and labels of both axes; `up` runs from the bottom to the top; None leaves an axis without values."""
    left, right, bottom, top = across.start, across.end, up.start, up.end
    parts = _across(x, across, bottom, top)
    if y is None:
        parts += line((left, bottom), (left, top), "axis")
    else:
        parts += _upward(y, up, left, right, (bottom + top) / 2)
    return element("g", parts, aria_hidden="true")


def _across(axis: Axis, scale: Scale, bottom: float, top: float) -> str:
    parts = []
    for value, label in _named(axis, scale):
        at = scale.place(value)
        # The last one may not reach over the edge of the drawing, which ends `RIGHT` beyond its frame.
        middle = min(at, scale.end + RIGHT - text_width(label) / 2)
        parts.append(line((at, bottom), (at, top), "grid") + text((middle, bottom + 16), label, anchor="middle"))
    parts.append(line((scale.start, bottom), (scale.end, bottom), "axis"))
    parts.append(text(((scale.start + scale.end) / 2, bottom + 36), axis.label, "label", "middle"))
    return "".join(parts)


def _upward(axis: Axis, scale: Scale, left: float, right: float, middle: float) -> str:
    parts = []
    for value, label in _named(axis, scale):
        at = scale.place(value)
        parts.append(line((left, at), (right, at), "grid") + text((left - 6, at + 4), label, anchor="end"))
    parts.append(line((left, scale.start), (left, scale.end), "axis"))
    if axis.label:
        turn = f"rotate(-90 14 {middle:.1f})"
        parts.append(text((14, middle), axis.label, "label", "middle", transform=turn))
    return "".join(parts)


def _named(axis: Axis, scale: Scale) -> list[tuple[float, str]]:
    if axis.names:
        return [(float(index), shortened(name)) for index, name in enumerate(axis.names)]
    return [(value, tick_text(value)) for value in scale.ticks()]
