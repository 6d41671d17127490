"""What infeasible designs break: how many, how far the nearest one is from the bound, and what would help it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.report.charts import ORANGE, Axis, Bar, BarRow, Bars, Plot
from hydra_dse.report.importance import codes_of
from hydra_dse.report.records import Section, Table
from hydra_dse.report.run import Run
from hydra_dse.results import Violation
from hydra_dse.results.text import number
from hydra_dse.search.objectives import Objectives

MOST = 20


@dataclass(frozen=True)
class Broken:
    """A constraint that designs break.

    Attributes:
        designs: how many break it; `alone`: how many break nothing else.
        median_excess: relative, over these designs.
        nearest: the violation with the smallest excess, and the design it is of.
        remedy: the fewest changes of parameters that lead from that design to a feasible one of the run.
    """

    constraint: str
    designs: int
    alone: int
    median_excess: float
    nearest: Violation
    nearest_design: str
    remedy: str


def broken_constraints(run: Run) -> list[Broken]:
    """The broken constraints, most frequent first."""
    found: dict[str, list[tuple[float, int, Violation]]] = {}
    alone: dict[str, int] = {}
    for row, violations in enumerate(run.designs.scores.violations):
        for violation in violations:
            found.setdefault(violation.constraint, []).append((violation.excess, row, violation))
        if len(violations) == 1:
            alone[violations[0].constraint] = alone.get(violations[0].constraint, 0) + 1
    broken = []
    remedies = Remedies.of(run)
    for constraint, cases in found.items():
        _, row, nearest = min(cases, key=lambda case: (case[0], case[1]))
        median = float(np.median([excess for excess, _, _ in cases]))
        count = len({row for _, row, _ in cases})
        remedy = remedies.nearest(row)
        found_for = Broken(constraint, count, alone.get(constraint, 0), median, nearest, run.identity(row), remedy)
        broken.append(found_for)
    return sorted(broken, key=lambda item: (-item.designs, item.constraint))


def constraints_section(run: Run) -> Section:
    """Histogram and table of the broken constraints."""
    broken = broken_constraints(run)
    if not broken:
        return Section("Constraints", absent="every scored design is feasible")
    infeasible = len(run.designs) - run.feasible
    words = (
        f"{infeasible:,} of {len(run.designs):,} scored designs are infeasible; a design may break several constraints."
    )
    rows = [
        (
            item.constraint, f"{item.designs:,}", f"{item.alone:,}", f"{100 * item.median_excess:,.3g} %",
            _miss(item.nearest), item.nearest_design, item.remedy or "n/a",
            ", ".join(item.nearest.levers) or "none named",
        )
        for item in broken
    ]  # fmt: skip
    columns = (
        "constraint", "designs", "break it\nalone", "median\nexcess", "nearest miss\nneeds of has", "design\nof it",
        "nearest feasible\nchanges: design", "levers named for it",
    )  # fmt: skip
    table = Table("What infeasible designs break", columns, rows, 1, wrap_last=True)
    return Section("Constraints", (words,), (_plot(broken),), (table,))


@dataclass(frozen=True, eq=False)
class Remedies:
    """The feasible designs of a run, ready to be compared with others.

    Attributes:
        codes: the choices of every design as numbers, shape (designs, parameters).
        feasible: rows of the feasible ones, the best first objective first.
    """

    run: Run
    codes: NDArray[np.intp]
    feasible: NDArray[np.intp]

    @classmethod
    def of(cls, run: Run) -> Remedies:
        """Of the designs of a run."""
        columns = [codes_of([point[name] for point in run.designs.points])[0] for name in run.designs.points[0]]
        feasible = np.flatnonzero(run.designs.scores.violation <= 0)
        losses = Objectives.named(run.experiment.objectives[:1]).losses(run.designs.scores.metrics)[:, 0]
        order = np.argsort(losses[feasible], kind="stable")
        return cls(run, np.stack(columns, axis=1), feasible[order])

    def nearest(self, row: int) -> str:
        """The fewest changes of parameters that lead from a design to a feasible one that the run scored.

        Of several feasible designs as near, the one with the best first objective; nothing where none is feasible.
        """
        if not len(self.feasible):
            return ""
        changes = (self.codes[self.feasible] != self.codes[row]).sum(axis=1)
        best = int(self.feasible[int(np.argmin(changes))])
        mine, other = self.run.designs.points[row], self.run.designs.points[best]
        steps = ", ".join(f"{name} {mine[name]} → {other[name]}" for name in mine if mine[name] != other[name])
        return f"{steps}: {self.run.identity(best)}"


def _miss(violation: Violation) -> str:
    unit = "" if violation.unit == "1" else f" {violation.unit}"
    return f"{number(violation.demand)} of {number(violation.bound)}{unit}"


def _plot(broken: list[Broken]) -> Plot:
    bars = tuple(
        BarRow(item.constraint, (Bar(0.0, float(item.designs), ORANGE, ""),), f"{item.designs:,}")
        for item in broken[:MOST]
    )
    rows = [
        (i.constraint, i.designs, i.alone, i.median_excess, i.nearest.demand, i.nearest.bound, i.nearest.unit,
         i.nearest_design, i.remedy, "; ".join(i.nearest.levers))
        for i in broken
    ]  # fmt: skip
    columns = (
        "constraint", "designs", "alone", "median_excess", "nearest_demand", "nearest_bound", "unit", "nearest_design",
        "nearest_feasible", "levers",
    )  # fmt: skip
    more = f" The {MOST} most frequent of {len(broken)}." if len(broken) > MOST else ""
    caption = "Scored designs that break each constraint." + more
    return Plot("constraints", "Constraints broken", caption, Bars(Axis("designs"), bars), columns, rows)
