"""`explain`: the typical iterations behind an estimate carry its load, and what cannot serve says so."""

from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.config import load_calibration, load_design, load_workload
from hydra_dse.config.overrides import parse_override
from hydra_dse.design.nouns import Design
from hydra_dse.estimator.explain import Explanation, TypicalIteration, explain
from hydra_dse.estimator.lengths import moments_of
from hydra_dse.model import weight_bytes
from hydra_dse.placement import place_design
from hydra_dse.profile import build_profile
from hydra_dse.results import Evaluation
from hydra_dse.workload import length_points
from hydra_dse.workload.nouns import Workload

CALIBRATION = load_calibration("default")


def design_of(name: str, *overrides: str) -> Design:
    return load_design(name, [parse_override(text) for text in overrides])


def workload_of(name: str = "azure-conversation", *overrides: str) -> Workload:
    return load_workload(name, [parse_override(text) for text in overrides])


SMALL, CHAT = design_of("hydra-24-nemotron-chat"), workload_of("azure-conversation", "arrivals.rate=1/s")
GPU = design_of("h100")


@pytest.fixture(scope="module")
def split() -> tuple[Evaluation, Explanation]:
    """A disaggregated package."""
    return explain(SMALL, CHAT, CALIBRATION)


@pytest.fixture(scope="module")
def gpu() -> tuple[Evaluation, Explanation]:
    """One colocated GPU."""
    return explain(GPU, CHAT, CALIBRATION)


def named(explanation: Explanation) -> dict[tuple[str, str], TypicalIteration]:
    return {(found.composition.pool, found.phase): found for found in explanation.iterations}


def test_a_disaggregated_design_has_an_iteration_of_each_pool(split):
    assert set(named(split[1])) == {("prefill", "prefill"), ("decode", "decode")}


def test_a_colocated_design_has_both_kinds_in_one_pool(gpu):
    assert set(named(gpu[1])) == {("serve", "prefill"), ("serve", "decode")}


@pytest.mark.parametrize("case", ["split", "gpu"])
def test_iterations_times_tokens_are_the_tokens_of_the_load(case, request):
    _, explanation = request.getfixturevalue(case)
    lengths, rate = moments_of(length_points(CHAT)), explanation.rate_requests_per_s
    assert rate == pytest.approx(1.0)
    work = [(it.iterations_per_s, it.composition.batch) for it in explanation.iterations]
    prompts = sum(often * batch.prefill_tokens for often, batch in work)
    decoded = sum(often * batch.decode_sequences for often, batch in work)
    assert prompts == pytest.approx(rate * lengths.prompt, rel=0.02)  # bins of prompts, cut at the ends
    assert decoded == pytest.approx(rate * (lengths.output - 1.0), rel=1e-6)


@pytest.mark.parametrize(("case", "design"), [("split", SMALL), ("gpu", GPU)])
def test_an_iteration_takes_the_time_of_the_profile(case, design, request):
    _, explanation = request.getfixturevalue(case)
    model = CHAT.models[0]
    profile = build_profile([place_design(design, model, 0)[0]], model, CALIBRATION)
    for found in explanation.iterations:
        made = found.composition
        seconds = np.asarray(profile.pools[made.pool].time_s(made.batch))[0, 0]
        parts = sum(row.time_s for row in made.times) + made.iteration_overhead_s + made.queue_s
        assert parts == pytest.approx(seconds, rel=1e-9)


@pytest.mark.parametrize(("case", "design"), [("split", SMALL), ("gpu", GPU)])
def test_memory_adds_up_to_the_capacity_and_holds_weights_and_mean_occupancy(case, design, request):
    evaluation, explanation = request.getfixturevalue(case)
    model = CHAT.models[0]
    for site in explanation.memory:
        held = site.weight_bytes + site.kv_bytes + site.state_bytes + site.left_bytes
        assert held == pytest.approx(site.capacity_bytes)
    assert sum(site.weight_bytes for site in explanation.memory) == pytest.approx(weight_bytes(model, model.precision))
    free = sum(site.capacity_bytes - site.weight_bytes for site in explanation.memory)
    usable = free * (1.0 - design.policy.memory_watermark)  # all sites fill at the same time here
    kv, state = (sum(getattr(site, f"{kind}_bytes") for site in explanation.memory) for kind in ("kv", "state"))
    assert kv == pytest.approx(evaluation.metrics["kv_occupancy"] * usable, rel=1e-9)
    assert state == pytest.approx(evaluation.metrics["state_occupancy"] * usable, rel=1e-9)


@pytest.mark.parametrize("case", ["split", "gpu"])
def test_the_decode_batch_is_that_of_the_decode_iteration(case, request):
    _, explanation = request.getfixturevalue(case)
    batch = explanation.decode_batch
    assert batch is not None
    [decode] = [found for found in explanation.iterations if found.phase == "decode"]
    assert batch.mean == pytest.approx(decode.composition.batch.decode_sequences)
    assert 1 <= batch.p10 <= batch.p50 <= batch.p90 <= batch.p99
    assert batch.p10 <= batch.mean <= batch.p99


def test_the_decode_batch_at_a_very_low_load_is_one_sequence():
    _, explanation = explain(SMALL, workload_of("azure-conversation", "arrivals.rate=0.001/s"), CALIBRATION)
    batch = explanation.decode_batch
    assert batch is not None
    assert batch.mean == pytest.approx(1.0, abs=0.01)
    assert batch.p99 == 1.0


def test_a_gpu_has_no_links_and_its_decode_is_bound_by_memory(gpu):
    for found in gpu[1].iterations:
        assert found.composition.links == ()
        assert all(row.network_s == 0.0 for row in found.composition.times)
    assert named(gpu[1])[("serve", "decode")].composition.binding == "memory"
    assert [site.site for site in gpu[1].memory] == ["GPU[0].memory"]


def test_the_same_estimate_stands_above_it(split):
    from hydra_dse.estimator import evaluate

    assert split[0] == evaluate([SMALL], CHAT, CALIBRATION, temperature=True)[0]


def test_a_design_that_cannot_be_placed_has_nothing_to_explain():
    crowded = design_of("hydra-24-nemotron-chat", "package.topology.columns=5")
    evaluation, explanation = explain(crowded, CHAT, CALIBRATION)
    assert not evaluation.feasible
    assert explanation.iterations == () and explanation.memory == () and explanation.decode_batch is None
    assert explanation.notes and "cannot serve" in explanation.notes[0]


def test_a_design_over_its_interposer_has_nothing_to_explain():
    large = design_of("hydra-24-nemotron-chat", "package.limits.interposer=2000 mm2")
    evaluation, explanation = explain(large, CHAT, CALIBRATION)
    assert not evaluation.feasible
    assert explanation.iterations == ()


def test_above_saturation_iterations_are_those_at_saturation():
    evaluation, explanation = explain(SMALL, workload_of("azure-conversation", "arrivals.rate=500/s"), CALIBRATION)
    assert [violation.constraint for violation in evaluation.violations] == ["offered load"]
    saturation = evaluation.metrics["saturation_requests_per_s"]
    assert explanation.rate_requests_per_s == pytest.approx(saturation, rel=0.01)
    assert len(explanation.iterations) == 2
    assert any("cannot be served" in note for note in explanation.notes)


def test_a_load_that_changes_in_time_is_explained_at_its_busiest_piece():
    _, explanation = explain(SMALL, workload_of("shifting-mix"), CALIBRATION)
    assert any("busiest" in note for note in explanation.notes)
    assert explanation.iterations


def test_without_decoding_there_is_no_decode_iteration():
    single = workload_of("azure-conversation", "arrivals.rate=1/s", "lengths={prompt: 100, output: 1}")
    _, explanation = explain(SMALL, single, CALIBRATION)
    assert [found.phase for found in explanation.iterations] == ["prefill"]
    assert explanation.decode_batch is None
