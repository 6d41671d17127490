"""Residual plots: signed error of each row against its measured value, fitted and held out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hydra_dse.calibration.nouns import Fit


def write_residual_plots(fits: Sequence[Fit], folder: Path) -> list[Path]:
    """Write one PNG per chip with a panel per fit; the same fits give the same bytes."""
    import matplotlib
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with matplotlib.rc_context({"font.size": 6}):
        for chip in dict.fromkeys(fit.observations.chip.name for fit in fits):
            mine = [fit for fit in fits if fit.observations.chip.name == chip]
            columns = min(4, len(mine))
            lines = -(-len(mine) // columns)
            figure = Figure(figsize=(2.4 * columns, 1.8 * lines), layout="constrained")
            axes = figure.subplots(lines, columns, squeeze=False).ravel()
            for axis, fit in zip(axes, mine, strict=False):
                _panel(axis, fit)
            for axis in axes[len(mine) :]:
                axis.set_visible(False)
            path = folder / f"residuals-{chip}.png"
            figure.savefig(path, dpi=110, metadata={"Software": None})
            written.append(path)
    return written


def _panel(axis: object, fit: Fit) -> None:
    from matplotlib.axes import Axes

    if not isinstance(axis, Axes):
        return
    measured = fit.observations.response
    axis.axhline(0.0, color="black", linewidth=0.5)
    if fit.held_out is not None:
        axis.plot(measured, 100.0 * fit.held_out.relative, ".", markersize=2, color="tab:orange", label="held out")
    axis.plot(measured, 100.0 * fit.errors.relative, ".", markersize=2, color="tab:blue", label="fitted")
    axis.set_xscale("log")
    axis.set_title(fit.observations.key)
    axis.set_ylabel("error, %")
    axis.set_xlabel(fit.observations.form.response)
