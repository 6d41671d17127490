"""Counted bytes, durations and energy on three small packages against ledgers worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from package_pieces import (
    BF16,
    COLOCATED,
    DIE,
    PERFECT,
    group,
    mapped,
    one_die,
    package,
    square_of_replicas,
    three_in_a_row,
)
from package_pieces import hardware as hardware_of

from hydra_dse.design.nouns import Design, Placement
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.hardware.components import DieGroup
from simulators.package import Ledger, PackageCost, PlacedHardware, ledger_of
from simulators.serving import Attended, Composition

# Iteration 1: a prompt of 10 tokens and one decoder at context 100.  Iterations 2–4: decode of 2 sequences with
# contexts that sum to 120, 122, 124.
MIXED = Composition(10, 1, 1, 2, Attended(100, 50.0, 10, 1))
DECODE = Composition(0, 0, 2, 2, Attended(120, 0.0, 0, 2))

# Bytes over the four iterations, by operand and instance count:
WEIGHTS_PROJECTION = 4 * 3 * 2000.0
WEIGHTS_HEAD = 4 * 1200.0
KV_READ = 2 * 8.0 * (10 + 100 + 120 + 122 + 124)
KV_WRITE = 2 * 8.0 * (11 + 2 + 2 + 2)
STATE = 5 * 200.0 * (2 + 2 + 2 + 2)
ROWS = 11 + 2 + 2 + 2


def executed(hardware: PlacedHardware) -> tuple[PackageCost, Ledger]:
    cost = PackageCost(hardware, "serve")
    cost.count(cost.work(MIXED))
    cost.count_stretch(cost.stretch(DECODE, 3))
    return cost, ledger_of(cost, cost.snapshot())


def on_links(hardware: PlacedHardware, loads: dict[tuple[int, int], float]) -> list[float]:
    """Bytes on every directed link of the package, given those that are not 0 as (from slot, to slot)."""
    return [loads.get(link, 0.0) for link in hardware.links.routes.links]


def test_one_die_beside_a_stack_reads_everything_over_one_link() -> None:
    hardware = one_die()
    _, ledger = executed(hardware)
    operands = {name: part.site_bytes.tolist() for name, part in ledger.operands.items()}
    assert operands == {
        "weights": [WEIGHTS_PROJECTION + WEIGHTS_HEAD],
        "kv read": [KV_READ],
        "kv write": [KV_WRITE],
        "state read": [STATE],
        "state write": [STATE],
    }
    links = sum(part.link_bytes for part in ledger.operands.values())
    reads = WEIGHTS_PROJECTION + WEIGHTS_HEAD + KV_READ + STATE
    assert list(links) == on_links(hardware, {(1, 0): reads, (0, 1): KV_WRITE + STATE})


def test_what_the_far_die_fetches_crosses_both_links_and_resident_weights_none() -> None:
    hardware = three_in_a_row()
    _, ledger = executed(hardware)
    weights = 0.75 * (WEIGHTS_PROJECTION + WEIGHTS_HEAD)
    # Of everything read, all crosses stack → die 0 (slot 0 → 1) and half crosses die 0 → die 1 (slot 1 → 2).
    assert list(ledger.operands["weights"].link_bytes) == on_links(hardware, {(0, 1): weights, (1, 2): weights / 2})
    assert list(ledger.operands["kv read"].link_bytes) == on_links(hardware, {(0, 1): KV_READ, (1, 2): KV_READ / 2})
    assert list(ledger.operands["state write"].link_bytes) == on_links(hardware, {(1, 0): STATE, (2, 1): STATE / 2})
    # Activations: rows × 10 elements × 2 bytes, half each way, three instances.
    moved = 3 * ROWS * 20.0 / 2
    gathered = ledger.operands["activations (gather)"]
    assert list(gathered.link_bytes) == on_links(hardware, {(1, 2): moved, (2, 1): moved})
    assert gathered.site_bytes.tolist() == [0.0]


def test_replicas_stream_their_weights_twice_and_keep_caches_at_home() -> None:
    hardware = square_of_replicas()
    _, ledger = executed(hardware)
    weights = WEIGHTS_PROJECTION + WEIGHTS_HEAD
    assert ledger.operands["weights"].site_bytes.tolist() == [weights, weights]
    # Each stack (slots 2, 3) feeds its own die and, through that die (stacks are leaves), the other one.
    assert list(ledger.operands["weights"].link_bytes) == on_links(
        hardware, {(2, 0): weights, (3, 1): weights, (0, 1): weights / 2, (1, 0): weights / 2}
    )
    assert list(ledger.operands["kv read"].link_bytes) == on_links(hardware, {(2, 0): KV_READ / 2, (3, 1): KV_READ / 2})
    assert list(ledger.operands["state read"].link_bytes) == on_links(hardware, {(2, 0): STATE / 2, (3, 1): STATE / 2})


def test_the_duration_is_the_slowest_of_compute_stack_and_link_operator_by_operator() -> None:
    cost = PackageCost(one_die(), "serve")
    # A link carries 1e4 · 0.5 = 5,000 bytes/s, less than the stack's port; matrix 1e6, vector 1e5 FLOP/s.
    # Mixed iteration, 11 tokens, 2 emitted:
    projection = 3 * max(11 * 2000 / 1e6, 2000 / 5e3)  # 3 · 0.4 s: the link
    attention = 2 * max((50 + 100) * 16 / 1e6, 8 * 110 / 5e3)  # reads 110 tokens: the link
    scan = 5 * max(11 * 300 / 1e5, 2 * 200 / 5e3, 4 * 200 / 5e3)  # one port of 5,000 bytes/s reads and writes
    head = max(2 * 1200 / 1e6, 1200 / 5e3)
    # The stack has one link, so its own bandwidth is 5,000 bytes/s for reads and writes together.
    attention = max(attention, 2 * 8 * (110 + 11) / 5e3)
    assert cost.work(MIXED).duration_s == pytest.approx(projection + attention + scan + head, rel=1e-12)


def test_the_latency_of_transfers_adds_to_the_operator_that_waits_for_them() -> None:
    with_wire = PackageCost(three_in_a_row(), "serve")
    fixed = [placed.fixed_s for placed in with_wire.placed.operators]
    # One hop of 0.25 s for the projection's gather; memory is fetched ahead.
    assert fixed == [0.25, 0.0, 0.0, 0.0]


def test_energy_counts_flops_bytes_read_and_hops() -> None:
    hardware = one_die()
    _, ledger = executed(hardware)
    pairs = 50 + 100 + 120 + 122 + 124
    matmul = 3 * ROWS * 2000 + 2 * pairs * 16 + 8 * 1200
    vector = 5 * ROWS * 300
    assert ledger.die_j == pytest.approx(matmul * 1e-3 + vector * 2e-3)
    moved = WEIGHTS_PROJECTION + WEIGHTS_HEAD + KV_READ + KV_WRITE + 2 * STATE
    assert ledger.memory_j == pytest.approx(0.5 * moved)
    assert ledger.link_j == pytest.approx(0.125 * moved)
    assert ledger.energy_j == pytest.approx(matmul * 1e-3 + vector * 2e-3 + (0.5 + 0.125) * moved)
    assert ledger.compute_j == {"D": pytest.approx(matmul * 1e-3 + vector * 2e-3)}
    assert ledger.sram_j == {"D": 0.0}


def test_everything_that_an_operator_touches_passes_the_sram_once() -> None:
    small = package(2, 1, [DieGroup("D", replace(DIE, joules_per_sram_byte=1e-4), 1)], 1)
    _, ledger = executed(hardware_of(small, (0, 1), mapped(small, group((0,), [[1.0]], [[1.0]]))))
    passed = WEIGHTS_PROJECTION + WEIGHTS_HEAD + KV_READ + KV_WRITE + 2 * STATE
    assert ledger.sram_j == {"D": pytest.approx(1e-4 * passed)}
    assert ledger.die_j == pytest.approx(ledger.compute_j["D"] + 1e-4 * passed)


def test_the_start_of_an_access_costs_what_the_slowest_die_of_a_group_needs() -> None:
    perfect = PERFECT.default
    costly = CalibrationSet(replace(perfect, kv_access_bytes=7.0), {"vector": replace(perfect, kv_access_bytes=300.0)})
    dies = [DieGroup("D", DIE, 1), DieGroup("V", replace(DIE, name="lanes", style="vector"), 1)]
    small = package(3, 1, dies, 1)
    on = replace(group((0, 1), [[0.5, 0.5]], [[0.5, 0.5]]), die_groups=("D", "V"))
    placed = PlacedHardware(Design(small, COLOCATED, placement=Placement((0, 1, 2))), mapped(small, on), costly, BF16)
    assert placed.kv_access_bytes(on) == 300.0
    assert placed.kv_access_bytes(replace(on, die_groups=("D",))) == 7.0


@pytest.mark.parametrize("build", [one_die, three_in_a_row, square_of_replicas])
def test_busy_shares_of_an_iteration_add_up_to_what_the_ledger_counts(build: object) -> None:
    hardware: PlacedHardware = build()  # type: ignore[operator]
    cost = PackageCost(hardware, "serve")
    work = cost.work(MIXED)
    cost.count(work)
    ledger = ledger_of(cost, cost.snapshot())
    usage = cost.usages_of(work) * work.duration_s
    expected = np.concatenate((list(ledger.die_s.values()), ledger.site_s, ledger.link_s))
    assert usage == pytest.approx(expected, rel=1e-12)
    assert (cost.usages_of(work) <= 1.0 + 1e-12).all()


@pytest.mark.parametrize("build", [one_die, three_in_a_row, square_of_replicas])
def test_a_stretch_has_the_durations_and_the_counts_of_its_steps_to_the_last_bit(build: object) -> None:
    hardware: PlacedHardware = build()  # type: ignore[operator]
    together, apart = PackageCost(hardware, "serve"), PackageCost(hardware, "serve")
    stretch = together.stretch(DECODE, 40)
    works = [apart.work(DECODE.later(step)) for step in range(40)]
    assert stretch.duration_s.tolist() == [work.duration_s for work in works]
    together.count_stretch(stretch)
    for work in works:
        apart.count(work)
    one, other = together.snapshot(), apart.snapshot()
    assert one.iterations == other.iterations
    for left, right in ((one.features, other.features), (one.attended, other.attended), (one.parts_s, other.parts_s)):
        assert left.tolist() == right.tolist()
