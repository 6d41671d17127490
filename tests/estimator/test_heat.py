"""Temperatures of estimated designs: energy splits exactly, hot packages are slowed, simulation agrees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.config import load_calibration, load_design, load_model, load_space, load_technology, load_workload
from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.design.nouns import Design
from hydra_dse.estimator import explain as explain_module
from hydra_dse.estimator.designs import estimate_designs
from hydra_dse.estimator.table import EstimateTable
from hydra_dse.hardware.components import Package
from hydra_dse.model.operators import Batch
from hydra_dse.physical import technology_of
from hydra_dse.placement import place_design
from hydra_dse.profile import build_profile
from hydra_dse.profile.pools import ProfiledPool

CALIBRATION = load_calibration()
WORKLOAD = load_workload("hydra-chat", ["arrivals={process: poisson, rate: 4 req/s}"])
RATE = 4.0
HOT = ("peak_temperature_c", "hot_power_w", "leakage_w")


@pytest.fixture(scope="module")
def design() -> Design:
    return place_design(load_design("hydra-24-nemotron-chat"), WORKLOAD.models[0], 0)[0]


def made(design: Design, *, watts: float | None = None, **cooling: float) -> Design:
    base = load_technology()
    technology = replace(base, cooling=replace(base.cooling, **cooling))
    package: Package = replace(design.package, technology=technology)
    return replace(design, package=replace(package, limits=replace(package.limits, power_w=watts)))


def estimated(*designs: Design, temperature: bool = True) -> EstimateTable:
    return estimate_designs(designs, WORKLOAD, CALIBRATION, temperature=temperature, percentiles=False)


@pytest.mark.parametrize("name", ["nemotron-h-8b", "jamba-mini"])
def test_energy_of_an_iteration_is_what_dies_memory_and_links_spend(design: Design, name: str) -> None:
    model = load_model(name)
    # Room for the larger model, which does not fit the stacks of the design.
    stacks = tuple(replace(m, stack=replace(m.stack, capacity_bytes=4e10)) for m in design.package.memories)
    roomy = replace(design, package=replace(design.package, memories=stacks))
    pools = build_profile([roomy], model, CALIBRATION).pools
    batches = {"prefill": Batch(300.0, 2.0, 45e3, 0.0, 8.0, 3e3, 10.0), "decode": Batch(0, 0, 0, 0, 16.0, 8e3, 16.0)}
    for pool_name, batch in batches.items():
        pool = pools[pool_name]
        assert isinstance(pool, ProfiledPool)
        spent = pool.spent(batch)
        total = sum(spent.dies_j.values()) + spent.memory_j + spent.links_j
        assert total == pytest.approx(pool.energy_j(batch), rel=1e-9)
        assert all((joules >= 0).all() for joules in (*spent.dies_j.values(), spent.memory_j, spent.links_j))


def test_a_cool_package_serves_as_if_temperature_were_not_asked_for(design: Design) -> None:
    plain, asked = estimated(design, temperature=False), estimated(design)
    assert asked.violations == plain.violations == ((),)
    for name, values in plain.metrics.items():
        np.testing.assert_array_equal(asked.metrics[name], values, err_msg=name)
    assert set(asked.metrics) - set(plain.metrics) == set(HOT)


def test_a_hot_package_is_slowed_to_the_rate_at_its_temperature_limit(design: Design) -> None:
    limit = 70.0
    hot = made(design, sink_k_per_w=0.15, dram_limit_c=limit)
    table, cool = estimated(hot), estimated(design)
    sustained = float(table.metrics["saturation_requests_per_s"][0])
    assert 0 < sustained < RATE < float(cool.metrics["saturation_requests_per_s"][0])
    [violation] = table.violations[0]
    assert (violation.constraint, violation.bound) == ("offered load within temperature and power", sustained)
    # It serves what it sustains, at its limit.
    assert table.metrics["throughput_requests_per_s"][0] == pytest.approx(sustained)
    assert table.metrics["peak_temperature_c"][0] == pytest.approx(limit, abs=0.2)


def test_a_package_below_its_limit_is_not_slowed_at_this_rate_but_saturates_earlier(design: Design) -> None:
    just = float(estimated(design).metrics["peak_temperature_c"][0]) + 1.0
    table, cool = estimated(made(design, dram_limit_c=just)), estimated(design)
    assert table.violations == ((),)
    assert table.metrics["saturation_requests_per_s"][0] < cool.metrics["saturation_requests_per_s"][0]
    for name in ("ttft_mean_s", "tpot_mean_s", "power_w", "throughput_tokens_per_s"):
        assert table.metrics[name][0] == pytest.approx(cool.metrics[name][0])


def test_between_its_limits_a_package_runs_slower_with_fuller_batches_and_serves_all(design: Design) -> None:
    cool = estimated(design).metrics
    limit = float(cool["peak_temperature_c"][0]) - 1.0
    table = estimated(made(design, dram_limit_c=limit))
    assert table.violations == ((),)
    assert table.metrics["peak_temperature_c"][0] == pytest.approx(limit, abs=0.1)
    assert table.metrics["throughput_tokens_per_s"][0] == pytest.approx(cool["throughput_tokens_per_s"][0])
    for more in ("ttft_mean_s", "tpot_mean_s", "batch_mean"):
        assert table.metrics[more][0] > cool[more][0]
    assert table.metrics["energy_j_per_token"][0] < cool["energy_j_per_token"][0]


def test_a_power_limit_slows_as_well(design: Design) -> None:
    table = estimated(made(design, watts=200.0))
    assert table.metrics["hot_power_w"][0] == pytest.approx(200.0, rel=0.01)
    assert table.metrics["throughput_requests_per_s"][0] < RATE


def test_designs_of_different_packages_have_the_temperatures_they_have_alone(design: Design) -> None:
    warmer = made(design, sink_k_per_w=0.07)
    small = load_space("small-9")
    other = place_design(small.build(next(iter(small.points()))), WORKLOAD.models[0], 0)[0]
    together = estimated(design, warmer, other).metrics
    for row, one in enumerate((design, warmer, other)):
        alone = estimated(one).metrics
        for name in HOT:
            assert together[name][row] == pytest.approx(alone[name][0], rel=1e-6)
    assert together["peak_temperature_c"][1] > together["peak_temperature_c"][0]


def test_products_have_no_temperature_of_ours() -> None:
    table = estimate_designs([load_design("h100")], WORKLOAD, CALIBRATION, temperature=True, percentiles=False)
    assert not set(HOT) & set(table.metrics)


def test_an_explanation_adds_up(design: Design) -> None:
    evaluation, explanation = explain_module.explain(design, WORKLOAD, CALIBRATION)
    package = explanation.package
    assert package is not None
    metrics = evaluation.metrics
    assert sum(row.dynamic_w + row.static_w for row in package.parts) == pytest.approx(metrics["power_w"], rel=1e-6)
    assert sum(row.area_mm2 for row in package.parts) == pytest.approx(metrics["area_mm2"])
    assert package.unit_usd == pytest.approx(metrics["unit_cost_usd"])
    by_load = {row.load: row for row in package.temperatures}
    assert by_load["mean"].dram_c == pytest.approx(metrics["peak_temperature_c"])
    assert set(by_load) == {"mean", "prefill", "decode"}


@pytest.mark.slow
def test_simulated_temperatures_by_the_full_solution_are_the_estimated_ones(design: Design) -> None:
    from simulators.serving import ServingSimulator

    options = EvaluationOptions(requests=400, replications=1, saturate=False)
    simulated = ServingSimulator().evaluate([design], WORKLOAD, CALIBRATION, options, 0)[0].metrics
    table = estimated(design)
    ambient = technology_of(design.package).cooling.ambient_c
    rise = float(table.metrics["peak_temperature_c"][0]) - ambient
    peak = simulated["peak_temperature_c"]
    assert peak is not None
    assert rise == pytest.approx(peak - ambient, rel=0.05)
    assert float(table.metrics["hot_power_w"][0]) == pytest.approx(simulated["hot_power_w"], rel=0.05)


@pytest.mark.slow
def test_a_simulated_package_between_its_limits_slows_like_the_estimated_one(design: Design) -> None:
    from simulators.serving import ServingSimulator

    limit = float(estimated(design).metrics["peak_temperature_c"][0]) - 2.0
    hot = made(design, dram_limit_c=limit)
    options = EvaluationOptions(requests=250, replications=1, saturate=False)
    full, slow = (ServingSimulator().evaluate([one], WORKLOAD, CALIBRATION, options, 0)[0] for one in (design, hot))
    assert not slow.violations
    assert any("slowed to" in note for note in slow.notes)
    simulated, table, cool = slow.metrics, estimated(hot).metrics, estimated(design).metrics
    assert simulated["peak_temperature_c"] == pytest.approx(limit, abs=0.5)
    # The window has the offered rate, and the dates of all requests are those of the slower clock.
    assert simulated["offered_requests_per_s"] == pytest.approx(full.metrics["offered_requests_per_s"])
    for name in ("ttft_mean_s", "tpot_mean_s", "batch_mean"):
        longer = simulated[name] / full.metrics[name]
        assert longer > 1.0
        assert float(table[name][0] / cool[name][0]) == pytest.approx(longer, rel=0.1), name
    parts = slow.components
    assert parts is not None
    assert sum(parts.power_w.values()) == pytest.approx(simulated["power_w"])
