"""Evaluations of one or several designs as a table and as a figure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hydra_dse.errors import Fault, InputError
from hydra_dse.results import Evaluation, metric

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

LATENCIES = ("ttft_mean_s", "ttft_p99_s", "e2e_mean_s")
"""What a figure shows where nothing else is asked for."""


@dataclass(frozen=True)
class Evaluations:
    """What an evaluator says of designs under one workload, in the order of the designs.

    Attributes:
        names: of the designs.
        workload: its name.
    """

    names: tuple[str, ...]
    evaluations: tuple[Evaluation, ...]
    workload: str

    def __len__(self) -> int:
        return len(self.evaluations)

    def __iter__(self) -> Iterator[Evaluation]:
        return iter(self.evaluations)

    def __getitem__(self, key: int | str) -> Evaluation:
        """An evaluation by the place or the name of its design.

        Raises:
            KeyError: no design of that name.
        """
        if isinstance(key, str):
            if key not in self.names:
                raise KeyError(key)
            key = self.names.index(key)
        return self.evaluations[key]

    def frame(self) -> pd.DataFrame:
        """One row per design and metric: `design`, `source`, `feasible`, `metric`, `unit`, `value`, `low`, `high`.

        `low` and `high` are the ends of the interval: 90 % of estimates, 95 % of simulations; NaN where there is none.
        """
        import pandas as pd

        columns = ["design", "source", "feasible", "metric", "unit", "value", "low", "high"]
        missing = float("nan")
        rows = [
            (
                design, found.source, found.feasible, name, metric(name).unit, missing if value is None else value,
                *found.intervals.get(name, (missing, missing)),
            )
            for design, found in zip(self.names, self.evaluations, strict=True)
            for name, value in found.metrics.items()
        ]  # fmt: skip
        return pd.DataFrame(rows, columns=columns)

    def figure(self, *metrics: str) -> Figure:
        """Bars with intervals, a group for each design; latencies where no metric is named.

        Raises:
            InputError: no such metric, or metrics of different units.
        """
        from hydra_dse.report.charts import COLOURS, Axis, Bar, BarRow, Bars
        from hydra_dse.report.figures import figure_of

        names = metrics or LATENCIES
        unit = _common_unit(names)
        rows = []
        for name in names:
            bars = []
            for place, (design, found) in enumerate(zip(self.names, self.evaluations, strict=True)):
                value = found.metrics.get(name)
                if value is not None:
                    label = f"{design} ({found.source})"
                    ends = found.intervals.get(name, (float("nan"), float("nan")))
                    bars.append(Bar(0.0, value, place % COLOURS, label, *ends))
            rows.append(BarRow(metric(name).label, tuple(bars), "" if bars else "none"))
        return figure_of(Bars(Axis(f"{self.workload} [{unit}]"), tuple(rows)))


def _common_unit(names: tuple[str, ...]) -> str:
    units = {name: metric(name).unit for name in names}
    if len(set(units.values())) > 1:
        told = ", ".join(f"{name} [{unit}]" for name, unit in units.items())
        raise InputError(Fault(f"bars need one unit, got {told}; draw a figure for each"))
    return next(iter(units.values()))
