"""Task maps under loads at rest and under shifting ones."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest

from hydra_dse.config import load_experiment, load_workload
from hydra_dse.design.experiment import DynamicSettings
from hydra_dse.errors import InputError, Interrupted
from hydra_dse.records import Visit
from hydra_dse.studies.cases import CaseJournal
from hydra_dse.studies.dynamic import dynamic
from hydra_dse.studies.dynamic_course import COMPLETED, DECODING, OFFERED, WAITING, course_of
from hydra_dse.studies.dynamic_loads import Load, loads_of, requests_for
from hydra_dse.studies.dynamic_simulation import BINS, MapRun, by_time_since_shift
from hydra_dse.studies.dynamic_tables import breakeven, gains_of, interval, recovery
from hydra_dse.workload import requests
from hydra_dse.workload.sampling import arrival_statistics

SETTINGS = DynamicSettings(("static", "fcfs"), (20.0, 100.0), least_cycles=3)
SHORT_CLASSES = (
    "workload.classes=["
    "{name: long-in, share: 0.9, lengths: {prompt: 1500, output: 20}, slo: {ttft: 4 s, tpot: 200 ms}}, "
    "{name: long-out, share: 0.1, lengths: {prompt: 100, output: 200}, slo: {ttft: 4 s, tpot: 200 ms}}]"
)
SMALL = [
    "space=small-9",
    "search.trials=16",
    "validation.requests=80",
    "validation.replications=2",
    "dynamic={cycles: [10 s], loads: [0.8], least_cycles: 1, task_maps: [static, elastic]}",
    SHORT_CLASSES,
]


def test_all_loads_have_the_same_mean_rate_and_the_shifting_ones_the_mixes_of_those_at_rest():
    workload = load_workload("shifting-mix")
    loads = {load.name: load for load in loads_of(workload, SETTINGS, 2.0)}
    assert list(loads) == ["steady mean", "steady 1", "steady 2", "cycle 20 s", "cycle 100 s"]
    for load in loads.values():
        assert arrival_statistics(load.workload).rate_per_s == pytest.approx(2.0)
    shares = {name: [kind.share for kind in load.workload.classes] for name, load in loads.items()}
    assert shares["steady mean"] == pytest.approx([0.5, 0.5])
    assert shares["steady 1"] == pytest.approx([0.9, 0.1])
    assert shares["steady 2"] == pytest.approx([0.1, 0.9])
    drawn = requests(loads["cycle 20 s"].workload, 4000, np.random.default_rng(1))
    early = np.mod(drawn.arrival_s, 20.0) < 10.0
    assert drawn.class_index[early].mean() == pytest.approx(0.1, abs=0.03)
    assert drawn.class_index[~early].mean() == pytest.approx(0.9, abs=0.03)


def test_a_rate_factor_of_a_phase_stays_relative_to_the_mean_rate():
    workload = load_workload(
        "shifting-mix", ["shifts=[{at: 5 min, shares: {arxiv-4k: 0.1, longwriter: 0.9}, rate_factor: 3}]"]
    )
    loads = loads_of(workload, SETTINGS, 2.0)
    rates = [arrival_statistics(load.workload).rate_per_s for load in loads]
    assert rates == pytest.approx([2.0, 1.0, 3.0, 2.0, 2.0])
    # Three requests in four are of the second phase.
    assert [kind.share for kind in loads[0].workload.classes] == pytest.approx(
        [0.9 / 4 + 0.1 * 3 / 4, 0.1 / 4 + 0.9 * 3 / 4]
    )


def test_a_run_has_its_least_number_of_cycles_after_the_warm_up():
    load = loads_of(load_workload("shifting-mix"), SETTINGS, 2.0)[-1]
    assert requests_for(load, SETTINGS, 100, 0.1) == math.ceil(3 * 100 * 2 / 0.9)
    assert requests_for(load, SETTINGS, 10_000, 0.1) == 10_000


def _visit(arrival, ttft, outputs=11, tpot=0.01):
    return Visit(0, 0, 10, outputs, arrival, arrival, arrival + ttft, arrival + ttft + tpot * (outputs - 1), 0)


def test_service_is_told_by_phase_and_time_since_its_start():
    workload = load_workload("shifting-mix")  # TTFT 4 s, TPOT 100 ms
    load = Load("cycle", workload, 40.0, (0.0, 20.0))
    visits = [_visit(0.5, 1.0), _visit(41.5, 5.0), _visit(59.5, 1.0, tpot=0.2), _visit(60.0, math.nan)]
    first, second = by_time_since_shift(visits, load)
    assert [first["requests"][at] for at in (0, 1, BINS - 1)] == [1, 1, 1]
    assert [first["met"][at] for at in (0, 1, BINS - 1)] == [1, 0, 0]
    assert first["ttft_s"][1] == pytest.approx(5.0)
    assert (sum(first["requests"]), second["requests"][0], second["met"][0]) == (3, 1, 0)


def _at(request, arrival, first, last):
    return Visit(request, 0, 10, 11, arrival, arrival, first, last, 0)


def test_queues_over_the_cycle_are_exact_means_and_obey_littles_law():
    """One request a cycle of 4 s, always 0.5 s into it; it waits for 1 s and decodes for 2 s."""
    load = Load("cycle", load_workload("shifting-mix"), 4.0, (0.0, 1.0))
    visits = [_at(number, 4 * number + 0.5, 4 * number + 1.5, 4 * number + 3.5) for number in range(10)]
    first, second = course_of(visits, load, 2, 2)
    assert first[WAITING] == pytest.approx([0.0, 1.0]) and second[WAITING] == pytest.approx([0.5 / 1.5, 0.0])
    assert first[DECODING] == pytest.approx([0.0, 0.0]) and second[DECODING] == pytest.approx([1.0 / 1.5, 1.0 / 1.5])
    assert first[OFFERED] == pytest.approx([0.0, 2.0]) and second[COMPLETED] == pytest.approx([0.0, 1.0 / 1.5])
    lengths = {0: 0.5, 1: 1.5}
    for name, little in ((WAITING, 1.0 / 4.0), (DECODING, 2.0 / 4.0)):
        mean = sum(sum(phase[name]) * lengths[at] for at, phase in enumerate((first, second))) / 4.0
        assert mean == pytest.approx(little)


def test_without_a_whole_cycle_there_is_no_course():
    load = Load("cycle", load_workload("shifting-mix"), 40.0, (0.0,))
    assert course_of([_at(number, number, number + 0.1, number + 1.0) for number in range(20)], load, 0, 4) == []
    assert course_of([_at(0, 0.0, 1.0, 2.0)], Load("rest", load_workload("shifting-mix")), 0, 4) == []


def _record(met, **metrics):
    phase = {"requests": [10.0] * BINS, "met": met, "ttft_s": [0.0] * BINS}
    return {"phases": [phase], "metrics": metrics}


def test_recovery_is_when_the_promised_share_is_met_until_the_next_shift():
    load = Load("cycle", load_workload("shifting-mix"), 40.0, (0.0,))
    back = [_record([10.0, 8.0, 9.5, 8.9, *([9.0] * (BINS - 4))])]
    assert recovery(back, load, 0.9) == (8.0,)  # four of twenty parts of 40 s
    assert recovery([_record([10.0] * BINS)], load, 0.9) == (0.0,)
    [never] = recovery([_record([10.0] * (BINS - 1) + [8.0])], load, 0.9)
    assert math.isnan(never)


def test_intervals_are_students():
    mean, low, high = interval([1.0, 2.0, 3.0])
    assert (mean, high - mean) == pytest.approx((2.0, 4.302653 / math.sqrt(3)))
    assert mean - low == pytest.approx(high - mean)


def test_a_map_pays_where_paired_replications_say_so_and_breaks_even_between_two_cycles():
    loads = [Load(f"cycle {cycle:g} s", load_workload("shifting-mix"), cycle, (0.0,)) for cycle in (10.0, 50.0, 200.0)]
    gained = {10.0: (0.02, -0.03), 50.0: (0.04, 0.05), 200.0: (0.1, 0.11)}
    records = {}
    for load in loads:
        for number, gain in enumerate(gained[load.cycle_s]):
            for task_map, attained in (("static", 0.8), ("elastic", 0.8 + gain)):
                run = MapRun(task_map, load.name, 1.0, number)
                records[run] = _record([10.0] * BINS, slo_attainment=attained, ttft_p99_s=1.0)
    gains = gains_of(records, loads, ("static", "elastic"), 0.8, 1.0)
    # Two pairs have one degree of freedom: 0.045 ± 12.7 · 0.005 does not exclude 0, 0.105 ± 0.064 does.
    assert [gain.verdict for gain in gains] == ["undecided", "undecided", "pays"]
    assert breakeven(gains, "elastic", 0.8) == (200.0, 50.0)


@pytest.mark.slow
def test_a_study_that_was_stopped_goes_on_in_two_processes_to_the_same_bytes(tmp_path, monkeypatch):
    experiment = load_experiment("dynamic-task-maps", SMALL)
    whole = dynamic(experiment, tmp_path / "one")
    added = CaseJournal.add

    def stop_after_four(self, key, record):
        added(self, key, record)
        if len(self) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(CaseJournal, "add", stop_after_four)
    with pytest.raises(Interrupted, match="4 finished cases"):
        dynamic(experiment, tmp_path / "two")
    monkeypatch.setattr(CaseJournal, "add", added)
    again = dynamic(experiment, tmp_path / "two", workers=2, resume=True)
    assert (whole.resumed, again.resumed) == (0, 4)
    for name in ("dynamic.csv", "dynamic_gains.csv", "dynamic_phases.csv"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    with (tmp_path / "one" / "dynamic.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 2 * 4  # two maps; mean, two mixes, one cycle
    assert all(0.0 <= float(row["slo_attainment"]) <= 1.0 for row in rows)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("workload.shifts=[]", "needs shifts that repeat"),
        ("dynamic.cycles=[20 s, 20 s]", "listed twice"),
        ("dynamic.task_maps=[static, elastics]", "elastic"),
        ("dynamic.role_down_prompts=2", "must be fewer than role_up_prompts"),
    ],
)
def test_mistakes_are_named(override, message):
    with pytest.raises(InputError, match=message):
        load_experiment("dynamic-task-maps", [override])


def test_a_space_whose_designs_have_one_pool_is_refused(tmp_path):
    space = "space.policy={serving: colocated, batching: chunked, max_batch: $max_batch, token_budget: 1024}"
    experiment = load_experiment("dynamic-task-maps", [*SMALL, space, "dynamic.task_maps=[static, fcfs]"])
    with pytest.raises(InputError, match="packages with two pools"):
        dynamic(experiment, tmp_path / "run")
