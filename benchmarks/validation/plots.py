"""Figures of the validation page: signed error against load, a dot a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from benchmarks.validation.errors import Comparison

MARKS = {"chunked": "o", "prefill_first": "s", "disaggregated": "^"}
COLOURS = {"Poisson": "tab:blue", "gamma": "tab:orange", "regular": "tab:green", "phases": "tab:red"}
MOST = 100.0


def errors_by_load(rows: Sequence[Comparison], metrics: Sequence[str], path: Path) -> None:
    """Write a figure with a panel a metric; errors beyond 100 % are drawn at the edge."""
    figure = Figure(figsize=(4.0 * len(metrics), 3.2), layout="constrained")
    FigureCanvasSVG(figure)
    for axes, metric in zip(figure.subplots(1, len(metrics), squeeze=False)[0], metrics, strict=True):
        kept = [row for row in rows if row.metric == metric and not row.left_out]
        for policy, mark in MARKS.items():
            for kind, colour in COLOURS.items():
                mine = [row for row in kept if row.policy == policy and row.arrivals == kind]
                axes.plot(
                    [row.load for row in mine],
                    [max(-MOST, min(100 * row.error, MOST)) for row in mine],
                    mark,
                    color=colour,
                    markersize=3.5,
                    label=f"{policy}, {kind}" if mine else None,
                )
        axes.axhline(0.0, color="black", linewidth=0.6)
        axes.set(title=metric, xlabel="load", ylabel="error, %")
    figure.axes[-1].legend(fontsize=5, loc="upper left")
    with mpl.rc_context({"svg.hashsalt": "validation", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})
