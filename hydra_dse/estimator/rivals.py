"""What the other models on a package do to the iterations of one: turns on the same dies, contention elsewhere.

Same dies: one model's iteration runs at a time, in turn.  A model `j` that has work for the share `c` of the time in
which this one has, with iterations of mean `D`, follows an iteration of `τ` with probability
`r = c·τ/(τ + (1 − c)·D)`, as rounds in which both take part last `τ + D`.  So an iteration takes `τ + Σ r_j·D_j`.
Other dies: while both run, speeds follow from max-min sharing of stacks and links; an iteration is slowed to
`τ/(1 − q + q·s)`.

What the models of one package need is a set of tables with longer iterations; everything else of the solvers stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.colocated import Colocated
from hydra_dse.estimator.colocated_saturation import saturation_of as colocated_saturation
from hydra_dse.estimator.colocated_tables import limits_of
from hydra_dse.estimator.disaggregated import Disaggregated
from hydra_dse.estimator.disaggregated_tables import capacity_of
from hydra_dse.estimator.disaggregated_tables import saturation_of as disaggregated_saturation
from hydra_dse.estimator.iteration import PrefillTimes
from hydra_dse.estimator.presence import at_level
from hydra_dse.estimator.prompt_impact import impact_of
from hydra_dse.estimator.solution import Solution
from hydra_dse.model.operators import Batch

FloatArray = NDArray[np.float64]
Single = Colocated | Disaggregated

LEAST_S = 1e-12
"""Of times, so that none divides by zero."""


@dataclass(frozen=True)
class Use:
    """How one model uses a pool, each of shape (n,).

    Attributes:
        share: of time in which it has work there.
        each_s: mean duration of its iterations while they run; residual_s: mean time to the end of a running one.
        batch: a typical one, fields of shape (n, 1).
    """

    share: FloatArray
    each_s: FloatArray
    residual_s: FloatArray
    batch: Batch

    def towards(self, other: Use, step: float) -> Use:
        """A use between this one and another."""
        return Use(
            self.share + step * (other.share - self.share),
            self.each_s + step * (other.each_s - self.each_s),
            self.residual_s + step * (other.residual_s - self.residual_s),
            other.batch,
        )


@dataclass(frozen=True)
class Rival:
    """A model on the same dies, as seen by another.

    Attributes:
        use: of the pool.
        share: of time in which it has work, by the number of requests of the model that looks, shape (n, m).
    """

    use: Use
    share: FloatArray

    @property
    def each_s(self) -> FloatArray:
        """Mean duration of its iterations."""
        return self.use.each_s


@dataclass(frozen=True)
class Pressure:
    """What other models do to one pool of a model.

    Attributes:
        turns: models that take turns on its dies.
        beside: share of time in which another one runs beside it, shape (n,), and the speed left meanwhile.
    """

    turns: tuple[Rival, ...] = ()
    beside: tuple[tuple[FloatArray, FloatArray], ...] = ()

    def slowed(self, time_s: FloatArray) -> FloatArray:
        """Duration of iterations that take `time_s` alone, shape (n, …)."""
        for share, speed in self.beside:
            time_s = time_s / _like(1.0 - share + share * speed, time_s)
        return time_s

    def wait(self, time_s: FloatArray, level: FloatArray) -> FloatArray:
        """Mean time in which others run before the next iteration.

        Args:
            time_s: duration of the iteration, slowed, shape (n, …).
            level: requests of the model in service, broadcasts with it.
        """
        level = np.broadcast_to(level, time_s.shape)
        each = [_like(rival.each_s, time_s) for rival in self.turns]
        shares = [at_level(rival.share, level) for rival in self.turns]
        waits = [np.zeros_like(time_s) for _ in self.turns]
        for _ in range(1 if len(self.turns) < 2 else 3):
            total = sum(waits, np.zeros_like(time_s))
            waits = [
                c * d * own / np.maximum(own + (1.0 - c) * d, LEAST_S)
                for c, d, own in zip(shares, each, [time_s + total - wait for wait in waits], strict=True)
            ]
        return np.asarray(sum(waits, np.zeros_like(time_s)))

    def whole(self, time_s: FloatArray, level: FloatArray) -> FloatArray:
        """Duration of iterations with the wait for the next one."""
        slowed = self.slowed(time_s)
        return np.asarray(slowed + self.wait(slowed, level))

    @property
    def idle_wait_s(self) -> FloatArray | float:
        """Mean wait for a running iteration of another model by a request that finds its own model idle."""
        found: FloatArray | float = 0.0
        free: FloatArray | float = 1.0
        for rival in self.turns:
            found = found + free * rival.share[:, 0] * rival.use.residual_s
            free = free * (1.0 - rival.share[:, 0])
        return found


def _like(values: FloatArray, array: FloatArray) -> FloatArray:
    return values.reshape(len(values), *(1,) * (array.ndim - 1))


def prompts_under(pressure: Pressure, times: PrefillTimes, beside: FloatArray) -> PrefillTimes:
    """Times of prompts beside decoders, shape (n, j): every iteration of one waits for the turns of others."""
    level = beside + 1.0
    chunks = times.iterations - 1.0
    chunk_s = np.where(chunks > 0, (times.alone_s - times.last_s) / np.maximum(chunks, 1.0), 0.0)
    last_s = pressure.whole(times.last_s, level[:, :, None])
    shared_s = pressure.slowed(times.shared_s)
    return PrefillTimes(
        chunks * pressure.whole(chunk_s, level[:, :, None]) + last_s,
        times.iterations,
        last_s,
        pressure.whole(times.full_s, level),
        shared_s + pressure.wait(np.maximum(shared_s, pressure.slowed(times.last_s)[:, :, 0]), level),
        times.budget,
    )


def under(base: Single, pressure: Mapping[str, Pressure], cache_bytes: FloatArray) -> Single:
    """The solver of a model alone, with iterations as long as others make them and memory as they leave it."""
    profile = replace(base.profile, cache_bytes=cache_bytes)
    lengths = base.lengths
    if isinstance(base, Colocated):
        memory, limit, top = limits_of(profile, lengths)
        serve = pressure["serve"]
        tables = replace(
            base.tables,
            step_s=serve.whole(base.tables.step_s, base.tables.nodes.batch),
            prompts=prompts_under(serve, base.tables.prompts, base.tables.beside),
            memory=memory,
            limit=limit,
            top=top,
        )
        impact = impact_of(tables, tables.nodes.batch, lengths)
        return Colocated(profile, lengths, tables, impact, colocated_saturation(tables, lengths))
    shifted = replace(
        base.tables,
        step_s=pressure["decode"].whole(base.tables.step_s, base.tables.nodes.batch),
        prompts=prompts_under(pressure["prefill"], base.tables.prompts, np.zeros((profile.size, 1))),
        capacity=capacity_of(profile, lengths, np.zeros(profile.size)),
    )
    prompt_s = lengths.prompt * shifted.prompts.token_s[:, 0]
    in_progress = np.minimum(disaggregated_saturation(shifted, lengths) * prompt_s, 1.0)
    shifted = replace(shifted, capacity=capacity_of(profile, lengths, in_progress))
    return Disaggregated(profile, lengths, shifted, disaggregated_saturation(shifted, lengths))


def uses_of(base: Single, solution: Solution, pressure: Mapping[str, Pressure]) -> dict[str, Use]:
    """How a model uses its pools in a solved state: all its iterations, and their waits while it has work.

    Args:
        base: the solver of the model alone.
        solution: under pressure.
        pressure: of the others.
    """
    found = {}
    for pool, own in pressure.items():
        counts, times, waits, batches = [], [], [], []
        for work in solution.work:
            if work.pool == pool:
                if work.batch.decode_sequences is base.tables.nodes.batch:
                    alone = base.tables.step_s  # the decode iterations of the chain: known already
                else:
                    alone = np.asarray(base.profile.pools[pool].time_s(work.batch), dtype=float)
                time_s = own.slowed(np.broadcast_to(alone, work.rate_per_s.shape))
                counts.append(work.rate_per_s)
                times.append(time_s)
                level = np.asarray(work.batch.decode_sequences + np.minimum(work.batch.prefill_sequences, 1.0))
                waits.append(own.wait(time_s, np.broadcast_to(level, time_s.shape)))
                batches.append(work.batch)
        count, time = np.hstack(counts), np.hstack(times)
        number = np.maximum(count.sum(axis=1), 1e-300)
        busy, square = (count * time).sum(axis=1), (count * time**2).sum(axis=1)
        share = np.minimum((count * (time + np.hstack(waits))).sum(axis=1), 1.0)
        each = busy / number
        residual = square / np.maximum(2.0 * busy, 1e-300)
        found[pool] = Use(share, each, residual, _typical(batches, counts, times))
    return found


def _typical(batches: Sequence[Batch], counts: Sequence[FloatArray], times: Sequence[FloatArray]) -> Batch:
    """Mean of batches, weighted with the time that they run, fields of shape (n, 1)."""
    weights = [count * time for count, time in zip(counts, times, strict=True)]
    total = np.maximum(sum(weight.sum(axis=1) for weight in weights), 1e-300)

    def mean(name: str) -> FloatArray:
        parts = [
            (np.broadcast_to(getattr(batch, name), weight.shape) * weight).sum(axis=1)
            for batch, weight in zip(batches, weights, strict=True)
        ]
        return np.asarray(sum(parts) / total)[:, None]

    return Batch(
        prefill_tokens=mean("prefill_tokens"),
        prefill_sequences=mean("prefill_sequences"),
        prefill_pairs=mean("prefill_pairs"),
        prefill_context_tokens=mean("prefill_context_tokens"),
        decode_sequences=mean("decode_sequences"),
        decode_context_tokens=mean("decode_context_tokens"),
        emitted_tokens=mean("emitted_tokens"),
        tokens_per_sequence=batches[0].tokens_per_sequence if batches else 1.0,
    )
