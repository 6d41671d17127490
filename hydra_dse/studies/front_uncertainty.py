"""How sure is a front?  The best designs of a run again under calibrations drawn from their intervals.

Every design meets the same draws.  In each draw the front is found anew, among the designs of the front and those
behind it; how often a design is on it, how often it is the best in an objective, and how much it loses where it is not,
say how much of the front is the calibration's.  The same once more with memories slower than the calibration says.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from hydra_dse.config.experiments import digest_of
from hydra_dse.design.experiment import Experiment
from hydra_dse.design.space import Point
from hydra_dse.errors import NothingFeasible
from hydra_dse.search.objectives import Objectives
from hydra_dse.search.pareto import FloatArray
from hydra_dse.search.references import References
from hydra_dse.search.scores import ScoreTable
from hydra_dse.studies.calibration_variants import Variant, VariantScorer, VariantsHere, VariantsOfStored, has_intervals
from hydra_dse.studies.cases import CaseJournal, Record, case_key
from hydra_dse.studies.designs_table import point_in
from hydra_dse.studies.executor import executor, runs_beside
from hydra_dse.studies.files import locked
from hydra_dse.studies.front_odds import Comparison, FrontOdds, comparisons, odds_of
from hydra_dse.studies.front_uncertainty_files import write_uncertainty
from hydra_dse.studies.interrupts import STOPS, stopped
from hydra_dse.studies.journaled import records_of
from hydra_dse.studies.progress import StudyProgress, StudyState
from hydra_dse.studies.run_directory import existing_run
from hydra_dse.studies.runs import designs_of, experiment_of
from hydra_dse.studies.selection import fronts

DRAWS = "draws.jsonl"
CANDIDATES = 64
"""Designs that may be on the front of a draw: the front and those behind it."""
SLOW_MEMORY = 0.85
"""Factor on what stacks give in the repeat with slower memories."""
ERROR_ONLY = (
    "the calibration states no intervals: every parameter is drawn by its relative error of one standard deviation"
)


@dataclass(frozen=True)
class UncertaintyResult:
    """How sure the front of a run is.

    Attributes:
        front: designs of the run's front, the surest first.
        behind: the others that were on the front of some draw, the surest first.
        compared: every pair of the front in every objective.
        draws: calibrations drawn; candidates: designs that met them.
        memory: factor of the repeat with slower memories.
        notes: what a reader must know.
    """

    run_dir: Path
    objectives: tuple[str, ...]
    front: tuple[FrontOdds, ...]
    behind: tuple[FrontOdds, ...]
    compared: tuple[Comparison, ...]
    draws: int
    candidates: int
    memory: float
    notes: tuple[str, ...] = ()


def uncertainty(
    run_dir: str | Path,
    *,
    draws: int = 200,
    candidates: int = CANDIDATES,
    memory: float = SLOW_MEMORY,
    workers: int = 1,
    progress: StudyProgress | None = None,
    cluster: str | None = None,
) -> UncertaintyResult:
    """Judge the front of a run under drawn calibrations; write `front_uncertainty.csv` and `comparisons.csv`.

    What was interrupted goes on where it stopped.

    Args:
        run_dir: of a sweep.
        draws: calibrations to draw; the run's seed names them, so that more draws add to fewer.
        candidates: designs of the front and behind it, front by front, at least the whole front.
        memory: factor on the bandwidth of every stack in the repeat.
        workers: processes that score.
        progress: told after every draw.
        cluster: address of a Dask scheduler whose workers score instead; they must see the run directory.

    Raises:
        InputError: no run directory, or a corrupt one.
        NothingFeasible: the run has no feasible design.
        Interrupted: the user stopped; the draws that are done are kept.
    """
    run = existing_run(run_dir)
    experiment, designs = experiment_of(run), designs_of(run)
    scores = designs.scores
    objectives = Objectives.named(experiment.objectives)
    losses = objectives.scaled(objectives.losses(scores.metrics))
    rows, front = _candidates(losses, scores.violation, scores.identities, candidates)
    if not rows:
        raise NothingFeasible("the run has no feasible design")
    points = [point_in(experiment.space, designs.points[row]) for row in rows]
    identities = tuple(scores.identities[row] for row in rows)
    variants = [Variant(), Variant(memory=memory), *(Variant(number) for number in range(draws))]
    with locked(run.path):
        run.refuse_links(DRAWS)
        journal = CaseJournal(run.path / DRAWS)
        try:
            with executor(workers, cluster) as pool:
                tables = _tables(experiment, run.experiment_file, variants, points, journal, pool, progress)
        except STOPS as cause:
            raise stopped(cause, f"the draws that are done are kept in {run.path / DRAWS}") from None
        odds = odds_of(identities, front, objectives, tables[0], tables[1], tables[2:])
        result = UncertaintyResult(
            run.path,
            objectives.names,
            tuple(one for one in odds if one.on_front),
            tuple(one for one in odds if not one.on_front and one.in_front > 0.0),
            tuple(comparisons(identities[:front], objectives, tables[0], tables[2:])),
            draws,
            len(rows),
            memory,
            () if has_intervals(experiment.calibration) else (ERROR_ONLY,),
        )
        write_uncertainty(run, result)
    return result


def _candidates(
    losses: FloatArray, violation: FloatArray, identities: Sequence[str], most: int
) -> tuple[list[int], int]:
    """Rows of the front and of the fronts behind it, and how many of them are the front's."""
    rows: list[int] = []
    first = 0
    for number, front in enumerate(fronts(losses, np.flatnonzero(violation <= 0))):
        rows += sorted(front.tolist(), key=lambda row: (*losses[row].tolist(), identities[row]))
        first = len(rows) if number == 0 else first
        if len(rows) >= most:
            break
    return rows[: max(most, first)], first


def _tables(
    experiment: Experiment,
    file: Path,
    variants: Sequence[Variant],
    points: Sequence[Point],
    journal: CaseJournal,
    pool: Executor,
    progress: StudyProgress | None,
) -> list[ScoreTable]:
    from hydra_dse.studies.estimating import measured
    from hydra_dse.studies.scenario_scores import table_of

    references = measured(experiment) if experiment.scenarios.items else References()
    scorer: VariantScorer = VariantsHere(experiment, references)
    if runs_beside(pool):
        scorer = VariantsOfStored(str(file.resolve()), references, digest_of(file))
    cases = [
        (case_key("draw", variant, *points), partial(_record, scorer, variant, list(points))) for variant in variants
    ]
    tables = []
    for number, record in enumerate(records_of(cases, journal, pool)):
        tables.append(table_of(record))
        if progress is not None:
            progress.update(StudyState(number + 1, len(variants)))
    return tables


def _record(scorer: VariantScorer, variant: Variant, points: list[Point]) -> Record:
    from hydra_dse.studies.scenario_scores import record_of

    return record_of(scorer.score(variant, points))
