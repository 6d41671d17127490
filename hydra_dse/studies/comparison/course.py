"""The course of one load: which tasks follow from which answers, as a generator that any scheduler can drive.

    tasks = next(course)               # may run in any order, side by side
    tasks = course.send(answers)       # one per task, in order; ends with StopIteration(value)

pilot → searches → choice among simulated finalists → saturation and highest rates → latencies at the rates that follow.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hydra_dse.design.comparison import MAX_RATE, Comparison, Contender
from hydra_dse.studies.comparison.choosing import objectives_of
from hydra_dse.studies.comparison.designs import Choice, choice_of, derived_choice, plain_choice
from hydra_dse.studies.comparison.tasks import Answer, Task

REFERENCE, OWN = "reference", "own"
"""What a fraction is of: the highest rate of the reference, or that of the contender itself."""


@dataclass(frozen=True)
class Measured:
    """A contender in a case.

    Attributes:
        rates: by replication: saturation and highest rate, None where it serves nothing.
        points: (basis, fraction) → rate and, by replication, the metrics there.
        unit_cost_usd, recurring_usd: of the package, with and without its share of design and masks; a scaled one costs
            what the original does.
        iso_node_mm2: its silicon as if all were made at one node, see `hydra_dse.physical.iso_node`.
        violations: why it cannot be built.
    """

    contender: str
    choice: Choice
    node_nm: float = float("nan")
    guess: float = float("nan")
    unit_cost_usd: float = float("nan")
    iso_node_mm2: float = float("nan")
    recurring_usd: float = float("nan")
    rates: tuple[Answer, ...] = ()
    points: Mapping[tuple[str, float], tuple[float, tuple[Mapping[str, float | None], ...]]] = field(
        default_factory=dict
    )
    violations: tuple[str, ...] = ()

    def series(self, name: str) -> list[float]:
        """A metric of `rates` by replication, NaN where there is none."""
        return [_value(found.get(name)) for found in self.rates]

    def mean(self, name: str) -> float:
        """Its mean."""
        values = self.series(name)
        return float(np.mean(values)) if values else float("nan")


@dataclass(frozen=True)
class Case:
    """A load and an aim, with every contender measured."""

    load: int
    aim: str
    contenders: tuple[Measured, ...]


Course = Generator[Sequence[Task], Sequence[Answer], tuple[Case, ...]]


def course_of(comparison: Comparison, load: int) -> Course:
    """The course of one load through all its aims."""
    [pilot] = yield [Task("pilot", load)]
    rate = _value(pilot["rate_per_s"])
    searches = [
        Task("search", load, {"contender": one.name, "aims": aims, "rate_per_s": rate, **_of_space(number)})
        for one in comparison.contenders
        for number in range(len(one.spaces))
        for aims in _groups(comparison.aims)
    ]
    answers = yield searches
    found: dict[tuple[str, str], list[object]] = {}
    for task, answer in zip(searches, answers, strict=True):
        for aim, best in answer.items():
            found.setdefault((str(task.words["contender"]), aim), []).append(best)
    choosing = [
        _choose(comparison, load, one, aim, found, rate) for aim in comparison.aims for one in comparison.contenders
    ]
    tasks = [task for task in choosing if task is not None]
    chosen = dict(zip([task.key for task in tasks], (yield tasks), strict=True))
    cases = []
    per_aim = len(comparison.contenders)
    for place, aim in enumerate(comparison.aims):
        mine = choosing[place * per_aim : (place + 1) * per_aim]
        cases.append(
            (
                yield from _case(
                    comparison, load, aim, [None if task is None else chosen[task.key] for task in mine], rate
                )
            )
        )
    return tuple(cases)


def _groups(aims: Sequence[str]) -> list[list[str]]:
    """Aims that share a search."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for aim in aims:
        groups.setdefault(objectives_of(aim), []).append(aim)
    return list(groups.values())


def _of_space(number: int) -> dict[str, int]:
    """Words that name one of several spaces; none for the first."""
    return {"space": number} if number else {}


def _choose(
    comparison: Comparison,
    load: int,
    contender: Contender,
    aim: str,
    found: Mapping[tuple[str, str], Sequence[object]],
    rate: float,
) -> Task | None:
    """The task that chooses a contender's design; None where it derives from others or nothing is feasible."""
    if contender.of is not None:
        return None
    if contender.design is not None:
        finalists: list[object] = [plain_choice(Choice(contender.name, {}))]
    else:
        finalists = _pooled(found[contender.name, aim], comparison.search.finalists)
    words = {"finalists": finalists, "aim": aim, "rate_per_s": rate}
    return Task("choose", load, words) if finalists else None


def _pooled(found: Sequence[object], count: int) -> list[object]:
    """The best of all spaces, and the best of each: estimates of unlike designs err differently."""
    spaces = [best for best in found if isinstance(best, list) and best]
    ranked = sorted((item for best in spaces for item in best), key=lambda item: -float(item["score"]))
    kept = ranked[:count] + [best[0] for best in spaces if best[0] not in ranked[:count]]
    return [item["choice"] for item in kept]


def _case(
    comparison: Comparison, load: int, aim: str, answers: Sequence[Answer | None], rate: float
) -> Generator[Sequence[Task], Sequence[Answer], Case]:
    measured: dict[str, Measured] = {}
    choices: dict[str, Choice] = {}
    late: list[Task] = []
    for one, answer in zip(comparison.contenders, answers, strict=True):
        if answer is not None:
            measured[one.name] = _chosen(one.name, answer)
            choices[one.name] = measured[one.name].choice
        elif one.of in choices and (one.change.take_from is None or one.change.take_from in choices):
            choices[one.name] = derived_choice(comparison, one, choices)
            words = {"finalists": [plain_choice(choices[one.name])], "aim": MAX_RATE, "rate_per_s": rate}
            late.append(Task("choose", load, words))
        else:
            measured[one.name] = Measured(one.name, Choice(one.name, {}), violations=("nothing feasible was found",))
    for answer in (yield late):
        found = _chosen(str(_mapping(answer["choice"])["contender"]), answer)
        measured[found.contender] = found
    measured = yield from _with_rates(comparison, load, measured)
    measured = yield from _with_points(comparison, load, measured)
    return Case(load, aim, tuple(measured[one.name] for one in comparison.contenders))


def _chosen(name: str, answer: Answer) -> Measured:
    broken = answer["violations"]
    violations = tuple(str(item) for item in broken) if isinstance(broken, list) else ()
    choice = choice_of(_mapping(answer["choice"]))
    return Measured(
        name,
        choice,
        node_nm=_value(answer["node_nm"]),
        guess=_value(answer["guess"]),
        unit_cost_usd=_value(answer.get("unit_cost_usd")),
        iso_node_mm2=_value(answer.get("iso_node_mm2")),
        recurring_usd=_value(answer.get("recurring_usd")),
        violations=violations,
    )


def _with_rates(
    comparison: Comparison, load: int, measured: Mapping[str, Measured]
) -> Generator[Sequence[Task], Sequence[Answer], dict[str, Measured]]:
    ready = [one for one in measured.values() if not one.violations]
    repeats = range(comparison.simulation.replications)
    tasks = [
        Task("rates", load, {"choice": plain_choice(one.choice), "replication": number, "guess": one.guess})
        for one in ready
        for number in repeats
    ]
    answers = iter((yield tasks))
    done = {one.contender: replace(one, rates=tuple(next(answers) for _ in repeats)) for one in ready}
    return {**measured, **done}


def _with_points(
    comparison: Comparison, load: int, measured: Mapping[str, Measured]
) -> Generator[Sequence[Task], Sequence[Answer], dict[str, Measured]]:
    """Latencies at shares of the reference's highest rate and of each one's own."""
    base = measured[comparison.reference].mean("max_rate_requests_per_s")
    plans = {name: _rates(comparison, base, one) for name, one in measured.items()}
    repeats = range(comparison.simulation.replications)
    tasks = [
        Task("points", load, {"choice": plain_choice(measured[name].choice), "replication": number, "rates": rates})
        for name, plan in plans.items()
        if (rates := list(dict.fromkeys(plan.values())))
        for number in repeats
    ]
    answers = iter((yield tasks))
    done: dict[str, Measured] = {}
    for name, plan in plans.items():
        rates = list(dict.fromkeys(plan.values()))
        if rates:
            found = [next(answers)["points"] for _ in repeats]
            columns = [item if isinstance(item, list) else [] for item in found]
            points = {key: (rate, tuple(column[rates.index(rate)] for column in columns)) for key, rate in plan.items()}
            done[name] = replace(measured[name], points=points)
    return {**measured, **done}


def _rates(comparison: Comparison, base: float, one: Measured) -> dict[tuple[str, float], float]:
    """Rates of the points of a contender; none where it cannot run, or where a highest rate is zero."""
    if not one.rates:
        return {}
    own = one.mean("max_rate_requests_per_s")
    plan: dict[tuple[str, float], float] = {}
    for fraction in comparison.fractions:
        if base > 0.0:
            plan[REFERENCE, fraction] = fraction * base
        if own > 0.0:
            plan[OWN, fraction] = fraction * own
    return plan


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _value(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")
