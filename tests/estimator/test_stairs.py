"""Decode times that step up behind every tile of rows: levels between the nodes take the time that they have."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from hydra_dse.estimator import estimate
from hydra_dse.estimator.chain import Burstiness, limited_sharing
from hydra_dse.estimator.iteration import decode_batch
from hydra_dse.estimator.lengths import LengthMoments, moments_of
from hydra_dse.estimator.nodes import BatchNodes, nodes_of
from hydra_dse.estimator.stairs import with_stairs
from hydra_dse.model.operators import Batch
from hydra_dse.profile.nouns import ServiceProfile
from hydra_dse.workload.nouns import ArrivalStatistics, LengthPoints
from tests.estimator.analytic import AnalyticPool, Array, System, profile_of

TILE = 8.0
SYSTEM = System(tw=1e-4, tc=2e-4)


@dataclass(frozen=True)
class TiledPool(AnalyticPool):
    """Decoders in whole tiles."""

    def time_s(self, batch: Batch) -> Array:
        rows = np.ceil(np.asarray(batch.decode_sequences) / TILE - 1e-9) * TILE
        return super().time_s(replace(batch, decode_sequences=rows))


def tiled(max_batch: float, stated: bool = True, serving: str = "decode") -> ServiceProfile:
    pools = {"prefill": [System(tw=1e-4, tc=1e-7)], "decode": [SYSTEM]} if serving == "decode" else {"serve": [SYSTEM]}
    plain = profile_of(pools, max_batch=max_batch, token_budget=4096, shared=False)
    own = {**plain.pools, serving: TiledPool((SYSTEM,))}
    return replace(plain, pools=own, row_tiles={serving: np.array([TILE])} if stated else {})


def fixed_lengths() -> LengthPoints:
    one = np.ones(1)
    return LengthPoints(100.0 * one, 101.0 * one, one)


def stepped(max_batch: float) -> tuple[BatchNodes, Array, LengthMoments]:
    profile, lengths = tiled(max_batch), moments_of(fixed_lengths(), tiled(max_batch).emission)
    nodes = nodes_of(profile.max_batch)
    step_s = np.asarray(profile.pools["decode"].time_s(decode_batch(nodes.batch, lengths)))
    return with_stairs(nodes, profile, "decode", step_s, lengths), step_s, lengths


def exact(levels: Array, lengths: LengthMoments) -> Array:
    return TiledPool((SYSTEM,)).time_s(decode_batch(levels[None], lengths))[0]


@pytest.mark.parametrize("max_batch", [20.0, 64.0, 100.0])
def test_every_level_takes_the_time_of_its_tiles(max_batch: float) -> None:
    nodes, step_s, lengths = stepped(max_batch)
    levels = np.arange(1.0, max_batch + 1.0)
    assert nodes.times_at_levels(step_s, int(max_batch))[0] == pytest.approx(exact(levels, lengths), rel=1e-9)
    assert nodes.time_at(step_s, levels[None])[0] == pytest.approx(exact(levels, lengths), rel=1e-9)


def test_tiles_taken_together_keep_the_mean_time() -> None:
    nodes, step_s, lengths = stepped(256.0)
    levels = np.arange(1.0, 257.0)
    found = nodes.times_at_levels(step_s, 256)[0]
    assert found[16:].mean() == pytest.approx(exact(levels, lengths)[16:].mean(), rel=2e-3)


@dataclass(frozen=True)
class BentPool(TiledPool):
    """A lone sequence takes half the time, as where two engines share the dies of a pool."""

    def time_s(self, batch: Batch) -> Array:
        return super().time_s(batch) * np.where(np.asarray(batch.decode_sequences) < 2.0, 0.5, 1.0)


def test_a_bend_among_the_first_sequences_leaves_the_rest_of_their_tile_alone() -> None:
    plain, lengths = tiled(64.0), stepped(64.0)[2]
    pool = BentPool((SYSTEM,))
    profile = replace(plain, pools={**plain.pools, "decode": pool})
    nodes = nodes_of(profile.max_batch)
    step_s = pool.time_s(decode_batch(nodes.batch, lengths))
    found = with_stairs(nodes, profile, "decode", step_s, lengths).times_at_levels(step_s, 64)[0]
    assert found == pytest.approx(pool.time_s(decode_batch(np.arange(1.0, 65.0)[None], lengths))[0], rel=1e-9)


def test_short_grids_and_pools_without_tiles_stay_as_they_are() -> None:
    assert stepped(16.0)[0].ratio is None
    profile = tiled(64.0, stated=False)
    nodes = nodes_of(profile.max_batch)
    assert with_stairs(nodes, profile, "decode", nodes.batch, stepped(64.0)[2]) is nodes


def test_an_expectation_over_nodes_is_that_over_the_levels() -> None:
    nodes, step_s, lengths = stepped(64.0)
    one, rate = np.ones(1), np.array([4.0])
    state = limited_sharing(rate, nodes, 100.0 * step_s, np.array([64.0]), Burstiness(one, one, one, one, 0 * one, one))
    levels = np.arange(0.0, 65.0)
    time = np.concatenate(([0.0], exact(levels[1:], lengths)))
    weight = np.concatenate(([1.0], np.cumprod(rate * 100.0 * time[1:] / levels[1:])))
    ratio = rate[0] * 100.0 * time[-1] / 64.0
    weight[-1] /= 1.0 - ratio  # more than the limit are served as the limit
    weight /= weight.sum()
    assert (state.at_nodes[:, 1:] * state.stepped(step_s)).sum() == pytest.approx(weight @ time, rel=1e-9)
    assert state.in_service[0] == pytest.approx(weight @ levels, rel=1e-9)


def tpot(profile: ServiceProfile, rate: float) -> float:
    found = estimate(profile, ArrivalStatistics(rate, 1.0), fixed_lengths(), percentiles=False).metrics
    return float(found["tpot_mean_s"][0])


def test_mean_tpot_is_that_of_a_chain_over_all_levels() -> None:
    rate, lengths = 34.0, stepped(64.0)[2]
    levels = np.arange(1.0, 200.0)
    time = exact(np.minimum(levels, 64.0), lengths)
    # Processor sharing with a limit; prompts take no time, half an iteration passes before one joins.
    busy = np.cumprod(rate * (100.0 + 0.5 * (1.0 - 1.0 / levels)) * time / np.minimum(levels, 64.0))
    tokens = busy * np.minimum(levels, 64.0) / time
    expected = (tokens * time).sum() / tokens.sum()
    joined = expected * (1.0 + 0.5 / 100.0)
    assert tpot(tiled(64.0), rate) == pytest.approx(joined, rel=0.01)
    assert abs(tpot(tiled(64.0, stated=False), rate) / joined - 1.0) > 0.02


def test_stated_tiles_reach_pools_that_run_both_phases() -> None:
    assert abs(tpot(tiled(64.0, serving="serve"), 15.0) / tpot(tiled(64.0, False, "serve"), 15.0) - 1.0) > 0.002


def test_designs_taken_from_a_grid_keep_their_stairs() -> None:
    nodes = nodes_of(np.array([100.0, 200.0, 150.0]))
    ratio = np.linspace(1.0, 1.5, 3 * 200).reshape(3, 200)
    stepped = nodes.with_ratio(ratio)
    times, levels = np.ones_like(nodes.batch), np.array([[1.0], [73.5], [150.0]])
    rows = np.array([2, 1])
    some = stepped.take(rows)
    assert some.time_at(times[rows], levels[rows]) == pytest.approx(stepped.time_at(times, levels)[rows])
    # Half way between the ratios of batches 73 and 74.
    assert some.time_at(times[rows], levels[rows])[1, 0] == pytest.approx(ratio[1, 72:74].mean())


def test_one_design_alone_climbs_the_stairs_that_it_climbs_in_company() -> None:
    nodes = nodes_of(np.array([100.0, 100.0])).with_ratio(np.linspace(1.0, 1.5, 200).reshape(2, 100))
    alone = nodes_of(np.array([100.0])).with_ratio(nodes.ratio[:1])
    for level in (0.5, 1.0, 42.25, 99.0, 99.5, 100.0):
        together = nodes.time_at_each(np.ones_like(nodes.batch), np.full(2, level))
        assert alone.time_at_each(np.ones_like(alone.batch), np.array([level]))[0] == pytest.approx(together[0])
