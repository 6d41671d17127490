"""Designs chosen for simulation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hydra_dse.design.experiment import Experiment
from hydra_dse.design.space import Point
from hydra_dse.studies.designs_table import ScoredDesigns, point_in
from hydra_dse.studies.front_check import TOP


@dataclass(frozen=True)
class Chosen:
    """A design chosen for simulation, with its estimates."""

    identity: str
    rank: int
    point: Point
    estimates: Mapping[str, float]
    role: str = TOP

    @property
    def load(self) -> float:
        """Estimated load, NaN where unknown."""
        return self.estimates.get("load", math.nan)


def chosen_rows(
    experiment: Experiment, designs: ScoredDesigns, rows: Sequence[int], role: str, first_rank: int
) -> tuple[Chosen, ...]:
    """Rows of the table of designs, chosen in this order."""
    scores = designs.scores
    return tuple(
        Chosen(
            scores.identities[index],
            rank,
            point_in(experiment.space, designs.points[index]),
            {name: float(column[index]) for name, column in scores.metrics.items()},
            role,
        )
        for rank, index in enumerate(rows, start=first_rank)
    )
