"""What a report shows of a run, read once from its directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hydra_dse.design.experiment import Experiment
from hydra_dse.design.nouns import Design
from hydra_dse.report.charts import FloatArray
from hydra_dse.report.stored import optional_bytes
from hydra_dse.search.objectives import Objectives
from hydra_dse.search.pareto import nondominated
from hydra_dse.studies import RunDirectory, ValidationRow, designs_of, existing_run, experiment_of
from hydra_dse.studies.designs_table import ScoredDesigns, point_in
from hydra_dse.studies.latency_table import Tables, read_latencies
from hydra_dse.studies.provenance import Provenance
from hydra_dse.studies.validation import VALIDATION
from hydra_dse.studies.validation_table import from_csv


@dataclass(frozen=True)
class Run:
    """A run as the report sees it.

    Attributes:
        front: rows of `designs` that are not dominated, by the first objective.
        validation: (design id, metric) → estimate and simulation side by side; empty before `validate`.
        latencies: design → latency → distribution by replication, of simulated designs.
        recommended: row of `designs`, see `recommend`.
    """

    directory: RunDirectory
    experiment: Experiment
    provenance: Provenance
    designs: ScoredDesigns
    front: tuple[int, ...]
    validation: Mapping[tuple[str, str], ValidationRow]
    latencies: Mapping[str, Tables]
    recommended: int

    def values(self, metric: str) -> FloatArray:
        """Estimates of a metric for all designs."""
        return np.asarray(self.designs.scores.metrics[metric], dtype=np.float64)

    def estimate(self, metric: str, row: int) -> float:
        """Estimate of a metric for one design; NaN where there is none."""
        values = self.designs.scores.metrics.get(metric)
        return float("nan") if values is None else float(values[row])

    def identity(self, row: int) -> str:
        """Id of a design."""
        return self.designs.scores.identities[row]

    def row_of(self, identity: str) -> int:
        """Row of a design; -1 where the run has no such design."""
        names = self.designs.scores.identities
        return names.index(identity) if identity in names else -1

    def design(self, row: int) -> Design:
        """Build a design, without placement."""
        space = self.experiment.space
        return space.build(point_in(space, self.designs.points[row]))

    @property
    def purpose(self) -> str:
        """What the experiment is for, in its author's words; empty where they gave none."""
        return str(self.experiment.resolved.get("purpose") or "")

    @property
    def source(self) -> str:
        """Where the experiment comes from, in its author's words."""
        return str(self.experiment.resolved.get("source") or "")

    @property
    def feasible(self) -> int:
        """Number of feasible designs."""
        return int((self.designs.scores.violation <= 0).sum())

    @property
    def simulated(self) -> tuple[str, ...]:
        """Ids of the simulated designs, in the order of validation."""
        ranks = {row.design: row.rank for row in self.validation.values()}
        return tuple(sorted(ranks, key=lambda identity: ranks[identity]))


def read_run(path: str | Path) -> Run:
    """Read a run directory.

    Raises:
        InputError: no run, a corrupt one, or one without a feasible design to show.
    """
    directory = existing_run(path)
    experiment = experiment_of(directory)
    designs = designs_of(directory)
    losses = Objectives.named(experiment.objectives).losses(designs.scores.metrics)
    feasible = np.flatnonzero(designs.scores.violation <= 0)
    front = feasible[nondominated(losses[feasible])] if len(feasible) else feasible
    order = front[np.argsort(losses[front, 0], kind="stable")]
    validation = _validation(directory)
    return Run(
        directory,
        experiment,
        directory.provenance(),
        designs,
        tuple(order.tolist()),
        validation,
        read_latencies(directory),
        recommend(losses, order.tolist(), designs.scores.identities, validation),
    )


def recommend(
    losses: FloatArray,
    front: list[int],
    identities: tuple[str, ...],
    validation: Mapping[tuple[str, str], ValidationRow],
) -> int:
    """The design of the front nearest to the ideal point, objectives scaled to the front's extent; -1 without front.

    Among simulated designs only, once there are any: what is recommended has been checked.
    """
    checked = {design for design, _ in validation}
    among = [index for index in front if identities[index] in checked] or front
    if not among:
        return -1
    points = losses[among]
    extent = np.ptp(losses[front], axis=0)
    scaled = (points - losses[front].min(axis=0)) / np.where(extent > 0, extent, 1.0)
    return among[int(np.argmin(np.linalg.norm(scaled, axis=1)))]


def _validation(directory: RunDirectory) -> dict[tuple[str, str], ValidationRow]:
    data = optional_bytes(directory, VALIDATION)
    if data is None:
        return {}
    return {(row.design, row.metric): row for row in from_csv(data, str(directory.path / VALIDATION))}
