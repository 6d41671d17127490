"""The report of a study of task maps, from tables as the study writes them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hydra_dse.config import load_experiment
from hydra_dse.errors import InputError
from hydra_dse.report import build_report
from hydra_dse.report.task_maps import is_task_maps, read_task_maps, task_maps_report
from hydra_dse.studies.dynamic import DynamicResult
from hydra_dse.studies.dynamic_course import COURSE
from hydra_dse.studies.dynamic_files import DYNAMIC, GAINS, PHASES, write_dynamic
from hydra_dse.studies.dynamic_loads import Load
from hydra_dse.studies.dynamic_simulation import BINS, METRICS, MapRun
from hydra_dse.studies.dynamic_tables import course_rows, gains_of, rows_of
from hydra_dse.studies.run_directory import open_run

MAPS = ("static", "elastic")


def _record(load, attained):
    phase = {"requests": [10.0] * BINS, "met": [10 * attained] * BINS, "ttft_s": [5.0] * BINS}
    phase |= {name: [float(place) for place in range(BINS)] for name in COURSE}
    metrics = dict.fromkeys(METRICS, 1.0) | {"slo_attainment": attained}
    return {"metrics": metrics, "phases": [phase] * len(load.starts_s)}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Two loads, two maps, two replications: elastic attains 0.1 more."""
    experiment = load_experiment("dynamic-task-maps", ["name=maps<b>&"])
    run = open_run(tmp_path_factory.mktemp("maps") / "run", experiment, resume=False)
    loads = (Load("steady mean", experiment.workload), Load("cycle 40 s", experiment.workload, 40.0, (0.0, 10.0)))
    records = {
        MapRun(name, load.name, 2.0, number): _record(load, 0.8 + 0.1 * (name == "elastic") + 0.01 * number)
        for load in loads
        for name in MAPS
        for number in range(2)
    }
    rows, gains = rows_of(records, loads, MAPS, 0.8, 2.0, 0.85), gains_of(records, loads, MAPS, 0.8, 2.0)
    course = course_rows(records, loads, MAPS, 0.8, 2.0)
    found = (run.path, "abc", {}, 2.5, experiment.dynamic, tuple(rows), tuple(gains), 0, tuple(course))
    write_dynamic(run, DynamicResult(*found))
    return run.path


def sections(path):
    return {section.heading: section for section in task_maps_report(read_task_maps(path)).sections}


def test_every_map_stands_against_the_first_with_its_interval(study):
    [table] = sections(study)["Summary"].tables
    assert [row[1] for row in table.rows] == ["elastic", "elastic"]
    assert table.rows[0][2].startswith("+0.100\n") and table.rows[0][4] == "pays"


def test_attainment_is_drawn_by_load_and_over_the_period_of_the_shifts(study):
    plots = {plot.stem: plot for plot in sections(study)["Service"].plots}
    heat = plots["attainment"].chart
    assert heat.rows == ("steady mean", "cycle 40 s") and heat.columns == MAPS
    assert heat.values == pytest.approx(np.array([[0.805, 0.905], [0.805, 0.905]]))
    [static, elastic] = plots["cycles_slo_attainment_0_8"].chart.series
    assert (static.x.tolist(), elastic.y.tolist()) == ([40.0], pytest.approx([0.905]))


def test_recovery_is_told_for_every_shift(study):
    [table] = sections(study)["Recovery after shifts"].tables
    # 0.805 of the requests meet their SLO throughout, 0.85 are promised: never back; 0.905 never falls below.
    assert [row[1:] for row in table.rows] == [("static", *("not before the next",) * 2), ("elastic", "0 s", "0 s")]


def test_throughput_and_backlog_are_drawn_over_the_cycle_with_its_shifts(study):
    [choice] = sections(study)["Over the cycle"].choices
    plots = {plot.stem.split("_0_8")[0]: plot.chart for plot in choice.plots}
    assert set(plots) == {f"course_{name}" for name in
                          ("slo_attainment", "ttft_mean_s", "completed_per_s", "waiting", "decoding")}  # fmt: skip
    backlog = plots["course_waiting"]
    assert [rule.value for rule in backlog.rules] == [10.0]
    assert backlog.series[0].x[:2] == pytest.approx([0.25, 0.75]) and backlog.series[0].x[-1] == pytest.approx(39.25)
    assert [each.label for each in plots["course_completed_per_s"].series] == [*MAPS, "offered"]


def test_a_study_of_an_earlier_version_lacks_the_cycle_and_says_so(study, tmp_path):
    for file in study.iterdir():
        if file.name != PHASES:
            (tmp_path / file.name).write_bytes(file.read_bytes())
    assert PHASES in sections(tmp_path)["Over the cycle"].absent


def test_the_page_and_its_figures_are_written_with_names_escaped(study):
    page = build_report(study)
    assert is_task_maps(study) and "maps&lt;b&gt;&amp;" in page.read_text() and "<b>" not in page.read_text()
    stems = {file.stem for file in (study / "plots").glob("*.csv")}
    assert stems == {file.stem for file in (study / "plots").glob("*.png")} and "attainment" in stems


@pytest.mark.parametrize("name", [DYNAMIC, GAINS, PHASES])
@pytest.mark.parametrize("change", [lambda text: "", lambda text: text[:-40], lambda text: text.replace("0.8,", "x,")])
def test_a_broken_table_is_named(study, tmp_path, name, change):
    for file in study.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / name).write_text(change((study / name).read_text()))
    with pytest.raises(InputError, match=name):
        read_task_maps(tmp_path)
    assert math.isfinite(read_task_maps(study).provenance.seed)
