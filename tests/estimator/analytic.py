"""The reference system of the queueing notes as a service profile, and the same as scalar functions.

`time = t0 + max(tw, (b + T)·tc) + K·tkv + (b + P)·tssm + A·tat`; the memory part (`tw`, `K·tkv`, `tssm`) is what
two pools compete for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.model.operators import Batch
from hydra_dse.profile.nouns import ServiceProfile

Array = NDArray[np.float64]


@dataclass(frozen=True)
class System:
    """Coefficients in seconds (per iteration, per token, per sequence, per pair)."""

    t0: float = 5e-4
    tw: float = 6e-3
    tc: float = 5e-5
    tkv: float = 2e-8
    tssm: float = 5e-6
    tat: float = 1e-9

    def time(self, b: int, context: float, tokens: int, pairs: float) -> float:
        work = max(self.tw, (b + tokens) * self.tc)
        return self.t0 + work + context * self.tkv + b * self.tssm + pairs * self.tat

    def memory_share(self, b: int, context: float, tokens: int, pairs: float) -> float:
        memory = self.tw + context * self.tkv + b * self.tssm
        return min(1.0, memory / self.time(b, context, tokens, pairs))


def max_min(first: Array, second: Array) -> tuple[Array, Array]:
    """Speeds of two users of one resource of which they want these shares."""
    over = first + second > 1.0
    got_first = np.where(over, np.minimum(first, np.maximum(0.5, 1 - second)), first)
    got_second = np.where(over, np.minimum(second, 1 - got_first), second)
    return got_first / np.maximum(first, 1e-12), got_second / np.maximum(second, 1e-12)


@dataclass(frozen=True)
class AnalyticPool:
    """A `PoolModel` over n systems."""

    systems: tuple[System, ...]

    def _column(self, name: str) -> Array:
        return np.array([getattr(system, name) for system in self.systems])[:, None]

    def memory_s(self, batch: Batch) -> Array:
        return np.asarray(
            self._column("tw")
            + batch.decode_context_tokens * self._column("tkv")
            + batch.decode_sequences * self._column("tssm")
        )

    def time_s(self, batch: Batch) -> Array:
        work = np.maximum(self._column("tw"), batch.tokens * self._column("tc"))
        rest = self.memory_s(batch) - self._column("tw")
        return np.asarray(self._column("t0") + work + rest + batch.prefill_pairs * self._column("tat"))

    def busy_s(self, batch: Batch) -> dict[str, Array]:
        time = self.time_s(batch)
        return {"dies": time * 0.9, "hbm": np.minimum(self.memory_s(batch), time), "noi": time * 0.1}

    def energy_j(self, batch: Batch) -> Array:
        return self.time_s(batch) * 50.0

    def share(self, batch: Batch) -> Array:
        return np.minimum(1.0, self.memory_s(batch) / self.time_s(batch))


@dataclass(frozen=True)
class SharedMemory:
    """Max-min sharing of one memory between the pools."""

    prefill: AnalyticPool
    decode: AnalyticPool

    def speeds(self, prefill: Batch, decode: Batch) -> tuple[Array, Array]:
        shares = np.broadcast_arrays(self.prefill.share(prefill), self.decode.share(decode))
        return max_min(*shares)


@dataclass(frozen=True)
class NoContention:
    """Pools with nothing in common."""

    def speeds(self, prefill: Batch, decode: Batch) -> tuple[Array, Array]:
        shape = np.broadcast_shapes(
            *(np.shape(x) for x in (prefill.prefill_tokens, decode.decode_sequences, decode.decode_context_tokens))
        )
        return np.ones(shape), np.ones(shape)


def profile_of(
    pools: dict[str, Sequence[System]],
    *,
    batching: str = "chunked",
    scheduling: str = "fcfs",
    max_batch: float | Sequence[float] = 32,
    token_budget: float | Sequence[float] = 2048,
    memory_tokens: float | Sequence[float] = 1e12,
    state_tokens: float | Sequence[float] = 0.0,
    handoff_s: float = 0.0,
    shared: bool = True,
    max_waiting: float | Sequence[float] | None = None,
) -> ServiceProfile:
    """A profile with KV of one byte per token, so that memory is counted in tokens."""
    models = {name: AnalyticPool(tuple(systems)) for name, systems in pools.items()}
    n = len(next(iter(models.values())).systems)

    def column(value: float | Sequence[float]) -> Array:
        return np.broadcast_to(np.asarray(value, dtype=float), (n,)).copy()

    apart = "prefill" in models
    contention = None
    if apart:
        contention = SharedMemory(models["prefill"], models["decode"]) if shared else NoContention()
    return ServiceProfile(
        serving="disaggregated" if apart else "colocated",
        batching=batching,
        scheduling=scheduling,
        pools=models,
        contention=contention,
        max_batch=column(max_batch),
        token_budget=column(token_budget),
        cache_bytes=column(memory_tokens),
        kv_bytes_per_token=column(1.0),
        state_bytes_per_sequence=column(state_tokens),
        block_tokens=column(16.0),
        handoff_s_per_token=column(0.0),
        handoff_s_per_sequence=column(handoff_s),
        static_power_w=column(100.0),
        area_mm2=column(1000.0),
        interposer_mm2=column(2000.0),
        max_waiting=None if max_waiting is None else column(max_waiting),
        violations=tuple(() for _ in range(n)),
    )
