"""ServiceProfile: how fast placed designs serve, as arrays over designs.

The estimator needs nothing else of the hardware.  A profile covers `n` designs that share serving and batching
policy and model.  All arrays have `n` as first axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hydra_dse.model.operators import Batch
from hydra_dse.results.nouns import Violation

FloatArray = NDArray[np.float64]


class PoolModel(Protocol):
    """Iterations of one pool.  Batches have fields of shape (n, k) or broadcastable; results have shape (n, k).

    A batch holds the pool's totals; with `m` batches in flight each carries a share 1/m, and the time returned is
    the time in which every sequence of the pool advances once: `max(Σ_f t_f, m·max_f t_f)` over die families.
    """

    def time_s(self, batch: Batch) -> FloatArray:
        """Duration of an iteration when the pool has memory and network to itself."""

    def busy_s(self, batch: Batch) -> Mapping[str, FloatArray]:
        """Busy seconds per iteration by die group name, and of `"hbm"` and `"noi"` (the most loaded link)."""

    def energy_j(self, batch: Batch) -> FloatArray:
        """Dynamic energy of an iteration."""


class Contention(Protocol):
    """Speeds of two pools whose iterations share memory stacks and links."""

    def speeds(self, prefill: Batch, decode: Batch) -> tuple[FloatArray, FloatArray]:
        """Speed in (0, 1] of prefill and of decode while both run, by max-min sharing of each resource."""


@dataclass(frozen=True)
class ServiceProfile:
    """What the estimator knows of `n` placed designs.

    Attributes:
        serving, batching: as in `Policy`; the same for all designs of the profile.
        pools: by name: `{"serve"}` or `{"prefill", "decode"}`.
        contention: of a disaggregated profile; None for a colocated one.
        max_batch, token_budget: shape (n,).
        cache_bytes: memory for KV and state, watermark already taken off; shape (n,).
        kv_bytes_per_token, state_bytes_per_sequence: shape (n,).
        block_tokens: tokens per KV block; shape (n,).
        handoff_s_per_token, handoff_s_per_sequence: time on the hand-off path; 0 where it is a pointer.
        static_power_w, area_mm2, interposer_mm2: shape (n,).
        scheduling: as in `Policy`.
        violations: one tuple per design; a design with violations has NaN metrics.
    """

    serving: str
    batching: str
    scheduling: str
    pools: Mapping[str, PoolModel]
    contention: Contention | None
    max_batch: FloatArray
    token_budget: FloatArray
    cache_bytes: FloatArray
    kv_bytes_per_token: FloatArray
    state_bytes_per_sequence: FloatArray
    block_tokens: FloatArray
    handoff_s_per_token: FloatArray
    handoff_s_per_sequence: FloatArray
    static_power_w: FloatArray
    area_mm2: FloatArray
    interposer_mm2: FloatArray
    violations: tuple[tuple[Violation, ...], ...] = field(default=())

    @property
    def size(self) -> int:
        """Number of designs."""
        return len(self.max_batch)
