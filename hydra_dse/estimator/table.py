"""The table an estimate returns: metrics by name as arrays over designs, with 90 % intervals and violations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hydra_dse.results.nouns import Evaluation, Violation

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class EstimateTable:
    """Estimates of n designs.

    Attributes:
        metrics: values by metric name, shape (n,); NaN where a value cannot be computed (overload, infeasible).
        low, high: 90 % interval of the metrics that have one.
        violations: one tuple per design, empty where it is feasible.
        notes: of all designs, e.g. that the arrivals lie outside the validated range.
    """

    metrics: dict[str, FloatArray]
    low: dict[str, FloatArray]
    high: dict[str, FloatArray]
    violations: tuple[tuple[Violation, ...], ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def size(self) -> int:
        """Number of designs."""
        return len(self.violations)

    def evaluation(self, row: int) -> Evaluation:
        """One design as an `Evaluation`; NaN becomes None."""
        return Evaluation(
            source="estimated",
            metrics={name: _plain(values[row]) for name, values in self.metrics.items()},
            intervals={
                name: (float(self.low[name][row]), float(self.high[name][row]))
                for name in self.low
                if np.isfinite(self.low[name][row])
            },
            violations=self.violations[row],
            notes=self.notes,
        )

    def evaluations(self) -> list[Evaluation]:
        """All designs, in order."""
        return [self.evaluation(row) for row in range(self.size)]


def scatter(parts: list[tuple[NDArray[np.int64], EstimateTable]], size: int) -> EstimateTable:
    """Join tables of some rows each into one of `size` rows; metrics that a part lacks are NaN there."""
    violations: list[tuple[Violation, ...]] = [()] * size
    for rows, table in parts:
        for row, found in zip(rows, table.violations, strict=True):
            violations[int(row)] = found
    notes = dict.fromkeys(note for _, table in parts for note in table.notes)
    return EstimateTable(
        _joined([(rows, table.metrics) for rows, table in parts], size),
        _joined([(rows, table.low) for rows, table in parts], size),
        _joined([(rows, table.high) for rows, table in parts], size),
        tuple(violations),
        tuple(notes),
    )


def _joined(parts: list[tuple[NDArray[np.int64], Mapping[str, FloatArray]]], size: int) -> dict[str, FloatArray]:
    joined: dict[str, FloatArray] = {}
    for rows, columns in parts:
        for name, values in columns.items():
            joined.setdefault(name, np.full(size, np.nan))[rows] = values
    return joined


def _plain(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
