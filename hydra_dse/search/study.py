"""The search: Optuna proposes outer points by generations, a scorer scores many inner variants of each at once.

    search = Search(experiment)
    while batch := search.propose():
        search.take(batch, scores)          # one ScoreTable per candidate, in order

Optuna is asked and told only in memory; what is asked depends on the experiment and on earlier scores alone,
so a stored run is resumed by proposing and taking its generations again with the stored scores.
`study.best_trials` is never used (quadratic in trials): the archive is incremental.

Of every generation after the first, three quarters are unseen neighbours of the front's outer points (loneliest
first), the rest what the sampler proposed; all are told to Optuna, so its population learns from both.  Each is
scored in the variants that `variants.py` chooses.  `random` and `qmc` stay pure, with whole grids, as baselines;
`neighbours` learns as the others do, with random proposals in place of Optuna's samplers.  In a space too large to
list, or for a budget of less than 64 whole inner grids, the front breeds instead (`breeding.py`), with few variants of
each package, and a cheap model of the scores so far chooses among its children (`foresight.py`).
Designs known from other searches (`seeds`) come first, in the variants that they have among them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hydra_dse.design.experiment import Experiment
from hydra_dse.design.space import Point
from hydra_dse.search.archive import Archive
from hydra_dse.search.breeding import Breeder
from hydra_dse.search.foresight import Foresight
from hydra_dse.search.gaussian import Encoding
from hydra_dse.search.objectives import Objectives
from hydra_dse.search.offspring import Parent
from hydra_dse.search.outer import OuterPoint, OuterSpace, evenly
from hydra_dse.search.pareto import FloatArray, IntArray, crowding
from hydra_dse.search.samplers import check_sampler, distribution, make_sampler
from hydra_dse.search.scores import ScoreTable
from hydra_dse.search.unseen import Unseen
from hydra_dse.search.variants import Candidate, Variants

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial, Trial

_GENERATIONS = 8
"""That a budget makes at least."""
_BRED_GENERATIONS = 20
"""The same where the front breeds."""
_SMALLEST_POPULATION = 8
"""Outer points of a generation."""
_UNKNOWN_LOSS = 1e30
"""Told to Optuna in place of NaN and infinity, which it does not take."""
_LEARNING = ("nsga2", "nsga3", "tpe", "neighbours")


@dataclass(frozen=True)
class _Asked:
    trial: Trial
    proposed: OuterPoint


class Search:
    """One study: asks, tells, and keeps the archive.

    Args:
        experiment: its space, objectives and search settings are used.
        seeds: completed points of the space to start from, the most promising first; they take half of the budget at
            most.  Samplers that do not learn pass them over.

    Raises:
        InputError: unknown sampler or objective, or an empty space.
    """

    def __init__(self, experiment: Experiment, seeds: Sequence[Point] = ()) -> None:
        import optuna
        from optuna.study import StudyDirection

        self.settings = experiment.search
        check_sampler(self.settings.sampler)
        self.objectives = Objectives.named(experiment.objectives)
        self.archive = Archive(self.objectives)
        self.space = OuterSpace(experiment.space)
        self.generation = 0
        self.scored = 0
        self._unseen = Unseen(self.space, self.settings.seed)
        self._variants = Variants(self.space.inner_count)
        self._bred_from = self._breeder()
        every = (*self.space.outer, *self.space.inner)
        self._foresight = Foresight(Encoding(every), len(self.objectives.names), self.settings.seed)
        each, generations = (
            (self._bred_from.each, _BRED_GENERATIONS) if self._bred_from else (self.space.inner_count, _GENERATIONS)
        )
        self.population = generation_size(self.settings.trials, each, self.settings.population, generations)
        used = seeds if self.settings.sampler in _LEARNING else ()
        self._seed_points = tuple(dict.fromkeys(self.space.index(point) for point in used))
        self._seed_variants = sorted({self.space.variant(point) for point in used})
        self._asked: list[_Asked | None] = []
        self._distributions = {parameter.name: distribution(parameter) for parameter in self.space.outer}
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        directions = [
            StudyDirection.MAXIMIZE if maximised else StudyDirection.MINIMIZE for maximised in self.objectives.maximised
        ]
        self.study = optuna.create_study(directions=directions, study_name=experiment.name)

    @property
    def finished_trials(self) -> list[FrozenTrial]:
        """Completed Optuna trials, in order."""
        from optuna.trial import TrialState

        return self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))

    def propose(self) -> list[Candidate]:
        """Candidates of the next generation; empty when the budget or the space is used up."""
        settings = self.settings
        self.study.sampler = make_sampler(settings.sampler, settings.seed, self.generation, self.population)
        self._asked = []
        if self._bred_from is not None and (self.generation or not self._seed_points):
            return self._bred(self._bred_from) or self._leftovers(self._front_points(), settings.trials - self.scored)
        learning = settings.sampler in _LEARNING and len(self.archive) > 0
        active = self._variants.active(self.archive.rows.tolist()) if learning else self._first_variants()
        fronts = self._front_points() if learning else []
        size = self._batch_size(self._variants.chosen_count(active))
        starts = self._starts(active) if self.generation == 0 else ()
        batch: list[Candidate] = []
        budget = settings.trials - self.scored
        for place in range(max(size, len(starts))):
            target = fronts[(place - place // 4 - 1) % len(fronts)] if fronts and place % 4 else None
            target = starts[place] if place < len(starts) else target
            candidate = self._ask(budget, target, active) if budget > 0 else None
            if candidate is None:
                break
            batch.append(candidate)
            budget -= len(candidate.points)
        return batch if batch else self._leftovers(fronts, budget)

    def take(self, batch: Sequence[Candidate], tables: Sequence[ScoreTable]) -> None:
        """Tell the scores of a proposed generation, one table per candidate, in order."""
        for asked, candidate, table in zip(self._asked, batch, tables, strict=True):
            losses, violation = self.objectives.losses(table.metrics), table.violation
            self.archive.add(table.identities, losses, violation)
            self._variants.add(candidate)
            if self._bred_from is not None:
                genes = self._bred_from.genes(candidate)
                self._foresight.add(genes, self.objectives.scaled(losses), violation)
            if asked is not None:
                self._tell(asked, candidate, losses, violation)
            self.scored += len(candidate.points)
        self._asked = []
        self.generation += 1

    def _first_variants(self) -> list[int]:
        """Variants to score while no front is known: those of the seeds, whole grids without seeds."""
        return self._seed_variants if self._seed_variants and self.generation == 0 else [*range(self.space.inner_count)]

    def _starts(self, active: list[int]) -> tuple[OuterPoint, ...]:
        """Outer points of the seeds, as many as half of the budget scores."""
        return self._seed_points[: self.settings.trials // (2 * self._variants.chosen_count(active))]

    def _breeder(self) -> Breeder | None:
        """Children of the front instead of its neighbours, in a space too large to list or for whole inner grids."""
        few = self.settings.trials < _GENERATIONS * _SMALLEST_POPULATION * self.space.inner_count
        breeds = self.settings.sampler in _LEARNING and (few or not self._unseen.listed)
        return Breeder(self.space, self._variants, self.settings.seed, self.settings.trials) if breeds else None

    def _bred(self, breeder: Breeder) -> list[Candidate]:
        """A generation of few variants each of children of the front and of what the sampler proposes."""
        breeder.start(self._parents(), self._foreseen if self._foresight.knows else None)
        batch: list[Candidate] = []
        budget = self.settings.trials - self.scored
        while len(batch) < self.population and budget > 0:
            trial = self.study.ask(self._distributions)
            proposed = self.space.index(trial.params)
            key = f"{self.generation}/{len(batch)}"
            candidate = breeder.candidate(proposed, len(batch), key, budget)
            if candidate is None:  # the unseen point nearest to what the sampler proposed
                point = self._unseen.nearest(proposed, key)
                if point is None:
                    break
                candidate = self._candidate(point, [*range(breeder.each)], budget)
            self._unseen.mark(candidate.outer)
            self._asked.append(_Asked(trial, proposed))
            batch.append(candidate)
            budget -= len(candidate.points)
        return batch

    def _foreseen(self, genes: IntArray) -> list[int]:
        """Rows of the designs that promise most, a generation's worth."""
        front, reference = self.objectives.scaled(self.archive.losses), self.archive.reference
        if reference is None:
            return []
        return self._foresight.chosen(genes, self.population, front, reference, self.generation)

    def _parents(self) -> list[Parent]:
        """Designs of the front, the loneliest first."""
        lonely = crowding(self.objectives.scaled(self.archive.losses)) if len(self.archive) else np.empty(0)
        order = np.argsort(-lonely, kind="stable")
        return [self._variants.owner(int(self.archive.rows[index])) for index in order]

    def _batch_size(self, chosen: int) -> int:
        """As many outer points as make a generation of the same number of designs as the first."""
        whole = self.population * self.space.inner_count
        return min(max(self.settings.population, self.population), max(self.population, whole // chosen))

    def _front_points(self) -> list[OuterPoint]:
        """Outer points of the front, those of the loneliest designs first."""
        lonely = crowding(self.objectives.scaled(self.archive.losses))
        order = np.argsort(-lonely, kind="stable")
        return list(dict.fromkeys(self._variants.owner(int(self.archive.rows[index]))[0] for index in order))

    def _ask(self, budget: int, target: OuterPoint | None, active: list[int]) -> Candidate | None:
        """Ask for an outer point near the target, or for what the sampler proposes; None where all are seen."""
        trial = self.study.ask(self._distributions)
        proposed = self.space.index(trial.params)
        key = f"{self.generation}/{len(self._asked)}"
        point = self._unseen.nearest(self.space.repaired(proposed) if target is None else target, key)
        if point is None:
            return None
        self._unseen.mark(point)
        self._asked.append(_Asked(trial, proposed))
        return self._candidate(point, self._variants.chosen(active), budget)

    def _candidate(self, point: OuterPoint, chosen: list[int], budget: int) -> Candidate:
        variants = self.space.variants(point, chosen) or self.space.variants(point)
        kept = [variants[index] for index in evenly(budget, len(variants))]
        return Candidate(point, tuple(index for index, _ in kept), tuple(done for _, done in kept))

    def _leftovers(self, fronts: Sequence[OuterPoint], budget: int) -> list[Candidate]:
        """When every outer point is seen: variants that were passed over, those of the front's points first."""
        batch: list[Candidate] = []
        if budget <= 0:
            return batch
        for outer in dict.fromkeys([*fronts, *self._variants.unfinished()]):
            if len(batch) == self.population or budget <= 0:
                break
            chosen = self._variants.missing(outer, range(self.space.inner_count))
            variants = self.space.variants(outer, chosen)
            if variants:
                batch.append(self._candidate(outer, [index for index, _ in variants], budget))
                budget -= len(batch[-1].points)
        self._asked = [None] * len(batch)
        return batch

    def _tell(self, asked: _Asked, candidate: Candidate, losses: FloatArray, violation: FloatArray) -> None:
        """Tell the trial; where another point was scored than proposed, tell that one in its place."""
        from optuna.trial import TrialState, create_trial

        values, excess = told(losses, violation)
        natural = [-value if up else value for value, up in zip(values, self.objectives.maximised, strict=True)]
        if candidate.outer == asked.proposed:
            asked.trial.set_constraint("violation", excess)
            self.study.tell(asked.trial, natural)
            return
        # The generation of a genetic sampler is a system attribute: the point that is scored inherits it.
        system = self.study.get_trials(deepcopy=False)[asked.trial.number].system_attrs
        self.study.tell(asked.trial, state=TrialState.FAIL)
        scored = create_trial(
            values=natural,
            params=self.space.values(candidate.outer),
            distributions=self._distributions,
            system_attrs=dict(system),
            constraints={"violation": excess},
        )
        self.study.add_trial(scored)


def told(losses: FloatArray, violation: FloatArray) -> tuple[list[float], float]:
    """What Optuna learns of an outer point: the ideal point of its feasible variants, and its least violation.

    The ideal point takes the best value of each objective over the variants.  All outer points share the inner
    grid, so ideal points compare what a package can reach at best in each direction.  The mean of the variants and
    the variant of the largest hypervolume gain reach the same share of the front within the spread over seeds.
    """
    feasible = violation <= 0
    if feasible.any():
        return losses[feasible].min(axis=0).tolist(), 0.0
    least = int(np.argmin(violation))
    return np.nan_to_num(losses[least], nan=_UNKNOWN_LOSS, posinf=_UNKNOWN_LOSS).tolist(), float(violation[least])


def generation_size(trials: int, inner: int, most: int, generations: int = _GENERATIONS) -> int:
    """Outer points of a generation: at most `most`, but so few that a small budget still makes `generations`.

    A genetic search learns between generations only; a budget of 70 outer points in one generation of 40 is a
    random search.
    """
    return min(most, max(_SMALLEST_POPULATION, math.ceil(trials / inner / generations)))
