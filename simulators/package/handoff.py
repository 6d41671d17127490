"""The transfer of a request's caches between the memories of two pools: busy seconds of every stack and link."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simulators.iteration import Work
from simulators.package.coefficients import PlacedHardware
from simulators.package.ledger import Ledger, moved_ledger

FloatArray = NDArray[np.float64]


class Handoff:
    """Transfers of a placed design; stacks are read, links carry, other stacks are written, all at the same time.

    Alone, a transfer takes as long as the slowest of them; beside iterations it gets its fair share of each.  Between
    packages it arrives `latency_s` after its last byte has left.

    Args:
        hardware: the design, whose pools have memories of their own.
    """

    def __init__(self, hardware: PlacedHardware) -> None:
        mapped, links = hardware.mapped, hardware.links
        self.hardware = hardware
        everything = range(mapped.component_count)
        self.link_bytes = links.count_bytes(everything, everything, mapped.handoff)
        at = [site.component for site in mapped.sites]
        self.site_bytes = mapped.handoff.sum(axis=1)[at] + mapped.handoff.sum(axis=0)[at]
        bandwidth = np.array([site.bandwidth_bytes_per_s for site in mapped.sites])
        self._per_token, self._per_sequence = mapped.handoff_bytes_per_token, mapped.handoff_bytes_per_sequence
        busy = np.concatenate((self.site_bytes / bandwidth, self.link_bytes / links.capacity_bytes_per_s))
        self._die_groups = sum(group.count > 0 for group in hardware.package.dies)
        self.seconds_per_byte = float(busy.max(initial=0.0))
        self._table = busy[None, :]
        self.latency_s = self._longest_s() if hardware.package.parts else 0.0

    def _longest_s(self) -> float:
        """Latency of the slowest path; on a single package nothing beside the time of a transfer."""
        links = self.hardware.links
        everything = range(self.hardware.mapped.component_count)
        return links.longest_path(everything, everything, self.hardware.mapped.handoff) * links.delay_s

    @property
    def table(self) -> FloatArray:
        """Busy seconds per byte, shape (1, resources)."""
        return self._table

    def keep(self, resources: Sequence[int]) -> None:
        """Leave out all sites and links but these."""
        self._table = np.ascontiguousarray(self._table[:, resources])

    def moved_bytes(self, tokens: int, requests: int = 1) -> float:
        """Bytes that are handed over of requests with so many cached tokens: KV by length, state once each."""
        return tokens * self._per_token + requests * self._per_sequence

    def ledger(self, tokens: int, requests: int) -> Ledger:
        """The ledger of all transfers of so many requests with so many cached tokens in all."""
        moved = self.moved_bytes(tokens, requests)
        return moved_ledger(self.hardware, "hand-off", moved * self.site_bytes, moved * self.link_bytes)

    def __call__(self, tokens: int) -> Work:
        """The transfer of a request with so many cached tokens."""
        seconds = self.moved_bytes(tokens) * self.seconds_per_byte
        if seconds <= 0.0:
            return Work(0.0)
        shares = np.concatenate((np.zeros(self._die_groups), self._table[0] / self.seconds_per_byte))
        return Work(seconds, usage_of=lambda _: shares)
