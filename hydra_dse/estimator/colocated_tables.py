"""What the colocated solver asks of a profile, what prompts do to decoders, and the saturation rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.arrays import bounded
from hydra_dse.estimator.clumps import clump_of, delay_table, lines_of, shared_batch
from hydra_dse.estimator.company import packing_of
from hydra_dse.estimator.iteration import (
    PrefillTimes,
    decode_batch,
    prefill_times_and,
    whole_prompt_times,
)
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.memory import Memory, memory_of
from hydra_dse.estimator.nodes import BatchNodes, Grid, gather, nodes_of
from hydra_dse.estimator.stairs import with_stairs
from hydra_dse.profile.nouns import ServiceProfile

FloatArray = NDArray[np.float64]

# Batches beside which prompts are timed, as shares of the largest decode batch.
BESIDE = np.array([0.0, 0.12, 0.3, 0.6, 1.0])
SEARCH_STEPS = 24


@dataclass(frozen=True)
class Tables:
    """All that is asked of the profile, once.

    Attributes:
        step_s: decode-only iteration at each node, shape (n, k).
        beside: decode batches beside which prompts are timed, shape (n, j); prompts: their times there.
        memory: of sequences; limit: sequences in service at most; top: decoding sequences that leave prompts
            enough of the budget to keep up with them.
        prefill_first: whether decoders stall while prompts run.
        delay_s: delay of decoders by prompts that share an iteration (`clumps`), shape (n, j, steps); None where
            decoders stall.
    """

    nodes: BatchNodes
    step_s: FloatArray
    beside: FloatArray
    prompts: PrefillTimes
    memory: Memory
    limit: FloatArray
    top: FloatArray
    prefill_first: bool
    delay_s: FloatArray | None

    def beside_of(self, batch: FloatArray) -> Between:
        """Where batches of shape (n, m) lie among the j batches."""
        left = np.zeros(batch.shape, dtype=np.int64)
        for point in range(1, self.beside.shape[1] - 1):
            left += batch >= self.beside[:, point, None]
        low, high = gather(self.beside, left), gather(self.beside, left + 1)
        share = (batch - low) / np.maximum(high - low, 1e-12)
        return Between(left, np.minimum(np.maximum(share, 0.0), 1.0))

    @cached_property
    def step_beside(self) -> FloatArray:
        """Decode-only iteration at the j batches; 0 for the empty one."""
        return self.nodes.time_at(self.step_s, np.maximum(self.beside, 1.0)) * (self.beside > 0)


class Between(Grid):
    """Places among the j batches."""

    def of_tables(self, values: FloatArray) -> FloatArray:
        """Interpolate rows of values, (n, j, k) → (n, m, k)."""
        if len(values) == 1:
            return np.asarray(self.weights(values.shape[1]) @ values)
        rows = np.arange(len(values))[:, None]
        low = values[rows, self.left]
        return np.asarray(low + self.share[:, :, None] * (values[rows, self.left + 1] - low))

    def project(self, weight: FloatArray, points: int) -> FloatArray:
        """Give the weights of the positions to the grid points, (n, m) → (n, points)."""
        if len(weight) == 1:
            return np.asarray(weight @ self.weights(points))
        n = len(weight)
        rows = np.arange(n)[:, None] * points
        left = np.bincount((rows + self.left).ravel(), (weight * (1.0 - self.share)).ravel(), n * points)
        right = np.bincount((rows + self.left + 1).ravel(), (weight * self.share).ravel(), n * points)
        return np.asarray((left + right).reshape(n, points))


def tables_of(profile: ServiceProfile, lengths: LengthMoments) -> Tables:
    """Evaluate a profile at the batches the chain needs."""
    first = profile.batching == "prefill_first"
    pool = profile.pools["serve"]
    memory, limit, top = limits_of(profile, lengths)
    nodes = nodes_of(profile.max_batch)
    rows = lengths.positions
    beside = BESIDE * np.minimum(profile.max_batch, np.maximum(profile.token_budget - 1.0, 1.0) / rows)[:, None]
    decode = decode_batch(nodes.batch, lengths)
    shared_s = None
    if first:
        step_s = np.asarray(pool.time_s(decode), dtype=float)
        prompts = whole_prompt_times(pool, profile.token_budget, lengths).repeated(beside.shape[1])
    else:
        budget = np.maximum(profile.token_budget[:, None] - rows * beside, 1.0)
        others = [decode, shared_batch(budget, beside, lengths)]
        prompts, (step_s, shared_s) = prefill_times_and(pool, others, budget, beside, lengths)
    nodes = with_stairs(nodes, profile, "serve", step_s, lengths)
    delay_s = None
    if shared_s is not None:
        delay_s = delay_table(shared_s, nodes.time_at(step_s, np.maximum(beside, 1.0)))
    return Tables(
        nodes=nodes,
        step_s=step_s,
        beside=beside,
        prompts=prompts,
        memory=memory,
        limit=limit,
        top=top,
        prefill_first=first,
        delay_s=delay_s,
    )


def limits_of(profile: ServiceProfile, lengths: LengthMoments) -> tuple[Memory, FloatArray, FloatArray]:
    """Memory, sequences in service at most, and decoding ones that leave prompts enough of the budget."""
    first = profile.batching == "prefill_first"
    decode = max(lengths.decoding_share * lengths.decode, 1e-9)
    # Chunked: b decoders finish b/E[d] requests an iteration, whose successors need E[p] tokens each.
    keeps_up = profile.token_budget * (1.0 if first else decode / (lengths.prompt + lengths.positions * decode))
    top = np.maximum(np.minimum(profile.max_batch, keeps_up), 1.0)
    memory = memory_of(profile, lengths, np.ones(profile.size))
    return memory, memory.limited(profile.max_batch), np.minimum(top, memory.limited(top))


@dataclass(frozen=True)
class Impact:
    """What prompts do to `batch` decoders, everything that does not depend on the rate, each of shape (n, m).

    Attributes:
        step_s: decode-only iteration.
        light, heavy: mean delay of decoders by a prompt alone in its iterations, and by one in full iterations;
            light_square, heavy_square: second moments.
        saved: delay saved where two prompts share an iteration.
        full_s: a full iteration; token_s: of it, per prompt token.
        room: prompts of a full iteration; alone_s: a prompt alone; budget: prompt tokens of a full iteration.
        delay_s: as in `Tables`, at the batches.
    """

    step_s: FloatArray
    light: FloatArray
    heavy: FloatArray
    light_square: FloatArray
    heavy_square: FloatArray
    saved: FloatArray
    full_s: FloatArray
    token_s: FloatArray
    room: FloatArray
    alone_s: FloatArray
    budget: FloatArray
    delay_s: FloatArray | None


def impact_of(tables: Tables, batch: FloatArray, lengths: LengthMoments) -> Impact:
    """Interpolate the tables at batches of shape (n, m)."""
    weight, times = lengths.prompt_bins.weight, tables.prompts
    # Chunked: the decode iteration that would have run anyway is no delay.
    hidden = np.zeros_like(tables.beside) if tables.prefill_first else tables.step_beside
    light = np.maximum(times.alone_s - times.iterations * hidden[:, :, None], 0.0)
    token = (times.full_s - hidden) / times.budget
    saved = np.maximum(times.shared_s - hidden, 0.0)
    between = tables.beside_of(batch)
    light_s, token_s, square, saved_s, full_s, plain_token_s, alone_s, budget = between.of_each(
        light @ weight,
        token,
        light**2 @ weight,
        saved,
        times.full_s,
        times.token_s,
        times.alone_s @ weight,
        times.budget,
    )
    return Impact(
        step_s=tables.nodes.at(tables.step_s, np.maximum(batch, 1.0)),
        light=light_s,
        heavy=token_s * lengths.prompt,
        light_square=square,
        heavy_square=token_s**2 * lengths.prompt2,
        saved=saved_s,
        full_s=full_s,
        token_s=plain_token_s,
        room=np.maximum(budget / lengths.prompt, 1.0),
        alone_s=alone_s,
        budget=budget,
        delay_s=None if tables.delay_s is None else between.of_tables(tables.delay_s),
    )


@dataclass(frozen=True)
class Delays:
    """What prompts at some rate do to decoders, shape (n, m).

    Attributes:
        each_s: mean delay per prompt; square: its second moment.
        step_s: mean time in which every decoder advances once.
        full_share: share of prompts served in full iterations.
    """

    each_s: FloatArray
    square: FloatArray
    step_s: FloatArray
    full_share: FloatArray


def delays(
    impact: Impact,
    rate: FloatArray,
    lengths: LengthMoments,
    stalls: bool,
    arrival_scv: float = 1.0,
    per_gap: FloatArray | None = None,
) -> Delays:
    """Solve `τ(b)` at prompt rates.

    Args:
        impact: of prompts on decoders.
        rate: prompts per second, shape (n, m).
        lengths: of the requests.
        stalls: decoders stand while prompts run, so that nothing bounds τ.
        arrival_scv: squared coefficient of variation of the gaps.
        per_gap: prompts that come between two decode iterations, where they come as slots fall free (saturation);
            None = as they arrive.
    """
    if impact.delay_s is not None:
        return _shared_delays(impact, impact.delay_s, rate, lengths, arrival_scv, per_gap)
    least = np.minimum(impact.light, impact.heavy)
    bound = np.inf if stalls else np.maximum(impact.full_s, impact.step_s)
    step, each = impact.step_s, impact.light
    for _ in range(4 if per_gap is None else 1):
        alone = _alone_share(impact, rate, step, each, stalls, arrival_scv) if per_gap is None else None
        if alone is None:
            alone = 1.0 / packing_of(np.asarray(per_gap), impact.room, arrival_scv)
        filled = bounded(1.0 / (alone * impact.room), 0.0, 1.0)
        if stalls and per_gap is not None:
            # No slot falls free while prompts run: none come then to fill their iterations.
            filled = np.zeros_like(filled)
        full = bounded(rate * impact.token_s * lengths.prompt, 0.0, 1.0) * filled
        light = np.maximum(impact.light - impact.saved * (1.0 - alone), least)
        each = (1.0 - full) * light + full * impact.heavy
        step = np.minimum(impact.step_s / np.maximum(1.0 - rate * each, 1e-6), bound)
    square = (1.0 - full) * impact.light_square + full * impact.heavy_square
    return Delays(each, square, step, full)


def _shared_delays(
    impact: Impact,
    delay_s: FloatArray,
    rate: FloatArray,
    lengths: LengthMoments,
    arrival_scv: float,
    per_gap: FloatArray | None,
) -> Delays:
    """Delays where prompts share the decoders' iterations."""
    bound, most = np.maximum(impact.full_s, impact.step_s), 4.0 * impact.room
    step, lines = impact.step_s, lines_of(delay_s)
    for _ in range(5 if per_gap is None else 1):
        u = np.minimum(rate * step, most) if per_gap is None else per_gap
        found = clump_of(np.maximum(u, 1e-9), lines, impact.budget, lengths, arrival_scv)
        step = np.minimum(impact.step_s / np.maximum(1.0 - rate * found.each_s, 1e-6), bound)
    filled = bounded(found.size / impact.room, 0.0, 1.0)
    full = bounded(rate * impact.token_s * lengths.prompt, 0.0, 1.0) * filled
    return Delays(found.each_s, found.square, step, full)


def _alone_share(
    impact: Impact, rate: FloatArray, step: FloatArray, each: FloatArray, stalls: bool, arrival_scv: float
) -> FloatArray:
    """Prompt iterations per prompt.

    Chunked: prompts that come in one iteration share the next.  Prefill first: those that come during a decode
    iteration share one, those that come while prompts run (a share `λe` of them) the one after.
    """
    running = np.minimum(impact.alone_s, impact.full_s)
    if not stalls:
        return 1.0 / packing_of(rate * np.minimum(np.maximum(step, running), impact.full_s), impact.room, arrival_scv)
    during_prompts = bounded(rate * each, 0.0, 1.0)
    after_decode = 1.0 / packing_of(rate * impact.step_s, impact.room, arrival_scv)
    after_prompts = 1.0 / packing_of(rate * running, impact.room, arrival_scv)
    return np.asarray((1.0 - during_prompts) * after_decode + during_prompts * after_prompts)


@dataclass(frozen=True)
class Saturation:
    """A pool in which a prompt waits for every slot, each of shape (n,).

    Attributes:
        rate_per_s: requests per second.
        prompts: share of time by which prompts delay the decoders.
        prompt_scv: squared coefficient of variation of the delay by one prompt.
    """

    rate_per_s: FloatArray
    prompts: FloatArray
    prompt_scv: FloatArray


def saturation_of(tables: Tables, lengths: LengthMoments) -> Saturation:
    """Requests per second when a prompt waits for every slot: `1/X = E[d]·d(b)/b + e(b)`.

    Iterations with prompts take longer, which e counts.
    """
    if lengths.decoding_share <= 0.0:
        rate = 1.0 / (lengths.prompt * tables.prompts.token_s[:, 0])
        return Saturation(rate, np.ones_like(rate), np.full_like(rate, lengths.prompt2 / lengths.prompt**2 - 1.0))
    decode = lengths.decoding_share * lengths.decode
    batch = tables.top if tables.prefill_first else _decoding_at_saturation(tables, lengths, decode)
    impact = impact_of(tables, batch[:, None], lengths)
    impact = replace(impact, step_s=tables.nodes.time_at_each(tables.step_s, np.maximum(batch, 1.0))[:, None])
    gap = (batch / decode)[:, None]
    # What a prompt does depends on how many come in an iteration, not on how long iterations are.
    found = delays(impact, gap / impact.step_s, lengths, tables.prefill_first, per_gap=gap)
    rate = 1.0 / (decode * impact.step_s[:, 0] / batch + found.each_s[:, 0])
    each = np.maximum(found.each_s[:, 0], 1e-300)
    share = bounded(rate * each, 0.0, 1.0)
    return Saturation(rate, share, np.maximum(found.square[:, 0] / each**2 - 1.0, 0.0))


def _decoding_at_saturation(tables: Tables, lengths: LengthMoments, decode: float) -> FloatArray:
    """Decoding sequences of a chunked pool in which a prompt waits for every slot, shape (n,).

    A slot is taken for `E[d]` iterations in which it decodes and for `m` in which it does not: those of its prompt, and
    those for which the prompt waits for others that leave no budget, `b·(E[d] + m(b)) = B·E[d]`.  In an iteration come
    `b/E[d]` prompts, `T` tokens of variance `σ²`, to a budget of `C − b`: the work found ahead is that of
    Pollaczek–Khinchine, `σ²/2(C − b − E[T])` tokens, found by a share of them that grows with the load of the budget.
    """
    own = tables.prompts.iterations @ lengths.prompt_bins.weight
    whole = tables.limit * decode

    def short(batch: FloatArray, budget: FloatArray, own: FloatArray, whole: FloatArray) -> NDArray[np.bool_]:
        tokens = batch / decode * lengths.prompt
        ahead = batch / decode * lengths.prompt2 / (2.0 * np.maximum(budget - tokens, 1e-3 * budget))
        return np.asarray(batch * (decode + own + ahead / budget * np.minimum(tokens / budget, 1.0)) < whole)

    # Between two of the j batches all that is interpolated lies on a line, so that one search needs no look-up.
    grid, budgets = tables.beside, tables.prompts.budget
    inside = short(grid[:, 1:-1], budgets[:, 1:-1], own[:, 1:-1], whole[:, None])
    left = inside.cumprod(axis=1).sum(axis=1)[:, None]
    (first, last), (near, far), (few, more) = (
        (gather(values, left)[:, 0], gather(values, left + 1)[:, 0]) for values in (grid, budgets, own)
    )
    low, high = np.minimum(first, tables.top), np.minimum(last, tables.top)
    span = np.maximum(last - first, 1e-12)
    if len(low) == 1:
        ends = (first, span, low, high, near, far, few, more, whole)
        return np.array([_decoding_of_one([float(end[0]) for end in ends], decode, lengths)])
    for _ in range(SEARCH_STEPS):
        batch = (low + high) / 2.0
        share = (batch - first) / span
        less = short(batch, near + share * (far - near), few + share * (more - few), whole)
        low, high = np.where(less, batch, low), np.where(less, high, batch)
    return np.maximum(low, 1e-3)


def _decoding_of_one(ends: Sequence[float], decode: float, lengths: LengthMoments) -> float:
    """The search of `_decoding_at_saturation` for a single design, in plain numbers: a tenth of the time."""
    first, span, low, high, near, far, few, more, whole = ends
    prompt, square, rise, gain = lengths.prompt, lengths.prompt2, far - near, more - few
    for _ in range(SEARCH_STEPS):
        batch = (low + high) / 2.0
        share = (batch - first) / span
        budget = near + share * rise
        tokens = batch / decode * prompt
        ahead = batch / decode * square / (2.0 * max(budget - tokens, 1e-3 * budget))
        if batch * (decode + (few + share * gain) + ahead / budget * min(tokens / budget, 1.0)) < whole:
            low = batch
        else:
            high = batch
    return max(low, 1e-3)
