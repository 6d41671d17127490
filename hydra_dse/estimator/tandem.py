"""The fixed point of a prompt queue and the decode pool behind it: each slows the other down."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.arrays import bounded
from hydra_dse.estimator.chain import Burstiness, PoolState, limited_sharing, peaked
from hydra_dse.estimator.disaggregated_tables import Tables
from hydra_dse.estimator.iteration import PrefillTimes
from hydra_dse.estimator.lengths import Bins, LengthMoments
from hydra_dse.estimator.phased_chain import Waiting, phased_sharing
from hydra_dse.estimator.phases import Phases
from hydra_dse.estimator.prompts import PromptQueue, prompt_queue
from hydra_dse.estimator.stages import Entry
from hydra_dse.estimator.transient import Transient

FloatArray = NDArray[np.float64]

ROUNDS = 3
"""Of the fixed point: what each pool does to the other."""


@dataclass(frozen=True)
class Balance:
    """The fixed point of both pools at one rate.

    Attributes:
        step_s: decode iteration slowed by prefill, mean over time; beside: speed of decode beside a prefill iteration.
        prompts: times of prompts slowed by decode.
        places: waiting places of finished prompts; held: mean number of prompts that wait beyond them to start.
        burst: `(c_a² + 1)/2` of the prompts that prefill finishes.
    """

    rate: FloatArray
    queue: PromptQueue
    decode: PoolState
    step_s: FloatArray
    beside: FloatArray
    prompts: PrefillTimes
    places: FloatArray
    held: FloatArray
    burst: FloatArray | float = 1.0

    def entry(self, sizes: Bins, blocked: FloatArray, blocked_s: FloatArray) -> Entry:
        """From arrival to the first token, which nothing but prompts ahead and a full decode pool delays.

        Args:
            sizes: of the prompts.
            blocked: probability to be held back by decode, shape (n,).
            blocked_s: mean of that wait over all requests, shape (n,).
        """
        queue = self.queue
        return Entry(
            own_s=self.prompts.alone_s,
            own_bins=sizes,
            waits=queue.waits,
            wait_s=queue.wait_points,
            behind=queue.behind,
            behind_lone=queue.behind_lone,
            beside=np.ones_like(queue.waits),
            mean_wait_s=queue.mean_wait_s[:, 0],
            residual_s=None,
            blocked=blocked,
            blocked_s=blocked_s,
        )


def balance(
    tables: Tables,
    rate: FloatArray,
    lengths: LengthMoments,
    arrival_scv: float,
    shortest_first: bool = False,
    transient: Transient | None = None,
    phases: Phases | None = None,
    saturation: FloatArray | None = None,
) -> Balance:
    """Solve both pools: each one's slowdown by the other needs the other's busy share.

    Args:
        tables: of the pools.
        rate: requests per second, shape (n,).
        lengths: of the requests.
        arrival_scv: squared coefficient of variation of the gaps.
        shortest_first: order of the prompts.
        transient: the piece of time in which the pools need not settle; None = stationary.
        phases: of the arrivals; None = they come alike at all times.
        saturation: requests per second that the pools complete at most, shape (n,); None = not known yet.
    """
    prompts = tables.prompts
    decoding = max(lengths.decoding_share, 1e-9)
    joining = rate * decoding
    offered, horizon = None, 0.0
    queue_of = partial(
        prompt_queue,
        rate[:, None],
        lengths=lengths,
        arrival_scv=arrival_scv,
        shortest_first=shortest_first,
        own_engine=True,
    )
    for _ in range(ROUNDS):
        queue = queue_of(prompts, phases=phases)
        beside, step_s = _beside_prefill(tables, queue)
        residence = residence_of(tables, step_s, lengths)
        burst = _burst_between(tables, queue, joining, residence, lengths, arrival_scv, phases)
        if transient is not None:
            # Decode gets what prefill lets through.
            through = np.minimum(transient.offered, prompts.prompts_per_s(lengths))
            offered, horizon = np.maximum(through, rate) * decoding, transient.horizon_per_s
        load = _decode_load(tables, joining, residence, rate, saturation)
        if phases is not None and transient is None and saturation is not None:
            decode = _modulated(tables, queue, beside, burst, joining, phases, lengths, saturation)
        else:
            decode = limited_sharing(
                joining, tables.nodes, residence, tables.limit, burst, load, offered=offered, horizon_per_s=horizon
            )
        prompts = slowed(tables, decode.at_nodes)
    if transient is not None:
        queue = queue_of(prompts, transient=transient, life_s=decode.in_service / joining)
        if queue.dispersion is not None:
            burst = peaked(burst, queue.dispersion)
            decode = limited_sharing(
                joining, tables.nodes, residence, tables.limit, burst, offered=offered, horizon_per_s=horizon
            )
    capacity = tables.capacity
    held = capacity.held_back(decode)
    return Balance(rate, queue, decode, step_s, beside, prompts, capacity.places, held, burst.blocking)


def _beside_prefill(tables: Tables, queue: PromptQueue) -> tuple[FloatArray, FloatArray]:
    """Speed of decode beside a prefill iteration, and its iterations slowed by the share of time that prefill runs."""
    full, between = queue.full_share, tables.contention
    beside = (1.0 - full) * between.decode_single + full * between.decode_packed
    busy = np.minimum(queue.busy, 1.0)
    return beside, tables.step_s / (1.0 - busy + busy * beside)


def _burst_between(
    tables: Tables,
    queue: PromptQueue,
    joining: FloatArray,
    residence_s: FloatArray,
    lengths: LengthMoments,
    arrival_scv: float,
    phases: Phases | None,
) -> Burstiness:
    """What decode sees of the arrivals behind prefill, with the phases of them where they have any."""
    life_s = _typical(tables, joining, residence_s)
    burst = burstiness(queue, life_s, lengths, np.full(len(joining), arrival_scv), tables.work_scv)
    if phases is None:
        return burst
    by_phase = phased(phases, joining, life_s, residence_s[:, -1], tables, queue, lengths)
    return replace(by_phase, within=burst.spread)


def _decode_load(
    tables: Tables, joining: FloatArray, residence_s: FloatArray, rate: FloatArray, saturation: FloatArray | None
) -> FloatArray:
    """Load of decode: prompts that it holds back run packed, so that it cannot be overloaded before the tandem is."""
    load = joining * tables.nodes.time_at_each(residence_s, tables.limit) / tables.limit
    return np.asarray(load if saturation is None else np.minimum(load, (1.0 + rate / saturation) / 2.0))


def _modulated(
    tables: Tables,
    queue: PromptQueue,
    beside: FloatArray,
    burst: Burstiness,
    joining: FloatArray,
    phases: Phases,
    lengths: LengthMoments,
    saturation: FloatArray,
) -> PoolState:
    """Decode under arrivals in phases: prefill slows it the more the more prompts a phase brings.

    Behind the places for finished prompts prefill pauses, and both pools complete what they can at most.
    """
    rate = joining / max(lengths.decoding_share, 1e-9)
    reaching = through_prefill(phases, rate, tables.prompts, lengths)
    residences = []
    for phase in (0, 1):
        busy = np.minimum(queue.busy * reaching.relative[:, phase, None], 1.0)
        residences.append(residence_of(tables, tables.step_s / (1.0 - busy + busy * beside), lengths))
    first, second = (tables.nodes.time_at(each, tables.limit[:, None])[:, 0] for each in residences)
    waiting = Waiting(tables.capacity.places + tables.capacity.tooth, first, second)
    load = np.minimum(rate / saturation, 1.0)
    return phased_sharing(
        joining, tables.nodes, (residences[0], residences[1]), tables.limit, burst, load, reaching, waiting
    )


def through_prefill(phases: Phases, rate: FloatArray, prompts: PrefillTimes, lengths: LengthMoments) -> Phases:
    """The phases as decode sees them: a busy one brings no more than prefill completes, the rest comes after it.

    Some requests end with their first token, so that fewer join in the time of a phase.
    """
    most = 1.0 / (lengths.prompt * prompts.token_s[:, 0] * rate)
    return phases.bounded(np.maximum(most, 1.0), 1.0 / max(lengths.decoding_share, 1e-9))


def slowed(tables: Tables, at_nodes: FloatArray) -> PrefillTimes:
    """Times of prompts beside the decode batches met on average."""
    between, idle = tables.contention, at_nodes[:, :1]
    single = idle + (at_nodes[:, 1:] / between.prefill_single).sum(axis=1, keepdims=True)
    packed = idle + (at_nodes[:, 1:] / between.prefill_packed).sum(axis=1, keepdims=True)
    sizes = np.maximum(idle + (single - idle) * between.by_size, 1.0)[:, None, :]
    alone = tables.prompts
    return PrefillTimes(
        alone.alone_s * sizes,
        alone.iterations,
        alone.last_s * sizes,
        alone.full_s * packed,
        alone.shared_s * single,
        alone.budget,
    )


def residence_of(tables: Tables, step_s: FloatArray, lengths: LengthMoments) -> FloatArray:
    """Time in the decode pool; half an iteration to join a running batch that is not full."""
    batch = tables.nodes.batch
    joins = np.where(batch < tables.limit[:, None], 0.5 * (1.0 - 1.0 / batch), 0.0)
    return np.asarray((lengths.decode + joins) * step_s)


def _typical(tables: Tables, joining: FloatArray, residence_s: FloatArray) -> FloatArray:
    """Residence at the batch that it brings about itself, (n,)."""
    batch = np.ones_like(joining)
    for _ in range(4):
        life = tables.nodes.at_each(residence_s, batch)
        batch = bounded(joining * life, 1.0, np.maximum(tables.limit, 1.0))
    return life


def burstiness(
    queue: PromptQueue, life_s: FloatArray, lengths: LengthMoments, arrival_scv: FloatArray, work_scv: FloatArray
) -> Burstiness:
    """Decode sees the arrivals' own variability unless the prompt queue is slow enough to smooth it.

    Args:
        queue: of the prompts.
        life_s: for which a request decodes, shape (n,).
        lengths: of the requests.
        arrival_scv: squared coefficient of variation of the gaps, shape (n,).
        work_scv: of what a sequence takes of the pool, shape (n,).
    """
    relaxation = queue.service_s[:, 0] / np.maximum(1.0 - queue.busy[:, 0], 1e-3) ** 2
    smooth = relaxation / (relaxation + life_s)
    prompt_scv = lengths.prompt2 / lengths.prompt**2 - 1.0
    scv = (1.0 - smooth) * arrival_scv + smooth * np.minimum(prompt_scv, np.maximum(arrival_scv, 1.0))
    spread = np.maximum(1.0 + (scv - 1.0) * lengths.overlap, 0.1)
    none = np.zeros_like(scv)
    blocking = np.maximum((scv + 1.0) / 2.0, 0.3)
    return Burstiness(spread, scv, blocking, work_scv, none, none)


def phased(
    phases: Phases,
    joining: FloatArray,
    life_s: FloatArray,
    full_s: FloatArray,
    tables: Tables,
    queue: PromptQueue,
    lengths: LengthMoments,
) -> Burstiness:
    """Slots see what phases change within a life, the queue before them what they change while it lasts.

    Args:
        phases: of the arrivals.
        joining: requests per second that decode, shape (n,).
        life_s: for which a request decodes in a typical batch, shape (n,).
        full_s: the same in a full batch.
        tables: of the pools.
        queue: of the prompts.
        lengths: of the requests.
    """
    each = full_s / tables.limit
    own = tables.work_scv
    slots = burstiness(queue, life_s, lengths, phases.scv_in(joining, life_s), own)
    before = burstiness(queue, full_s, lengths, phases.scv_before(joining, joining * each, each, own), own)
    return replace(before, spread=slots.spread)
