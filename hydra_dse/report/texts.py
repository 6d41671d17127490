"""Values of a run as texts: estimates with intervals, simulations with confidence intervals, errors."""

from __future__ import annotations

import math

from hydra_dse.report.records import Detail
from hydra_dse.report.run import Run
from hydra_dse.results import metric
from hydra_dse.results.text import number, percent, span

SHOWN = ("load", "ttft_mean_s", "tpot_mean_s", "energy_j_per_token", "power_w")


def shown_metrics(run: Run) -> list[str]:
    """The objectives, then what every reader wants to know."""
    known = run.designs.scores.metrics
    more = (name for name in SHOWN if name not in run.experiment.objectives)
    # Several scenarios have no load or power of their own in the table of designs.
    return [*run.experiment.objectives, *(name for name in more if name in known)]


def unit_of(name: str) -> str:
    """Unit of a metric; nothing for plain numbers."""
    unit = metric(name).unit
    return "" if unit == "1" else unit


def with_unit(name: str, value: float) -> str:
    """A value with its unit."""
    return f"{number(value)} {unit_of(name)}".rstrip()


def capital(text: str) -> str:
    """The text with its first letter large."""
    return text[:1].upper() + text[1:]


def interval(low: float, high: float) -> str:
    """An interval; nothing where it is unknown."""
    return "" if math.isnan(low) or math.isnan(high) else span(low, high)


def estimate_text(run: Run, name: str, row: int, with_interval: bool = True) -> str:
    """An estimate, its 90 % interval on a line of its own."""
    scores = run.designs.scores
    text = number(run.estimate(name, row))
    if not with_interval or name not in scores.low or name not in scores.high:
        return text
    return f"{text}\n{interval(float(scores.low[name][row]), float(scores.high[name][row]))}"


def simulated_text(run: Run, name: str, identity: str) -> str:
    """A simulated value, its 95 % interval on a line of its own; nothing where the design was not simulated."""
    row = run.validation.get((identity, name))
    return "" if row is None else f"{number(row.simulated)}\n{interval(row.ci_low, row.ci_high)}"


def side_by_side(run: Run, name: str, row: int) -> tuple[str, str, str, str, str]:
    """Metric, unit, estimate, simulation, error of the estimate."""
    identity = run.identity(row)
    found = run.validation.get((identity, name))
    error = "" if found is None else percent(found.relative_error)
    return metric(name).label, unit_of(name), estimate_text(run, name, row), simulated_text(run, name, identity), error


def detail_of(run: Run, row: int) -> Detail:
    """What the panel of details shows of a design."""
    identity = run.identity(row)
    title = f"Design {identity}"
    title += ", recommended" if row == run.recommended else ""
    title += "" if identity in run.simulated else ", not simulated"
    return Detail(
        identity,
        title,
        tuple((name, str(value)) for name, value in run.designs.points[row].items()),
        tuple(side_by_side(run, name, row) for name in shown_metrics(run)),
    )
