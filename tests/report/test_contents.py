"""What the sections of a report say: importance, constraints, load, latencies, robustness, comparisons."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from hydra_dse.design.experiment import Scenario, ScenarioSettings
from hydra_dse.errors import InputError
from hydra_dse.estimator.designs import evaluate
from hydra_dse.estimator.distributions import latency_quantiles
from hydra_dse.placement import place_design
from hydra_dse.report.baselines import baselines_of
from hydra_dse.report.charts import BAND, Bars, HeatMap
from hydra_dse.report.constraints import Remedies, broken_constraints, constraints_section
from hydra_dse.report.fronts import front_section
from hydra_dse.report.importance import explained, importance_of, importance_section
from hydra_dse.report.iteration import iteration_section
from hydra_dse.report.latency import latency_section
from hydra_dse.report.load import load_section
from hydra_dse.report.load_sweep import load_sweep
from hydra_dse.report.package import busy_links, package_section
from hydra_dse.report.page import page_of
from hydra_dse.report.records import Report, Section
from hydra_dse.report.robustness import read_shares, robustness_section
from hydra_dse.report.run import read_run
from hydra_dse.report.served import MOST, Served, loads_of, sections_of
from hydra_dse.report.summary import recommendation_section
from hydra_dse.report.temperatures import slot_temperatures
from hydra_dse.report.uncertainty import read_odds, uncertainty_section
from hydra_dse.results import Violation
from hydra_dse.workload import at_rate, served

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(run_dir):
    return read_run(run_dir)


@pytest.fixture(scope="module")
def loads(run):
    return loads_of(run)


def with_violations(run, changes):
    """The run with some designs made infeasible."""
    violations = list(run.designs.scores.violations)
    for row, broken in changes.items():
        violations[row] = tuple(broken)
    scores = replace(run.designs.scores, violations=tuple(violations))
    return replace(run, designs=replace(run.designs, scores=scores))


def test_groups_that_say_everything_explain_all_and_random_ones_nothing():
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(4), 250)
    assert explained(codes, 4, codes.astype(float)) == pytest.approx(1.0)
    shares = [explained(codes, 4, rng.normal(size=1000)) for _ in range(50)]
    assert np.mean(shares) < 0.003  # ε² is corrected for chance; η² would be (k − 1)/(n − 1) = 0.003


def test_half_of_the_variance_is_a_share_of_a_half():
    rng = np.random.default_rng(1)
    codes = np.tile(np.arange(2), 20_000)
    values = 2.0 * codes + rng.normal(size=len(codes))  # variance 1 between the groups, 1 within
    assert explained(codes, 2, values) == pytest.approx(0.5, abs=0.01)


def test_the_parameter_that_makes_the_objective_is_the_most_important(run):
    name = next(iter(run.designs.points[0]))
    mine = np.array([float(point[name]) for point in run.designs.points])
    assert len(set(mine)) > 1
    metrics = {**run.designs.scores.metrics, "ttft_mean_s": mine}
    changed = replace(run, designs=replace(run.designs, scores=replace(run.designs.scores, metrics=metrics)))
    found = {item.parameter: item for item in importance_of(changed) if item.objective == "ttft_mean_s"}
    best = found[name]
    assert best.share == max(item.share for item in found.values()) > 0.99
    assert all(0.0 <= item.low <= item.share <= item.high <= 1.0 for item in found.values())


def test_too_few_designs_say_nothing_of_importance(run):
    metrics = {name: np.full(len(run.designs), np.nan) for name in run.designs.scores.metrics}
    changed = replace(run, designs=replace(run.designs, scores=replace(run.designs.scores, metrics=metrics)))
    assert "designs have values" in importance_section(changed).absent


def test_broken_constraints_are_counted_with_the_nearest_miss(run):
    far, near = Violation("power", 300.0, 100.0, "W", ("fewer dies",)), Violation("power", 110.0, 100.0, "W", ("cool",))
    other = Violation("area", 12.0, 10.0, "mm²")
    changed = with_violations(run, {0: [far, other], 1: [near]})
    found = {item.constraint: item for item in broken_constraints(changed)}
    power = found["power"]
    assert (power.designs, power.alone, power.nearest, power.nearest_design) == (2, 1, near, run.identity(1))
    assert power.median_excess == pytest.approx((2.0 + 0.1) / 2)
    [table] = constraints_section(changed).tables
    row = next(row for row in table.rows if row[0] == "power")
    assert row[4] == "110 of 100 W" and row[-1] == "cool"


def test_the_nearest_feasible_design_differs_least(run):
    bad = 3
    found = Remedies.of(with_violations(run, {bad: [Violation("power", 2.0, 1.0, "W")]}))
    text, _, identity = found.nearest(bad).rpartition(": ")
    mine, best = run.designs.points[bad], run.designs.points[run.row_of(identity)]
    differing = [name for name in mine if mine[name] != best[name]]
    assert text == ", ".join(f"{name} {mine[name]} → {best[name]}" for name in differing)
    others = [place for place in range(len(run.designs)) if place != bad and run.designs.scores.violation[place] <= 0]
    least = min(sum(mine[name] != run.designs.points[place][name] for name in mine) for place in others)
    assert len(differing) == least > 0


def test_the_segments_of_a_waterfall_make_up_the_iteration(run, loads):
    section = iteration_section(run, loads)
    assert not section.absent and section.plots
    for plot in section.plots:
        chart = plot.chart
        assert isinstance(chart, Bars)
        *parts, whole = [row.bars[0] for row in chart.rows]
        assert parts[0].start == 0.0
        assert [part.start for part in parts[1:]] == pytest.approx([part.end for part in parts[:-1]])
        assert parts[-1].end == pytest.approx(whole.end)


def test_links_are_as_busy_as_the_estimate_says(run, loads):
    found = loads[0].explanation
    busy = busy_links(found)
    # The metric adds the busiest link of each pool: an upper bound that is reached where one pool loads the link.
    assert 0.0 < max(busy.values()) <= run.estimate("noi_utilization_max", run.recommended) * (1 + 1e-9)
    plot = package_section(run, loads).plots[0]
    wires = plot.chart.wires
    assert max(wire.load for wire in wires) == 1.0
    assert {tile.note.split(",")[0] for tile in plot.chart.tiles if tile.label != "HBM"} <= {
        f"{100 * run.estimate(name, run.recommended):.0f} %"
        for name in run.designs.scores.metrics
        if "utilization" in name
    }


def test_the_hottest_tile_is_as_hot_as_the_estimate_says(run, loads):
    found = loads[0].explanation
    models = [kind.model for kind in served(run.experiment.workload)]
    placed, _ = place_design(run.design(run.recommended), models, 0)
    celsius = slot_temperatures(placed, found.package)
    [mean] = [row for row in found.package.temperatures if row.load == "mean"]
    assert set(celsius) == set(placed.placement.slots)
    assert max(celsius.values()) == pytest.approx(max(mean.die_c, mean.dram_c), rel=1e-9)
    assert slot_temperatures(placed, None) == {}
    assert all("°C" in tile.note for tile in package_section(run, loads).plots[0].chart.tiles)


def test_quantiles_are_the_percentiles_of_the_estimate(run):
    design, experiment = run.design(run.recommended), run.experiment
    [found] = evaluate([design], experiment.workload, experiment.calibration)
    shares = latency_quantiles(design, experiment.workload, experiment.calibration, (0.5, 0.9, 0.99))
    for kind, values in shares.items():
        names = [f"{kind}_{percentile}_s" for percentile in ("p50", "p90", "p99")]
        assert values.tolist() == pytest.approx([found.metrics[name] for name in names], rel=1e-9)
    assert set(shares) == {"ttft", "tpot", "tbt", "e2e"}


def test_distributions_rise_and_show_the_service_level(run, loads):
    plots = {plot.stem: plot.chart for plot in latency_section(run, loads).plots}
    for chart in plots.values():
        assert (np.diff(chart.series[0].x) >= 0).all()
    assert [(rule.axis, rule.value) for rule in plots["cdf_ttft"].rules] == [("x", 2.0), ("y", 0.9)]
    assert [(rule.axis, rule.value) for rule in plots["cdf_tpot"].rules] == [("x", 0.05), ("y", 0.9)]
    assert not plots["cdf_e2e"].rules


def test_a_simulated_distribution_passes_through_its_percentiles_within_the_range_of_its_replications(run, loads):
    identity = run.identity(run.recommended)
    for plot in latency_section(run, loads).plots:
        kind = plot.stem.removeprefix("cdf_")
        band, line = (series for series in plot.chart.series if series.label in ("range of replications", "simulated"))
        assert band.form == BAND and np.array_equal(band.y, line.y)
        assert (band.x - band.x_error[0] <= line.x).all() and (line.x <= band.x + band.x_error[1]).all()
        tables = run.latencies[identity][kind]
        assert line.y[-1] <= 1 - 10 / min(table.samples for table in tables)
        near = np.interp((0.49, 0.51), line.y, line.x)
        median = run.validation[identity, f"{kind}_p50_s"].simulated
        assert near[0] * (1 - 1e-9) <= median <= near[1] * (1 + 1e-9)
        assert {row[0] for row in plot.rows} == {"estimated", "simulated", "simulated percentile"}


def test_without_distributions_the_simulated_percentiles_remain(run, loads):
    found = latency_section(replace(run, latencies={}), loads)
    for plot in found.plots:
        assert [series.label for series in plot.chart.series] == ["estimated", "simulated p50, p90, p99, 95 % CI"]


def test_several_scenarios_are_a_choice_each_with_its_own_figures(run):
    workload = run.experiment.workload
    items = tuple(
        Scenario(f"m/{name}", "m", name, at_rate(workload, rate)) for name, rate in (("slow", 0.2), ("b", 0.5))
    )
    scenarios = ScenarioSettings(items)
    several = replace(run, experiment=replace(run.experiment, scenarios=scenarios))
    loads = loads_of(several)
    section = latency_section(several, loads)
    assert [choice.heading for choice in section.choices] == ["m/slow", "m/b"] and not section.plots
    stems = [plot.stem for plot in section.all_plots]
    assert "cdf_ttft_m_slow" in stems and len(set(stems)) == len(stems) == 8
    [slow, fast] = (choice.plots[0].chart.series for choice in section.choices)
    assert [series.label for series in slow] == ["estimated"]  # the validation is of none of them
    assert slow[0].x[50] < fast[0].x[50]
    html = page_of(Report("t", "", (section,)))
    assert html.count('<details class="choice" open>') == 1 and html.count('<details class="choice">') == 1


def test_of_many_scenarios_a_few_are_drawn_and_the_rest_counted(run):
    items = tuple(Scenario(f"m/{n}", "m", str(n), run.experiment.workload) for n in range(MOST + 3))
    several = replace(run, experiment=replace(run.experiment, scenarios=ScenarioSettings(items)))
    served = Served("m/0", run.experiment.workload, {}, "no reason", note="at 2 requests/s")
    found = sections_of(several, [served] * MOST, "Load", lambda run, load: Section("Load", ("words",)))
    assert len(found.choices) == MOST and "3 others" in found.paragraphs[0]
    assert found.choices[0].paragraphs == ("At 2 requests/s.", "words")
    none = sections_of(several, [served], "Load", lambda run, load: Section("Load", absent="a reason"))
    assert none.absent == "a reason"


def test_a_load_sweep_passes_through_the_estimate_of_the_run(run, loads):
    found = load_sweep(run, loads[0])
    assert not isinstance(found, str)
    ttft = found.metrics["ttft_mean_s"][0]
    assert found.designs[0] == run.recommended
    known = np.isfinite(ttft)
    assert (np.diff(ttft[known]) > 0).all()
    rate = run.experiment.workload.arrivals.statistics().rate_per_s
    between = np.interp(rate, found.rates_per_s[known], ttft[known])
    assert between == pytest.approx(run.estimate("ttft_mean_s", run.recommended), rel=0.1)
    tokens = found.metrics["throughput_tokens_per_s"][0][known]
    assert tokens == pytest.approx(80 * found.rates_per_s[known])  # 80 output tokens a request


def test_interactivity_falls_as_throughput_rises_and_cost_is_named_as_missing(run, loads):
    section = load_section(run, loads)
    plots = {plot.stem: plot for plot in section.plots}
    rows = [
        row for row in plots["interactivity_throughput_tokens_per_s"].rows if row[0] == run.identity(run.recommended)
    ]
    assert len(rows) > 5
    assert all(after[2] < before[2] and after[3] > before[3] for before, after in pairwise(rows))
    missing = any("per USD" in text for text in section.paragraphs)
    assert missing == ("interactivity_throughput_tokens_per_s_per_usd" not in plots)


def test_the_recommendation_says_what_it_gives_up(run):
    words = recommendation_section(run).paragraphs
    assert any("Saturation: estimated" in text for text in words) and any(
        "TTFT mean: estimated" in text for text in words
    )
    assert any(text.startswith("Keeps load ≤ 0.95 with ") for text in words)


def test_shares_retained_are_sorted_by_the_worst_case(run, copy):
    text = "design,model,metric,retained_share\n"
    text += "a,m1,goodput_requests_per_s,1.0\na,m2,goodput_requests_per_s,0.4\n"
    text += "b,m1,goodput_requests_per_s,0.9\nb,m2,goodput_requests_per_s,\n"
    (copy / "robustness.csv").write_text(text)
    section = robustness_section(read_run(copy))
    [plot] = section.plots
    chart = plot.chart
    assert isinstance(chart, HeatMap)
    assert chart.rows == ("b", "a") and chart.columns == ("m1", "m2", "worst")
    assert chart.texts == (("0.90", "", "0.90"), ("1.00", "0.40", "0.40"))
    assert plot.stem == "robustness_goodput_requests_per_s"


@pytest.mark.parametrize(
    ("read", "text", "words"),
    [
        (read_shares, "design,model\na,b\n", "no column 'metric'"),
        (read_shares, "design,model,metric,retained_share\na,b,c,x\n", "'x'"),
        (read_shares, "\x00\n", "no column 'design'"),
        (read_odds, "design,on_front\na,b\n", "no column 'status'"),
    ],
)
def test_a_corrupt_table_is_refused_with_file_and_reason(read, text, words):
    with pytest.raises(InputError, match=rf"table\.csv.*{words}"):
        read(text.encode(), "table.csv")


def test_roles_and_loads_name_the_cells_of_a_study_of_robustness():
    text = "metric,design,role,model,workload,retained_share\nm,d1,all,a,chat,0.9\nm,d1,all,a,code,0.8\n"
    assert read_shares(text.encode(), "f") == {"m": {("all", "a, chat"): 0.9, ("all", "a, code"): 0.8}}


def test_naive_choices_stand_beside_the_front_and_are_worse_for_the_links(run):
    section = front_section(run)
    names = [row[0] for row in section.tables[1].rows]
    assert names == [
        "recommended design", "round-robin placement", "static batching", "round-robin placement and static batching",
    ]  # fmt: skip
    found = {item.name: item for item in baselines_of(run)}
    dealt = found["round-robin placement"].metrics["noi_utilization_max"]
    assert dealt > run.estimate("noi_utilization_max", run.recommended)
    assert found["static batching"].metrics["e2e_mean_s"] > run.estimate("e2e_mean_s", run.recommended)
    series = section.plots[0].chart.series[-1]
    assert series.label == "recommended package, naive choices" and len(series.known) == 3


def test_odds_of_designs_are_shown_most_likely_first(run, copy):
    head = "design,on_front,status,p_in_front,p_feasible,expected_regret,extra\n"
    (copy / "front_uncertainty.csv").write_text(head + "a,False,undecided,0.3,1.0,0.1,\nb,True,in front,0.95,1.0,,\n")
    section = uncertainty_section(read_run(copy))
    assert [row.label for row in section.plots[0].chart.rows] == ["b", "a"]
    assert section.tables[0].rows[0] == ("b", "yes", "in front", "95 %", "100 %", "n/a")
    assert uncertainty_section(run).absent


def test_without_a_feasible_design_a_report_says_so(run):
    empty = replace(run, front=(), recommended=-1)
    assert front_section(empty).absent == "no design is feasible"
    for section in (package_section, iteration_section, latency_section, load_section):
        assert section(empty, loads_of(empty)).absent == "no design is feasible"
