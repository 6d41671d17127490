"""Several models on one package, in events: turns, shared memory, disjoint dies, saturation, conservation."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from serving_pieces import PLENTY, Log, one_second, system

from hydra_dse.policy import Policy
from hydra_dse.workload.nouns import Requests
from simulators.serving import CacheShape, Composition, System, run
from simulators.serving.metrics import saturation_tokens_per_s
from simulators.serving.mix import Mix, MixOutcome, run_mix

CHUNKED = Policy(serving="colocated", max_batch=8, token_budget=256)
SPLIT = Policy(serving="disaggregated", max_batch=8, token_budget=256)


def mix(*systems: System, same_dies: bool = True, shared_cache: bool = True) -> Mix:
    turns = tuple(
        {pool: 2 * (0 if same_dies else number) + at for at, pool in enumerate(one.costs)}
        for number, one in enumerate(systems)
    )
    return Mix(systems, turns, shared_cache, tuple(range(len(systems))))


def offered(*rows: tuple[float, int, int, int]) -> Requests:
    """Requests as (arrival, prompt tokens, output tokens, model)."""
    arrival, prompt, output, model = (np.array(column) for column in zip(*rows, strict=True))
    return Requests(arrival.astype(float), prompt, output, model)


def drawn(seed: int, count: int = 80, rate_per_s: float = 6.0, models: int = 2) -> Requests:
    rng = np.random.default_rng(seed)
    return Requests(
        np.cumsum(rng.exponential(1 / rate_per_s, count)),
        rng.integers(1, 400, count),
        rng.integers(1, 120, count),
        rng.integers(0, models, count),
    )


def lasting(fixed_s: float, per_token_s: float = 1e-4) -> Callable[[Composition], float]:
    return lambda batch: fixed_s + per_token_s * (batch.prefill_tokens + batch.decode_sequences)


def starts(log: Log) -> list[float]:
    return [record.start_s for record in log.iterations]


def test_two_models_on_the_same_dies_take_turns_and_one_alone_does_not_wait() -> None:
    """Iterations of 1 s and of 10 s: prompt, 1 s; prompt, 10 s; then a step of each in turn while both have work."""
    log = Log()
    two = mix(system(CHUNKED, one_second), system(CHUNKED, lambda _: 10.0))
    run_mix(two, offered((0.0, 5, 4, 0), (0.5, 5, 2, 1)), 0.0, log)
    assert starts(log) == [0.0, 1.0, 11.0, 12.0, 22.0, 23.0]
    durations = [record.duration_s for record in log.iterations]
    assert durations == [1.0, 10.0, 1.0, 10.0, 1.0, 1.0]


def test_three_models_are_served_round_robin() -> None:
    log = Log()
    three = mix(*(system(CHUNKED, lambda _, n=n: 1.0 + n) for n in range(3)))
    run_mix(three, offered((0.0, 1, 3, 0), (0.0, 1, 3, 1), (0.0, 1, 3, 2)), 0.0, log)
    assert [record.duration_s for record in log.iterations] == [1.0, 2.0, 3.0] * 3


def test_models_on_dies_of_their_own_run_side_by_side() -> None:
    log = Log()
    apart = mix(system(CHUNKED, one_second), system(CHUNKED, lambda _: 10.0), same_dies=False)
    run_mix(apart, offered((0.0, 5, 2, 0), (0.5, 5, 2, 1)), 0.0, log)
    assert starts(log) == [0.0, 0.5, 1.0, 10.5]


def test_a_model_without_requests_leaves_the_other_as_if_alone() -> None:
    one = system(CHUNKED, lasting(5e-3))
    requests = replace(drawn(3), class_index=np.zeros(80, dtype=np.int64))
    alone, beside = run(one, requests), run_mix(mix(one, system(CHUNKED, lasting(9e-3))), requests).whole
    assert np.array_equal(alone.visits.last_token_s, beside.visits.last_token_s)
    assert np.array_equal(alone.visits.first_token_s, beside.visits.first_token_s)


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy", [CHUNKED, SPLIT, replace(CHUNKED, batching="prefill_first"), replace(SPLIT, batches_in_flight=2)]
)
@pytest.mark.parametrize("shared", [True, False])
def test_no_request_is_lost_in_scarce_memory_and_leaps_change_no_bit(policy: Policy, shared: bool) -> None:
    """Memory for two or three requests of either model: sequences of one preempt those of the other."""
    small, large = CacheShape(2200.0, 1.0, 30.0, 16), CacheShape(2200.0, 2.0, 5.0, 16)
    two = mix(system(policy, lasting(4e-3), small), system(policy, lasting(7e-3), large), shared_cache=shared)
    for seed in range(3):
        runs = []
        for fast in (True, False):
            log = Log()
            runs.append((log, run_mix(two, drawn(seed), 0.1, log, fast=fast)))
        (fast_log, quick), (slow_log, slow) = runs
        assert sorted(visit.request for visit in fast_log.visits) == list(range(80))
        assert fast_log.visits == slow_log.visits
        assert quick.whole.end == slow.whole.end
        assert all(part.peak_bytes <= 2200.0 for part in quick.parts)
        if shared:
            assert max(part.peak_bytes for part in quick.parts) > 1100.0


def test_counts_of_the_models_add_up_to_those_of_the_whole() -> None:
    two = mix(system(CHUNKED, lasting(4e-3)), system(CHUNKED, lasting(7e-3)))
    found = run_mix(two, drawn(5), 0.1)
    assert sum(len(part.visits) for part in found.parts) == len(found.whole.visits) == 80
    assert sum(len(part.visits) - part.first for part in found.parts) == 80 - found.whole.first
    for name in ("tokens", "completed", "preemptions", "decoding_seconds"):
        parts = sum(getattr(part.end, name) - getattr(part.start, name) for part in found.parts)
        assert parts == pytest.approx(getattr(found.whole.end, name) - getattr(found.whole.start, name))
    weight = float(found.whole.gap_weight.sum())
    assert weight == sum(float(part.gap_weight.sum()) for part in found.parts)


def test_iterations_of_models_on_the_same_dies_never_overlap() -> None:
    log = Log()
    run_mix(mix(system(CHUNKED, lasting(4e-3)), system(CHUNKED, lasting(7e-3))), drawn(6, rate_per_s=40.0), 0.0, log)
    spans = sorted((record.start_s, record.start_s + record.duration_s) for record in log.iterations)
    assert all(later[0] >= earlier[1] - 1e-9 for earlier, later in itertools.pairwise(spans))


def sustained(found: MixOutcome) -> float:
    visits = found.whole.visits
    return saturation_tokens_per_s(visits, 8) / float(visits.output_tokens.mean())


def backlog(seed: int, shares: tuple[float, float]) -> Requests:
    rng = np.random.default_rng(seed)
    models = (rng.random(1200) > shares[0]).astype(np.int64)
    return Requests(np.zeros(1200), rng.integers(50, 300, 1200), rng.integers(20, 120, 1200), models)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_time_sharing_sustains_no_more_than_each_model_alone_weighted_by_its_work(share: float) -> None:
    """A model's iterations carry no more than when it runs alone, so 1/X ≥ Σ s_k / X_k."""
    systems = (system(CHUNKED, lasting(4e-3)), system(CHUNKED, lasting(9e-3)))
    shares = (share, 1.0 - share)
    together = sustained(run_mix(mix(*systems), backlog(1, shares), saturate=True))
    alone = []
    for one in systems:
        requests = replace(backlog(2, (1.0, 0.0)), class_index=np.zeros(1200, dtype=np.int64))
        visits = run(one, requests).visits
        alone.append(saturation_tokens_per_s(visits, 8) / float(visits.output_tokens.mean()))
    bound = 1.0 / sum(s / rate for s, rate in zip(shares, alone, strict=True))
    assert together <= 1.02 * bound
    assert together >= 0.5 * min(alone)


def test_saturation_is_paced_by_the_model_that_is_slowest_for_its_share() -> None:
    """Dies of their own: nine tenths of the requests go to one model, which sustains X, so the mix sustains X / 0.9."""
    one = system(CHUNKED, lasting(5e-3), PLENTY)
    apart = mix(one, one, same_dies=False)
    visits = run(one, replace(backlog(3, (1.0, 0.0)), class_index=np.zeros(1200, dtype=np.int64))).visits
    alone = saturation_tokens_per_s(visits, 8) / float(visits.output_tokens.mean())
    assert sustained(run_mix(apart, backlog(3, (0.9, 0.1)), saturate=True)) == pytest.approx(alone / 0.9, rel=0.05)


def test_the_same_requests_give_the_same_bytes() -> None:
    two = mix(system(SPLIT, lasting(4e-3)), system(SPLIT, lasting(7e-3)))
    logs = [Log(), Log()]
    for log in logs:
        run_mix(two, drawn(9), 0.0, log)
    assert repr(logs[0]) == repr(logs[1])
