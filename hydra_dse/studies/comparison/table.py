"""The files of a comparison: `points.csv` (every rate), `compare.csv` (every case and contender), `summary.csv`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields

import numpy as np

from hydra_dse.design.comparison import Comparison
from hydra_dse.studies.comparison.course import OWN, REFERENCE, Case, Measured
from hydra_dse.studies.comparison.measuring import LATENCIES
from hydra_dse.studies.comparison.ratios import Ratio, SummaryRow, half_width, paired_ratio, summarise
from hydra_dse.studies.files import csv_bytes

SATURATION, HIGHEST = "saturation_tokens_per_s", "max_rate_requests_per_s"
_RATES = (SATURATION, "saturation_requests_per_s", HIGHEST)
_TTFT, _SCHEDULED, _POWER = "ttft_mean_s", "ttft_scheduled_mean_s", "power_w"


@dataclass(frozen=True)
class Compared:
    """A contender in a case as a row: figures with intervals, and ratios to the reference.

    Attributes:
        rates: name → mean over replications and half of its 95 % interval.
        ratios: name → ratio to the reference; names are those of the columns.
        saturated: fractions of the reference's highest rate that this contender does not sustain.
    """

    model: str
    workload: str
    aim: str
    measured: Measured
    rates: Mapping[str, tuple[float, float]]
    ratios: Mapping[str, Ratio]
    saturated: tuple[float, ...]
    power_w: float
    area_mm2: float


def ratio_names(comparison: Comparison) -> list[str]:
    """Columns of ratios, in order."""
    names = ["saturation", "max_rate"]
    for basis in (REFERENCE, OWN):
        for fraction in comparison.fractions:
            names += [f"ttft_at_{fraction:g}_of_{basis}", f"ttft_scheduled_at_{fraction:g}_of_{basis}"]
    return [*names, "max_rate_per_w", "max_rate_per_mm2", "max_rate_per_iso_mm2", "max_rate_per_usd"]


def compared(comparison: Comparison, case: Case) -> list[Compared]:
    """Rows of a case."""
    reference = next(one for one in case.contenders if one.contender == comparison.reference)
    return [_row(comparison, case, one, reference) for one in case.contenders]


def _row(comparison: Comparison, case: Case, one: Measured, reference: Measured) -> Compared:
    load = comparison.loads[case.load]
    rates = {name: _with_width(one.series(name)) for name in _RATES}
    saturated = tuple(
        fraction
        for (basis, fraction), (rate, _) in one.points.items()
        if basis == REFERENCE and not rate < one.mean("saturation_requests_per_s")
    )
    power = _power(comparison, one)
    return Compared(
        load.model,
        load.workload,
        case.aim,
        one,
        rates,
        dict(_ratios(comparison, one, reference, saturated)),
        saturated,
        power,
        one.mean("area_mm2"),
    )


def _power(comparison: Comparison, one: Measured) -> float:
    """Mean power at the primary fraction of its own highest rate."""
    point = one.points.get((OWN, comparison.primary))
    return math.nan if point is None else float(np.mean(_series(point[1], _POWER)))


def _ratios(
    comparison: Comparison, one: Measured, reference: Measured, saturated: Sequence[float]
) -> Iterator[tuple[str, Ratio]]:
    yield "saturation", paired_ratio(one.series(SATURATION), reference.series(SATURATION))
    yield "max_rate", paired_ratio(one.series(HIGHEST), reference.series(HIGHEST))
    for key in [(basis, fraction) for basis in (REFERENCE, OWN) for fraction in comparison.fractions]:
        mine, others = one.points.get(key), reference.points.get(key)
        known = mine is not None and others is not None and not (key[0] == REFERENCE and key[1] in saturated)
        for label, metric in (("ttft", _TTFT), ("ttft_scheduled", _SCHEDULED)):
            found = Ratio(math.nan)
            if known and mine is not None and others is not None:
                found = paired_ratio(_series(mine[1], metric), _series(others[1], metric))
            yield f"{label}_at_{key[1]:g}_of_{key[0]}", found
    yield "max_rate_per_w", _normalised(one, reference, _power(comparison, one), _power(comparison, reference))
    yield "max_rate_per_mm2", _normalised(one, reference, one.mean("area_mm2"), reference.mean("area_mm2"))
    yield "max_rate_per_iso_mm2", _normalised(one, reference, one.iso_node_mm2, reference.iso_node_mm2)
    yield "max_rate_per_usd", _normalised(one, reference, one.unit_cost_usd, reference.unit_cost_usd)


def _normalised(one: Measured, reference: Measured, mine: float, others: float) -> Ratio:
    if not (mine > 0.0 and others > 0.0):
        return Ratio(math.nan)
    return paired_ratio(
        [value / mine for value in one.series(HIGHEST)], [value / others for value in reference.series(HIGHEST)]
    )


def _series(points: Sequence[Mapping[str, float | None]], name: str) -> list[float]:
    return [math.nan if (value := point.get(name)) is None else float(value) for point in points]


def _with_width(values: Sequence[float]) -> tuple[float, float]:
    if not values:
        return math.nan, math.nan
    return float(np.mean(values)), half_width(np.array(values))


def compared_csv(comparison: Comparison, rows: Sequence[Compared]) -> bytes:
    """`compare.csv`."""
    names = ratio_names(comparison)
    heads = ["model", "workload", "objective", "contender", "design", "feasible"]
    heads += [part for name in _RATES for part in (name, f"{name}:low", f"{name}:high")]
    heads += ["power_w", "area_mm2", "interposer_mm2", "node_nm", "iso_node_mm2", "unit_cost_usd", "recurring_usd"]
    heads.append("saturated_fractions")
    heads += [part for name in names for part in (f"ratio:{name}", f"ratio:{name}:low", f"ratio:{name}:high")]
    return csv_bytes([*heads, "parameters", "slots", "violations"], [_cells(row, names) for row in rows])


def _cells(row: Compared, names: Sequence[str]) -> list[object]:
    one = row.measured
    cells: list[object] = [row.model, row.workload, row.aim, one.contender, one.choice.identity, not one.violations]
    for value, half in row.rates.values():
        cells += [value, max(0.0, value - half), value + half]  # a rate is never negative, however few the runs
    cells += [row.power_w, row.area_mm2, one.mean("interposer_mm2"), one.node_nm]
    cells += [one.iso_node_mm2, one.unit_cost_usd, one.recurring_usd]
    cells.append(" ".join(f"{fraction:g}" for fraction in row.saturated))
    for name in names:
        ratio = row.ratios[name]
        cells += [ratio.value, ratio.low, ratio.high]
    slots = "" if one.choice.slots is None else " ".join(map(str, one.choice.slots))
    return [*cells, json.dumps(dict(one.choice.point)), slots, "; ".join(one.violations)]


def points_csv(comparison: Comparison, cases: Sequence[Case]) -> bytes:
    """`points.csv`: means over replications with half-widths of TTFT."""
    heads = ["model", "workload", "objective", "contender", "basis", "fraction", "rate_requests_per_s", "load"]
    rows: list[list[object]] = []
    for case in cases:
        load = comparison.loads[case.load]
        for one in case.contenders:
            for (basis, fraction), (rate, found) in one.points.items():
                share = rate / one.mean("saturation_requests_per_s")
                row: list[object] = [load.model, load.workload, case.aim, one.contender, basis, fraction, rate, share]
                for name in LATENCIES:
                    mean, half = _with_width(_series(found, name))
                    row += [mean, mean - half, mean + half]
                rows.append(row)
    heads += [part for name in LATENCIES for part in (name, f"{name}:low", f"{name}:high")]
    return csv_bytes(heads, rows)


def summary_rows(comparison: Comparison, rows: Sequence[Compared]) -> list[SummaryRow]:
    """Statistics of every ratio over all cases, for every contender but the reference."""
    found: list[SummaryRow] = []
    for contender in comparison.contenders:
        if contender.name == comparison.reference:
            continue
        mine = [row for row in rows if row.measured.contender == contender.name]
        groups = [(row.model, row.workload) for row in mine]
        for name in ratio_names(comparison):
            values = [row.ratios[name].value for row in mine]
            found += summarise(contender.name, name, values, groups, comparison.simulation.seed)
    return found


def summary_csv(rows: Sequence[SummaryRow]) -> bytes:
    """`summary.csv`."""
    return csv_bytes([item.name for item in fields(SummaryRow)], [list(astuple(row)) for row in rows])
