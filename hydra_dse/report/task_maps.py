"""What a study of task maps found: service by load and map, what pays, recovery after shifts, and the cycle itself.

Everything is read from the tables of the study's directory; nothing is simulated anew.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hydra_dse.errors import Fault, InputError
from hydra_dse.report.charts import COLOURS, GREY, LINE, XY, Axis, FloatArray, HeatMap, Plot, Rule, Series
from hydra_dse.report.cycles import Measured, over_cycles
from hydra_dse.report.records import Report, Section, Table
from hydra_dse.report.stored import Row, file_word, other_table, stored_table
from hydra_dse.report.summary import origin_section
from hydra_dse.results.text import number
from hydra_dse.studies.dynamic_course import COMPLETED, DECODING, OFFERED, WAITING
from hydra_dse.studies.dynamic_files import DYNAMIC, GAINS, PHASES
from hydra_dse.studies.provenance import Provenance
from hydra_dse.studies.run_directory import EXPERIMENT, RunDirectory, existing_run

_STUDY = "a study of task maps"
_CURVES = (
    ("slo_attainment", "SLO attainment", Axis("requests that meet their SLO [1]", share=True), "arrived then"),
    ("ttft_mean_s", "TTFT", Axis("TTFT mean [s]", log=True), "arrived then"),
    (COMPLETED, "Throughput", Axis("throughput [requests/s]"), "ended then"),
    (WAITING, "Backlog", Axis("requests before their first token [1]"), "wait for their first token"),
    (DECODING, "Decoding", Axis("requests between first and last token [1]"), "decode"),
)
"""Column, title, axis and what it is of, over the cycle."""
_NEEDED = ("share_of_max_rate", "load", "cycle_s", "task_map")


@dataclass(frozen=True)
class TaskMaps:
    """The tables of a study of task maps; `course` is empty for studies that did not tell it."""

    directory: RunDirectory
    provenance: Provenance
    name: str
    purpose: str
    rows: tuple[Row, ...]
    gains: tuple[Row, ...]
    course: tuple[Row, ...]

    @property
    def maps(self) -> tuple[str, ...]:
        """Names in order; the first is what others are compared with."""
        return tuple(dict.fromkeys(row["task_map"] for row in self.rows))

    @property
    def shares(self) -> tuple[str, ...]:
        """Offered rates as shares of the highest one."""
        return tuple(dict.fromkeys(row["share_of_max_rate"] for row in self.rows))


def is_task_maps(run_dir: str | Path) -> bool:
    """Whether a directory is that of a study of task maps with a result."""
    return (Path(run_dir) / DYNAMIC).is_file()


def read_task_maps(run_dir: str | Path) -> TaskMaps:
    """Read the tables of a study.

    Raises:
        InputError: no run, or a corrupt table.
    """
    from hydra_dse.config.loader import load_yaml

    run = existing_run(run_dir)
    run.refuse_links(DYNAMIC, GAINS, PHASES, EXPERIMENT)
    stored = load_yaml(run.experiment_file).data
    course = run.path / PHASES
    return TaskMaps(
        run,
        run.provenance(),
        str(stored.get("name") or run.path.name),
        str(stored.get("purpose") or ""),
        _rows(run.path / DYNAMIC, (*_NEEDED, "design", "rate_requests_per_s", "slo_attainment")),
        _rows(run.path / GAINS, (*_NEEDED, "than", "attainment_gain", "verdict")),
        _rows(course, (*_NEEDED, "from_s", "until_s", *(name for name, *_ in _CURVES))) if course.is_file() else (),
    )


def task_maps_report(found: TaskMaps) -> Report:
    """Everything that the page says of a study of task maps."""
    sections = (_summary(found), _service(found), _recovery(found), _course(found), origin_section(found.provenance))
    return Report(f"{found.name}: task maps", found.purpose, sections)


def _summary(found: TaskMaps) -> Section:
    first = found.rows[0]
    rates = ", ".join(f"{number(_value(row, 'rate_requests_per_s'))}" for row in _one_a_share(found))
    words = (
        f"Package {first['design']} under {len({row['load'] for row in found.rows})} loads, at {rates} requests/s "
        f"({', '.join(found.shares)} of the highest rate at which it keeps its promises under {found.maps[0]} and the "
        f"mean mix): the mixes at rest and shifting between them, the same requests for all {len(found.maps)} maps.",
        f"A map pays where the 95 % interval of its paired gain over {found.maps[0]} in SLO attainment lies above 0.",
    )
    rows = [
        (
            _load(row, found), row["task_map"],
            f"{_value(row, 'attainment_gain'):+.3f}\n{_interval(row, 'attainment_gain')}",
            f"{number(_value(row, 'ttft_p99_ratio'))}\n{_interval(row, 'ttft_p99_ratio')}", row["verdict"],
        )
        for row in found.gains
    ]  # fmt: skip
    columns = ("load", "map", "SLO attainment\ngain", "TTFT p99\nratio", "verdict")
    table = Table(f"Every map against {found.maps[0]}", columns, rows, 2, wrap_last=True)
    return Section("Summary", words, (), (table,))


def _service(found: TaskMaps) -> Section:
    """Attainment of every map and load, and over the length of the cycle."""
    loads = list(dict.fromkeys(_load(row, found) for row in found.rows))
    values = np.full((len(loads), len(found.maps)), np.nan)
    for row in found.rows:
        values[loads.index(_load(row, found)), found.maps.index(row["task_map"])] = _value(row, "slo_attainment")
    texts = tuple(tuple("" if math.isnan(value) else f"{value:.2f}" for value in row) for row in values.tolist())
    chart = HeatMap(tuple(loads), found.maps, values, texts, "SLO attainment [1]", 0.0, 1.0)
    data = [(_load(row, found), row["task_map"], _value(row, "slo_attainment")) for row in found.rows]
    caption = "Share of requests that meet their SLO, by load and map."
    plots = [Plot("attainment", "SLO attainment", caption, chart, ("load", "task_map", "slo_attainment"), data)]
    for share in found.shares:
        plots += [_over_cycles(found, share, name) for name in ("slo_attainment", "ttft_p99_s")]
    return Section("Service", (), tuple(plot for plot in plots if plot.rows))


def _over_cycles(found: TaskMaps, share: str, name: str) -> Plot:
    """A metric over the length of the cycle of shifts, a line for each map."""
    mine = [row for row in found.rows if row["share_of_max_rate"] == share and row["cycle_s"]]
    keys = ("cycle_s", name, f"{name}:low", f"{name}:high")
    measured: dict[str, list[Measured]] = {task_map: [] for task_map in found.maps}
    for row in mine:
        cycle, value, low, high = (_value(row, key) for key in keys)
        measured[row["task_map"]].append((cycle, value, low, high))
    chart = over_cycles(name, measured)
    title = f"{chart.y.label.split(' [')[0]} over the period of the shifts{_at(found, share)}"
    data = [(row["task_map"], _value(row, "cycle_s"), _value(row, name)) for row in mine]
    stem = f"cycles_{name}_{file_word(share)}"
    return Plot(stem, title, "Means with 95 % intervals.", chart, ("task_map", "cycle_s", name), data)


def _recovery(found: TaskMaps) -> Section:
    """Time to recover after each shift."""
    names = [name for name in found.rows[0] if name.startswith("recovery_s_phase_")]
    rows = [
        (_load(row, found), row["task_map"], *(_after(_value(row, name)) for name in names))
        for row in found.rows
        if row["cycle_s"]
    ]
    if not rows or not names:
        return Section("Recovery after shifts", absent="the study has no shifting load")
    columns = ("load", "map", *(f"shift to phase {name.rsplit('_', 1)[1]}" for name in names))
    words = (
        "Time after a shift until the promised share of requests meets its SLO until the next shift; 0 where it never "
        "falls below.",
    )
    return Section("Recovery after shifts", words, (), (Table("Time to recover", columns, rows, 2),))


def _after(seconds: float) -> str:
    return "not before the next" if math.isnan(seconds) else f"{number(seconds)} s"


def _course(found: TaskMaps) -> Section:
    """Service and queues over the cycle, a choice of its lengths."""
    heading = "Over the cycle"
    loads = dict.fromkeys((row["share_of_max_rate"], row["load"]) for row in found.course)
    if not loads:
        return Section(heading, absent=f"the study has no {PHASES}: an earlier version made it")
    choices = []
    for share, load in loads:
        mine = [row for row in found.course if (row["share_of_max_rate"], row["load"]) == (share, load)]
        plots = tuple(plot for curve in _CURVES for plot in _curve(found, mine, curve))
        choices.append(Section(f"{load}{_at(found, share)}", (), plots))
    words = "All replications together, by time since the cycle began; dashed vertical lines are shifts. Open a load."
    return Section(heading, (words,), choices=tuple(choices))


def _curve(found: TaskMaps, rows: Sequence[Row], curve: tuple[str, str, Axis, str]) -> list[Plot]:
    name, title, axis, words = curve
    series = []
    for place, task_map in enumerate(found.maps):
        mine = [row for row in rows if row["task_map"] == task_map]
        x, y = _middle(mine), np.array([_value(row, name) for row in mine])
        series.append(Series(task_map, LINE, place % COLOURS, x, y))
    if not any(len(each.known) for each in series):
        return []
    if name == COMPLETED:
        mine = [row for row in rows if row["task_map"] == found.maps[0]]
        offered = np.array([_value(row, OFFERED) for row in mine])
        series.append(Series("offered", LINE, GREY, _middle(mine), offered, dashed=True))
    shifts = dict.fromkeys(_value(row, "from_s") for row in rows if row.get("part") == "1")
    rules = tuple(Rule("", "x", at) for at in shifts if at > 0)
    first = rows[0]
    stem = f"course_{name}_{file_word(first['share_of_max_rate'])}_{file_word(first['load'])}"
    data = [(row["task_map"], _value(row, "from_s"), _value(row, "until_s"), _value(row, name)) for row in rows]
    chart = XY(Axis("time since the cycle began [s]"), axis, tuple(series), rules)
    caption = f"{first['load']}: requests that {words}, by task map."
    return [Plot(stem, f"{title} over the cycle", caption, chart, ("task_map", "from_s", "until_s", name), data)]


def _middle(rows: Sequence[Row]) -> FloatArray:
    return np.array([(_value(row, "from_s") + _value(row, "until_s")) / 2 for row in rows])


def _one_a_share(found: TaskMaps) -> list[Row]:
    """The mean load of every share: phases of their own have other rates."""
    return [next(row for row in found.rows if row["share_of_max_rate"] == share) for share in found.shares]


def _load(row: Row, found: TaskMaps) -> str:
    return f"{row['load']}{_at(found, row['share_of_max_rate'])}"


def _at(found: TaskMaps, share: str) -> str:
    return f", {share} of the highest rate" if len(found.shares) > 1 else ""


def _interval(row: Row, name: str) -> str:
    low, high = (_value(row, f"{name}:{side}") for side in ("low", "high"))
    return "" if math.isnan(low) or math.isnan(high) else f"{low:.3g} to {high:.3g}"


def _rows(file: Path, needed: Sequence[str]) -> tuple[Row, ...]:
    rows = stored_table(file, needed, _STUDY)
    cut = any(None in row or None in row.values() for row in rows)
    if cut or not rows:
        raise other_table(file, _STUDY, "has a row of another length" if cut else "is empty")
    for row in rows:
        for name in row:
            if name not in ("design", "load", "task_map", "than", "verdict"):
                _value(row, name, str(file))
    return rows


def _value(row: Row, name: str, file: str = DYNAMIC) -> float:
    """A number of a table, NaN where it is empty.

    Raises:
        InputError: it is no number.
    """
    text = row.get(name, "")
    try:
        return float(text) if text else math.nan
    except ValueError as error:
        raise InputError(Fault(f"{name} is {text!r}, which is no number", file=file)) from error
