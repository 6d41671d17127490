"""An iteration taken apart: bytes and seconds are conserved, and counterfactuals are what faster hardware gives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hydra_dse.design.nouns import Design, MappingChoice
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.hardware.components import DieGroup
from hydra_dse.mapping import ledger
from hydra_dse.model import weight_bytes
from hydra_dse.model.operators import Batch
from hydra_dse.network_load import link_capacity
from hydra_dse.profile import ReferencePool, build_profile
from hydra_dse.profile.compose import compose
from hydra_dse.profile.composition import Composition
from tests.mapping import pieces
from tests.mapping.pieces import NO_RESIDENCY, chiplet, design, ideal, one_of_each, package, real
from tests.profile.designs import batches, full_die_grid, one, random_design

MODEL = pieces.nemotron_h_8b()
DECODE = Batch(decode_sequences=32.0, decode_context_tokens=32.0 * 1024, emitted_tokens=32.0)
PREFILL = Batch(
    prefill_tokens=1024.0,
    prefill_sequences=1.0,
    prefill_pairs=1024.0**2 / 2,
    prefill_context_tokens=1024.0,
    emitted_tokens=1.0,
)
TABLE_BYTES = 2.0 * 131072 * 4096  # the embedding, of which an iteration reads one row a token
KV_BYTES_PER_TOKEN = 2.0 * 4 * 2 * 8 * 128  # bf16, four layers, K and V, eight heads of 128
RANDOM = [(seed, serving) for seed in range(4) for serving in ("colocated", "disaggregated")]


def composed(on: Design, batch: Batch = DECODE, calibration: CalibrationSet | None = None) -> Composition:
    pool = "serve" if on.policy.serving == "colocated" else "decode"
    return compose(ReferencePool(on, MODEL, calibration or real(), pool), batch)


def profiled_s(on: Design, batch: Batch, calibration: CalibrationSet | None = None) -> float:
    pools = build_profile([on], MODEL, calibration or real()).pools
    return float(pools["serve" if "serve" in pools else "decode"].time_s(batch)[0, 0])


def moved(made: Composition) -> dict[str, float]:
    return {row.operand: row.total_bytes for row in made.bytes}


@pytest.mark.parametrize(("seed", "serving"), RANDOM)
def test_times_sum_to_the_time_of_the_profile(seed: int, serving: str) -> None:
    on = full_die_grid(random_design(seed, serving))
    for column in range(3):
        batch = one(batches(1, 3, seed), 0, column)
        made = composed(on, batch)
        parts = [row.time_s for row in made.times] + [made.iteration_overhead_s, made.queue_s]
        assert sum(parts) == pytest.approx(profiled_s(on, batch), rel=1e-9)
        assert sum(row.bound_s for row in made.resources) == pytest.approx(made.time_s, rel=1e-9)
        assert made.time_s == pytest.approx(profiled_s(on, batch), rel=1e-9)


def test_a_queue_appears_only_where_several_batches_are_in_flight() -> None:
    dies = (DieGroup("A", chiplet(), 1),)
    on = design(replace(one_of_each(), dies=dies), mapping=NO_RESIDENCY)
    two = replace(on, policy=replace(on.policy, batches_in_flight=2))
    assert composed(on).queue_s == 0.0
    # One die is taken by each of the two batches in turn: the second waits as long as all operators of the first.
    made = composed(two, calibration=ideal())
    assert made.queue_s == pytest.approx(made.time_s / 2, rel=1e-9)
    queue = made.resources[-1]
    assert (queue.resource, queue.bound_s, queue.most_loaded) == ("queue", made.queue_s, "A[0]")
    assert queue.twice_as_fast_s is None


@pytest.mark.parametrize(("seed", "serving"), RANDOM)
def test_bytes_of_sites_sum_to_the_ledger_of_all_batches_in_flight(seed: int, serving: str) -> None:
    on = full_die_grid(random_design(seed, serving))
    made, flight = composed(on), on.policy.batches_in_flight
    pool = ReferencePool(on, MODEL, real(), made.pool)
    rows = ledger(pool.mapped, made.pool, pool.part(DECODE), pool.precision)
    assert sum(moved(made).values()) == pytest.approx(flight * sum(row.total_bytes for row in rows), rel=1e-9)
    for row in made.bytes:
        assert row.bytes_per_token == pytest.approx(row.total_bytes / 32.0)
        if row.operand != "activations":
            assert sum(row.site_bytes.values()) == pytest.approx(row.total_bytes, rel=1e-9)


def test_a_tensor_split_streams_the_weights_of_the_model_that_are_not_resident_once() -> None:
    sram, share = 3 * 40e6, 0.5
    on = package((DieGroup("A", chiplet(), 3),), one_of_each().memories, 2, 2)
    made = composed(design(on, mapping=MappingChoice(sram_weight_share=share)))
    streamed = weight_bytes(MODEL, MODEL.precision) - TABLE_BYTES
    resident = share * sram / streamed
    rows_of_table = 32 * 2.0 * 4096
    assert moved(made)["weights"] == pytest.approx(streamed * (1 - resident) + rows_of_table, rel=1e-9)
    shares = {row.operator_class: row.resident_share for row in made.operator_map}
    assert shares["mlp"] == pytest.approx(resident, rel=1e-9)
    assert shares["embedding"] == 0.0


def test_replicas_stream_a_copy_each() -> None:
    on = package((DieGroup("A", chiplet(), 3),), one_of_each().memories, 2, 2)
    split, copies = (
        composed(design(on, mapping=replace(NO_RESIDENCY, parallelism=kind))) for kind in ("tensor", "replica")
    )
    assert moved(copies)["weights"] == pytest.approx(3 * moved(split)["weights"], rel=1e-9)
    assert {row.split for row in copies.operator_map} == {"replica"}


def test_the_two_links_of_one_die_and_one_stack_carry_what_is_read_and_what_is_written() -> None:
    made = composed(design(one_of_each(), mapping=NO_RESIDENCY))
    total = moved(made)
    assert total["kv read"] == pytest.approx(32 * 1024 * KV_BYTES_PER_TOKEN)
    assert total["kv write"] == pytest.approx(32 * KV_BYTES_PER_TOKEN)
    read, written = made.links
    assert (read.link, read.source, read.target) == ("1→0", "H[0]", "A[0]")
    assert (written.link, written.source, written.target) == ("0→1", "A[0]", "H[0]")
    assert read.operand_bytes == pytest.approx(
        {"weights": total["weights"], "kv": total["kv read"], "state": total["state read"], "activations": 0.0}
    )
    assert written.operand_bytes == pytest.approx(
        {"weights": 0.0, "kv": total["kv write"], "state": total["state write"], "activations": 0.0}
    )


@pytest.mark.parametrize(("seed", "serving"), RANDOM)
def test_bytes_of_links_keep_them_busy_as_long_as_the_profile_says(seed: int, serving: str) -> None:
    on = full_die_grid(random_design(seed, serving))
    made = composed(on)
    busy = build_profile([on], MODEL, real()).pools[made.pool].busy_s(DECODE)["noi"]
    worst = made.links[0]
    assert worst.total_bytes / link_capacity(on.package) == pytest.approx(float(busy[0, 0]), rel=1e-9)
    assert worst.busy_share == pytest.approx(float(busy[0, 0]) / made.time_s, rel=1e-9)
    for row in made.links:
        assert sum(row.operand_bytes.values()) == pytest.approx(row.total_bytes, rel=1e-9)


def twice(on: Design, resource: str) -> tuple[Design, CalibrationSet]:
    """The same design of hardware that is twice as fast, built anew."""
    dies, memories, link, width = on.package.dies, on.package.memories, on.package.link, 1.0
    calibration = real()
    if resource == "compute":
        rates = ("matmul_flops_per_s", "vector_flops_per_s", "sram_bandwidth_bytes_per_s")
        dies = tuple(
            replace(d, chiplet=replace(d.chiplet, **{r: 2 * getattr(d.chiplet, r) for r in rates})) for d in dies
        )
    elif resource == "memory":
        memories = tuple(
            replace(m, stack=replace(m.stack, bandwidth_bytes_per_s=2 * m.stack.bandwidth_bytes_per_s))
            for m in memories
        )
    elif resource == "network":
        width = 2.0
    elif resource == "hops":
        link = replace(link, latency_s=link.latency_s / 2)
    else:
        halved = [
            replace(c, operator_overhead_s=c.operator_overhead_s / 2, iteration_overhead_s=c.iteration_overhead_s / 2)
            for c in (calibration.default, *calibration.by_style.values())
        ]
        calibration = CalibrationSet(halved[0], dict(zip(calibration.by_style, halved[1:], strict=True)))
    bandwidth = width * on.package.link_bandwidth_bytes_per_s
    built = replace(on.package, dies=dies, memories=memories, link=link, link_bandwidth_bytes_per_s=bandwidth)
    return replace(on, package=built), calibration


@pytest.mark.slow
@pytest.mark.parametrize("resource", ["compute", "memory", "network", "overhead", "hops"])
@pytest.mark.parametrize("batch", [DECODE, PREFILL], ids=["decode", "prefill"])
def test_twice_as_fast_a_resource_gives_the_time_of_such_a_design(resource: str, batch: Batch) -> None:
    for seed in range(3):
        on = full_die_grid(random_design(seed, "colocated"))
        found = {row.resource: row for row in composed(on, batch).resources}[resource]
        faster, calibration = twice(on, resource)
        assert found.twice_as_fast_s == pytest.approx(profiled_s(faster, batch, calibration), rel=1e-9)


def test_decode_on_one_h100_is_bound_by_its_memory_and_prefill_by_compute() -> None:
    on = design(pieces.h100(), mapping=NO_RESIDENCY)
    decode, prefill = composed(on, calibration=ideal()), composed(on, PREFILL, ideal())
    assert (decode.binding, prefill.binding) == ("memory", "compute")
    assert decode.links == () and moved(decode)["activations"] == 0.0
    assert list(decode.bytes[0].site_bytes) == ["GPU[0].memory"]
    # All that moves passes the 3.35 TB/s of its memory.
    memory_s = sum(row.memory_s for row in decode.times)
    assert memory_s == pytest.approx(sum(moved(decode).values()) / 3.35e12, rel=1e-9)
