"""The roofline of runs: one roof for each memory level, the peak, and every run under the level that binds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hydra_dse.bench.roofline import Roof, Roofline
from hydra_dse.report.style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, YELLOW, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW, RED, GREY)
_MARKERS = "osD^vP"
_LEGEND_LIMIT = 12


def roofline_figure(runs: Sequence[tuple[str, Roofline]]) -> Figure:
    """Draw runs of one machine; each run stands once for every level, at its intensity there.

    Args:
        runs: label and roofline; roofs are drawn for every distinct peak and bandwidth.
    """
    figure, axes = new_figure(7.2, 4.8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    _roofs(axes, [line for _, line in runs])
    for index, (label, line) in enumerate(runs):
        _points(axes, label if index < _LEGEND_LIMIT else "_nolegend_", line, _COLOURS[index % len(_COLOURS)])
    axes.set_xlabel("intensity [FLOP/B]")
    axes.set_ylabel("rate [TFLOP/s]")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=7, frameon=False, loc="lower right")
    return figure


def _roofs(axes: Axes, lines: Sequence[Roofline]) -> None:
    intensities = [roof.intensity for line in lines for roof in line.levels if roof.intensity]
    ridges = [roof.ridge for line in lines for roof in line.levels]
    low, high = min([*intensities, *ridges], default=1.0) / 10, max([*intensities, *ridges], default=1.0) * 10
    x = np.geomspace(low, high, 200)
    drawn: set[tuple[str, float, float]] = set()
    for line in lines:
        for roof in line.levels:
            key = roof.name, roof.bandwidth_bytes_per_s, line.peak_flops_per_s
            if key not in drawn:
                drawn.add(key)
                axes.plot(x, np.minimum(line.peak_flops_per_s, roof.bandwidth_bytes_per_s * x) / 1e12, "-", color=GREY)
                axes.annotate(
                    _roof_label(roof), (low, roof.bandwidth_bytes_per_s * low / 1e12), fontsize=7, rotation=30
                )
    for peak in sorted({line.peak_flops_per_s for line in lines}):
        axes.axhline(peak / 1e12, color=GREY, linestyle="--")
        axes.annotate(f"peak {peak / 1e12:,.0f} TFLOP/s", (low, peak / 1e12 * 1.1), fontsize=7)


def _roof_label(roof: Roof) -> str:
    return f"{roof.name} {roof.bandwidth_bytes_per_s / 1e12:,.3g} TB/s"


def _points(axes: Axes, label: str, line: Roofline, colour: str) -> None:
    """Filled where the level binds, open where another does."""
    if line.achieved_flops_per_s is None:
        return
    for roof, marker in zip(line.levels, _MARKERS, strict=False):
        if roof.intensity:
            binds = roof.name == line.binding
            axes.plot(roof.intensity, line.achieved_flops_per_s / 1e12, marker, color=colour, markersize=6,
                      fillstyle="full" if binds else "none", label=label, linestyle="none")  # fmt: skip
            label = "_nolegend_"
