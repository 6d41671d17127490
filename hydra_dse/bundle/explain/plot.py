"""The waterfall as a picture."""

from __future__ import annotations

from pathlib import Path

from hydra_dse.bundle.explain.compare import Comparison
from hydra_dse.errors import Fault, InputError


def plot(found: Comparison, path: Path) -> None:
    """Write one panel a phase: from the time of A, segment by segment, to the time of B.

    Raises:
        InputError: the file cannot be written.
    """
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
            colour = "tab:red" if row.difference_s > 0 else "tab:green"
            axis.bar(number, row.difference_s * 1e6, bottom=at * 1e6, color=colour)
            labels.append(row.name)
            at += row.difference_s
        axis.bar(len(rows) + 1, b * 1e6, color="0.6")
        labels = [label.replace("$", r"\$") for label in (*labels, found.b)]  # no formula between two of them
        axis.set_xticks(range(len(labels)), labels, rotation=30, ha="right", fontsize=8)
        per = found.equal_work.normalised_by or "step"
        axis.set_title(phase, fontsize=10)
        axis.set_ylabel(f"µs per {per}")
    try:
        figure.savefig(path, metadata={"Software": None} if path.suffix.lower() == ".png" else None)
    except OSError as error:
        raise InputError(Fault(f"cannot be written: {error.strerror or error}", str(path))) from None
