"""Series over two axes as an inline drawing; points that are designs can be reached by keyboard and selected."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hydra_dse.report.charts import BAND, CLOUD, LINE, LINE_POINTS, POINTS, STEPS, XY, FloatArray, Rule, Series
from hydra_dse.report.screen.elements import dots, element, line, path, rectangle, shortened, text
from hydra_dse.report.screen.frame import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Key, axes, drawing, legend
from hydra_dse.report.screen.letters import text_width
from hydra_dse.report.screen.scales import Scale, scale_for

MOST_DOTS = 2000
LEAST_HEIGHT = 240.0
"""Of a drawing with names beside it."""


def draw_xy(chart: XY, name: str, labels: Mapping[str, str]) -> str:
    """The drawing.

    Args:
        chart: what to draw.
        name: what the drawing is called, for screen readers.
        labels: by design, what is read out where its point is reached; those without one cannot be selected.
    """
    left = max(LEFT, 16.0 + max((text_width(shortened(word)) for word in chart.y.names), default=0.0))
    keys, key_height = legend(_keys(chart), left, 4.0, WIDTH - left - RIGHT)
    top = TOP + key_height
    tall = max(LEAST_HEIGHT, top + BOTTOM + 26.0 * len(chart.y.names)) if chart.y.names else HEIGHT
    across = scale_for(chart.x, _values(chart, "x"), left, WIDTH - RIGHT, _ends(chart, "x"))
    up = scale_for(chart.y, _values(chart, "y"), tall - BOTTOM, top, _ends(chart, "y"))
    if chart.y.names:  # names run from the top downwards
        up = Scale(up.low, up.high, up.end, up.start)
    flat = Scale(up.low, up.high, tall - BOTTOM, top, up.log) if not chart.y.names else up
    frame = axes(chart.x, chart.y, across, flat) if not chart.y.names else _names_frame(chart, across, up, tall)
    lines = "".join(_rule(rule, across, up, tall - BOTTOM, top) for rule in chart.rules)
    still = "".join(_still(series, across, up) for series in chart.series)
    options = "".join(_options(series, across, up, labels) for series in chart.series)
    if options:
        options = element("g", options, role="listbox", aria_label=f"Designs in: {name}", class_="points")
    labels_of = "".join(_rule_label(rule, across, up, tall - BOTTOM) for rule in chart.rules)
    return drawing(keys + frame + lines + still + labels_of + options, WIDTH, tall, name, "group" if options else "img")


def _names_frame(chart: XY, across: Scale, down: Scale, tall: float) -> str:
    upside = Scale(down.high, down.low, tall - BOTTOM, down.start)
    return axes(chart.x, chart.y, across, upside)


def _values(chart: XY, side: str) -> list[FloatArray]:
    """All values of an axis, and the rules on it."""
    found = [(series.x if side == "x" else series.y)[series.known] for series in chart.series]
    return [*found, np.array([rule.value for rule in chart.rules if rule.axis == side])]


def _ends(chart: XY, side: str) -> list[FloatArray]:
    """The ends of all intervals along an axis."""
    found = []
    for series in chart.series:
        known = series.known
        values = (series.x if side == "x" else series.y)[known]
        error = series.x_error if side == "x" else series.y_error
        if error is not None:
            found += [values - error[0][known], values + error[1][known]]
    return found


def _keys(chart: XY) -> list[Key]:
    signs = {LINE: "line", STEPS: "line", BAND: "band"}
    keys = []
    for series in chart.series:
        if series.label and len(series.known):
            point = "square" if series.square else "dot"
            point = f"line {point}" if series.form == LINE_POINTS else point
            sign = "dash" if series.dashed else signs.get(series.form, point)
            keys.append(Key(series.label, series.colour, sign))
    return keys


def _rule(rule: Rule, across: Scale, up: Scale, bottom: float, top: float) -> str:
    if rule.axis == "x":
        at = across.place(rule.value)
        return line((at, bottom), (at, top), "rule")
    at = up.place(rule.value)
    return line((across.start, at), (across.end, at), "rule")


def _rule_label(rule: Rule, across: Scale, up: Scale, bottom: float) -> str:
    """Words along the line, over what is drawn: upwards from the axis, where the next line leaves them room."""
    if rule.axis == "x":
        at = across.place(rule.value) - 5
        return text((at, bottom - 6), rule.label, "note halo", transform=f"rotate(-90 {at:.1f} {bottom - 6:.1f})")
    return text((across.start + 6, up.place(rule.value) - 5), rule.label, "note halo")


def _still(series: Series, across: Scale, up: Scale) -> str:
    """Lines, clouds and points that nobody selects."""
    known = series.known
    x, y = across.at(series.x[known]), up.at(series.y[known])
    colour = f"c{series.colour}"
    parts = []
    if series.form == CLOUD:
        every = max(1, -(-len(x) // MOST_DOTS))
        return element("path", d=dots(x[::every], y[::every]), class_=f"{colour} cloud")
    if series.form == BAND and series.x_error is not None and len(x):
        sides = [series.x[known] - series.x_error[0][known], series.x[known] + series.x_error[1][known]]
        low, high = (across.at(np.maximum(side, across.low)) for side in sides)
        area = path(np.concatenate((low, high[::-1])), np.concatenate((y, y[::-1])))
        return element("path", d=f"{area}Z", class_=f"{colour} fill band")
    if series.form in (LINE, STEPS, LINE_POINTS) and len(x):
        kind = f"{colour} stroke dash" if series.dashed else f"{colour} stroke"
        parts.append(element("path", d=path(x, y, series.form == STEPS), class_=kind))
    if series.form in (POINTS, LINE_POINTS):
        parts.append(_whiskers(series, across, up))
        if not series.designs:
            parts += [_shape(px, py, series) for px, py in zip(x.tolist(), y.tolist(), strict=True)]
    return "".join(parts)


def _whiskers(series: Series, across: Scale, up: Scale) -> str:
    parts = []
    for index in series.known.tolist():
        x, y = float(series.x[index]), float(series.y[index])
        for error, along in ((series.x_error, True), (series.y_error, False)):
            if error is None or not error[:, index].any():
                continue
            value, scale = (x, across) if along else (y, up)
            low = value - float(error[0][index])
            low = scale.low if scale.log and low <= 0 else low
            ends = [scale.place(low), scale.place(value + float(error[1][index]))]
            ends = [min(max(end, min(scale.start, scale.end)), max(scale.start, scale.end)) for end in ends]
            px, py = across.place(x), up.place(y)
            start, end = ((ends[0], py), (ends[1], py)) if along else ((px, ends[0]), (px, ends[1]))
            parts.append(line(start, end, f"c{series.colour} whisker"))
    return "".join(parts)


def _options(series: Series, across: Scale, up: Scale, labels: Mapping[str, str]) -> str:
    """Points that can be selected: one design each."""
    if not series.designs:
        return ""
    parts = []
    for index in series.known.tolist():
        design = series.designs[index]
        px, py = across.place(float(series.x[index])), up.place(float(series.y[index]))
        shape = _shape(px, py, series)
        if design not in labels:
            parts.append(shape)
            continue
        target = element("circle", cx=px, cy=py, r=11.0, class_="target")
        about = {"role": "option", "tabindex": "-1", "aria_selected": "false", "class_": "pick"}
        about |= {"aria_label": f"{series.label}: {labels[design]}", "data_design": design, "data_x": f"{px:.1f}"}
        parts.append(element("g", target + shape, **about))
    return "".join(parts)


def _shape(x: float, y: float, series: Series) -> str:
    kind = f"c{series.colour} fill dot"
    if series.square:
        return rectangle(x - 4, y - 4, 8, 8, kind)
    return element("circle", cx=x, cy=y, r=4.0, class_=kind)
