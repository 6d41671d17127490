"""ServiceProfile: how fast placed designs serve, as arrays over designs.

The estimator needs nothing else of the hardware.  A profile covers `n` designs that share serving and batching
policy and model.  All arrays have `n` as first axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hydra_dse.model.operators import Batch
from hydra_dse.policy import ONE_TOKEN, Emission
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


@runtime_checkable
class Prepares(Protocol):
    """A `Contention` that takes several batches at once faster than one after the other."""

    def prepare(self, prefill: Sequence[Batch], decode: Sequence[Batch]) -> None:
        """Evaluate batches of both pools; asked for again, as the same objects, they are known."""


@dataclass(frozen=True)
class RoleProfile:
    """Role states of `n` elastic designs, ascending by the units of decode dies that serve prefill.

    Attributes:
        native: index of the state in which no die is lent.
        pools: by state: `{"prefill", "decode"}`; a design that lacks a state repeats its nearest one.
        contention: of prefill in state `s` beside decode in state `t`, for all `s ≤ t`.
        lowest, highest: the first and last state of each design, shape (n,).
        up, down: prompts waiting or under way at which dies go over to prefill, and back; shape (n,).
        move_bytes: bytes that move from state `s` to `s + 1`, and back, shape (n, states − 1, 2).
        move_s: time they take alone, of the same shape.
    """

    native: int
    pools: tuple[Mapping[str, PoolModel], ...]
    contention: Mapping[tuple[int, int], Contention]
    lowest: NDArray[np.int64]
    highest: NDArray[np.int64]
    up: FloatArray
    down: FloatArray
    move_bytes: FloatArray
    move_s: FloatArray

    @property
    def size(self) -> int:
        """Number of states."""
        return len(self.pools)

    def name(self, pool: str, state: int) -> str:
        """Name of a pool in a state: the plain one where no die is lent."""
        return pool if state == self.native else f"{pool}{state - self.native:+d}"


@dataclass(frozen=True, eq=False)
class HandoffLoad:
    """What a byte costs that is handed over from the memory of one pool to that of the other, shape (n,) each.

    Attributes:
        site_s, link_s: busy seconds of the busiest memory site and link on its way.
        joules: dynamic energy of both memories and all links.
        latency_s: of the longest path between packages; 0 within one.
        between: whether no pool uses a memory or link of the other's, for they are on packages of their own.
    """

    site_s: FloatArray
    link_s: FloatArray
    joules: FloatArray
    latency_s: FloatArray
    between: NDArray[np.bool_]


@dataclass(frozen=True)
class ServiceProfile:
    """What the estimator knows of `n` placed designs.

    Attributes:
        serving, batching: as in `Policy`; the same for all designs of the profile.
        pools: by name: `{"serve"}` or `{"prefill", "decode"}`, of an elastic profile also `"prefill+1"` and so on.
        contention: of a disaggregated profile; None for a colocated one.
        max_batch, token_budget: shape (n,).
        cache_bytes: memory for KV and state, watermark already taken off; shape (n,).
        kv_bytes_per_token, state_bytes_per_sequence: shape (n,).
        block_tokens: tokens per KV block; shape (n,).
        handoff_s_per_token, handoff_s_per_sequence: time of the busiest resource of the hand-off path; 0 where it is a
            pointer.
        static_power_w, area_mm2, interposer_mm2: shape (n,).
        scheduling: as in `Policy`.
        max_waiting: requests that may wait, infinite without a limit, shape (n,); None = no design has one.
        violations: one tuple per design; a design with violations has NaN metrics.
        task_map: as in `Policy`.
        roles: of an elastic profile, else None.
        emission: tokens and positions of a decode step; the same for all designs of the profile.
        handoff: of designs whose pools have memories of their own; None where all hand over by pointer.
        engines: batches in flight, each on an engine of its own, shape (n,); None = one.
        row_tiles: by pool that states them, rows of a decode iteration in whose multiples dies work, shape (n,).
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
    task_map: str = "static"
    roles: RoleProfile | None = None
    max_waiting: FloatArray | None = None
    emission: Emission = ONE_TOKEN
    handoff: HandoffLoad | None = None
    engines: FloatArray | None = None
    row_tiles: Mapping[str, FloatArray] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Number of designs."""
        return len(self.max_batch)
