"""How likely each design is in front when the calibration is uncertain: `front_uncertainty.csv` of a run."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass

from hydra_dse.errors import Fault, InputError
from hydra_dse.report.charts import BLUE, GREY, Axis, Bar, BarRow, Bars, Plot
from hydra_dse.report.records import Section, Table
from hydra_dse.report.run import Run
from hydra_dse.report.stored import optional_bytes
from hydra_dse.results.text import number
from hydra_dse.studies.front_uncertainty_files import UNCERTAINTY

HEADING = "Under an uncertain calibration"
COLUMNS = ("design", "on_front", "status", "p_in_front", "p_feasible", "expected_regret")
MOST = 25


@dataclass(frozen=True)
class Odds:
    """A design over drawn calibrations.

    Attributes:
        on_front: whether the estimates put it on the front.
        status: what the draws say of that.
        in_front, feasible: shares of the draws.
        regret: mean over the draws of what another design is better by in every objective at once.
    """

    design: str
    on_front: bool
    status: str
    in_front: float
    feasible: float
    regret: float


def uncertainty_section(run: Run) -> Section:
    """Bars of the odds, and the table."""
    data = optional_bytes(run.directory, UNCERTAINTY)
    if data is None:
        return Section(HEADING, absent="no calibrations were drawn for the run: run hydra-dse robustness RUN")
    found = sorted(
        read_odds(data, str(run.directory.path / UNCERTAINTY)), key=lambda item: (-item.in_front, item.design)
    )
    words = (
        "Share of drawn calibrations in which a design is on the front; all designs meet the same draws. Between 10 "
        "and 90 % it is undecided.",
    )
    rows = [
        (
            item.design, "yes" if item.on_front else "no", item.status, f"{100 * item.in_front:.0f} %",
            f"{100 * item.feasible:.0f} %", number(item.regret, 3),
        )
        for item in found
    ]  # fmt: skip
    columns = ("design", "on the front\nby its estimate", "status", "in front", "feasible", "expected\nregret")
    table = Table("Designs over drawn calibrations", columns, rows[:MOST], 3)
    return Section(HEADING, words, (_plot(found),), (table,))


def read_odds(data: bytes, file: str) -> list[Odds]:
    """Read the table.

    Raises:
        InputError: not such a table.
    """
    try:
        reader = csv.DictReader(io.StringIO(data.decode()))
        missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise ValueError(f"no column {missing[0]!r}")
        return [
            Odds(
                row["design"], row["on_front"] == "True", row["status"],
                *(float(row[name]) if row[name] else math.nan for name in COLUMNS[3:]),
            )
            for row in reader
        ]  # fmt: skip
    except (ValueError, TypeError, csv.Error) as error:
        raise InputError(Fault(f"not a readable table of odds ({error})", file=file)) from error


def _plot(found: list[Odds]) -> Plot:
    rows = tuple(
        BarRow(
            item.design,
            (
                Bar(
                    0.0,
                    item.in_front,
                    BLUE if item.on_front else GREY,
                    "on the front" if item.on_front else "behind it",
                ),
            ),
            item.status,
        )
        for item in found[:MOST]
    )
    more = f" The {MOST} likeliest of {len(found)}." if len(found) > MOST else ""
    data = [(i.design, i.on_front, i.status, i.in_front, i.feasible, i.regret) for i in found]
    chart = Bars(Axis("share of draws in which it is in front [1]"), rows)
    return Plot("uncertainty", "Odds of being in front", f"Designs by their odds.{more}", chart, COLUMNS, data)
