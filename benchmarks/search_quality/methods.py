"""Searches behind one interface: propose completed points of a space, take their scores.

Ours proposes packages with several inner variants each.  The others see one flat list of all parameters; what they
propose outside the space is repaired as ours is, and each runs with its library's documented defaults.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from hydra_dse.design.experiment import Experiment
from hydra_dse.design.space import Point, SearchSpace
from hydra_dse.rng import derive
from hydra_dse.search import Search
from hydra_dse.search.objectives import Objectives
from hydra_dse.search.samplers import distribution
from hydra_dse.search.scores import ScoreTable

_UNKNOWN = 1e30
BATCH = 50
TPE_BATCH = 10
"""TPE learns after every trial; small batches keep it close to that and cost the evaluator nothing."""


class Method(Protocol):
    """A search."""

    def propose(self) -> Sequence[Point]:
        """Points of the space to score next; none when the method has nothing more to say."""

    def take(self, table: ScoreTable) -> None:
        """Scores of what was proposed, in order."""


class Ours:
    """This project's search, with the sampler named."""

    def __init__(self, experiment: Experiment, sampler: str, trials: int, seed: int) -> None:
        settings = replace(experiment.search, sampler=sampler, trials=trials, seed=seed)
        self._search = Search(replace(experiment, search=settings))

    def propose(self) -> Sequence[Point]:
        self._batch = self._search.propose()
        return [point for candidate in self._batch for point in candidate.points]

    def take(self, table: ScoreTable) -> None:
        ends = np.cumsum([0, *(len(candidate.points) for candidate in self._batch)]).tolist()
        self._search.take(self._batch, [table.rows(start, stop) for start, stop in pairwise(ends)])


class Flat:
    """All parameters of a space in one list, by the index of the choice."""

    def __init__(self, space: SearchSpace) -> None:
        self.space = space
        self.sizes = [len(parameter.choices) for parameter in space.parameters]

    def point(self, values: Point) -> Point | None:
        """The completed point, repaired where the values lie outside the space; None where that is not possible."""
        inside = self.space.complete(values)
        if inside is None and self.space.repair is not None:
            inside = self.space.complete(self.space.repair(values))
        return inside

    def of(self, indices: Sequence[int]) -> Point | None:
        parameters = zip(self.space.parameters, indices, strict=True)
        return self.point({parameter.name: parameter.choices[int(index)] for parameter, index in parameters})


class Random:
    """Uniform over the points of the space."""

    def __init__(self, experiment: Experiment, seed: int) -> None:
        self._flat, self._rng = Flat(experiment.space), derive(seed, "random search")

    def propose(self) -> Sequence[Point]:
        found: list[Point] = []
        while len(found) < BATCH:
            values = [int(self._rng.integers(size)) for size in self._flat.sizes]
            parameters = zip(self._flat.space.parameters, values, strict=True)
            inside = self._flat.space.complete({one.name: one.choices[index] for one, index in parameters})
            if inside is not None:
                found.append(inside)
        return found

    def take(self, table: ScoreTable) -> None:
        pass


class Optuna:
    """An Optuna sampler over all parameters."""

    def __init__(self, experiment: Experiment, sampler: Any, batch: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._flat, self._objectives = Flat(experiment.space), Objectives.named(experiment.objectives)
        self._distributions = {parameter.name: distribution(parameter) for parameter in experiment.space.parameters}
        self._batch = batch
        directions = ["maximize" if up else "minimize" for up in self._objectives.maximised]
        self._study = optuna.create_study(directions=directions, sampler=sampler)

    def propose(self) -> Sequence[Point]:
        self._trials = [self._study.ask(self._distributions) for _ in range(self._batch)]
        points = [self._flat.point(trial.params) for trial in self._trials]
        self._kept = [trial for trial, point in zip(self._trials, points, strict=True) if point is not None]
        return [point for point in points if point is not None]

    def take(self, table: ScoreTable) -> None:
        losses, violation = finite_losses(self._objectives, table), table.violation
        natural = np.where(self._objectives.maximised, -losses, losses)
        for trial, values, excess in zip(self._kept, natural.tolist(), violation.tolist(), strict=True):
            trial.set_constraint("violation", excess)
            self._study.tell(trial, values)


class Pymoo:
    """NSGA-II of pymoo on integers, set up as its guide does for discrete variables."""

    def __init__(self, experiment: Experiment, seed: int) -> None:
        from pymoo.algorithms.moo.nsga2 import NSGA2
        from pymoo.core.problem import Problem
        from pymoo.operators.crossover.sbx import SBX
        from pymoo.operators.mutation.pm import PM
        from pymoo.operators.repair.rounding import RoundingRepair
        from pymoo.operators.sampling.rnd import IntegerRandomSampling

        self._flat, self._objectives = Flat(experiment.space), Objectives.named(experiment.objectives)
        upper = np.array(self._flat.sizes) - 1
        problem = Problem(n_var=len(upper), n_obj=len(experiment.objectives), n_ieq_constr=1, xl=0, xu=upper, vtype=int)
        self._algorithm = NSGA2(
            pop_size=100,
            sampling=IntegerRandomSampling(),
            crossover=SBX(prob=1.0, eta=3.0, vtype=float, repair=RoundingRepair()),
            mutation=PM(prob=1.0, eta=3.0, vtype=float, repair=RoundingRepair()),
            eliminate_duplicates=True,
        )
        self._algorithm.setup(problem, termination=("n_gen", 1_000_000), seed=seed, verbose=False)

    def propose(self) -> Sequence[Point]:
        self._asked = self._algorithm.ask()
        points = [self._flat.of(row) for row in self._asked.get("X")]
        self._inside = np.array([point is not None for point in points])
        return [point for point in points if point is not None]

    def take(self, table: ScoreTable) -> None:
        losses = np.full((len(self._inside), len(self._objectives.names)), _UNKNOWN)
        excess = np.full((len(self._inside), 1), _UNKNOWN)  # outside the space and beyond its repair
        losses[self._inside] = finite_losses(self._objectives, table)
        excess[self._inside, 0] = table.violation
        self._asked.set("F", losses)
        self._asked.set("G", excess)
        self._asked.apply(lambda individual: individual.evaluated.update(["F", "G"]))
        self._algorithm.tell(infills=self._asked)


def finite_losses(objectives: Objectives, table: ScoreTable) -> np.ndarray:
    """Losses with what cannot be computed as very bad."""
    return np.nan_to_num(objectives.losses(table.metrics), nan=_UNKNOWN, posinf=_UNKNOWN, neginf=_UNKNOWN)


def _optuna_nsga2(experiment: Experiment, trials: int, seed: int) -> Method:
    from optuna.samplers import NSGAIISampler

    return Optuna(experiment, NSGAIISampler(seed=seed), BATCH)


def _optuna_tpe(experiment: Experiment, trials: int, seed: int) -> Method:
    from optuna.exceptions import ExperimentalWarning
    from optuna.samplers import TPESampler

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        return Optuna(experiment, TPESampler(seed=seed), TPE_BATCH)


METHODS: dict[str, Callable[[Experiment, int, int], Method]] = {
    "ours": lambda experiment, trials, seed: Ours(experiment, "nsga2", trials, seed),
    "ours-without-optuna": lambda experiment, trials, seed: Ours(experiment, "neighbours", trials, seed),
    "random": lambda experiment, trials, seed: Random(experiment, seed),
    "optuna-nsga2": _optuna_nsga2,
    "optuna-tpe": _optuna_tpe,
    "pymoo-nsga2": lambda experiment, trials, seed: Pymoo(experiment, seed),
}


def available(names: Sequence[str]) -> list[str]:
    """Those of the methods whose libraries are installed."""
    from importlib.util import find_spec

    return [name for name in names if not name.startswith("pymoo") or find_spec("pymoo") is not None]
