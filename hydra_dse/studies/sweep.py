"""The main job's first half: search a space and keep everything in a run directory.

The parent proposes, workers score, the parent takes and writes, in order: the result does not depend on the
number of workers.  A run is resumed by proposing its generations again and taking the stored scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from hydra_dse.config.experiments import digest_of
from hydra_dse.design.experiment import Experiment
from hydra_dse.design.space import Point
from hydra_dse.errors import Fault, InputError, NothingFeasible
from hydra_dse.search.scores import ScoreTable, concatenate, constrained
from hydra_dse.search.study import Search
from hydra_dse.search.variants import Candidate
from hydra_dse.studies.designs_table import ScoredDesigns, check_names, rows_between, same_points
from hydra_dse.studies.executor import ScorerFactory, executor, score_in
from hydra_dse.studies.files import csv_bytes, locked
from hydra_dse.studies.interrupts import STOPS, stopped, uninterrupted
from hydra_dse.studies.journal import Journal
from hydra_dse.studies.progress import SweepProgress, SweepState
from hydra_dse.studies.provenance import FINISHED
from hydra_dse.studies.run_directory import DESIGNS, JOURNAL, PARETO, RunDirectory, open_run
from hydra_dse.studies.uncertainty import has_intervals, uncertainties, write_uncertainties


@dataclass(frozen=True)
class FrontDesign:
    """A design of the front."""

    identity: str
    point: Point
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class SweepResult:
    """What a sweep found.

    Attributes:
        front: non-dominated feasible designs, best first objective first.
        hypervolume: on the scale of `Archive.hypervolume`.
        resumed: designs that were read from an earlier, interrupted run.
    """

    run_dir: Path
    scored: int
    feasible: int
    generations: int
    resumed: int
    front: tuple[FrontDesign, ...]
    hypervolume: float | None


def sweep(
    experiment: Experiment,
    run_dir: str | Path,
    *,
    workers: int = 1,
    resume: bool = False,
    progress: SweepProgress | None = None,
    command: Sequence[str] = (),
    scorer: ScorerFactory | None = None,
    cluster: str | None = None,
) -> SweepResult:
    """Search the experiment's space; write the run directory.

    Args:
        experiment: what to search, by which objectives, with which budget.
        run_dir: new or empty, or with `resume` that of an unfinished run.
        workers: processes that score; 1 is this process.
        resume: go on with an unfinished run of the same experiment in `run_dir`.
        progress: told after every generation.
        command: the command line, for provenance.
        scorer: makes the scorer in each process; the estimator's by default.
        cluster: address of a Dask scheduler whose workers score instead; they must see the run directory.

    Raises:
        InputError: a mistake in the experiment or the directory; nothing was changed.
        NothingFeasible: the search ended without a feasible design; the run directory holds all rows.
        Interrupted: the user stopped the sweep, or its workers died; `resume` goes on with it.
    """
    search = Search(experiment)
    check_names(experiment.space, ())
    run = open_run(Path(run_dir), experiment, resume=resume, command=command)
    with locked(run.path):
        work = _Sweep(experiment, run, search, progress)
        try:
            work.replay()
            if not work.finished:
                here = workers <= 1 and cluster is None
                with executor(workers, cluster) as pool:
                    work.go_on(pool, scorer or _estimator(experiment, run, here), scorer is None)
        except STOPS as cause:
            kept = f"{search.scored} designs are kept in {run.path}"
            raise stopped(cause, f"{kept}: continue with --resume") from None
        return work.result()


def _estimator(experiment: Experiment, run: RunDirectory, here: bool) -> ScorerFactory:
    from hydra_dse.studies.estimating import EstimatorOf, EstimatorOfFile, ScenariosOf, ScenariosOfFile, measured

    file, digest = str(run.experiment_file.resolve()), "" if here else digest_of(run.experiment_file)
    if experiment.scenarios.items:
        references = measured(experiment)
        return ScenariosOf(experiment, references) if here else ScenariosOfFile(file, references, digest)
    return EstimatorOf(experiment) if here else EstimatorOfFile(file, digest)


class _Sweep:
    """The loop, with what it keeps between generations."""

    def __init__(
        self, experiment: Experiment, run: RunDirectory, search: Search, progress: SweepProgress | None
    ) -> None:
        self._experiment = experiment
        self._run = run
        self._search = search
        self._progress = progress
        self._front: dict[str, FrontDesign] = {}
        self._log: list[dict[str, object]] = []
        self._merged = 0
        self._loose = 0
        self._trials = 0
        self._resumed = 0
        self._hypervolume: float | None = None
        self.finished = run.provenance().state == FINISHED

    def replay(self) -> None:
        """Take the generations that are stored.

        Raises:
            InputError: they are not what this experiment proposes.
        """
        stored = self._run.designs()
        file = str(self._run.path / DESIGNS)
        start = 0
        while stored is not None and start < len(stored):
            batch = self._search.propose()
            stop = start + sum(len(candidate.points) for candidate in batch)
            rows = rows_between(stored, start, stop)
            if not batch or not same_points([point for one in batch for point in one.points], rows.points):
                message = f"generation {self._search.generation} is not what this experiment and version propose"
                raise InputError(Fault(f"{message}; the run directory is corrupt or foreign", file=file))
            self._take(batch, _split(rows.scores, batch))
            start = stop
        if self.finished and self._search.propose():
            message = f"holds {start} designs, and the run is marked as finished with more"
            raise InputError(Fault(f"{message}; the run directory is corrupt", file=file))
        self._resumed = start
        self._measure()

    def go_on(self, pool: Executor, scorer: ScorerFactory, estimated: bool) -> None:
        """Propose, score, take and write until the budget is used up; intervals of the front where it is estimated."""
        with uninterrupted():
            self._merged = self._run.merge()
            self._run.write_log(self._log)
            journal = Journal(self._run.path / JOURNAL, self._search.study)
            journal.add(self._search.finished_trials)
        while batch := self._search.propose():
            tables = [self._constrained(table) for table in score_in(pool, scorer, [c.points for c in batch])]
            with uninterrupted():
                designs = self._take(batch, tables)
                self._write(designs)
                journal.add(self._search.finished_trials)
            self._measure()
        with uninterrupted():
            self._run.merge()
            self._run.write(PARETO, self._pareto())
            if estimated:
                self._write_intervals()
            self._run.finish()
            self.finished = True

    def result(self) -> SweepResult:
        """The result of a finished sweep.

        Raises:
            NothingFeasible: no design meets all bounds.
        """
        search, archive = self._search, self._search.archive
        if len(archive) == 0:
            raise NothingFeasible(self._closest())
        front = tuple(self._front[identity] for identity in archive.identities)
        counts = (search.scored, archive.feasible, search.generation, self._resumed)
        return SweepResult(self._run.path, *counts, front, self._hypervolume)

    def _constrained(self, table: ScoreTable) -> ScoreTable:
        return constrained(table, self._experiment.objectives, self._experiment.bounds)

    def _take(self, batch: Sequence[Candidate], tables: Sequence[ScoreTable]) -> ScoredDesigns:
        generation = self._search.generation
        sizes = [len(candidate.points) for candidate in batch]
        trials = tuple(self._trials + index for index, size in enumerate(sizes) for _ in range(size))
        points = tuple(point for candidate in batch for point in candidate.points)
        scores = concatenate(tables)
        self._search.take(batch, tables)
        self._trials += len(batch)
        self._keep_front(points, scores)
        self._log.append(self._event(generation))
        return ScoredDesigns(points, (generation,) * len(points), trials, scores)

    def _keep_front(self, points: Sequence[Point], scores: ScoreTable) -> None:
        new = {identity: index for index, identity in enumerate(scores.identities)}
        kept: dict[str, FrontDesign] = {}
        for identity in self._search.archive.identities:
            if identity in self._front:
                kept[identity] = self._front[identity]
            else:
                index = new[identity]
                metrics = {name: float(column[index]) for name, column in scores.metrics.items()}
                kept[identity] = FrontDesign(identity, points[index], metrics)
        self._front = kept

    def _event(self, generation: int) -> dict[str, object]:
        archive = self._search.archive
        return {
            "event": "generation",
            "generation": generation,
            "scored": archive.scored,
            "feasible": archive.feasible,
            "front": len(archive),
            "best": archive.best(),
        }

    def _write(self, designs: ScoredDesigns) -> None:
        merged = self._run.add_generation(designs, self._merged, self._loose)
        self._loose = 0 if merged > self._merged else self._loose + len(designs)
        self._merged = merged
        self._run.write(PARETO, self._pareto())
        self._run.log(self._log[-1])

    def _write_intervals(self) -> None:
        """What the calibration's intervals do to the front, where its parameters carry some."""
        if not has_intervals(self._experiment.calibration) or self._experiment.scenarios.items:
            return
        front = [(design.identity, design.point) for design in self._front.values()]
        write_uncertainties(self._run, uncertainties(self._experiment, front))

    def _measure(self) -> None:
        archive, settings = self._search.archive, self._experiment.search
        self._hypervolume = archive.hypervolume()
        if self._progress is not None:
            done, total = self._search.scored, max(settings.trials, self._search.scored)
            counts = (self._resumed, self._search.generation, archive.feasible, len(archive))
            self._progress.update(SweepState(done, total, *counts, archive.best(), self._hypervolume))

    def _pareto(self) -> bytes:
        """`pareto.csv`: design, parameters, metrics; best first objective first, then by id."""
        front = list(self._front.values())
        parameters = list(front[0].point) if front else [item.name for item in self._experiment.space.parameters]
        # A metric that none of them has stays out: a resumed run knows columns that a fresh one met later.
        known = {name for item in front for name, value in item.metrics.items() if value == value}
        objectives = self._experiment.objectives
        metrics = [*objectives, *sorted(known.difference(objectives))]
        rows = [[item.identity, *item.point.values(), *(item.metrics.get(name) for name in metrics)] for item in front]
        return csv_bytes(["design", *parameters, *metrics], rows)

    def _closest(self) -> str:
        closest = self._search.archive.closest
        text = f"none of the {self._search.scored} designs scored is feasible"
        designs = self._run.designs()
        if closest is None or designs is None:
            return text
        broken = designs.scores.violations[designs.scores.identities.index(closest[1])]
        return f"{text}; the closest, {closest[1]}, breaks: {'; '.join(str(violation) for violation in broken)}"


def _split(scores: ScoreTable, batch: Sequence[Candidate]) -> list[ScoreTable]:
    tables, start = [], 0
    for candidate in batch:
        stop = start + len(candidate.points)
        tables.append(scores.rows(start, stop))
        start = stop
    return tables
