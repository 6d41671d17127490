"""Iteration times in closed form, as the estimator asks for them and as the simulator does.

`time = t0 + max(tw, (b + T)·tc) + K·tkv + (b + P)·tssm + A·tat` for `b` decoding sequences with `K` context tokens in
total, `P` prompt chunks of `T` tokens and `A` causal pairs.  `tw`, `K·tkv` and `tssm` are the share of memory, which
is what two pools that share it compete for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.model.operators import Batch
from simulators.iteration import Composition, Race, Stretch, Work

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Engine:
    """Coefficients in seconds: per iteration (t0, tw), per token (tc, tkv), per sequence (tssm), per pair (tat)."""

    t0: float
    tw: float
    tc: float
    tkv: float
    tssm: float
    tat: float


@dataclass(frozen=True)
class EnginePool:
    """The `PoolModel` of one engine, for a profile of one design."""

    engine: Engine

    def time_s(self, batch: Batch) -> FloatArray:
        """Duration alone, shape of the batch."""
        e = self.engine
        work = np.maximum(e.tw, batch.tokens * e.tc)
        reads = batch.decode_context_tokens * e.tkv + batch.sequences * e.tssm
        return np.asarray(e.t0 + work + reads + batch.prefill_pairs * e.tat, dtype=float)

    def memory_share(self, batch: Batch) -> FloatArray:
        """Share of the duration in which memory is busy."""
        e = self.engine
        reads = e.tw + batch.decode_context_tokens * e.tkv + batch.sequences * e.tssm
        return np.asarray(np.minimum(1.0, reads / self.time_s(batch)), dtype=float)

    def busy_s(self, batch: Batch) -> Mapping[str, FloatArray]:
        """Nothing is accounted for."""
        time = self.time_s(batch)
        return {"hbm": time * self.memory_share(batch), "noi": np.zeros_like(time)}

    def energy_j(self, batch: Batch) -> FloatArray:
        """Nothing is accounted for."""
        return np.zeros_like(self.time_s(batch))


@dataclass(frozen=True)
class OneMemory:
    """`Contention` of two pools on one memory: max-min sharing of it, or none."""

    prefill: EnginePool
    decode: EnginePool
    shared: bool

    def speeds(self, prefill: Batch, decode: Batch) -> tuple[FloatArray, FloatArray]:
        """Speed of each pool while both run."""
        first, second = np.broadcast_arrays(self.prefill.memory_share(prefill), self.decode.memory_share(decode))
        if not self.shared:
            return np.ones(first.shape), np.ones(first.shape)
        over = first + second > 1.0
        got_first = np.where(over, np.minimum(first, np.maximum(0.5, 1.0 - second)), first)
        got_second = np.where(over, np.minimum(second, 1.0 - got_first), second)
        return got_first / np.maximum(first, 1e-12), got_second / np.maximum(second, 1e-12)


class EngineCost:
    """The `IterationCost` of one engine.

    Args:
        engine: its coefficients.
        shared: whether another pool uses the same memory.
    """

    windows: tuple[int, ...] = ()

    def __init__(self, engine: Engine, shared: bool = False) -> None:
        self.engine = engine
        self._usage = self._memory_share if shared else None

    def work(self, batch: Composition) -> Work:
        """One iteration."""
        e, attended = self.engine, batch.attended
        tokens = batch.prefill_tokens + batch.decode_sequences
        reads = attended.decode_tokens * e.tkv + (batch.prefill_sequences + batch.decode_sequences) * e.tssm
        time = e.t0 + max(e.tw, tokens * e.tc) + reads + attended.prefill_pairs * e.tat
        return Work(time, batch, usage_of=self._usage)

    def _memory_share(self, work: Work) -> FloatArray:
        e, batch = self.engine, work.batch
        sequences = batch.prefill_sequences + batch.decode_sequences
        reads = e.tw + batch.attended.decode_tokens * e.tkv + sequences * e.tssm
        return np.array([min(1.0, reads / work.duration_s)])

    def stretch(self, first: Composition, steps: int) -> Stretch:
        """Decode steps of one batch whose contexts grow, each the same to the last bit as `work`."""
        e, growth = self.engine, first.attended.decode_growth
        context = first.attended.decode_tokens + growth * np.arange(steps)
        reads = context * e.tkv + first.decode_sequences * e.tssm
        time = e.t0 + max(e.tw, first.decode_sequences * e.tc) + reads
        return Stretch(first, np.asarray(time, dtype=float), np.zeros((0, steps)))

    def beside(self, race: Race) -> Stretch | None:
        """Leave it to single steps."""
        return None

    def count(self, work: Work) -> None:
        """Nothing is counted."""

    def count_stretch(self, stretch: Stretch) -> None:
        """Nothing is counted."""

    def snapshot(self) -> object:
        """Nothing was counted."""
        return None

    def reset(self) -> None:
        """Nothing to forget."""
