"""Files of a front under drawn calibrations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hydra_dse.studies.files import csv_bytes
from hydra_dse.studies.interrupts import uninterrupted
from hydra_dse.studies.run_directory import RunDirectory

if TYPE_CHECKING:
    from hydra_dse.studies.front_uncertainty import UncertaintyResult

UNCERTAINTY, COMPARISONS = "front_uncertainty.csv", "comparisons.csv"


def write_uncertainty(run: RunDirectory, result: UncertaintyResult) -> None:
    """Write the odds of every design and the statements about pairs."""
    names = result.objectives
    columns = ["design", "on_front", "status", "p_in_front", "p_feasible", "expected_regret"]
    columns += [*(f"p_best_{name}" for name in names), *(f"expected_regret_{name}" for name in names), *names]
    columns += [f"{name}:slow_memory" for name in names] + ["on_slow_memory_front"]
    rows = [
        [one.design, one.on_front, one.status, one.in_front, one.feasible, one.dominated_by, *one.best, *one.regret,
         *one.values, *one.slow_values, one.in_slow_front]
        for one in (*result.front, *result.behind)
    ]  # fmt: skip
    pairs = [
        [pair.objective, pair.better, pair.worse, pair.ratio, pair.low, pair.high, pair.holds,
         "decided" if pair.decided else "undecided"]
        for pair in result.compared
    ]  # fmt: skip
    heads = ["objective", "better", "worse", "ratio", "ratio:low", "ratio:high", "p_holds", "status"]
    with uninterrupted():
        run.write(UNCERTAINTY, csv_bytes(columns, rows))
        run.write(COMPARISONS, csv_bytes(heads, pairs))
