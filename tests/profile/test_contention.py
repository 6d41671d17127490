from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.hardware.components import DieGroup, MemoryGroup
from hydra_dse.model.operators import Batch
from hydra_dse.policy import Policy
from hydra_dse.profile import build_profile
from hydra_dse.profile.nouns import Prepares
from tests.mapping import pieces
from tests.mapping.pieces import NO_RESIDENCY, chiplet, design, ideal, package, real, stack
from tests.profile.designs import batches, full_die_grid, random_design

MODEL = pieces.nemotron_h_8b()
DECODE = Batch(decode_sequences=8.0, decode_context_tokens=8000.0, emitted_tokens=8.0)


def prefill(tokens: float) -> Batch:
    return Batch(
        prefill_tokens=tokens,
        prefill_sequences=1.0,
        prefill_pairs=tokens**2 / 2,
        prefill_context_tokens=tokens,
        emitted_tokens=1.0,
    )


def two_pools(phases: tuple[str, str] = ("prefill", "decode")):
    dies = tuple(DieGroup(name, chiplet(), 1, (), phase) for name, phase in zip("PD", phases, strict=True))
    on = package(dies, (MemoryGroup("H", stack(), 2),), 2, 2, 1e13)
    return design(on, mapping=NO_RESIDENCY, policy=Policy(serving="disaggregated"))


def test_pools_that_both_stream_weights_all_the_time_share_the_stacks_evenly() -> None:
    profile = build_profile([two_pools()], MODEL, ideal())
    assert profile.contention is not None
    first, second = profile.contention.speeds(prefill(1.0), DECODE)
    # Both are bound by the stacks throughout, so each gets half.
    assert float(first[0, 0]) == pytest.approx(0.5, abs=0.03)
    assert float(second[0, 0]) == pytest.approx(0.5, abs=0.03)


def test_a_pool_that_asks_for_little_is_not_slowed() -> None:
    # A prompt of 16,384 tokens computes for a second and more and streams the weights in between.
    profile = build_profile([two_pools()], MODEL, ideal())
    assert profile.contention is not None
    long = prefill(16384.0)
    first, second = profile.contention.speeds(long, DECODE)
    usage = profile.pools["prefill"].busy_s(long)["hbm"] / profile.pools["prefill"].time_s(long)
    assert float(usage[0, 0]) < 0.5
    assert float(first[0, 0]) == 1.0
    alone = profile.pools["decode"].busy_s(DECODE)["hbm"] / profile.pools["decode"].time_s(DECODE)
    assert float(second[0, 0]) == pytest.approx(float(np.minimum(1.0, (1.0 - usage) / alone)[0, 0]))


def test_an_empty_pool_slows_nobody() -> None:
    profile = build_profile([two_pools()], MODEL, ideal())
    assert profile.contention is not None
    first, second = profile.contention.speeds(Batch(), DECODE)
    assert float(first[0, 0]) == float(second[0, 0]) == 1.0


def test_dies_of_both_phases_are_shared_too() -> None:
    profile = build_profile([two_pools(("any", "any"))], MODEL, real())
    assert profile.contention is not None
    first, second = profile.contention.speeds(prefill(4096.0), DECODE)
    assert float(first[0, 0]) <= 0.51 and float(second[0, 0]) <= 0.51


def test_both_together_never_ask_for_more_than_there_is() -> None:
    designs = [full_die_grid(random_design(seed, "disaggregated")) for seed in range(8)]
    designs = [replace(on, policy=replace(on.policy, batches_in_flight=1)) for on in designs]
    profile = build_profile(designs, MODEL, real())
    assert profile.contention is not None
    mine, theirs = batches(8, 5, seed=1), batches(8, 5, seed=2)
    first, second = profile.contention.speeds(mine, theirs)
    assert ((first > 0) & (first <= 1) & (second > 0) & (second <= 1)).all()
    for resource in ("hbm", "noi"):
        # Of the most loaded of each pool: a bound where both are the same resource, which for stacks they are.
        usage = [
            profile.pools[name].busy_s(batch)[resource] / np.maximum(profile.pools[name].time_s(batch), 1e-30)
            for name, batch in (("prefill", mine), ("decode", theirs))
        ]
        if resource == "hbm":
            assert (first * usage[0] + second * usage[1] <= 1 + 1e-9).all()


def test_batches_that_are_prepared_together_cost_what_they_cost_one_by_one() -> None:
    parts = [prefill(np.array([[100.0]])), prefill(np.array([[300.0, 700.0]]))]
    steps = [replace(DECODE, decode_sequences=np.array([[4.0, 8.0]]))]
    plain, prepared = (build_profile([two_pools()], MODEL, ideal()) for _ in range(2))
    assert plain.contention is not None
    assert isinstance(prepared.contention, Prepares)
    prepared.contention.prepare(parts, steps)
    for part in parts:
        mine, theirs = prepared.contention.speeds(part, steps[0]), plain.contention.speeds(part, steps[0])
        assert np.allclose(mine, theirs, rtol=1e-12)
        pools = prepared.pools["prefill"], plain.pools["prefill"]
        one, other = ([pool.time_s(part), pool.energy_j(part)] for pool in pools)
        assert np.allclose(one, other, rtol=1e-12)
        for name, busy in pools[0].busy_s(part).items():
            assert np.allclose(busy, pools[1].busy_s(part)[name], rtol=1e-12)
