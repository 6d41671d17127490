from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.hardware.components import DieGroup, MemoryGroup
from hydra_dse.model.operators import Batch
from hydra_dse.model.precision import Precision
from hydra_dse.policy import Policy
from hydra_dse.profile import build_profile
from tests.mapping import pieces
from tests.mapping.pieces import chiplet, design, package, real, stack
from tests.profile.designs import batches, full_die_grid, one, random_design

MODEL = pieces.nemotron_h_8b()
DECODE = Batch(decode_sequences=32.0, decode_context_tokens=32.0 * 1024, emitted_tokens=32.0)


def decoding(sequences: np.ndarray) -> Batch:
    return Batch(decode_sequences=sequences, decode_context_tokens=sequences * 100, emitted_tokens=sequences)


def test_designs_of_other_packages_and_precisions_do_not_disturb_each_other() -> None:
    fp8 = Precision(weights="fp8", kv="fp8", state="bf16")
    single = package((DieGroup("X", chiplet(), 1),), (MemoryGroup("H", stack(), 2),))
    mixed = [
        full_die_grid(random_design(3, "colocated")),
        replace(full_die_grid(random_design(4, "colocated")), precision=fp8),
        design(single),
    ]
    together = build_profile(mixed, MODEL, real())
    batch = batches(3, 4)
    time, energy = together.pools["serve"].time_s(batch), together.pools["serve"].energy_j(batch)
    for row, on in enumerate(mixed):
        alone = build_profile([on], MODEL, real())
        own = Batch(**{name: np.asarray(getattr(batch, name))[row : row + 1] for name in _FIELDS})
        assert time[row] == pytest.approx(alone.pools["serve"].time_s(own)[0], rel=1e-12)
        assert energy[row] == pytest.approx(alone.pools["serve"].energy_j(own)[0], rel=1e-12)
        assert alone.kv_bytes_per_token[0] == together.kv_bytes_per_token[row]
    assert together.kv_bytes_per_token.tolist() == [16384.0, 8192.0, 16384.0]


_FIELDS = (
    "prefill_tokens",
    "prefill_sequences",
    "prefill_pairs",
    "prefill_context_tokens",
    "decode_sequences",
    "decode_context_tokens",
    "emitted_tokens",
)


def test_a_group_that_a_design_lacks_is_never_busy() -> None:
    single = package((DieGroup("X", chiplet(), 1),), (MemoryGroup("H", stack(), 2),))
    other = package((DieGroup("Y", chiplet(), 1),), (MemoryGroup("H", stack(), 2),))
    busy = build_profile([design(single), design(other)], MODEL, real()).pools["serve"].busy_s(DECODE)
    assert float(busy["X"][1, 0]) == float(busy["Y"][0, 0]) == 0.0
    assert float(busy["X"][0, 0]) > 0.0
    assert float(busy["X"][0, 0]) == pytest.approx(float(busy["Y"][1, 0]))


def test_batches_broadcast_from_numbers_rows_and_columns() -> None:
    designs = [design(pieces.two_families())] * 3
    pool = build_profile(designs, MODEL, real()).pools["serve"]
    sequences = np.array([1.0, 8.0, 64.0])
    full = np.broadcast_to(sequences, (3, 3))
    expected = pool.time_s(decoding(full))
    row = pool.time_s(
        Batch(decode_sequences=sequences, decode_context_tokens=sequences * 100, emitted_tokens=sequences)
    )
    assert row == pytest.approx(expected)
    column = sequences[:, None]
    times = pool.time_s(decoding(column))
    assert times.shape == (3, 1)
    assert times[:, 0] == pytest.approx(expected[0])


def test_a_light_pass_for_time_agrees_with_the_full_pass() -> None:
    # With one batch in flight the time is the sum over operators; two rows of the same design, one with two in flight
    # at twice the batch, agree where neither pipelines: a single family.
    on = design(pieces.one_of_each())
    on = replace(on, package=replace(on.package, memories=(MemoryGroup("H", stack(capacity_bytes=64e9), 1),)))
    twice = replace(on, policy=Policy(serving="colocated", batches_in_flight=2))
    pool = build_profile([on, twice], MODEL, real()).pools["serve"]
    sequences = np.array([[16.0], [32.0]])
    time = pool.time_s(
        Batch(decode_sequences=sequences, decode_context_tokens=sequences * 100, emitted_tokens=sequences)
    )
    overhead = 1e-4
    # One die runs both halves one after the other; the host prepares one while the other runs.
    assert float(time[1, 0]) == pytest.approx(2 * (float(time[0, 0]) - overhead))


def test_an_empty_iteration_takes_no_time_and_no_energy() -> None:
    pool = build_profile([design(pieces.two_families())], MODEL, real()).pools["serve"]
    assert float(pool.time_s(Batch())[0, 0]) == 0.0
    assert float(pool.energy_j(Batch())[0, 0]) == 0.0


def test_energy_of_a_decode_step_is_what_its_bytes_and_flops_cost() -> None:
    # One die and one stack a hop apart, ideal shapes: 56 pJ per byte of memory, 4 pJ per byte and hop, 1 pJ per SRAM
    # byte and matrix FLOP, 2 pJ per vector FLOP.  15.1 GB of weights dominate.
    on = design(pieces.one_of_each(), mapping=pieces.NO_RESIDENCY)
    on = replace(on, package=replace(on.package, memories=(MemoryGroup("H", stack(capacity_bytes=64e9), 1),)))
    pool = build_profile([on], MODEL, real()).pools["serve"]
    alone = Batch(decode_sequences=1.0, decode_context_tokens=1000.0, emitted_tokens=1.0)
    weights = 2 * (8.10e9 - 131072 * 4096)
    state = 2 * 102.2e6
    bytes_ = weights + state + 1001 * 16384
    expected = bytes_ * (56e-12 + 4e-12 + 1e-12) + 2 * (weights / 2) * 1e-12
    assert float(pool.energy_j(alone)[0, 0]) == pytest.approx(expected, rel=0.01)


def test_busy_seconds_of_one_design_do_not_depend_on_its_neighbours_in_a_chunk() -> None:
    designs = [full_die_grid(random_design(seed, "disaggregated")) for seed in (1, 2)]
    batch = batches(2, 3)
    both = build_profile(designs, MODEL, real()).pools["decode"].busy_s(batch)
    last = build_profile(designs[1:], MODEL, real()).pools["decode"].busy_s(one(batch, 1, 2))
    assert float(both["noi"][1, 2]) == pytest.approx(float(last["noi"][0, 0]), rel=1e-12)
