"""What sequences that decode beside prompts see: arrivals in clumps, iterations that prompts delay, and stalls."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator import full_pool, latencies
from hydra_dse.estimator.arrays import bounded, side_by_side
from hydra_dse.estimator.chain import Burstiness, PoolState
from hydra_dse.estimator.colocated_pool import ColocatedPool
from hydra_dse.estimator.mixture import Mixture
from hydra_dse.estimator.phases import Phases
from hydra_dse.estimator.prompt_impact import Delays
from hydra_dse.estimator.prompts import PromptQueue
from hydra_dse.estimator.renewal import following
from hydra_dse.estimator.stages import Stall, Stream

FloatArray = NDArray[np.float64]


def burstiness_of(
    pool: ColocatedPool,
    served: FloatArray,
    residence: FloatArray,
    found: Delays,
    arrival_scv: float,
    phases: Phases | None,
) -> Burstiness:
    """Decoders see arrivals in clumps: no one leaves while a prompt delays them, and more may come.

    In the time that decoders run, the clumps are busy periods of delays of load `ρ = λe`, whose number has the
    index of dispersion `(c_a² + ρ²c_e²)/(1 − ρ)²`; its peakedness spreads the batch.

    Args:
        pool: whose decoders they are.
        served: requests per second, shape (n,).
        residence: time in service at each node, shape (n, k).
        found: delays by prompts at the nodes.
        arrival_scv: squared coefficient of variation of the gaps.
        phases: of the arrivals; None = they come alike at all times.
    """
    typical = np.ones_like(served)
    for _ in range(4):
        typical = bounded(served * pool.at_batch(residence, typical), 1.0, pool.tables.limit)
    slowed = pool.at_batch(found.step_s, typical) / pool.at_batch(pool.tables.step_s, typical)
    each = np.maximum(pool.at_batch(found.each_s, typical), 1e-300)
    delay_scv = pool.at_batch(found.square, typical) / each**2 - 1.0
    slots = before = np.full(len(served), arrival_scv)
    work, within = pool.work_scv, None
    if phases is not None:
        slots = phases.scv_in(served, pool.at_batch(residence, typical))
        before = phases.scv_before(served, served / pool.saturation_per_s, 1.0 / pool.saturation_per_s, work)
        within = pool.spread(slowed**2 * arrival_scv + (slowed - 1.0) ** 2 * delay_scv)
    clumps = slowed**2 * slots + (slowed - 1.0) ** 2 * delay_scv
    ones = np.ones(pool.profile.size)
    return Burstiness(
        spread=pool.spread(clumps),
        arrival=before,
        blocking=np.maximum((before + 1.0) / 2.0, 0.3),
        service=work * ones,
        common=pool.saturation.prompts,
        common_scv=pool.saturation.prompt_scv,
        within=within,
    )


def stall_of(
    pool: ColocatedPool,
    served: FloatArray,
    state: PoolState,
    queue: PromptQueue,
    found: Delays,
    arrival_scv: float,
    phases: Phases | None,
) -> Stall:
    """Delay of a request by more prompts than come at random: those it left behind, and those of its burst.

    Between its arrival and its end, a time `t` to its first token and then its life `T`, `m(t + T)` requests
    follow one; the mean iteration counts `λT` of them, and those that end with it delay no one.  A delay `e` gives
    time for others: `e/(1 − λe)`.

    Args:
        pool: whose decoders they are.
        served: requests per second, shape (n,).
        state: of the pool.
        queue: of its prompts.
        found: delays by prompts at the nodes.
        arrival_scv: squared coefficient of variation of the gaps.
        phases: of the arrivals; None = they come alike at all times.
    """
    tables, lengths = pool.tables, pool.lengths
    beside = pool.beside(state.at_nodes)
    share = latencies.token_share(state, tables.nodes.batch, found.step_s)
    each = (share * found.each_s).sum(axis=1)
    plain = (share * state.stepped(tables.step_s)).sum(axis=1)
    step = (share * found.step_s).sum(axis=1)
    own = tables.prompts.alone_s @ lengths.prompt_bins.weight
    before = ((queue.mean_wait_s + own) * beside).sum(axis=1)
    mates = (queue.company_s / (lengths.prompt * tables.prompts.token_s) * beside).sum(axis=1)
    life = lengths.decode * step
    full = (share * pool.impact.full_s).sum(axis=1)
    followers = following(served * (before + life), arrival_scv, phases) - served * life - mates
    late = np.zeros_like(life)
    if not tables.prefill_first:
        ahead = (queue.waits * queue.wait_s * beside).sum(axis=1)
        late = served * step * (1.0 + ahead / full)
    enter, square = full_pool.that_enter(np.maximum(followers, 0.0), state, tables.nodes.batch, tables.limit)
    open_ = np.maximum(1.0 - state.full, 0.0)
    more = enter + (np.minimum(followers, 0.0) - late) * open_
    some = np.maximum(-np.expm1(-np.maximum(more, 0.0)), 1e-12)
    cap = full if tables.prefill_first else np.maximum(full - step, 0.0)
    delay = each * step / plain
    return Stall(
        share=some,
        mean_s=np.maximum(more, 0.0) / some * delay,
        variance=(square + late**2) * delay**2,
        cap_s=cap,
        spared_s=np.maximum(-more, 0.0) * delay,
        usual_s=step - plain,
    )


def stream_of(pool: ColocatedPool, served: FloatArray, state: PoolState, found: Delays, arrival_scv: float) -> Stream:
    """From the first token to the last: nobody waits for a slot or moves, prompts delay the tokens.

    Args:
        pool: whose decoders they are.
        served: requests per second, shape (n,).
        state: of the pool.
        found: delays by prompts at the nodes.
        arrival_scv: squared coefficient of variation of the gaps.
    """
    tables, batch = pool.tables, pool.tables.nodes.batch
    alone_s = state.stepped(tables.step_s)
    share = latencies.token_share(state, batch, found.step_s)
    none = np.zeros_like(served)
    variance = full_pool.delay_variance(
        pool.met(served),
        full_pool.taken(batch, tables.limit),
        found,
        alone_s,
        arrival_scv,
        pool.lengths.decode_scv,
    )
    return Stream(
        joining_per_s=served * pool.lengths.decoding_share,
        state=state,
        batch=batch,
        step_s=found.step_s,
        extra_s=found.step_s - alone_s,
        extra_square=(share * variance).sum(axis=1),
        gaps=_gaps(pool, served, share, found, alone_s),
        full=none,
        slot_s=none,
        longest_s=none,
        leaving_s=none,
        leaving_scv=none + 1.0,
        moved_s=none,
    )


def _gaps(pool: ColocatedPool, served: FloatArray, share: FloatArray, found: Delays, alone_s: FloatArray) -> Mixture:
    """Gaps of decode-only iterations, of those with one prompt's last chunk, and of full ones."""
    tables, times, lengths = pool.tables, pool.tables.prompts, pool.lengths
    n = len(served)
    weight = lengths.prompt_bins.weight
    stalled = tables.step_beside[:, :, None] if tables.prefill_first else 0.0
    middle = pool.beside(side_by_side(np.zeros((n, 1)), share))
    single = np.minimum(served[:, None] * (1.0 - found.full_share) * found.step_s, 1.0)
    packed = served[:, None] * lengths.prompt * found.step_s / (pool.impact.full_s / pool.impact.token_s)
    packed = np.minimum(packed * found.full_share, 1.0 - single)
    with_one = (middle[:, :, None] * weight) * (share * single).sum(axis=1)[:, None, None]
    full_s = pool.impact.full_s + (alone_s if tables.prefill_first else 0.0)
    return Mixture(
        side_by_side(alone_s, (times.last_s + stalled).reshape(n, -1), full_s),
        side_by_side(share * (1.0 - single - packed), with_one.reshape(n, -1), share * packed),
    )
