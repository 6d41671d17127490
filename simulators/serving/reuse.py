"""What requests take from the prefix cache and leave in it, from admission to their end.

At admission a request takes the longest reusable prefix; what of it lies on the host comes over the link, one transfer
after the other, before its prefill starts.  When its prefill ends it passes the units of its prompt on, and when it
ends those of its output, where their ids are known.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

from hydra_dse.workload.nouns import Requests
from simulators.clock import at
from simulators.serving.prefix import MISS, Hit, PrefixCache, PrefixShape
from simulators.serving.sequence import Sequence

if TYPE_CHECKING:
    from hydra_dse.policy import Policy
    from simulators.serving.memory import CacheShape
    from simulators.serving.server import Server

NEVER = float("inf")


def prefix_cache_of(policy: Policy, cache: CacheShape, requests: Requests) -> PrefixCache | None:
    """The prefix cache of a policy; None where it has none, or the requests do not say what they share."""
    if not policy.prefix_cache or requests.blocks is None or requests.block_tokens <= 0:
        return None
    sizes = (cache.kv_bytes_per_token, cache.state_bytes_per_sequence)
    return PrefixCache(PrefixShape.of(policy, requests.block_tokens, *sizes))


class Reuse:
    """The dealings of a server's requests with its prefix cache; without one, with its memory alone."""

    def __init__(self, server: Server, requests: Requests) -> None:
        self._server = server
        self._memory = server.memory
        self._prefix = server.memory.prefix
        self._blocks = requests.blocks if self._prefix is not None else None
        self._link_free_s = 0.0
        self._loads: list[float] = []

    @property
    def next_load_s(self) -> float:
        """When the next transfer from the host ends."""
        return self._loads[0] if self._loads else NEVER

    def enter(self, sequence: Sequence) -> None:
        """Give an arriving request the ids of its units."""
        if self._prefix is not None and self._blocks is not None:
            sequence.path = self._prefix.shape.path(self._blocks[sequence.drawn])

    def hit(self, sequence: Sequence) -> Hit:
        """What a waiting request would find now."""
        if self._prefix is None or sequence.path is None:
            return MISS
        return self._prefix.match(sequence.path, sequence.target)

    def to_compute(self, sequence: Sequence) -> int:
        """Prompt tokens of a waiting request that would not be found now."""
        units = self.hit(sequence).units
        return sequence.target - (units * self._prefix.shape.unit_tokens if self._prefix is not None else 0)

    def admit(self, sequence: Sequence) -> None:
        """Give a request its memory; it starts behind the prefix that it found."""
        now = self._server.env.now
        hit = self.hit(sequence)
        (self._server.source or self._memory).admit(sequence.target, now, sequence.path, hit.units)
        sequence.ready_s = now
        if self._prefix is None:
            return
        sequence.units = hit.units
        sequence.done = hit.units * self._prefix.shape.unit_tokens
        if math.isnan(sequence.scheduled_s):
            sequence.cached = sequence.done
        if hit.host_bytes > 0.0:
            self._load(sequence, hit.host_bytes)

    def _load(self, sequence: Sequence, size_bytes: float) -> None:
        env, shape = self._server.env, self._prefix.shape if self._prefix is not None else None
        seconds = size_bytes / shape.host_bytes_per_s if shape is not None else 0.0
        self._link_free_s = max(self._link_free_s, env.now) + seconds
        sequence.ready_s = self._link_free_s
        heapq.heappush(self._loads, self._link_free_s)
        at(env, self._link_free_s).callbacks.append(lambda _: self._loaded())

    def _loaded(self) -> None:
        heapq.heappop(self._loads)
        self._server.wake(prompts_only=True)

    def computed(self, sequence: Sequence) -> None:
        """Pass on the units that a request has computed."""
        if self._prefix is None or sequence.path is None:
            return
        units = min(len(sequence.path), sequence.target // self._prefix.shape.unit_tokens)
        if units > sequence.units:
            self._memory.share(sequence.path, sequence.units, units, self._server.env.now)
            sequence.units = units

    def release(self, sequence: Sequence) -> None:
        """Take back the memory of a request that ends or is preempted."""
        memory = self._memory if sequence.arrived else self._server.source or self._memory
        memory.release(sequence.target, self._server.env.now, sequence.path, sequence.units)
        sequence.units = 0

    def held_bytes(self, sequence: Sequence, tokens: int) -> float:
        """Memory in use that a request with so many tokens would give back: what nobody else reads."""
        shape = self._memory.shape
        if self._prefix is None or sequence.path is None:
            return shape.bytes_of(tokens)
        others = self._prefix.read_by_others(sequence.path, sequence.units)
        return shape.bytes_of(tokens) - others * self._prefix.shape.blocks_per_unit * shape.block_bytes
