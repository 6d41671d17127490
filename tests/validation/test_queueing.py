"""The validation of the estimator: both sides get the same times, and what is stored can be found again."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from benchmarks.validation.cases import BANDS, Case, cases
from benchmarks.validation.compiled import serve_compiled
from benchmarks.validation.errors import Comparison, cell, comparisons
from benchmarks.validation.estimated import estimated, profile_of
from benchmarks.validation.serving import serve_in_simpy
from benchmarks.validation.simulate import SLICE, drawn_lengths, half_width, simulate
from benchmarks.validation.store import digest, load, row_of
from benchmarks.validation.system import Engine, EngineCost, EnginePool
from hydra_dse.model.operators import Batch
from hydra_dse.rng import derive
from hydra_dse.workload.nouns import Requests
from simulators.iteration import Attended, Composition

COMPILED = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
ENGINE = Engine(t0=5e-4, tw=6e-3, tc=5e-5, tkv=2e-8, tssm=5e-6, tat=1e-9)


def test_estimator_and_simulator_are_given_the_same_iteration_times() -> None:
    batch = Batch(
        prefill_tokens=np.array([300.0]),
        prefill_sequences=np.array([2.0]),
        prefill_pairs=np.array([40_000.0]),
        decode_sequences=np.array([24.0]),
        decode_context_tokens=np.array([30_000.0]),
    )
    composition = Composition(300, 2, 24, 25, Attended(30_000, 40_000.0, 300, 24))
    cost = EngineCost(ENGINE, shared=True)
    work = cost.work(composition)
    assert EnginePool(ENGINE).time_s(batch)[0] == pytest.approx(work.duration_s, rel=1e-12)
    usage = work.usage()
    assert usage is not None
    assert EnginePool(ENGINE).memory_share(batch)[0] == pytest.approx(usage[0], rel=1e-12)


def test_a_stretch_of_decode_steps_has_the_times_of_its_steps() -> None:
    cost = EngineCost(ENGINE)
    first = Composition(0, 0, 12, 12, Attended(9_000, 0.0, 0, 12))
    steps = [cost.work(first.later(step)).duration_s for step in range(40)]
    assert cost.stretch(first, 40).duration_s.tolist() == steps


def test_sets_share_no_configuration_and_cover_every_band_and_policy() -> None:
    tuning, test = cases("tuning"), cases("test")
    assert not {digest(case) for case in tuning} & {digest(case) for case in test}
    for policy in ("chunked", "prefill_first", "disaggregated"):
        mine = [case for case in test if case.policy == policy]
        assert all(sum(case.band == band for case in mine) >= 14 for band in range(len(BANDS)))
    assert {case.arrival_kind for case in test} == {"Poisson", "gamma", "regular", "phases"}
    assert 0.2 < np.mean([case.memory_bound for case in test]) < 0.4


def test_arrivals_of_a_configuration_have_a_rate_of_one() -> None:
    for case in cases("test"):
        assert case.arrivals.statistics().rate_per_s == pytest.approx(1.0)


def test_stratified_lengths_have_the_mean_of_their_distribution() -> None:
    case = cases("tuning", 1)[0]
    points = case.lengths.points()
    prompt, output = drawn_lengths(case.lengths, 4000, derive(0, "lengths"))
    assert prompt.mean() == pytest.approx(float(points.weight @ points.prompt_tokens), rel=5e-3)
    assert output.mean() == pytest.approx(float(points.weight @ points.output_tokens), rel=5e-3)
    assert abs(np.corrcoef(prompt, output)[0, 1]) < 0.05


def test_half_widths_are_those_of_student() -> None:
    # Two values a ± s: t(1, 0.975) = 12.706 standard errors of s.
    assert half_width(np.array([9.0, 11.0])) == pytest.approx(12.706 * 1.0 / 10.0, rel=1e-4)


def test_what_simulation_leaves_uncertain_does_not_count() -> None:
    def one(left_out: str, estimate: float) -> Comparison:
        return Comparison("a", "chunked", "Poisson", 0.5, False, "ttft_mean_s", estimate, 1.0, 0.0, True, left_out)

    found = cell([one("", 1.1), one("", 0.9), one("too wide", 5.0)])
    assert (found.count, found.median, found.signed) == (2, pytest.approx(0.1), pytest.approx(0.0))


def sampled(case: Case, count: int) -> Requests:
    """Requests at about the load of a configuration, by the span of a run in which all wait from the start."""
    rng = derive(0, case.name, "sampled")
    prompt, output = drawn_lengths(case.lengths, count, rng)
    none = np.zeros(count, dtype=np.int64)
    dates = serve_compiled(case, Requests(np.zeros(count), prompt, output, none), "fcfs")
    rate = case.load * count / dates.last_token_s.max()
    return Requests(case.arrivals.sample(count, rng) / rate, prompt, output, none)


@pytest.mark.slow
@COMPILED
@pytest.mark.parametrize("case", [*cases("tuning", 30), *cases("shortest", 6)], ids=lambda case: case.name)
def test_the_compiled_engine_serves_every_request_as_the_simulator_does(case: Case) -> None:
    requests = sampled(case, 400)
    fast = serve_compiled(case, requests, case.scheduling)
    slow = serve_in_simpy(case, requests, case.scheduling)
    assert fast.first_token_s.tolist() == slow.first_token_s.tolist()
    assert fast.last_token_s.tolist() == slow.last_token_s.tolist()
    assert fast.preemptions.tolist() == slow.preemptions.tolist()


@COMPILED
def test_requests_beyond_the_memory_are_no_result_of_the_compiled_engine() -> None:
    case = replace(cases("tuning", 1)[0], memory_tokens=16.0 * 20, state_tokens=0.0)
    long = np.array([200], dtype=np.int64)
    with pytest.raises(RuntimeError, match="does not fit into the memory"):
        serve_compiled(case, Requests(np.zeros(1), long, long, np.zeros(1, dtype=np.int64)), "fcfs")


@pytest.mark.slow
@pytest.mark.parametrize("case", cases("slice"), ids=lambda case: case.name)
def test_a_slice_of_the_simulation_gives_the_stored_values_again(case: Case) -> None:
    stored, found = load("slice")[case.name], simulate(case, partial(serve_in_simpy, case), SLICE)
    assert stored[0] == digest(case)
    written = row_of(case, stored[1])
    assert row_of(case, found) == written


def test_estimates_depend_on_the_configuration_alone() -> None:
    case = cases("tuning", 3)[2]
    assert profile_of(case).serving == "disaggregated"
    assert estimated(case, 3.0).values == estimated(case, 3.0).values


def test_stored_results_belong_to_the_configurations_of_the_generator() -> None:
    for which in ("tuning", "test"):
        known = load(which)
        drawn = {case.name: digest(case) for case in cases(which)}
        assert {name: found[0] for name, found in known.items()} == {name: drawn[name] for name in known}


@pytest.mark.slow
def test_every_stored_configuration_is_compared_or_left_out_with_a_reason() -> None:
    rows = comparisons("tuning")
    assert len({row.name for row in rows}) == len(load("tuning"))
    assert all(np.isfinite(row.error) for row in rows if not row.left_out)
