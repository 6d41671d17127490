"""The waterfall as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hydra_dse.bundle.explain.compare import Comparison
from hydra_dse.errors import Fault, InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SLOWER, FASTER = "#D55E00", "#009E73"
"""What B takes more, and less (colours of Okabe and Ito, 2008)."""


def plot(found: Comparison, path: Path) -> None:
    """Write the waterfall to a file.

    Raises:
        InputError: the file cannot be written.
    """
    try:
        waterfall(found).savefig(path, metadata={"Software": None} if path.suffix.lower() == ".png" else None)
    except OSError as error:
        raise InputError(Fault(f"cannot be written: {error.strerror or error}", str(path))) from None


def waterfall(found: Comparison) -> Figure:
    """One panel a phase: from the time of A, segment by segment, to the time of B."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.2 * max(1, len(found.totals))), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(found.totals), 1, squeeze=False)[:, 0]
    for axis, (phase, (a, b)) in zip(axes, found.totals.items(), strict=True):
        rows = sorted((r for r in found.rows if r.phase == phase), key=lambda row: -abs(row.difference_s))
        labels, at = [found.a], a
        axis.bar(0, a * 1e6, color="0.6")
        for number, row in enumerate(rows, 1):
            colour = SLOWER if row.difference_s > 0 else FASTER
            axis.bar(number, row.difference_s * 1e6, bottom=at * 1e6, color=colour)
            labels.append(row.name)
            at += row.difference_s
        axis.bar(len(rows) + 1, b * 1e6, color="0.6")
        labels = [label.replace("$", r"\$") for label in (*labels, found.b)]  # no formula between two of them
        axis.set_xticks(range(len(labels)), labels, rotation=30, ha="right", fontsize=8)
        per = found.equal_work.normalised_by or "step"
        axis.set_title(phase, fontsize=10, loc="left")
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(axis="y", labelsize=9)
        axis.set_ylabel(f"µs per {per}")
    return figure
