"""Charts as inline SVG, coloured by the page's style sheet (light, dark, print)."""

from __future__ import annotations

from collections.abc import Mapping

from hydra_dse.report.charts import XY, Bars, Chart, HeatMap
from hydra_dse.report.screen.draw_others import draw_bars, draw_heat
from hydra_dse.report.screen.draw_package import draw_package, is_wide
from hydra_dse.report.screen.draw_xy import draw_xy

__all__ = ["inline_svg", "is_wide"]


def inline_svg(chart: Chart, name: str, labels: Mapping[str, str]) -> str:
    """The drawing of a chart; `labels` names the designs that can be selected (see `draw_xy`)."""
    if isinstance(chart, XY):
        return draw_xy(chart, name, labels)
    if isinstance(chart, Bars):
        return draw_bars(chart, name)
    return draw_heat(chart, name) if isinstance(chart, HeatMap) else draw_package(chart, name)
