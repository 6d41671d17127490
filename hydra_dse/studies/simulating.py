"""One simulation as a task: a point of a run's space to a simulated evaluation, in any process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.design.experiment import Experiment
from hydra_dse.design.space import Point
from hydra_dse.results import Evaluation
from hydra_dse.results.derived import derived_among, evaluation_with
from hydra_dse.studies.estimating import same_experiment


class Simulation(Protocol):
    """Simulates points; hashable and picklable, so that a worker makes its own."""

    def evaluate(self, point: Point, options: EvaluationOptions, seed: int) -> Evaluation:
        """Return the simulated evaluation of a point."""


@dataclass(frozen=True)
class SimulationOfFile:
    """Simulates under the experiment of a file with a simulator by name.

    Attributes:
        digest: of the file: a process that simulates again after the file has changed reads it anew.
    """

    path: str
    simulator: str = "serving"
    digest: str = ""

    def evaluate(self, point: Point, options: EvaluationOptions, seed: int) -> Evaluation:
        """Build, place and simulate the design; what cannot be placed is an infeasible result.

        Raises:
            InputError: the experiment has changed.
        """
        from hydra_dse.placement import place_design
        from hydra_dse.search.estimating import PLACEMENT_SEED
        from hydra_dse.studies.simulators import find_simulator
        from hydra_dse.workload import served

        experiment = experiment_of_file(self.path, self.digest)
        design = experiment.space.build(point)
        models = [kind.model for kind in served(experiment.workload)]
        placed, violations = place_design(design, models, PLACEMENT_SEED)
        if violations:
            return Evaluation("simulated", metrics={}, violations=tuple(violations))
        engine = find_simulator(self.simulator)
        [evaluation] = engine.evaluate([placed], experiment.workload, experiment.calibration, options, seed)
        named = (*experiment.objectives, *(bound.metric for bound in experiment.bounds))
        return evaluation_with(derived_among(named), evaluation)


def simulate(simulation: Simulation, point: Point, options: EvaluationOptions, seed: int) -> Evaluation:
    """The task that is submitted to an executor."""
    return simulation.evaluate(point, options, seed)


@lru_cache(maxsize=2)
def experiment_of_file(path: str, digest: str) -> Experiment:
    """The experiment of a file, kept for the next simulation as long as the file's digest is the same."""
    return same_experiment(path, digest)
