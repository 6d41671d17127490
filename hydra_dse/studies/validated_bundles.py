"""Bundles of the designs that a validation simulates, in `bundles/<design id>/` of the run directory."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hydra_dse.studies.bundles import TraceOptions, simulate_into
from hydra_dse.studies.design_simulation import DesignSimulation

if TYPE_CHECKING:
    from hydra_dse.design.evaluator import EvaluationOptions
    from hydra_dse.design.experiment import Experiment
    from hydra_dse.design.space import Point
    from hydra_dse.results import Evaluation
    from hydra_dse.studies import ValidationResult

BUNDLES = "bundles"


@dataclass(frozen=True)
class BundlingSimulation:
    """Simulates designs of a run as `hydra-dse simulate RUN:ID --bundle …` does; see `studies.simulating.Simulation`.

    Attributes:
        run: the run directory, absolute.
        digest: of its experiment, so that a process that goes on after a change reads it anew.
    """

    run: str
    digest: str
    simulator: str
    calibration: str
    traces: TraceOptions

    def evaluate(self, point: Point, options: EvaluationOptions, seed: int) -> Evaluation:
        """Simulate a design and write its bundle."""
        from hydra_dse.studies.run_directory import EXPERIMENT
        from hydra_dse.studies.simulating import experiment_of_file

        experiment = experiment_of_file(str(Path(self.run) / EXPERIMENT), self.digest)
        identity = experiment.space.build(point).identity
        simulation = DesignSimulation(
            f"{self.run}:{identity}",
            None,
            calibration=self.calibration,
            requests=options.requests,
            replications=options.replications,
            seed=seed,
            simulator=self.simulator,
            warmup_share=options.warmup_share,
        )
        evaluation = simulate_into(simulation, self.folder(identity), self.traces)
        return replace(evaluation, metrics=dict(evaluation.metrics), intervals=dict(evaluation.intervals))

    def folder(self, identity: str) -> Path:
        """Where the bundle of a design is."""
        return Path(self.run) / BUNDLES / identity

    def complete(self, result: ValidationResult, experiment: Experiment) -> None:
        """Write the bundles of designs whose simulations an earlier validation left, in this process."""
        from hydra_dse.design.evaluator import EvaluationOptions

        runs = {row.design: (row.requests, row.replications, row.seed) for row in result.rows}
        for design in result.chosen:
            if design.identity in runs and self._recorded(design.identity) != runs[design.identity]:
                requests, replications, seed = runs[design.identity]
                options = EvaluationOptions(requests, replications, experiment.validation.warmup_share)
                self.evaluate(design.point, options, seed)

    def _recorded(self, identity: str) -> tuple[int, int, int] | None:
        """Requests, replications and seed of the bundle that is there; None without one."""
        try:
            metrics = json.loads((self.folder(identity) / "metrics.json").read_text(encoding="utf-8"))
            found = metrics["provenance"]
            return found["requests"], found["replications"], found["seed"]
        except (OSError, ValueError, KeyError, TypeError):
            return None


def bundling(run: str, experiment_calibration: str, simulator: str, traces: TraceOptions) -> BundlingSimulation:
    """The simulation of a run's designs that leaves bundles.

    Raises:
        InputError: no run there, a link out of it, a bad window, or no such simulator.
    """
    from hydra_dse.bundle.writing import parse_window
    from hydra_dse.config.experiments import digest_of
    from hydra_dse.studies import find_simulator
    from hydra_dse.studies.run_directory import existing_run

    found = existing_run(run)
    found.refuse_links(BUNDLES)
    parse_window(traces.window)
    traces.most_bytes()
    find_simulator(simulator)
    path = found.path.resolve()
    digest = digest_of(found.experiment_file)
    return BundlingSimulation(str(path), digest, simulator, experiment_calibration, traces)
