"""Comparisons: equal work, common random numbers, ratios with intervals, and a run that survives an interrupt."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.config import load_comparison, load_design, load_workload
from hydra_dse.design.comparison import Load
from hydra_dse.errors import InputError, Interrupted
from hydra_dse.estimator import estimate_designs
from hydra_dse.extensions import OBJECTIVES, registered
from hydra_dse.placement import place_design
from hydra_dse.results import Metric
from hydra_dse.results.derived import DerivedMetric
from hydra_dse.results.metrics import MAXIMISE
from hydra_dse.studies.calibration_variants import with_slower_memory
from hydra_dse.studies.comparison import COMPARED, POINTS, SUMMARY, compare
from hydra_dse.studies.comparison.choosing import Estimating, finalists, workload_for
from hydra_dse.studies.comparison.course import OWN, REFERENCE, Case, Measured
from hydra_dse.studies.comparison.designs import Choice, design_of
from hydra_dse.studies.comparison.measuring import LATENCIES, Runs, highest_rate
from hydra_dse.studies.comparison.notes import short_runs
from hydra_dse.studies.comparison.ratios import half_width, paired_ratio, summarise
from hydra_dse.studies.comparison.table import compared
from hydra_dse.studies.run_references import calibration_of, workload_of_run
from hydra_dse.studies.runs import design_of_run
from hydra_dse.studies.simulators import find_simulator
from hydra_dse.workload import at_rate
from hydra_dse.workload.periods import period_s

SMALL = """\
name: small
models: [jamba-tiny]
workloads: [{workload: hydra-chat, slo: {ttft: 100 ms}}]
objectives: [throughput]
compare:
  - name: baseline
    space: small-9
    set: {placement.algorithm: round_robin, policy.batching: static}
  - {name: co-design, space: small-9}
  - {name: same, of: co-design, change: {scale: {compute: 1.0}}}
  - {name: slower, of: co-design, change: {scale: {hbm: 0.5, noi: 0.5, compute: 0.5}}}
  - {name: other mix, of: co-design, change: {take: {from: baseline, parameters: [hbm, Ap, Ad, Mp]}}}
fractions: [0.5]
primary: 0.5
search: {trials: 8, pilot: 2, finalists: 1}
simulation: {requests: 40, replications: 2, tolerance: 0.2}
quick: {search.trials: 4, simulation.requests: 40}
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("comparison") / "small.yaml"
    path.write_text(SMALL)
    return path


@pytest.fixture(scope="module")
def whole(file, tmp_path_factory):
    return compare(file, tmp_path_factory.mktemp("runs") / "whole")


@pytest.mark.parametrize("limit", [0.0, 0.03, 1.0, 4.2, 9.99])
@pytest.mark.parametrize("guess", [0.01, 4.0, 25.0, math.nan])
def test_the_highest_rate_of_a_known_limit_is_found_from_any_guess(limit, guess):
    found = highest_rate(lambda rate: rate <= limit, saturation=10.0, guess=guess, tolerance=0.01)
    assert found == 0.0 if limit < 0.1 else 0.985 * limit <= found <= limit


def test_no_rate_above_saturation_is_found_however_well_a_run_does():
    assert 9.8 < highest_rate(lambda rate: True, saturation=10.0, guess=3.0, tolerance=0.01) <= 10.0


def test_a_paired_ratio_takes_out_what_replications_share():
    shared = [1.0, 3.0, 10.0]
    found = paired_ratio([2.0 * value for value in shared], shared)
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2.0, 2.0))


def test_the_interval_of_two_replications_is_that_of_students_t():
    # t with one degree of freedom is Cauchy: its 97.5 % quantile is tan(0.475 π).
    found = paired_ratio([1.0, 4.0], [1.0, 1.0])
    half = math.tan(0.475 * math.pi) * np.std([0.0, math.log(4.0)], ddof=1) / math.sqrt(2.0)
    assert found.value == pytest.approx(2.0)
    assert math.log(found.high / found.value) == pytest.approx(half)
    assert math.isnan(half_width(np.array([1.0])))


def test_a_replication_without_a_rate_leaves_no_ratio():
    assert math.isnan(paired_ratio([1.0, 0.0], [1.0, 1.0]).value)
    assert math.isnan(paired_ratio([], [1.0]).value)


def test_a_summary_counts_cases_without_a_ratio_and_draws_whole_groups():
    values, groups = [2.0, 2.0, 0.5, 0.5, math.nan], ["a", "a", "b", "b", "c"]
    rows = {row.statistic: row for row in summarise("x", "max_rate", values, groups, seed=0)}
    assert {(row.cases, row.missing) for row in rows.values()} == {(4, 1)}
    assert rows["geometric mean"].value == pytest.approx(1.0)
    assert rows["share below 1"].value == 0.5
    # Two groups drawn twice: both are the same with probability 1/2, so the interval reaches both values.
    assert (rows["median"].low, rows["median"].high) == (0.5, 2.0)
    assert summarise("x", "max_rate", [math.nan], ["a"], seed=0) == []


def test_every_statistic_of_a_summary_is_that_of_the_cases_that_have_the_ratio():
    values = [0.5, 2.0, 4.0, math.nan, 0.0]
    rows = {row.statistic: row for row in summarise("x", "max_rate", values, "aabcd", seed=0)}
    assert {name: row.value for name, row in rows.items()} == pytest.approx(
        {
            "arithmetic mean": 6.5 / 3,
            "geometric mean": 4 ** (1 / 3),
            "median": 2.0,
            "min": 0.5,
            "max": 4.0,
            "share below 1": 1 / 3,
        }
    )
    assert {(row.cases, row.missing) for row in rows.values()} == {(3, 2)}


def test_the_bootstrap_of_many_cases_has_the_interval_of_the_normal_law():
    values = np.random.default_rng(4).normal(10.0, 2.0, 400)
    [row] = [row for row in summarise("x", "r", values, range(400), 0) if row.statistic == "arithmetic mean"]
    half = 1.96 * values.std(ddof=1) / 20.0
    assert (row.high - row.low) / 2 == pytest.approx(half, rel=0.08)
    assert (row.high + row.low) / 2 == pytest.approx(values.mean(), abs=0.2 * half)


def test_a_point_that_the_contender_does_not_sustain_is_left_out_of_the_ratios(file):
    comparison = load_comparison(file)
    point = (dict.fromkeys(LATENCIES, 1.0),) * 2
    rates = ({"saturation_requests_per_s": 10.0, "saturation_tokens_per_s": 10.0, "max_rate_requests_per_s": 8.0},) * 2
    low = ({"saturation_requests_per_s": 3.0, "saturation_tokens_per_s": 3.0, "max_rate_requests_per_s": 2.0},) * 2
    fast = {(REFERENCE, 0.5): (4.0, point), (OWN, 0.5): (4.0, point)}
    slow = {(REFERENCE, 0.5): (4.0, point), (OWN, 0.5): (1.0, point)}
    sides = (
        Measured("baseline", Choice("baseline", {}), rates=rates, points=fast),
        Measured("slower", Choice("slower", {}), rates=low, points=slow),
    )
    [_, row] = compared(comparison, Case(0, "throughput", sides))
    assert row.saturated == (0.5,)
    assert math.isnan(row.ratios["ttft_at_0.5_of_reference"].value)
    assert row.ratios["ttft_at_0.5_of_own"].value == 1.0
    assert row.ratios["max_rate"].value == pytest.approx(0.25)


def test_runs_that_see_a_part_of_their_period_are_told_once_a_load(file):
    comparison = load_comparison(file)
    varying = load_workload("shifting-mix")
    loads = (comparison.loads[0], Load("m", "shifting-mix", varying))
    comparison = replace(comparison, loads=loads)  # 40 requests a run
    point = (dict.fromkeys(LATENCIES, 1.0),)
    rates = ({"saturation_requests_per_s": 9.0, "max_rate_requests_per_s": 8.0},)
    sides = tuple(
        Measured(name, Choice(name, {}), rates=rates, points={(REFERENCE, 0.5): (rate, point)})
        for name, rate in (("baseline", 4.0), ("slower", math.nan))
    )
    [note] = short_runs(comparison, [Case(0, "throughput", sides), Case(1, "throughput", sides)])
    assert note.startswith("m, shifting-mix, 8 req/s: runs of 5 s see")
    assert f"of the {period_s(varying):.4g} s" in note


def _table(path, name):
    return list(csv.DictReader(io.StringIO((path / name).read_text())))


@pytest.mark.slow
def test_an_unchanged_variant_equals_its_origin_and_a_slowed_one_is_slower(whole):
    rows = {row["contender"]: row for row in _table(whole.run_dir, COMPARED)}
    assert list(rows) == ["baseline", "co-design", "same", "slower", "other mix"]
    assert rows["baseline"]["ratio:max_rate"] == rows["baseline"]["ratio:saturation"] == "1.0"
    for name, value in rows["same"].items():
        if name not in ("contender", "design"):
            assert value == rows["co-design"][name], name
    for name in ("ratio:saturation", "ratio:max_rate"):
        assert float(rows["slower"][name]) < float(rows["co-design"][name])
    mix = [json.loads(rows[name]["parameters"])["hbm"] for name in ("other mix", "baseline")]
    assert mix[0] == mix[1]


@pytest.mark.slow
def test_all_contenders_are_measured_at_the_rates_of_the_reference(whole):
    points = [row for row in _table(whole.run_dir, POINTS) if row["basis"] == "reference"]
    assert len(points) == 5
    assert len({row["rate_requests_per_s"] for row in points}) == 1
    highest = float(_table(whole.run_dir, COMPARED)[0]["max_rate_requests_per_s"])
    assert float(points[0]["rate_requests_per_s"]) == pytest.approx(0.5 * highest)


@pytest.mark.slow
def test_an_interrupted_comparison_goes_on_to_the_same_bytes(file, whole, tmp_path):
    class Impatient:
        def __init__(self):
            self.tasks = 0

        def update(self, state):
            self.tasks += 1
            if self.tasks == 7:
                raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="--resume"):
        compare(file, tmp_path / "run", progress=Impatient())
    with pytest.raises(InputError, match="add --resume"):
        compare(file, tmp_path / "run")
    with (tmp_path / "run" / "answers.jsonl").open("a") as stream:
        stream.write('["half a li')
    result = compare(file, tmp_path / "run", resume=True)
    assert result.resumed == 7
    for name in (COMPARED, POINTS, SUMMARY):
        assert (tmp_path / "run" / name).read_bytes() == (whole.run_dir / name).read_bytes()


@pytest.mark.slow
def test_a_chosen_design_is_found_by_its_id_with_the_load_it_was_chosen_for(whole):
    row = next(row for row in _table(whole.run_dir, COMPARED) if row["contender"] == "baseline")
    design = design_of_run(whole.run_dir, row["design"][:8])
    assert dict(design.parameters) == json.loads(row["parameters"])
    assert (design.placement_algorithm, design.policy.batching) == ("round_robin", "static")
    workload = workload_of_run(f"{whole.run_dir}:{row['design']}", None, ())
    points = [point for point in _table(whole.run_dir, POINTS) if point["basis"] == "reference"]
    assert workload.arrivals.statistics().rate_per_s == pytest.approx(float(points[0]["rate_requests_per_s"]))
    assert [model.name for model in workload.models] == ["jamba-tiny"]
    assert calibration_of(str(whole.run_dir)) == "default"
    with pytest.raises(InputError, match="names no design of this comparison"):
        design_of_run(whole.run_dir, "nothing")
    with pytest.raises(InputError, match="need a workload"):
        workload_of_run(f"{whole.run_dir}:{row['design']}", "zamba2-7b", ())


def test_a_damaged_journal_of_answers_is_told(tmp_path):
    (tmp_path / "comparison.yaml").write_text(SMALL)
    with pytest.raises(InputError, match="cannot be read"):
        design_of_run(tmp_path, "abc")
    (tmp_path / "answers.jsonl").write_text('["half"]\n')
    with pytest.raises(InputError, match="not readable"):
        design_of_run(tmp_path, "abc")


def test_a_directory_of_another_comparison_is_refused_unchanged(file, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="name an empty or new directory"):
        compare(file, tmp_path, resume=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["notes.txt"]


def test_the_quick_variant_replaces_values_of_the_file(file):
    assert load_comparison(file, quick=True).search.settings.trials == 4
    assert load_comparison(file).search.settings.trials == 8


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("of: co-design, change: {scale: {compute: 1.0}}", "of: codesign, change: {}", "did you mean 'co-design'"),
        ("primary: 0.5", "primary: 0.8", "0.8 is not one of the fractions"),
        ("name: same, of", "name: same, space: small-9, of", "needs exactly one of space, design, of"),
        ("{name: co-design,", "{name: baseline,", "two contenders are called 'baseline'"),
        ("primary: 0.5", "primary: 0.5\nreference: basline", "did you mean 'baseline'"),
        ("jamba-tiny", "jamba-tinny", "did you mean 'jamba-tiny'"),
        ("space: small-9}", "space: small-8}", "did you mean 'small-9'"),
        ("objectives: [throughput]", "objectives: [throughputs]", "did you mean 'throughput'"),
        ("objectives: [throughput]", "objectives: [ttft_mean]", "did you mean 'ttft_mean_s'"),
        ("objectives: [throughput]", "objectives: [batch_mean]", "is no objective"),
        ("objectives: [throughput]", "objectives: [throughput, throughput]", "named twice"),
        (
            "primary: 0.5",
            "primary: 0.5\nconstraints: [{metric: unit_cost_us, at_most: 1}]",
            "did you mean 'unit_cost_usd'",
        ),
        ("primary: 0.5", f"primary: 0.5\nvolume: {10**40}", "at most 1e+12"),
        ("[hbm, Ap", "[hbn, Ap", "did you mean 'hbm'"),
    ],
)
def test_mistakes_are_told_with_file_and_line(tmp_path, old, new, message):
    assert old in SMALL
    (tmp_path / "c.yaml").write_text(SMALL.replace(old, new, 1))
    with pytest.raises(InputError) as error:
        load_comparison(tmp_path / "c.yaml")
    assert message in str(error.value)
    assert "c.yaml:" in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [("compute: 1.0", "compue: 1.0", "did you mean 'compute'")],
)
def test_a_change_of_something_unknown_is_told_before_anything_is_written(tmp_path, old, new, message):
    (tmp_path / "c.yaml").write_text(SMALL.replace(old, new))
    with pytest.raises(InputError, match=message):
        compare(tmp_path / "c.yaml", tmp_path / "run")
    assert not (tmp_path / "run").exists()


PER_WATT = DerivedMetric(
    Metric("saturation_per_watt", "tokens/s/W", MAXIMISE, "saturation per watt", "saturation per watt"),
    ("saturation_tokens_per_s", "power_w"),
    lambda known: known["saturation_tokens_per_s"] / known["power_w"],
)


@pytest.mark.slow
def test_a_contender_can_be_chosen_for_a_metric_or_an_objective_of_another_package(tmp_path):
    file = tmp_path / "c.yaml"
    aims = "objectives: [saturation_per_watt, energy_j_per_token]"
    file.write_text(SMALL.replace("objectives: [throughput]", aims))
    with registered(OBJECTIVES, "saturation_per_watt", PER_WATT):
        comparison = load_comparison(file)
        [load] = comparison.loads
        contender = comparison.contender("co-design")
        best = {aim: finalists(comparison, load, contender, [aim], 5.0)[aim] for aim in comparison.aims}
        estimating = Estimating(comparison, workload_for(load, "saturation_per_watt", 5.0), comparison.aims)
        table = estimating.designs([choice for choice, _ in best["saturation_per_watt"]])
    ratio = table.metrics["saturation_tokens_per_s"] / table.metrics["power_w"]
    assert [score for _, score in best["saturation_per_watt"]] == pytest.approx(ratio.tolist())
    [(_, energy)] = best["energy_j_per_token"]
    assert energy < 0.0
    assert best["saturation_per_watt"][0][1] > 0.0


def test_slower_memories_slow_every_contender_and_stacks_and_dies_alike(file):
    fast, slow = (load_comparison(file, [f"memory_share={share}"]) for share in (1.0, 0.85))
    [load] = fast.loads
    [choice] = [finalists(fast, load, fast.contender("co-design"), ["throughput"], 5.0)["throughput"][0][0]]
    ours, theirs = (design_of(comparison, choice) for comparison in (fast, slow))
    before, after = ours.package.memories[0].stack, theirs.package.memories[0].stack
    assert after.bandwidth_bytes_per_s == pytest.approx(0.85 * before.bandwidth_bytes_per_s)
    gpu = load_design("h100")
    gpus = [place_design(one, load.requests.models[0], 0)[0] for one in (gpu, with_slower_memory(gpu, 0.85))]
    rates = estimate_designs(gpus, at_rate(load.requests, 1.0), fast.calibration).metrics["saturation_tokens_per_s"]
    assert 0.85 <= rates[1] / rates[0] < 1.0


def test_contenders_can_be_measured_operator_by_operator(file):
    simulator = find_simulator()
    values = {}
    for detail in ("ledger", "memo"):
        comparison = load_comparison(file, [f"simulation.detail={detail}"])
        [load] = comparison.loads
        design = place_design(load_design("hydra-24-nemotron-chat"), load.requests.models[0], 0)[0]
        run = Runs(simulator, comparison, load, design, 0).at(1.0)
        values[detail] = run.metrics["ttft_mean_s"]
    assert values["memo"] != values["ledger"] == pytest.approx(values["memo"], rel=0.3)


def test_a_search_for_the_highest_rate_does_not_refuse_designs_that_are_slower_than_the_others(file):
    [load] = load_comparison(file).loads
    assert workload_for(load, "max_rate", 50.0) == workload_for(load, "max_rate", 1.0)
    assert workload_for(load, "max_rate", 50.0).promises
    seen = workload_for(load, "throughput", 50.0)
    assert seen.arrivals.statistics().rate_per_s == 50.0
    assert not seen.promises


def test_a_search_sees_the_power_limit_of_its_packages(tmp_path):
    def found(limit):
        text = SMALL.replace("space: small-9}", f"space: small-9, set: {{package.limits.power: {limit}}}}}")
        (tmp_path / "c.yaml").write_text(text)
        comparison = load_comparison(tmp_path / "c.yaml")
        best = finalists(comparison, comparison.loads[0], comparison.contenders[1], ["max_rate"], 1.0)["max_rate"]
        return best[0][1]

    assert 0.0 < found("50 W") < found("100 kW")
