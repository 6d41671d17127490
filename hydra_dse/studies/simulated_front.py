"""The simulated designs of a validation as arrays: objectives, their intervals, and the front among them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hydra_dse.search.objectives import Objectives
from hydra_dse.search.pareto import FloatArray, nondominated
from hydra_dse.studies.dominance import SimulatedLosses
from hydra_dse.studies.validation_table import ValidationRow


@dataclass(frozen=True, eq=False)
class SimulatedFront:
    """Designs with a simulated value for every objective.

    Attributes:
        names: objectives.
        designs: ids, in the order of choice.
        estimates, simulated, low, high: by objective, shape (designs,).
        losses: the simulated values with half the width of their intervals.
    """

    names: tuple[str, ...]
    designs: tuple[str, ...]
    estimates: Mapping[str, FloatArray]
    simulated: Mapping[str, FloatArray]
    low: Mapping[str, FloatArray]
    high: Mapping[str, FloatArray]
    losses: SimulatedLosses

    @staticmethod
    def of(
        objectives: Objectives, identities: Sequence[str], rows: Mapping[str, Sequence[ValidationRow]]
    ) -> SimulatedFront:
        """Pick them from the rows of a validation."""
        found = {name: {row.metric: row for row in rows.get(name, ())} for name in identities}
        whole = tuple(
            identity
            for identity in identities
            if all(
                name in found[identity] and math.isfinite(found[identity][name].simulated) for name in objectives.names
            )
        )

        def column(field: str) -> dict[str, FloatArray]:
            return {
                name: np.array([getattr(found[identity][name], field) for identity in whole], dtype=np.float64)
                for name in objectives.names
            }

        simulated, low, high = column("simulated"), column("ci_low"), column("ci_high")
        halves = np.array([_half_widths([found[i][name] for i in whole]) for name in objectives.names]).T
        losses = objectives.losses(simulated) if whole else np.zeros((0, len(objectives.names)))
        return SimulatedFront(
            objectives.names,
            whole,
            column("estimate"),
            simulated,
            low,
            high,
            SimulatedLosses(losses, halves.reshape(losses.shape)),
        )

    @property
    def best(self) -> tuple[str, ...]:
        """Ids of the designs that no other one dominates by its simulated values."""
        if not self.designs:
            return ()
        return tuple(self.designs[index] for index in np.flatnonzero(nondominated(self.losses.values)).tolist())

    def sides(self, name: str, index: int) -> tuple[float, float, float, float]:
        """Estimate, simulated value and interval of an objective of one design."""
        columns = (self.estimates, self.simulated, self.low, self.high)
        first, second, third, fourth = (float(column[name][index]) for column in columns)
        return first, second, third, fourth


def _half_widths(rows: Sequence[ValidationRow]) -> list[float]:
    """Half-widths of the intervals; a value without one is exact where estimate and simulation are the same number."""
    return [
        (row.ci_high - row.ci_low) / 2.0
        if math.isfinite(row.ci_high - row.ci_low)
        else 0.0
        if row.relative_error == 0.0
        else math.nan
        for row in rows
    ]
