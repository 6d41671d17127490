from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.design.nouns import Design
from hydra_dse.mapping import flows_of, ledger, map_operands, reference_parts, reference_traffic, traffic
from hydra_dse.mapping.operands import Operands
from hydra_dse.model.counts import total_parameters
from hydra_dse.model.operators import Batch, Operator
from tests.mapping import pieces
from tests.mapping.pieces import ATTENTION, DOWN, NO_RESIDENCY, PRECISION, SCAN, UP, design

# Two sequences that decode at contexts 30 and 70, and one prompt of 10 tokens.
BATCH = Batch(
    prefill_tokens=10.0,
    prefill_sequences=1.0,
    prefill_pairs=50.0,
    prefill_context_tokens=10.0,
    decode_sequences=2.0,
    decode_context_tokens=100.0,
    emitted_tokens=3.0,
)
WEIGHTS = 4 * 1000 * 2  # instances × elements × bf16
KV_READ = 2 * 110 * 50 * 2  # instances × context × elements × bf16
KV_WRITE = 2 * 12 * 50 * 2  # instances × tokens × elements × bf16
STATE = 3 * 3 * 25 * 4  # instances × sequences × elements × fp32
MOVED = 4 * 12 * 10 * 2  # instances × tokens × elements × bf16


def moved(on: Design, *operators: Operator) -> np.ndarray:
    mapped = map_operands(on, Operands(operators, PRECISION, 1e6, 0.0, 0.0))
    return traffic(mapped, "serve", BATCH, PRECISION)


def test_one_die_and_one_stack_by_hand() -> None:
    bytes_ = moved(design(pieces.one_of_each(), mapping=NO_RESIDENCY), ATTENTION, SCAN, UP, DOWN)
    die, stack = 0, 1
    assert bytes_[stack, die] == pytest.approx(2 * WEIGHTS + KV_READ + STATE)
    assert bytes_[die, stack] == pytest.approx(KV_WRITE + STATE)
    assert bytes_.sum() == pytest.approx(bytes_[stack, die] + bytes_[die, stack])


def test_two_dies_and_two_aligned_stacks_by_hand() -> None:
    bytes_ = moved(design(pieces.two_of_each(), mapping=NO_RESIDENCY), ATTENTION, SCAN, UP, DOWN)
    expected = np.zeros((4, 4))
    expected[2, 0] = expected[3, 1] = (2 * WEIGHTS + KV_READ + STATE) / 2
    expected[0, 2] = expected[1, 3] = (KV_WRITE + STATE) / 2
    # Each die lacks half of the stream before `up` and gives half of its sums after `down`.
    expected[0, 1] = expected[1, 0] = 2 * MOVED / 2
    assert bytes_ == pytest.approx(expected)


def test_two_dies_and_two_interleaved_stacks_by_hand() -> None:
    choice = replace(NO_RESIDENCY, homes="interleaved")
    bytes_ = moved(design(pieces.two_of_each(), mapping=choice), ATTENTION, SCAN, UP, DOWN)
    expected = np.zeros((4, 4))
    expected[2:, :2] = (2 * WEIGHTS + KV_READ + STATE) / 4
    expected[:2, 2:] = (KV_WRITE + STATE) / 4
    expected[0, 1] = expected[1, 0] = 2 * MOVED / 2
    assert bytes_ == pytest.approx(expected)


def test_two_families_by_hand() -> None:
    bytes_ = moved(design(pieces.two_families(), mapping=NO_RESIDENCY), ATTENTION, SCAN, UP)
    expected = np.zeros((4, 4))
    # One die has all of the attention, the other all of the scan; each reads both stacks, MLP is split in two.
    expected[2:, 0] += KV_READ / 2
    expected[0, 2:] += KV_WRITE / 2
    expected[2:, 1] += STATE / 2
    expected[1, 2:] += STATE / 2
    expected[2, 0] += WEIGHTS / 2
    expected[3, 1] += WEIGHTS / 2
    expected[0, 1] = expected[1, 0] = MOVED / 2
    assert bytes_ == pytest.approx(expected)


def test_replicas_multiply_weight_traffic_only() -> None:
    choice = replace(NO_RESIDENCY, parallelism="replica")
    bytes_ = moved(design(pieces.two_of_each(), mapping=choice), ATTENTION, UP)
    assert bytes_[2:, :2].sum() == pytest.approx(2 * WEIGHTS + KV_READ)
    assert bytes_[:2, :2].sum() == 0


def test_resident_weights_are_not_streamed() -> None:
    bytes_ = moved(design(pieces.two_of_each()), UP)  # 80 MB of SRAM for 8 kB of weights
    assert bytes_[2:, :2].sum() == 0


def test_ledger_rows_add_up_to_the_traffic() -> None:
    on = design(pieces.two_families(), mapping=NO_RESIDENCY)
    mapped = map_operands(on, Operands((ATTENTION, SCAN, UP, DOWN), PRECISION, 1e6, 0.0, 0.0))
    rows = ledger(mapped, "serve", BATCH, PRECISION)
    assert sum(row.total_bytes for row in rows) == pytest.approx(traffic(mapped, "serve", BATCH, PRECISION).sum())
    by_operand = {(row.operator, row.operand): row for row in rows}
    assert by_operand["attention", "kv read"].total_bytes == KV_READ
    assert by_operand["attention", "kv read"].site_bytes == pytest.approx([KV_READ / 2, KV_READ / 2])
    assert by_operand["scan", "state write"].total_bytes == STATE
    assert by_operand["up", "weights"].copies == pytest.approx(1.0)


def test_flows_of_an_operator_take_arrays_of_batches() -> None:
    mapped = map_operands(design(pieces.two_of_each()), Operands((SCAN,), PRECISION, 1e6, 0.0, 0.0))
    sequences = np.array([1.0, 2.0, 3.0])
    demand = SCAN.demand(Batch(decode_sequences=sequences), PRECISION)
    assert flows_of(mapped.pools[0].operators[0], demand, PRECISION).state_reads == pytest.approx(sequences * 100)


def test_reference_traffic_ignores_what_link_bandwidth_displaces() -> None:
    model = pieces.nemotron_h_8b()
    on = design(pieces.two_families())
    other = replace(on.package, link_bandwidth_bytes_per_s=1e12)
    slower = 0.9 * other.dies[0].chiplet.matmul_flops_per_s
    smaller = replace(other.dies[0], chiplet=replace(other.dies[0].chiplet, matmul_flops_per_s=slower, sram_bytes=0.0))
    changed = replace(on, package=replace(other, dies=(smaller, other.dies[1])))
    assert reference_traffic(on, model) == pytest.approx(reference_traffic(changed, model))


def test_reference_traffic_follows_dies_of_unlike_peak() -> None:
    # Of two dies on every operator one is four times as fast: it reads four times the weights, KV and state.
    model = pieces.nemotron_h_8b()
    on = design(pieces.two_of_each())
    [group] = on.package.dies
    fast = replace(group, name="L", count=1, chiplet=replace(group.chiplet, matmul_flops_per_s=4e12))
    slow = replace(group, count=1, chiplet=replace(group.chiplet, matmul_flops_per_s=1e12))
    read = reference_traffic(replace(on, package=replace(on.package, dies=(fast, slow))), model)[2:, :2].sum(axis=0)
    assert read[0] == pytest.approx(4.0 * read[1])


def test_operators_of_unlike_die_groups_are_parts_of_the_reference_traffic() -> None:
    # Attention on A, scans on M, all else on both: three parts.  All on the same dies: one.
    model = pieces.nemotron_h_8b()
    apart, together = (
        reference_parts(design(package), model) for package in (pieces.two_families(), pieces.two_of_each())
    )
    assert len(apart) == 3
    assert len(together) == 1
    reads = apart[:, 2:, :2].sum(axis=1) > 0  # by part and die
    assert sorted(reads.tolist()) == [[False, True], [True, False], [True, True]]
    assert apart.sum(axis=0) == pytest.approx(reference_traffic(design(pieces.two_families()), model))


def test_reference_traffic_reads_weights_once_per_iteration() -> None:
    # 256 decode iterations shared by 16 requests, and one prefill, read all weights but those of the lookup table.
    # State is read and written once a token decoded and once for the prompt; KV of all tokens so far is read, at the
    # middle of the output in the mean, and that of every token written.
    model = pieces.nemotron_h_8b()
    bytes_ = reference_traffic(design(pieces.one_of_each()), model)
    streamed = 17 * 2 * (total_parameters(model) - 131072 * 4096)
    state = (256 + 1) * 24 * (128 * 64 * 128 * 4 + 3 * (128 * 64 + 2 * 8 * 128) * 2)
    kv_read, kv_written = (256 * (1024 + 128) + 1024) * 16384, (256 + 1024) * 16384
    assert bytes_[1, 0] == pytest.approx(streamed + state + kv_read, rel=1e-4)
    assert bytes_[0, 1] == pytest.approx(state + kv_written, rel=1e-4)
