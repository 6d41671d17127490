"""Hits of a prefix cache as a function of its capacity: reuse distances of recorded requests.

A cache of capacity `C` in which every request makes all units of its path the most recent ones, the first of them
last, holds the most recent entries that fit into `C` (Mattson et al. 1970, with bytes in place of pages).  The
distance of a unit is the size of all entries used since its own last use, its own path up to it included; the unit is
found where `distance ≤ C`.  Distances never fall along a path, so that what is found is a prefix.

A unit is the least common multiple of a KV block and a prefix block; its entries are its KV and, where one is due, a
checkpoint of the state behind it.  A model with state reuses up to its last checkpoint within what is found.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hydra_dse.policy import Policy
from hydra_dse.workload.nouns import Requests
from hydra_dse.workload.replay import digest

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Sizes:
    """What a prefix cache holds.

    Attributes:
        unit_tokens: tokens of a unit; ids: prefix blocks of a unit.
        kv_bytes: of a unit; state_bytes: of a checkpoint; both 0 for a model without.
        every: units between checkpoints, 0 = none.
    """

    unit_tokens: int
    ids: int
    kv_bytes: float
    state_bytes: float
    every: int

    @property
    def useless(self) -> bool:
        """Whether nothing can ever be reused: state without checkpoints."""
        return self.state_bytes > 0.0 and self.every == 0

    def usable(self, units: FloatArray | IntArray) -> NDArray[np.int64]:
        """Of so many units found, those that a request can reuse."""
        whole = np.asarray(units, dtype=np.int64)
        if self.state_bytes <= 0.0:
            return whole
        return whole - whole % self.every if self.every else np.zeros_like(whole)

    def bytes_of(self, units: IntArray) -> tuple[FloatArray, FloatArray]:
        """KV and checkpoints of the first `units` units of a path."""
        states = units // self.every if self.every and self.state_bytes > 0.0 else np.zeros_like(units)
        return np.asarray(units * self.kv_bytes), np.asarray(states * self.state_bytes)


def sizes_of(policy: Policy, id_tokens: int, kv_bytes_per_token: float, state_bytes: float) -> Sizes:
    """Units and their sizes under a policy."""
    unit = math.lcm(policy.block_tokens, id_tokens)
    every = -(-policy.state_checkpoint_tokens // unit)
    return Sizes(unit, unit // id_tokens, unit * kv_bytes_per_token, state_bytes, every)


@dataclass(frozen=True)
class Distances:
    """Reuse distances of recorded requests, ascending within a request.

    Attributes:
        request: that each usable point belongs to.
        distance: capacity in bytes from which it is found.
        gain: tokens that it adds to what the request reuses.
        prompt_tokens: of all requests.
    """

    request: IntArray
    distance: FloatArray
    gain: IntArray
    prompt_tokens: IntArray

    def found(self, capacity_bytes: float) -> IntArray:
        """Tokens that each request reuses."""
        near = self.distance <= capacity_bytes
        gained = np.bincount(self.request[near], self.gain[near], len(self.prompt_tokens))
        return np.asarray(np.rint(gained), dtype=np.int64)

    def share(self, capacity_bytes: float) -> float:
        """Tokens reused over all prompt tokens."""
        return float(self.gain[self.distance <= capacity_bytes].sum() / self.prompt_tokens.sum())


@dataclass(frozen=True)
class _Key:
    """Requests by the content that distances depend on."""

    requests: Requests = field(compare=False, repr=False)
    sizes: Sizes
    name: str


def distances_of(requests: Requests, sizes: Sizes) -> Distances:
    """Distances of requests in their order; kept, as the designs of a sweep ask for the same ones."""
    lengths = np.array([len(ids) for ids in requests.blocks or ()], dtype=np.int64)
    flat = [np.asarray(ids, dtype=np.int64) for ids in requests.blocks or ()]
    name = digest(requests.prompt_tokens, lengths, *flat[:: max(len(flat) // 1000, 1)])
    return _distances(_Key(requests, sizes, name))


@lru_cache(maxsize=8)
def _distances(key: _Key) -> Distances:
    requests, sizes = key.requests, key.sizes
    paths = _paths(requests, sizes)
    stack = _Stack(len(paths), sum(len(path) for path in paths))
    rows: list[IntArray] = []
    near: list[FloatArray] = []
    gains: list[IntArray] = []
    for number, (path, prompt) in enumerate(zip(paths, requests.prompt_tokens.tolist(), strict=True)):
        weight = _weights(len(path), sizes)
        distance = stack.use(number, path, weight)
        limit = min(len(distance), (prompt - 1) // sizes.unit_tokens)
        points = np.arange(1, limit + 1)
        points = points[sizes.usable(points) == points]
        if len(points):
            rows.append(np.full(len(points), number))
            near.append(distance[points - 1])
            gains.append(np.diff(points, prepend=0) * sizes.unit_tokens)
    none = np.zeros(0, dtype=np.int64)
    return Distances(
        np.concatenate(rows) if rows else none,
        np.concatenate(near) if near else np.zeros(0),
        np.concatenate(gains) if gains else none,
        requests.prompt_tokens,
    )


def _paths(requests: Requests, sizes: Sizes) -> list[IntArray]:
    """Units of each request, numbered from 0; a unit is named by its last prefix block."""
    each = [np.asarray(ids, dtype=np.int64)[sizes.ids - 1 :: sizes.ids] for ids in requests.blocks or ()]
    _, number = np.unique(np.concatenate(each) if each else np.zeros(0, dtype=np.int64), return_inverse=True)
    return np.split(np.asarray(number, dtype=np.int64), np.cumsum([len(ids) for ids in each])[:-1])


def _weights(units: int, sizes: Sizes) -> FloatArray:
    weight = np.full(units, sizes.kv_bytes)
    if sizes.every and sizes.state_bytes > 0.0:
        weight[sizes.every - 1 :: sizes.every] += sizes.state_bytes
    return weight


class _Stack:
    """Entries by the request that used them last; sizes summed in a Fenwick tree over requests."""

    def __init__(self, requests: int, units: int) -> None:
        self._last = np.full(units, -1, dtype=np.int64)
        self._tree = [0.0] * (requests + 1)
        self._total = 0.0

    def use(self, number: int, path: IntArray, weight: FloatArray) -> FloatArray:
        """Distances of the units of a path that were used before; all of it is then used by request `number`."""
        last = self._last[path]
        unknown = np.flatnonzero(last < 0)
        known = int(unknown[0]) if len(unknown) else len(path)
        # An id that was used later than the one before it names no longer prefix: take the earlier use.
        since = np.minimum.accumulate(last[:known])
        within = np.cumsum(weight[:known])
        distance = np.empty(known)
        starts = np.flatnonzero(np.diff(since, prepend=-2)).tolist() if known else []
        for start, stop in itertools.pairwise([*starts, known]):
            before = within[start - 1] if start else 0.0
            later = self._total - self._upto(int(since[start]))
            distance[start:stop] = later + within[start:stop] - before
        held = last >= 0
        for use in np.unique(last[held]).tolist():
            self._add(use, -float(weight[last == use].sum()))
        self._add(number, float(weight.sum()))
        self._last[path] = number
        return distance

    def _add(self, request: int, size: float) -> None:
        self._total += size
        index = request + 1
        while index < len(self._tree):
            self._tree[index] += size
            index += index & -index

    def _upto(self, request: int) -> float:
        """Size of all entries whose last use was by this request or an earlier one."""
        index, total = request + 1, 0.0
        while index > 0:
            total += self._tree[index]
            index -= index & -index
        return total
