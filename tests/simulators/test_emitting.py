"""Decode steps that emit drawn numbers of tokens: by hand, by conservation, and against the estimator."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from package_pieces import one_die
from placed_pieces import placed, simulate
from serving_pieces import one_second, requests, serve, system

from hydra_dse.config import load_calibration, load_model, load_workload
from hydra_dse.estimator import estimate_designs
from hydra_dse.estimator.steps import step_moments
from hydra_dse.mapping import map_design
from hydra_dse.model.operators import Batch
from hydra_dse.policy import Emission, Policy
from hydra_dse.profile import build_profile
from hydra_dse.workload import at_rate
from hydra_dse.workload.nouns import Requests
from simulators.package import PackageCost, PlacedHardware, ledger_of
from simulators.serving import Attended, CacheShape, Composition
from simulators.serving.decoding import DecodeSet
from simulators.serving.emitting import DrawnDecodeSet, gains_of
from simulators.serving.sequence import Sequence

TWO = (0.0, 1.0)
DRAWN = (0.5, 0.3, 0.2)


def colocated(**more: object) -> Policy:
    return Policy(serving="colocated", memory_watermark=0.0, **more)  # type: ignore[arg-type]


def test_two_tokens_a_step_halve_the_steps_and_the_last_one_emits_what_is_left() -> None:
    what = system(colocated(tokens_per_step=TWO), one_second)
    log, server = serve(what, requests((0.0, 4, 9), (20.0, 4, 8)))
    # The prompt emits a token; 8 more take four steps, 7 more take four as well.
    assert log.dates() == [(0, 0, 1, 5), (1, 20, 21, 25)]
    assert server.recorder.tokens == 17


def test_tokens_of_one_step_arrive_together() -> None:
    _, server = serve(system(colocated(tokens_per_step=TWO), one_second), requests((0.0, 4, 6)), marks=(0,))
    gaps, weights = server.recorder.gaps.values()
    # Five tokens after the first, in three steps.
    assert sorted(zip(gaps.tolist(), weights.tolist(), strict=True)) == [(0.0, 1.0)] * 2 + [(1.0, 1.0)] * 3


def test_positions_of_decoders_are_taken_off_the_budget() -> None:
    policy = colocated(token_budget=8, max_batch=2, tokens_per_step=TWO, verified_positions=3)
    log, _ = serve(system(policy, one_second), requests((0.0, 4, 5), (0.5, 10, 1)))
    # Beside one decoder of three positions there is room for five prompt tokens.
    assert log.steps() == [(0, 4, 0), (1, 5, 1), (2, 5, 1)]


def test_the_cost_of_a_step_sees_all_positions() -> None:
    seen: list[Composition] = []

    def duration(batch: Composition) -> float:
        seen.append(batch)
        return 1.0

    serve(system(colocated(tokens_per_step=TWO, verified_positions=3), duration), requests((0.0, 4, 5)))
    steps = [batch for batch in seen if batch.decode_sequences]
    assert [(batch.rows, batch.emitted_tokens) for batch in steps] == [(3, 3), (3, 3)]
    assert [batch.attended.decode_tokens for batch in steps] == [5, 7]


def duration(batch: Composition) -> float:
    context = batch.attended.decode_tokens + batch.attended.prefill_tokens
    return 5e-3 + 1e-4 * batch.rows + 3e-8 * context


def offer(seed: int, count: int = 50, rate_per_s: float = 6.0) -> Requests:
    rng = np.random.default_rng(seed)
    arrival = np.cumsum(rng.exponential(1 / rate_per_s, count))
    return Requests(arrival, rng.integers(1, 400, count), rng.integers(1, 120, count), np.zeros(count, dtype=np.int64))


policies = st.builds(
    Policy,
    serving=st.sampled_from(("colocated", "disaggregated")),
    batching=st.sampled_from(("chunked", "prefill_first", "static")),
    max_batch=st.integers(1, 12),
    token_budget=st.integers(40, 600),
    batches_in_flight=st.integers(1, 2),
    block_tokens=st.sampled_from((1, 7, 16)),
    tokens_per_step=st.sampled_from((TWO, DRAWN, (0.2, 0.2, 0.2, 0.2, 0.2))),
)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(policies, st.integers(0, 10**6), st.integers(560, 2500))
def test_tokens_asked_for_are_emitted_and_memory_stays_below_capacity(policy: Policy, seed: int, size: int) -> None:
    offered = offer(seed)
    cache = CacheShape(float(size), 1.0, 10.0, policy.block_tokens, policy.memory_watermark)
    runs = [serve(system(policy, duration, cache), offered, marks=(0,), fast=fast) for fast in (True, False)]
    (fast_log, server), (slow_log, _) = runs
    assert server.recorder.tokens == int(offered.output_tokens.sum())
    assert server.memory.peak_bytes <= size
    assert repr(fast_log) == repr(slow_log)
    _, weights = server.recorder.gaps.values()
    assert weights.sum() == int((offered.output_tokens - 1).sum())


def test_a_request_takes_the_same_steps_whatever_the_schedule() -> None:
    offered = offer(3, count=20)
    emission = Emission(DRAWN, 3)
    steps = 0
    for index, output in enumerate(offered.output_tokens.tolist()):
        reached = np.cumsum(np.frombuffer(gains_of(emission, output, 0, index), dtype=np.uint8).astype(int))
        steps += int(np.searchsorted(reached, output - 1)) + 1 if output > 1 else 0
    for more in ({"max_batch": 1}, {"max_batch": 9}, {"max_batch": 9, "batching": "prefill_first"}):
        log, _ = serve(system(colocated(tokens_per_step=DRAWN, **more), duration), offered)
        assert sum(record.decode_sequences for record in log.iterations) == steps


def test_drawn_steps_are_as_many_as_renewal_theory_says() -> None:
    emission = Emission(DRAWN, 3)
    tokens, runs = 60, 3000
    taken = []
    for request in range(runs):
        gains = np.frombuffer(gains_of(emission, tokens + 1, 5, request), dtype=np.uint8).astype(int)
        taken.append(int(np.searchsorted(np.cumsum(gains), tokens)) + 1)
    mean, variance = step_moments(np.array([float(tokens)]), emission)
    error = np.sqrt(variance[0] / runs)
    assert abs(np.mean(taken) - mean[0]) < 4 * error
    assert np.var(taken) == pytest.approx(variance[0], rel=4 * np.sqrt(2 / runs))


@pytest.mark.parametrize("seed", range(5))
def test_a_drawn_set_whose_steps_emit_one_token_counts_like_the_fast_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sets = (DecodeSet(7, (25,)), DrawnDecodeSet(7, (25,)))
    members: dict[int, tuple[Sequence, ...]] = {}
    for step in range(120):
        if rng.random() < 0.4:
            prompt, output = int(rng.integers(1, 50)), int(rng.integers(2, 30))
            members[step] = tuple(Sequence(step, 0, prompt, output) for _ in sets)
            for one, sequence in zip(sets, members[step], strict=True):
                sequence.emitted, sequence.gains = 1, bytes([1] * output)
                one.join(sequence)
            continue
        ended = [[s.request for s in one.advance(float(step))] for one in sets]
        assert sorted(ended[0]) == sorted(ended[1])
        for request in ended[0]:
            for one, sequence in zip(sets, members.pop(request), strict=True):
                one.leave(sequence)
                assert sequence.emitted == sequence.output
        fast, drawn = sets
        assert (fast.tokens_due, fast.blocks_due) == (drawn.tokens_due, drawn.blocks_due)
        assert fast.attended().decode_tokens == drawn.attended().decode_tokens
        assert fast.attended_in_windows()[0].decode_tokens == drawn.attended_in_windows()[0].decode_tokens


def test_the_ledger_counts_weights_once_and_caches_once_per_sequence_and_the_rest_by_positions() -> None:
    hardware = one_die(Policy(serving="colocated", tokens_per_step=DRAWN))
    cost = PackageCost(hardware, "serve")
    # A prompt of 10 tokens beside one decoder of context 100, then two steps of two decoders of contexts 120 and 124.
    cost.count(cost.work(Composition(10, 1, 1, 3 + 1, Attended(100, 50.0, 10), (), 3)))
    for context in (120, 124):
        cost.count(cost.work(Composition(0, 0, 2, 6, Attended(context), (), 3)))
    ledger = ledger_of(cost, cost.snapshot())
    rows = (10 + 3) + 6 + 6
    expected = {
        "weights": 3 * (3 * 2000.0 + 1200.0),
        "kv read": 2 * 8.0 * (10 + 100 + 120 + 124),
        "kv write": 2 * 8.0 * rows,
        "state read": 5 * 200.0 * (2 + 2 + 2),
        "state write": 5 * 200.0 * (2 + 2 + 2),
    }
    assert {name: float(part.site_bytes[0]) for name, part in ledger.operands.items()} == expected
    pairs = 50 + 3 * (100 + 120 + 124)
    matmul = 3 * rows * 2000 + 2 * pairs * 16 + (4 + 6 + 6) * 1200
    assert ledger.die_j == pytest.approx(matmul * 1e-3 + 5 * rows * 300 * 2e-3)


def test_a_decode_step_is_as_long_in_a_stretch_as_alone() -> None:
    cost = PackageCost(one_die(Policy(serving="colocated", tokens_per_step=DRAWN)), "serve")
    first = Composition(0, 0, 2, 6, Attended(120, 0.0, 0, 2), (), 3)
    stretch = cost.stretch(first, 9)
    assert stretch.duration_s.tolist() == [cost.work(first.later(step)).duration_s for step in range(9)]
    # Attention: 2 · 8 · (120 + 6) bytes over 5,000 bytes/s; scan: 5 · 6 · 300 FLOPs at 1e5; see the ledger's tests.
    attention, scan = 2 * 8 * 126 / 5e3, 5 * max(6 * 300 / 1e5, 800 / 5e3)
    assert stretch.duration_s[0] == pytest.approx(3 * 2000 / 5e3 + attention + scan + 1200 / 5e3, rel=1e-12)


def test_profile_and_simulator_agree_on_a_step_of_several_positions() -> None:
    """Written twice: links by route incidence and by walked paths, operators by features and by lines."""
    design, model, calibration = placed(tokens_per_step=DRAWN), load_model("nemotron-h-4b"), load_calibration("default")
    profile = build_profile([design], model, calibration)
    sequences = np.array([[1.0, 4.0, 16.0]])
    step = Batch(
        decode_sequences=sequences,
        decode_context_tokens=500.0 * sequences,
        emitted_tokens=3.0 * sequences,
        tokens_per_sequence=3.0,
    )
    cost = PackageCost(PlacedHardware(design, map_design(design, model), calibration, model.precision), "decode")
    works = [cost.work(Composition(0, 0, n, 3 * n, Attended(500 * n), (), 3)).duration_s for n in (1, 4, 16)]
    assert profile.pools["decode"].time_s(step)[0] == pytest.approx(works, rel=1e-6)


CASES = (
    ("disaggregated", "chunked", 32, (0.2, 0.16, 0.128, 0.512), 0.45),
    ("colocated", "chunked", 32, (0.3, 0.21, 0.49), 0.6),
    ("colocated", "prefill_first", 16, (0.1, 0.1, 0.1, 0.1, 0.6), 0.5),
)


@pytest.mark.slow
def test_estimates_agree_with_simulations() -> None:
    chat, calibration = load_workload("hydra-chat", ["model=nemotron-h-4b"]), load_calibration("default")
    names = ("ttft_mean_s", "tpot_mean_s", "tbt_mean_s", "saturation_tokens_per_s", "power_w")
    errors = []
    for serving, batching, batch, tokens, load in CASES:
        design = placed(serving=serving, batching=batching, max_batch=batch, tokens_per_step=tokens)
        full = estimate_designs([design], at_rate(chat, 1.0), calibration).metrics["saturation_requests_per_s"][0]
        offered = at_rate(chat, load * float(full))
        made = estimate_designs([design], offered, calibration).metrics
        found = simulate(design, offered, 1500, saturate=True)
        errors.append([abs(float(made[name][0]) / found[name] - 1.0) for name in names])
    ttft, tpot, tbt, saturation, power = np.median(errors, axis=0)
    assert ttft < 0.1
    assert tpot < 0.04
    assert tbt < 0.03
    assert saturation < 0.03
    assert power < 0.03
