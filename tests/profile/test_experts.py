"""Experts placed whole: quantiles against draws, tables against the readable form, hand-made cases."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.config import load_design
from hydra_dse.config.hardware import load_calibration
from hydra_dse.config.workloads import load_model
from hydra_dse.design.nouns import Design
from hydra_dse.mapping.experts import place_experts
from hydra_dse.model.blocks import Model
from hydra_dse.model.operators import Batch
from hydra_dse.model.routing import Routing
from hydra_dse.placement import place_design
from hydra_dse.profile import build_profile
from hydra_dse.profile.compose import compose
from hydra_dse.profile.expert_loads import POINTS, loads_of
from hydra_dse.profile.experts import NODES, between_nodes
from hydra_dse.profile.reference import ReferencePool
from hydra_dse.rng import derive
from hydra_dse.workload import RoutingSkew, with_skew

CALIBRATION = load_calibration()
MODEL = load_model("nemotron-3-nano-30b-a3b")


def placed(model: Model, *overrides: str) -> Design:
    design = load_design("hydra-24-nemotron-chat", ["mapping.parallelism=expert", *overrides])
    found, violations = place_design(design, model, 0)
    assert not violations
    return found


def decode(sequences: float) -> Batch:
    return Batch(decode_sequences=sequences, decode_context_tokens=1000.0 * sequences, emitted_tokens=sequences)


def drawn_maximum(routing: Routing, home: np.ndarray, tokens: int, dies: int) -> tuple[float, np.ndarray]:
    """Mean over drawn iterations of the most experts that a die reads, and the mean of each die."""
    rng, most, mean = derive(3, "maximum", routing, tokens), [], np.zeros(dies)
    for _ in range(1500):
        chosen: set[int] = set()
        for _ in range(tokens):
            chosen |= set(rng.choice(routing.experts, routing.top_k, replace=False, p=routing.popularity).tolist())
        counts = np.bincount(home[sorted(chosen)], minlength=dies)
        most.append(counts.max())
        mean += counts / 1500
    return float(np.mean(most)), mean


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [1, 4, 12])
@pytest.mark.parametrize("skew", [0.0, 1.0])
def test_the_most_experts_that_a_die_reads_agrees_with_draws(tokens: int, skew: float) -> None:
    routing, dies = Routing(32, 4, skew), 6
    share = np.full(dies, 1 / dies)
    placement = place_experts(routing, share, np.diag(share), "round_robin", 0)
    read, _ = loads_of(placement, np.array([float(tokens)]))
    most, mean = drawn_maximum(routing, placement.served.argmax(axis=1), tokens, dies)
    assert read.shape == (1, POINTS, dies)
    assert read[0].max(axis=1).mean() == pytest.approx(most, rel=0.03)
    assert read[0].mean(axis=0) == pytest.approx(mean, rel=0.08, abs=0.05)


def test_one_token_of_one_expert_a_die_reads_exactly_top_k_experts() -> None:
    share = np.full(8, 1 / 8)
    placement = place_experts(Routing(8, 2), share, np.diag(share), "round_robin", 0)
    read, rows = loads_of(placement, np.array([1.0]))
    assert (read.sum(axis=2) == 2.0).all()
    assert (rows[read > 0] >= 1.0).all()
    assert (rows[read == 0] == 0.0).all()


def test_a_line_through_the_origin_is_kept_between_and_beyond_nodes() -> None:
    table = np.stack((3.0 * NODES, np.zeros(len(NODES))))
    at = np.array([0.0, 0.25, 1.0, 5.0, 77.0, 3000.5, 40_000.0])
    assert between_nodes(table, np.zeros(7, dtype=np.int64), at) == pytest.approx(3.0 * at)
    assert (between_nodes(table, np.ones(7, dtype=np.int64), at) == 0.0).all()


@pytest.mark.parametrize("overrides", [(), ("mapping.replicated_experts=2",), ("policy.batches_in_flight=2",)])
def test_tables_agree_with_the_readable_form(overrides: tuple[str, ...]) -> None:
    model = with_skew(MODEL, RoutingSkew(zipf=0.7))
    design = placed(model, *overrides)
    pool = build_profile([design], model, CALIBRATION).pools["decode"]
    readable = ReferencePool(design, model, CALIBRATION, "decode")
    for sequences, tolerance in ((2.0, 1e-9), (64.0, 1e-9), (10.0, 0.015), (100.0, 0.015)):
        batch = decode(sequences)
        assert np.asarray(pool.time_s(batch))[0, 0] == pytest.approx(readable.time_s(batch), rel=tolerance)
        assert np.asarray(pool.energy_j(batch))[0, 0] == pytest.approx(readable.energy_j(batch), rel=tolerance)
        busy, expected = pool.busy_s(batch), readable.busy_s(batch)
        for name in ("hbm", "noi", "Md"):
            assert np.asarray(busy[name])[0, 0] == pytest.approx(expected[name], rel=tolerance)


@pytest.mark.slow
def test_a_batch_of_designs_equals_each_alone() -> None:
    designs = [
        placed(MODEL),
        placed(MODEL, "mapping.replicated_experts=1"),
        placed(MODEL, "mapping.expert_placement=popularity"),
    ]
    together = build_profile(designs, MODEL, CALIBRATION).pools["decode"]
    batch = decode(24.0)
    times = np.asarray(together.time_s(Batch(*(np.full((3, 2), v) for v in _values(batch)))))
    for number, design in enumerate(designs):
        alone = build_profile([design], MODEL, CALIBRATION).pools["decode"]
        assert times[number, 0] == pytest.approx(float(np.asarray(alone.time_s(batch))[0, 0]), rel=1e-9)


def _values(batch: Batch) -> tuple[float, ...]:
    return (
        batch.prefill_tokens,
        batch.prefill_sequences,
        batch.prefill_pairs,
        batch.prefill_context_tokens,
        batch.decode_sequences,
        batch.decode_context_tokens,
        batch.emitted_tokens,
    )


def test_time_grows_with_the_batch_and_with_slower_memory() -> None:
    design = placed(MODEL)
    pool = build_profile([design], MODEL, CALIBRATION).pools["decode"]
    times = [float(np.asarray(pool.time_s(decode(float(n))))[0, 0]) for n in (1, 2, 5, 9, 30, 100)]
    assert times == sorted(times)


@pytest.mark.slow
def test_round_robin_by_rank_is_slower_under_skew_than_copies_of_hot_experts() -> None:
    model = with_skew(load_model("gpt-oss-20b"), RoutingSkew(zipf=1.5))
    plain, copied = placed(model), placed(model, "mapping.replicated_experts=2")
    prompt = Batch(1000.0, 1.0, 5e5, 1000.0, 0.0, 0.0, 1.0)
    times = [
        float(np.asarray(build_profile([design], model, CALIBRATION).pools["prefill"].time_s(prompt))[0, 0])
        for design in (plain, copied)
    ]
    assert times[1] < times[0]


def test_a_stack_that_cannot_hold_its_experts_makes_a_design_infeasible() -> None:
    mixtral = load_model("mixtral-8x7b")
    design = load_design("hydra-24-nemotron-chat", ["mapping.parallelism=expert"])
    even = replace(design, mapping=replace(design.mapping, parallelism="tensor"))
    for one, fits in ((design, False), (even, True)):
        found, _ = place_design(even, mixtral, 0)
        violations = build_profile([replace(found, mapping=one.mapping)], mixtral, CALIBRATION).violations[0]
        assert (not violations) == fits


def test_the_composition_shows_experts_their_imbalance_and_traffic() -> None:
    model = with_skew(MODEL, RoutingSkew(zipf=1.0))
    made = compose(ReferencePool(placed(model), model, CALIBRATION, "decode"), decode(8.0))
    [row] = [row for row in made.operator_map if row.operator_class == "experts"]
    assert row.split == "expert"
    assert row.imbalance > 2.0
    assert sum(part.bound_s for part in made.resources) == pytest.approx(made.time_s)
