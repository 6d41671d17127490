"""Packages of one recipe as arrays: which die sits where, who works how much, what flows from which stack.

The same cuts of the unit interval as in `hydra_dse.mapping`, for `n` packages at once.  `A` die groups, `D` dies at
most, `M` memory groups, `Z` stacks at most.  Dies and stacks that a package lacks have no share of anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hydra_dse.hardware.components import Package
from hydra_dse.mapping import LANES, ScanWork, overlaps, scan_speeds

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Parts:
    """Equal components in groups: dies, or stacks.

    Attributes:
        count: of each group, shape (n, groups).
        group: of each component, shape (n, most components); `groups` where there is none.
        slot: of each component, 0 where there is none.
    """

    count: IntArray
    group: IntArray
    slot: IntArray

    @cached_property
    def exists(self) -> BoolArray:
        """Whether a component is there."""
        return np.asarray(self.group < self.count.shape[1])

    def of(self, values: FloatArray) -> FloatArray:
        """Value of each component from that of its group, shape (n, groups); 0 where there is none."""
        wide = np.concatenate([values, np.zeros((len(values), 1))], axis=1)
        return np.asarray(np.take_along_axis(wide, self.group, axis=1))

    def within(self, groups: Sequence[int]) -> BoolArray:
        """Whether a component belongs to one of the groups."""
        chosen = np.zeros(self.count.shape[1] + 1, dtype=bool)
        chosen[list(groups)] = True
        return np.asarray(chosen[self.group])

    @cached_property
    def one_hot(self) -> FloatArray:
        """Shape (n, components, groups): 1 where a component belongs to a group."""
        return np.asarray(self.group[:, :, None] == np.arange(self.count.shape[1]), dtype=np.float64)


def parts_of(count: IntArray, slots: IntArray, first: IntArray) -> Parts:
    """Number components group by group.

    Args:
        count: shape (n, groups).
        slots: of all components of a package, shape (n, components).
        first: index of the first component, shape (n,).
    """
    ends = count.cumsum(axis=1)
    most = int(ends[:, -1].max(initial=1)) if count.shape[1] else 1
    number = np.arange(most)
    group = (number[None, :, None] >= ends[:, None, :]).sum(axis=2)
    at = np.minimum(first[:, None] + number, slots.shape[1] - 1)
    slot = np.where(group < count.shape[1], np.take_along_axis(slots, at, axis=1), 0)
    return Parts(count, group, slot)


@dataclass(frozen=True, eq=False)
class Cut:
    """Shares of `n` packages.

    Attributes:
        dies, stacks: of the packages.
        bandwidth: share of the bandwidth of each stack, shape (n, Z).
        matmul, vector: peaks of a die of each group, FLOP/s, shape (n, A).
        lanes: whether it multiplies on its vector lanes.
    """

    dies: Parts
    stacks: Parts
    bandwidth: FloatArray
    matmul: FloatArray
    vector: FloatArray
    lanes: BoolArray

    def scans(self, groups: Sequence[int], work: ScanWork) -> FloatArray:
        """Share of each die of convolutions and scans that are cut by speed, shape (n, D)."""
        speed = self.dies.of(scan_speeds(work, self.matmul, self.vector, self.lanes))
        return _shares(np.where(self.dies.within(groups), speed, 0.0))

    def work(self, groups: Sequence[int]) -> FloatArray:
        """Share of the work of each die when these die groups work together, shape (n, D)."""
        mine = self.dies.within(groups)
        rate = np.where(mine, self.dies.of(self.matmul), 0.0)
        other = np.where(mine, self.dies.of(self.vector), 0.0)
        rate = np.where(rate.sum(axis=1, keepdims=True) > 0, rate, other)
        rate = np.where(rate.sum(axis=1, keepdims=True) > 0, rate, mine)
        return _shares(rate)

    def fetch(self, work: FloatArray, homes: str) -> FloatArray:
        """Bytes from each stack to each die per byte of an operand that is held once, shape (n, Z, D)."""
        if homes == "interleaved":
            return np.asarray(self.bandwidth[:, :, None] * work[:, None, :])
        return overlaps(self.bandwidth, work)


def cut_of(packages: Sequence[Package], slots: Sequence[tuple[int, ...]]) -> Cut:
    """Return the shares of packages with the same die groups; memory groups are padded to the same number."""
    groups = [[group for group in package.dies if group.count > 0] for package in packages]
    die_count = np.array([[group.count for group in mine] for mine in groups], dtype=np.int64)
    most = max(len(package.memories) for package in packages)
    stack_count = np.zeros((len(packages), most), dtype=np.int64)
    bandwidth = np.zeros((len(packages), most))
    for row, package in enumerate(packages):
        for number, memory in enumerate(package.memories):
            stack_count[row, number] = memory.count
            bandwidth[row, number] = memory.stack.bandwidth_bytes_per_s
    widest = max(len(mine) for mine in slots)
    all_slots = np.array([mine + (0,) * (widest - len(mine)) for mine in slots], dtype=np.int64)
    first = np.zeros(len(packages), dtype=np.int64)
    dies = parts_of(die_count, all_slots, first)
    stacks = parts_of(stack_count, all_slots, die_count.sum(axis=1))
    return Cut(
        dies=dies,
        stacks=stacks,
        bandwidth=_shares(stacks.of(bandwidth)),
        matmul=np.array([[group.chiplet.matmul_flops_per_s for group in mine] for mine in groups]),
        vector=np.array([[group.chiplet.vector_flops_per_s for group in mine] for mine in groups]),
        lanes=np.array([[group.chiplet.style == LANES for group in mine] for mine in groups]),
    )


def _shares(amount: FloatArray) -> FloatArray:
    total = amount.cumsum(axis=1)[:, -1:]
    return np.asarray(amount / np.where(total > 0, total, 1.0))
