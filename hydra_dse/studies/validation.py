"""The main job's second half: simulate the best designs of a run and hold the estimates against them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from hydra_dse.config.experiments import digest_of
from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.design.experiment import Experiment
from hydra_dse.errors import Fault, InputError, NothingFeasible
from hydra_dse.rng import derive
from hydra_dse.search.objectives import Objectives
from hydra_dse.studies.chosen import Chosen, chosen_rows
from hydra_dse.studies.designs_table import ScoredDesigns
from hydra_dse.studies.estimate_notes import estimate_notes
from hydra_dse.studies.estimating import measured
from hydra_dse.studies.executor import available_cores, executor
from hydra_dse.studies.files import locked
from hydra_dse.studies.front_check import OUTSIDE, TOP
from hydra_dse.studies.interrupts import STOPS, stopped
from hydra_dse.studies.progress import ValidationProgress
from hydra_dse.studies.run_directory import existing_run
from hydra_dse.studies.runs import designs_of, experiment_of
from hydra_dse.studies.scenario_validation import ScenariosSimulation, measured_alike
from hydra_dse.studies.selection import select
from hydra_dse.studies.simulating import Simulation, SimulationOfFile
from hydra_dse.studies.simulators import find_simulator
from hydra_dse.studies.uncertainty import uncertainties, write_uncertainties
from hydra_dse.studies.validation_loop import VALIDATION, Budget, ValidationLoop, ValidationResult
from hydra_dse.workload import arrival_statistics
from hydra_dse.workload.nouns import Workload
from hydra_dse.workload.periods import part_of_period

__all__ = ["VALIDATION", "Chosen", "ValidationResult", "choose", "outsiders", "validate"]

REQUESTS_PER_PROCESS = 4000
"""Requests that are simulated in about the second that a process takes to start."""
MOST_ROUNDS = 10
"""Rounds of promotion before a front that still changes is reported as such."""


def validate(
    run_dir: str | Path,
    *,
    top: int | None = None,
    outside: int | None = None,
    requests: int | None = None,
    replications: int | None = None,
    max_replications: int | None = None,
    until_stable: bool = False,
    workers: int | None = 1,
    progress: ValidationProgress | None = None,
    simulator: str = "serving",
    experiment: Experiment | None = None,
    simulation: Simulation | None = None,
    cluster: str | None = None,
) -> ValidationResult:
    """Simulate the best designs of a run; write `validation.csv`, `pareto_validated.csv`, `intervals.csv`.

    Of an experiment with scenarios every design is simulated in each of them; `intervals.csv` is not written then.

    A validation that was interrupted goes on where it stopped: designs that are in `validation.csv` with the
    same number of requests and at least the same replications are not simulated again.

    Args:
        run_dir: a run directory with scored designs.
        top: designs to simulate; by default what the experiment says, as for all that follow up to `max_replications`.
        outside: feasible designs outside the choice that are simulated too, drawn at random, to see what the choice
            overlooked; where the experiment is silent a quarter of `top`.
        requests: requests per replication.
        replications: independent runs per design.
        max_replications: replications that a design may get while its place on the front is undecided; where
            the experiment is silent twice `replications`.
        until_stable: correct the estimates of all designs by what simulation found, simulate those that the
            correction puts on the front, and repeat until none is new (at most `MOST_ROUNDS` times).
        workers: processes that simulate; 1 is this process, None as many as there are cores and work for. The result
            does not depend on it.
        progress: told after every design.
        simulator: name in the entry-point group `hydra_dse.simulators`.
        experiment: the run's experiment where it is loaded already.
        simulation: simulates instead of that simulator.
        cluster: address of a Dask scheduler whose workers simulate instead; they must see the run directory.

    Raises:
        InputError: no run directory, a corrupt one, or no such simulator.
        NothingFeasible: the run has no feasible design to simulate.
        Interrupted: the user stopped, or the workers died; what was simulated is kept.
    """
    run = existing_run(run_dir)
    experiment = experiment or experiment_of(run)
    settings = experiment.validation
    options = EvaluationOptions(
        requests=requests or settings.requests,
        replications=replications or settings.replications,
        warmup_share=settings.warmup_share,
    )
    designs = designs_of(run)
    wanted = top or settings.top
    chosen = choose(experiment, designs, wanted)
    chosen += outsiders(experiment, designs, chosen, _outside(outside, settings.outside, wanted))
    own = simulation is None and not experiment.scenarios.items
    loads = [experiment.workload]
    if simulation is None:
        find_simulator(simulator)  # a missing simulator is told before any worker starts
        file = run.experiment_file.resolve()
        simulation = SimulationOfFile(str(file), simulator, digest_of(file))
        if experiment.scenarios.items:
            references = measured(experiment)
            simulation = ScenariosSimulation(str(file), references, digest_of(file), simulator)
            chosen = measured_alike(chosen, experiment, references)
            loads = [item.workload for item in references.applied(experiment).scenarios.items]
    notes = _notes(loads, options, settings.max_replications if max_replications is None else None)
    budget = Budget(options, _most(max_replications, settings.max_replications, options.replications))
    with locked(run.path):
        work = ValidationLoop(run, experiment, designs, chosen, budget, progress)
        try:
            with executor(_processes(workers, work.pending, options, len(loads)), cluster) as pool:
                work.go(pool, simulation, MOST_ROUNDS if until_stable else 0)
            result = replace(work.result(), notes=notes)
            if own:
                pairs = [(design.identity, design.point) for design in result.chosen]
                write_uncertainties(run, uncertainties(experiment, pairs, result.rows))
        except STOPS as cause:
            file = run.path / VALIDATION
            kept = f"the designs simulated so far are kept in {file}: the same command goes on"
            what = kept if file.is_file() else "no design was simulated to its end yet"
            raise stopped(cause, what) from None
        return result


def _notes(loads: Sequence[Workload], options: EvaluationOptions, of_experiment: int | None) -> tuple[str, ...]:
    """What is to be told of these runs."""
    parts = [part_of_period(load, options.requests / arrival_statistics(load).rate_per_s) for load in loads]
    notes = [*dict.fromkeys(part for part in parts if part is not None), *estimate_notes(loads)]
    if of_experiment is not None and of_experiment < options.replications:
        notes.append(
            f"{options.replications} replications of every design, more than the {of_experiment} that the experiment "
            "gives an undecided one at most (max_replications)"
        )
    return tuple(notes)


def _most(asked: int | None, of_experiment: int | None, replications: int) -> int:
    """Replications of an undecided design at most.

    Raises:
        InputError: fewer are asked for than every design gets.
    """
    if asked is not None and asked < replications:
        message = f"{asked} is fewer than the {replications} replications of every design"
        raise InputError(Fault(message, file="--max-replications"))
    return max(asked or of_experiment or 2 * replications, replications)


def _processes(asked: int | None, designs: int, options: EvaluationOptions, loads: int = 1) -> int:
    """Processes for so many designs: no more than designs, and where none are asked for as many as pay their start."""
    if asked is None:
        work = designs * options.requests * options.replications * loads
        asked = min(available_cores(), 1 + work // REQUESTS_PER_PROCESS)
    return max(1, min(asked, designs))


def _outside(asked: int | None, of_experiment: int | None, top: int) -> int:
    given = of_experiment if asked is None else asked
    return -(-top // 4) if given is None else given


def choose(experiment: Experiment, designs: ScoredDesigns, top: int) -> tuple[Chosen, ...]:
    """The designs to simulate, best first; see `selection`.

    Raises:
        NothingFeasible: no design is feasible.
    """
    objectives = Objectives.named(experiment.objectives)
    scores = designs.scores
    losses = objectives.scaled(objectives.losses(scores.metrics))
    load = scores.metrics.get("load", np.full(len(scores), np.nan))
    picked = select(losses, scores.violation, load, scores.identities, top)
    if not picked:
        raise NothingFeasible("the run has no feasible design to simulate")
    return chosen_rows(experiment, designs, picked, TOP, 1)


def outsiders(
    experiment: Experiment, designs: ScoredDesigns, chosen: Sequence[Chosen], count: int
) -> tuple[Chosen, ...]:
    """Feasible designs outside the choice, drawn at random by the experiment's seed."""
    taken = {design.identity for design in chosen}
    scores = designs.scores
    rest = [index for index in np.flatnonzero(scores.violation <= 0).tolist() if scores.identities[index] not in taken]
    rng = derive(experiment.search.seed, "outside")
    drawn = sorted(rng.choice(len(rest), size=min(count, len(rest)), replace=False).tolist()) if rest else []
    return chosen_rows(experiment, designs, [rest[index] for index in drawn], OUTSIDE, len(chosen) + 1)
