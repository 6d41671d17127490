from __future__ import annotations

import csv
import math
import os
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.errors import InputError, NothingFeasible
from hydra_dse.results import Evaluation, Violation
from hydra_dse.results.quantiles import SHARES, quantiles_of
from hydra_dse.search.pareto import nondominated_reference
from hydra_dse.studies.executor import available_cores
from hydra_dse.studies.latency_table import LATENCIES, read_latencies
from hydra_dse.studies.progress import Interrupted
from hydra_dse.studies.run_directory import RunDirectory
from hydra_dse.studies.sweep import sweep
from hydra_dse.studies.validation import _processes, validate
from hydra_dse.studies.validation_table import ValidationRow, from_csv, relative_error, summary, to_csv
from hydra_dse.workload import Diurnal
from studies.toy import ToyScorer, toy_experiment


@dataclass(frozen=True)
class ToySimulation:
    """Simulates a fifth more throughput than estimated; counts its calls; stops or fails at will."""

    calls: list = field(default_factory=list, compare=False)
    stop_after: int = 10**6
    unplaced: bool = False
    distributions: bool = True

    def evaluate(self, point, options, seed):
        if len(self.calls) >= self.stop_after:
            raise KeyboardInterrupt
        self.calls.append((dict(point), options.requests, seed))
        if self.unplaced:
            return Evaluation("simulated", {}, violations=(Violation("slots", 2.0, 1.0, "1"),))
        metrics = ToyScorer().score([point]).metrics
        rate = 1.2 * float(metrics["saturation_tokens_per_s"][0])
        delay = float(metrics["ttft_mean_s"][0])
        interval = {"saturation_tokens_per_s": (0.9 * rate, 1.1 * rate)}
        found = Evaluation("simulated", {"saturation_tokens_per_s": rate, "ttft_mean_s": delay}, interval)
        if not self.distributions:
            return found
        tables = tuple(
            quantiles_of(delay * (1 + number + np.arange(options.requests)) / options.requests)
            for number in range(options.replications)
        )
        return replace(found, distributions={"ttft": tables})


@pytest.fixture
def run(tmp_path):
    sweep(toy_experiment(), tmp_path / "run", scorer=ToyScorer())
    return tmp_path / "run"


def _validate(run, simulation=None, **settings):
    settings = {
        "top": 6,
        "outside": 0,
        "max_replications": settings.get("replications", 3),
        "requests": 100,
        "experiment": toy_experiment(),
    } | settings
    return validate(run, simulation=simulation or ToySimulation(), **settings)


def test_estimate_and_simulation_stand_side_by_side_with_their_error(run):
    result = _validate(run)
    rows = [row for row in result.rows if row.metric == "saturation_tokens_per_s"]
    assert len(rows) == 6
    for row in rows:
        assert row.simulated == pytest.approx(1.2 * row.estimate)
        assert row.relative_error == pytest.approx(1 / 1.2 - 1)
        assert (row.ci_low, row.ci_high) == pytest.approx((0.9 * row.simulated, 1.1 * row.simulated))


def test_metrics_that_only_one_side_has_are_rows_without_an_error(run):
    power = [row for row in _validate(run).rows if row.metric == "power_w"]
    assert len(power) == 6
    assert all(math.isnan(row.simulated) and math.isnan(row.relative_error) for row in power)


def test_the_tables_are_written_as_they_are_returned(run):
    result = _validate(run)
    assert (run / "validation.csv").read_bytes() == to_csv(result.rows)
    rows = list(csv.DictReader((run / "pareto_validated.csv").read_text().splitlines()))
    assert [row["design"] for row in rows] == [item.identity for item in result.chosen]
    assert [row["design"] for row in rows if row["on_simulated_front"] == "true"] == list(result.front)


def test_the_simulated_front_is_what_no_other_simulated_design_dominates(run):
    import numpy as np

    result = _validate(run, top=20)
    values = {row.design: {} for row in result.rows}
    for row in result.rows:
        values[row.design][row.metric] = row.simulated
    losses = np.array([[-item["saturation_tokens_per_s"], item["ttft_mean_s"]] for item in values.values()])
    best = nondominated_reference(losses)
    assert set(result.front) == {name for name, is_best in zip(values, best, strict=True) if is_best}


def test_an_interrupted_validation_goes_on_without_repeating_a_design(run):
    with pytest.raises(Interrupted, match="the designs simulated so far are kept"):
        _validate(run, ToySimulation(stop_after=2))
    rest = ToySimulation()
    result = _validate(run, rest)
    assert (len(rest.calls), result.resumed) == (4, 2)
    whole = (run / "validation.csv").read_bytes()
    (run / "validation.csv").unlink()
    _validate(run)
    assert (run / "validation.csv").read_bytes() == whole


def test_an_interruption_before_the_first_result_names_no_file(run):
    with pytest.raises(Interrupted, match=r"stopped; no design was simulated to its end yet$"):
        _validate(run, ToySimulation(stop_after=0))
    assert not (run / "validation.csv").exists()


def test_other_settings_are_simulated_anew(run):
    _validate(run)
    again = ToySimulation()
    assert _validate(run, again, requests=200).resumed == 0
    assert len(again.calls) == 6
    assert {row.requests for row in from_csv((run / "validation.csv").read_bytes(), "x")} == {200}


def test_fewer_replications_for_the_undecided_than_for_all_are_refused_before_any_simulation(run):
    simulation = ToySimulation()
    with pytest.raises(InputError, match="2 is fewer than the 3 replications of every design") as caught:
        _validate(run, simulation, replications=3, max_replications=2)
    assert caught.value.faults[0].file == "--max-replications"
    assert not simulation.calls and not (run / "validation.csv").exists()


def test_more_replications_than_the_experiment_gives_the_undecided_are_made_and_told(run):
    plain = toy_experiment()
    few = replace(plain, validation=replace(plain.validation, replications=2, max_replications=2))
    settings = {"experiment": few, "max_replications": None}
    [note] = _validate(run, replications=4, **settings).notes
    assert note.startswith("4 replications of every design, more than the 2")
    assert _validate(run, **settings).notes == ()


def test_a_validation_shorter_than_the_period_of_its_workload_says_so(run):
    plain = toy_experiment()
    daily = replace(plain, workload=replace(plain.workload, arrivals=Diurnal(2.0)))
    [note] = _validate(run, experiment=daily).notes
    assert note.startswith("runs of 50 s see 0.058 % of the 8.64e+04 s")
    assert _validate(run).notes == ()


def test_the_experiments_own_settings_are_the_default(run):
    simulation = ToySimulation()
    result = validate(run, outside=0, max_replications=3, experiment=toy_experiment(), simulation=simulation)
    settings = toy_experiment().validation
    assert len(result.chosen) == settings.top
    assert {requests for _, requests, _ in simulation.calls} == {settings.requests}


def test_a_design_that_cannot_be_placed_is_a_row_without_simulation(run):
    result = _validate(run, ToySimulation(unplaced=True))
    assert all(math.isnan(row.simulated) for row in result.rows)
    assert (result.front, result.errors) == ((), ())


@pytest.mark.slow
def test_any_number_of_processes_writes_the_same_tables(run):
    _validate(run)
    files = [run / "validation.csv", run / "pareto_validated.csv"]
    one = [file.read_bytes() for file in files]
    for workers in (2, 3):
        for file in files:
            file.unlink()
        _validate(run, workers=workers)
        assert [file.read_bytes() for file in files] == one


def test_as_many_processes_as_cores_and_designs_where_the_work_pays_their_start(monkeypatch):
    monkeypatch.setattr("hydra_dse.studies.validation.available_cores", lambda: 8)
    long, short = EvaluationOptions(requests=20000, replications=5), EvaluationOptions(requests=100, replications=2)
    assert [_processes(None, designs, long) for designs in (0, 1, 5, 50)] == [1, 1, 5, 8]
    assert [_processes(None, designs, short) for designs in (1, 6, 100)] == [1, 1, 6]
    assert [_processes(asked, 3, short) for asked in (1, 2, 16)] == [1, 2, 3]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs the affinity of a process")
def test_cores_are_those_that_the_process_may_use():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert available_cores() == 1
    finally:
        os.sched_setaffinity(0, before)


def test_progress_is_told_after_every_design(run):
    class Listener:
        done: list = []  # noqa: RUF012

        def update(self, state):
            self.done.append((state.done, state.total))

    _validate(run, progress=Listener())
    assert Listener.done == [(count, 6) for count in range(7)]


def test_a_run_without_a_feasible_design_cannot_be_validated(tmp_path):
    with pytest.raises(NothingFeasible):
        sweep(toy_experiment(), tmp_path / "run", scorer=ToyScorer(nothing=True))
    with pytest.raises(NothingFeasible, match="no feasible design to simulate"):
        _validate(tmp_path / "run")


def test_what_is_not_a_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such run directory"):
        _validate(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"provenance.json: not a run directory, or a corrupt one"):
        _validate(tmp_path)


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"\xff\xfe", b""])
def test_a_corrupt_validation_table_is_named_and_left_as_it_is(run, content):
    (run / "validation.csv").write_bytes(content)
    with pytest.raises(InputError, match=r"validation.csv: not a readable validation table"):
        _validate(run)
    assert (run / "validation.csv").read_bytes() == content


ROW = ValidationRow("a", 1, 0.5, "ttft_mean_s", 1.1, 1.0, 0.9, math.nan, 0.1, 100, 3, 0)


def test_rows_read_back_as_they_were_written():
    again = from_csv(to_csv([ROW]), "x")[0]
    assert replace(again, ci_high=0.0) == replace(ROW, ci_high=0.0)
    assert math.isnan(again.ci_high)


def test_the_summary_is_the_median_absolute_error_by_load():
    errors = [0.1, -0.3, 0.2, 0.5, math.nan]
    loads = [0.5, 0.7, 0.8, 0.9, 0.5]
    rows = [replace(ROW, relative_error=error, load=load) for error, load in zip(errors, loads, strict=True)]
    found = [(item.metric, item.band, item.designs, item.median) for item in summary(rows)]
    assert found == [("ttft_mean_s", "load <= 0.8", 3, 0.2), ("ttft_mean_s", "load > 0.8", 1, 0.5)]


@pytest.mark.parametrize(("estimate", "simulated"), [(1.0, 0.0), (math.nan, 1.0), (1.0, math.inf)])
def test_an_error_without_meaning_is_unknown(estimate, simulated):
    assert math.isnan(relative_error(estimate, simulated))


def test_distributions_of_every_design_and_replication_are_kept(run):
    result = _validate(run, replications=3)
    found = read_latencies(RunDirectory(run))
    assert list(found) == [design.identity for design in result.chosen]
    for row in (row for row in result.rows if row.metric == "ttft_mean_s"):
        [kind] = found[row.design]
        tables = found[row.design][kind]
        assert kind == "ttft" and [table.samples for table in tables] == [100] * 3
        assert tables[1].seconds[0] == pytest.approx(2 / 100 * row.simulated)
        assert len(tables[0].seconds) == len(SHARES)


def test_a_validation_that_goes_on_writes_the_same_distributions_as_one_that_was_not_stopped(run):
    _validate(run, top=4)
    whole = (run / LATENCIES).read_bytes()
    for name in (LATENCIES, "validation.csv", "pareto_validated.csv"):
        (run / name).unlink()
    with pytest.raises(Interrupted):
        _validate(run, ToySimulation(stop_after=2), top=4)
    assert len(read_latencies(RunDirectory(run))) == 2
    _validate(run, top=4)
    assert (run / LATENCIES).read_bytes() == whole


def test_distributions_of_other_requests_are_not_taken(run):
    _validate(run)
    assert read_latencies(RunDirectory(run), requests=100, seed=toy_experiment().search.seed)
    assert read_latencies(RunDirectory(run), requests=99) == {} == read_latencies(RunDirectory(run), seed=12345)


def test_a_simulator_without_distributions_leaves_no_file(run):
    _validate(run, ToySimulation(distributions=False))
    assert not (run / LATENCIES).exists() and read_latencies(RunDirectory(run)) == {}


@pytest.mark.parametrize("content", [b"", b"PAR1", b"design,ttft"])
def test_a_corrupt_table_of_distributions_is_named(run, content):
    (run / LATENCIES).write_bytes(content)
    with pytest.raises(InputError, match="latencies"):
        _validate(run)
