"""The tasks of a comparison: small, pure and answered in plain data, for any process to do and a journal to keep.

A task knows its comparison by file; a worker reads it once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from hydra_dse.design.comparison import AIMS, MAX_RATE, PER_TTFT, Comparison, Load
from hydra_dse.errors import Fault, InputError
from hydra_dse.physical import package_cost
from hydra_dse.physical.iso_node import iso_node_mm2
from hydra_dse.results import Violation
from hydra_dse.results.derived import derived_among, evaluation_with
from hydra_dse.studies.comparison.choosing import finalists, pilot_rate, scores_of
from hydra_dse.studies.comparison.designs import Choice, choice_of, design_of, placed, plain_choice
from hydra_dse.studies.comparison.measuring import Runs, points_of, rates_of
from hydra_dse.studies.simulators import find_simulator

Answer = Mapping[str, object]


@dataclass(frozen=True)
class Source:
    """Where a worker reads the comparison.

    Attributes:
        digest: of everything that was read: a process that works on after a change reads anew.
    """

    path: str
    overrides: tuple[str, ...] = ()
    quick: bool = False
    digest: str = ""
    simulator: str = "serving"


@dataclass(frozen=True)
class Task:
    """One piece of work; equal words mean equal work.

    Attributes:
        kind: `"pilot"`, `"search"`, `"choose"`, `"rates"` or `"points"`.
        load: index in `Comparison.loads`.
        words: further arguments as plain data, by name.
    """

    kind: str
    load: int
    words: Mapping[str, object] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The task as text, by which a journal knows its answer."""
        return json.dumps([self.kind, self.load, dict(self.words)], sort_keys=True)


def perform(source: Source, task: Task) -> Answer:
    """Do a task."""
    comparison = _comparison(source)
    load = comparison.loads[task.load]
    if task.kind == "pilot":
        return {"rate_per_s": pilot_rate(comparison, load)}
    if task.kind == "search":
        return _search(comparison, load, task.words)
    if task.kind == "choose":
        return _choose(source, comparison, load, task.words)
    choice, replication = choice_of(_mapping(task.words["choice"])), _number(task.words["replication"])
    design, violations = placed(comparison, choice, load.requests.models[0])
    if violations:
        return {"violations": [str(violation) for violation in violations]}
    runs = Runs(find_simulator(source.simulator), comparison, load, design, int(replication))
    if task.kind == "rates":
        return dict(rates_of(runs, comparison, load, _number(task.words["guess"])))
    rates = [_number(rate) for rate in _list(task.words["rates"])]
    return {"points": [dict(point) for point in points_of(runs, rates)]}


@lru_cache(maxsize=2)
def _comparison(source: Source) -> Comparison:
    from hydra_dse.config.comparisons import load_comparison
    from hydra_dse.studies.comparison.runs import design_of_reference

    return load_comparison(source.path, source.overrides, quick=source.quick, design_of_run=design_of_reference)


def _search(comparison: Comparison, load: Load, words: Mapping[str, object]) -> Answer:
    contender = comparison.contender(str(words["contender"]))
    aims = [str(aim) for aim in _list(words["aims"])]
    rate, space = _number(words["rate_per_s"]), int(_number(words.get("space", 0)))
    found = finalists(comparison, load, contender, aims, rate, space)
    return {
        aim: [{"choice": plain_choice(choice), "score": score} for choice, score in best] for aim, best in found.items()
    }


def _choose(source: Source, comparison: Comparison, load: Load, words: Mapping[str, object]) -> Answer:
    """Simulate the finalists and take the best; one alone is taken without."""
    choices = [choice_of(_mapping(item)) for item in _list(words["finalists"])]
    aim, rate = str(words["aim"]), _number(words["rate_per_s"])
    scores = [0.0]
    if len(choices) > 1:
        scores = [_simulated_score(source, comparison, load, choice, aim, rate) for choice in choices]
    best = max(range(len(choices)), key=lambda index: (scores[index], -index))
    guess, node, infeasible = _about(comparison, load, choices[best])
    package = design_of(comparison, choices[best]).package
    cost = package_cost(package)
    return {
        "choice": plain_choice(choices[best]), "scores": scores, "guess": guess, "node_nm": node,
        "unit_cost_usd": cost.unit, "recurring_usd": cost.recurring, "iso_node_mm2": iso_node_mm2(package),
        "violations": [str(violation) for violation in infeasible],
    }  # fmt: skip


def _simulated_score(
    source: Source, comparison: Comparison, load: Load, choice: Choice, aim: str, rate_per_s: float
) -> float:
    design, violations = placed(comparison, choice, load.requests.models[0])
    if violations:
        return -math.inf
    runs = Runs(find_simulator(source.simulator), comparison, load, design, "selection")
    if aim == MAX_RATE:
        guess, _, infeasible = _about(comparison, load, choice)
        return (
            -math.inf
            if infeasible
            else float(rates_of(runs, comparison, load, guess)["max_rate_requests_per_s"] or 0.0)
        )
    evaluation = runs.at(rate_per_s, saturate=True, requests=comparison.search.selection_requests)
    found = evaluation_with(derived_among([aim]), evaluation).metrics
    if aim not in AIMS:
        value = found.get(aim)
        return -math.inf if value is None else float(scores_of(aim, {aim: np.array([value])})[0])
    tokens, ttft = found.get("saturation_tokens_per_s") or 0.0, found.get("ttft_mean_s") or math.inf
    return float(tokens / ttft if aim == PER_TTFT else tokens)


def _about(comparison: Comparison, load: Load, choice: Choice) -> tuple[float, float, tuple[Violation, ...]]:
    """The estimated highest rate (or a guess of it), the coarsest node of the dies, and what makes it infeasible."""
    from hydra_dse.estimator import estimate_designs
    from hydra_dse.workload import at_rate

    design, violations = placed(comparison, choice, load.requests.models[0])
    node = max((group.chiplet.technology_nm for group in design.package.dies if group.count), default=math.nan)
    if violations:
        return 1.0, node, violations
    table = estimate_designs([design], at_rate(load.requests, 1e-3), comparison.calibration, max_rate=True)
    metrics = {name: float(column[0]) for name, column in table.metrics.items()}
    rate = metrics.get("max_rate_requests_per_s", math.nan)
    saturation = metrics.get("saturation_requests_per_s", math.nan)
    guess = rate if rate > 0.0 else 0.5 * saturation if saturation > 0.0 else 1.0
    return guess, node, table.violations[0]


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise InputError(Fault(f"a stored answer is not readable: {value!r}"))
    return value


def _list(value: object) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise InputError(Fault(f"a stored answer is not readable: {value!r}"))
    return value


def _number(value: object) -> float:
    if not isinstance(value, int | float):
        raise InputError(Fault(f"a stored answer is not readable: {value!r}"))
    return float(value)
