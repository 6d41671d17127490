"""What a comparison found: ratios to the reference with intervals, every case, and latencies over the rate.

Everything is read from the tables of the comparison's directory; nothing is simulated anew.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hydra_dse.errors import Fault, InputError
from hydra_dse.report.charts import (
    BLUE,
    CLOUD,
    COLOURS,
    GREY,
    LINE_POINTS,
    POINTS,
    XY,
    Axis,
    FloatArray,
    Plot,
    Rule,
    Series,
    axis_of,
    errors_of,
)
from hydra_dse.report.records import Report, Section, Table
from hydra_dse.report.stored import Row, other_table, stored_table
from hydra_dse.report.summary import origin_section
from hydra_dse.report.texts import interval
from hydra_dse.results.text import number
from hydra_dse.studies.comparison import COMPARED, SUMMARY
from hydra_dse.studies.comparison import POINTS as POINTS_FILE
from hydra_dse.studies.comparison.stored import provenance_of_comparison
from hydra_dse.studies.provenance import FINISHED, Provenance

MOST_CASES = 8
"""Cases whose latencies are drawn."""
MEAN = "geometric mean"
_RATE_RATIOS = {
    "max_rate": "highest rate",
    "saturation": "saturation throughput",
    "max_rate_per_w": "highest rate per watt",
    "max_rate_per_usd": "highest rate per dollar of making",
    "max_rate_per_iso_mm2": "highest rate per mm² at one node",
}
_STUDY = "a comparison"


@dataclass(frozen=True)
class Compared:
    """The tables of a comparison's directory.

    Attributes:
        reference: name of the contender that ratios are relative to.
        primary: the fraction of its highest rate that is looked at first.
    """

    provenance: Provenance
    purpose: str
    reference: str
    primary: float
    cases: tuple[Row, ...]
    points: tuple[Row, ...]
    summary: tuple[Row, ...]

    @property
    def contenders(self) -> tuple[str, ...]:
        """Names in order."""
        return tuple(dict.fromkeys(row["contender"] for row in self.cases))

    @property
    def loads(self) -> tuple[tuple[str, str, str], ...]:
        """Model, workload and objective of every case, in order."""
        return tuple(dict.fromkeys(_case(row) for row in self.cases))


def read_comparison(run_dir: str | Path) -> Compared:
    """Read the tables of a comparison.

    Raises:
        InputError: no comparison, one without a finished load, or a corrupt table.
    """
    from hydra_dse.config.loader import load_yaml
    from hydra_dse.studies.comparison.runs import COMPARISON

    path = Path(run_dir)
    stored = load_yaml(path / COMPARISON).data
    needed = ("model", "workload", "objective", "contender")
    cases = _rows(path / COMPARED, (*needed, "power_w", "area_mm2", "node_nm", "parameters"))
    summary = _rows(path / SUMMARY, ("contender", "ratio", "statistic", "value", "low", "high", "cases", "missing"))
    known = {row["contender"] for row in cases}
    for row in summary:
        if row["contender"] not in known:
            lacks = f"has no row of {row['contender']!r}, of which {SUMMARY} tells"
            raise other_table(path / COMPARED, _STUDY, lacks)
    compared = stored.get("compare")
    first = compared[0] if isinstance(compared, list) and compared else {}
    reference = stored.get("reference") or (first.get("name") if isinstance(first, dict) else None)
    primary = stored.get("primary")
    return Compared(
        provenance_of_comparison(path),
        str(stored.get("purpose") or ""),
        str(reference),
        float(primary) if isinstance(primary, int | float) else 0.8,
        cases,
        _rows(path / POINTS_FILE, (*needed, "basis", "rate_requests_per_s", "ttft_mean_s")),
        summary,
    )


def _rows(file: Path, needed: Sequence[str]) -> tuple[Row, ...]:
    rows = stored_table(file, needed, _STUDY, ": the comparison has no finished load yet, or is corrupt")
    if any(None in row.values() for row in rows):
        raise other_table(file, _STUDY, "has a row that is cut off")
    return rows


def comparison_report(found: Compared) -> Report:
    """Everything that the page says of a comparison."""
    return Report(
        title=f"{found.provenance.name}: comparison",
        subtitle=found.purpose,
        sections=(_summary(found), _ratios(found), _cases(found), _latencies(found), origin_section(found.provenance)),
    )


def _summary(found: Compared) -> Section:
    state = "" if found.provenance.state == FINISHED else " The comparison is not finished: what is there so far."
    words = (
        f"{len(found.contenders)} contenders in {len(found.loads)} cases of model, workload and objective, each with "
        f"the same requests. Ratios are to {found.reference}.{state}",
        "Geometric means over cases with 95 % bootstrap intervals over loads; of a single case over its "
        "replications. A rate that a contender does not sustain gives no ratio and is counted as missing.",
    )
    rows = [
        (
            row["contender"],
            _shown(found)[row["ratio"]],
            f"{number(_value(row, 'value'))}\n{interval(*_edges(found, row))}",
            row["cases"],
            row["missing"],
        )
        for row in found.summary
        if row["statistic"] == MEAN and row["ratio"] in _shown(found)
    ]
    columns = ("contender", "ratio", "geometric mean", "cases", "missing")
    return Section("Summary", words, (), (Table(f"Ratios to {found.reference}", columns, rows, 2),))


def _edges(found: Compared, row: Row) -> tuple[float, float]:
    """The interval of a mean; of a single case that over its replications."""
    if len(found.loads) > 1:
        return _value(row, "low"), _value(row, "high")
    case = next(one for one in found.cases if one["contender"] == row["contender"])
    return _value(case, f"ratio:{row['ratio']}:low"), _value(case, f"ratio:{row['ratio']}:high")


def _shown(found: Compared) -> dict[str, str]:
    """Ratios that are drawn, with their words."""
    at = f"ttft_at_{found.primary:g}_of_"
    words = f"mean TTFT at {found.primary:g} of"
    return {
        **_RATE_RATIOS,
        f"{at}reference": f"{words} the highest rate of {found.reference}",
        f"{at}own": f"{words} its own highest rate",
    }


def _ratios(found: Compared) -> Section:
    """A plot for each ratio: contenders one below the other, each case a dot."""
    plots = [_ratio_plot(found, name, words) for name, words in _shown(found).items()]
    shown = tuple(plot for plot in plots if plot is not None)
    if not shown:
        return Section("Ratios", absent="no contender beside the reference has a ratio")
    return Section("Ratios", (), shown)


def _ratio_plot(found: Compared, name: str, words: str) -> Plot | None:
    others = [one for one in found.contenders if one != found.reference]
    means = {row["contender"]: row for row in found.summary if row["ratio"] == name and row["statistic"] == MEAN}
    drawn = [one for one in others if one in means]
    if not drawn:
        return None
    x = np.array([_value(means[one], "value") for one in drawn])
    low, high = np.array([_edges(found, means[one]) for one in drawn]).T
    places = {one: float(place) for place, one in enumerate(drawn)}
    dots = [row for row in found.cases if row["contender"] in places and row.get(f"ratio:{name}")]
    series = [Series("geometric mean, 95 % interval", POINTS, BLUE, x, np.arange(len(drawn), dtype=np.float64),
                     x_error=errors_of(x, low, high))]  # fmt: skip
    if len(found.loads) > 1:
        each = np.array([_value(row, f"ratio:{name}") for row in dots])
        series.insert(0, Series("cases", CLOUD, GREY, each, np.array([places[row["contender"]] for row in dots])))
    ends = [value for value in (x.min(), x.max()) if value > 0.0]
    chart = XY(
        Axis("ratio [1]", log=bool(ends) and max(ends) > 4.0 * min(ends)),
        Axis("", names=tuple(drawn)),
        tuple(series),
        (Rule(found.reference, "x", 1.0),),
    )
    data = [(*_case(row), row["contender"], _value(row, f"ratio:{name}")) for row in dots]
    caption = f"{words[:1].upper()}{words[1:]}, relative to {found.reference}; a dot is a case."
    columns = ("model", "workload", "objective", "contender", "ratio")
    return Plot(f"ratio_{name.replace('.', '_')}", f"Ratio: {words}", caption, chart, columns, data)


def _cases(found: Compared) -> Section:
    """The table of all cases and contenders."""
    keys = ("saturation_tokens_per_s", "max_rate_requests_per_s", "power_w", "area_mm2", "node_nm", "unit_cost_usd")
    rows = []
    for row in found.cases:
        if row.get("violations"):
            cells = [row["violations"], *[""] * (len(keys) - 1)]
        else:
            cells = [number(_value(row, key)) for key in keys]
        point = row["parameters"].strip("{}").replace('"', "")
        rows.append((", ".join(_case(row)), row["contender"], *cells, point))
    columns = (
        "case", "contender", "saturation\ntokens/s", "highest rate\nrequests/s", "power\nW", "silicon\nmm²", "node\nnm",
        "cost of making\nUSD", "design",
    )  # fmt: skip
    return Section("Cases", (), (), (Table("Every case and contender", columns, rows, 2, wrap_last=True),))


def _latencies(found: Compared) -> Section:
    """Mean TTFT over the rate, a plot for each case."""
    plots = [_latency_plot(found, case, place) for place, case in enumerate(found.loads[:MOST_CASES])]
    shown = tuple(plot for plot in plots if plot is not None)
    if not shown:
        return Section("Latencies", absent="no rate was measured: the reference holds the service level nowhere")
    more = f" The first {MOST_CASES} of {len(found.loads)} cases." if len(found.loads) > MOST_CASES else ""
    words = f"Simulated at fractions of the reference's highest rate and of each contender's own.{more}"
    return Section("Latencies", (words,), shown)


def _latency_plot(found: Compared, case: tuple[str, str, str], place: int) -> Plot | None:
    mine = [row for row in found.points if _case(row) == case]
    series: list[Series] = []
    for number_, contender in enumerate(found.contenders):
        rows = {_value(row, "rate_requests_per_s"): row for row in mine if row["contender"] == contender}
        if rows:
            x = np.array(sorted(rows))
            y, low, high = (
                _column([rows[rate] for rate in x.tolist()], f"ttft_mean_s{end}") for end in ("", ":low", ":high")
            )
            error = errors_of(y, np.maximum(low, 0.0), high)
            square, colour = number_ >= COLOURS, number_ % COLOURS
            series.append(Series(contender, LINE_POINTS, colour, x, y, y_error=error, square=square))
    if not series:
        return None
    title = f"Mean TTFT: {', '.join(case)}"
    data = [
        (row["contender"], row["basis"], _value(row, "rate_requests_per_s"), _value(row, "ttft_mean_s")) for row in mine
    ]
    chart = XY(Axis("arrival rate [requests/s]"), axis_of("ttft_mean_s"), tuple(series))
    columns = ("contender", "basis", "rate_requests_per_s", "ttft_mean_s")
    return Plot(f"ttft_{place}", title, "Means over replications with 95 % intervals.", chart, columns, data)


def _column(rows: Sequence[Row], name: str) -> FloatArray:
    return np.array([_value(row, name) for row in rows])


def _case(row: Row) -> tuple[str, str, str]:
    return row["model"], row["workload"], row["objective"]


def _value(row: Row, name: str) -> float:
    """A number of a table, NaN where it is empty.

    Raises:
        InputError: it is no number.
    """
    text = row.get(name, "")
    try:
        return float(text) if text else math.nan
    except ValueError as error:
        raise InputError(Fault(f"{name} is {text!r}, which is no number", file=COMPARED)) from error
