"""Shares of work and homes of operands: the unit interval cut among dies and among memory sites.

Die `i` owns an interval as long as its share of the work, site `j` one as long as its share of the bandwidth.
A byte flows from `j` to `i` where the two overlap ("aligned"), or in proportion to both ("interleaved").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hydra_dse.hardware.components import Chiplet, DieGroup, Package
from hydra_dse.mapping.nouns import MemorySite

FloatArray = NDArray[np.float64]

_ROUNDING = 1e-13


def memory_sites(package: Package) -> tuple[MemorySite, ...]:
    """Return the stacks of a package in component order, then the memory fixed to its dies."""
    sites: list[MemorySite] = []
    component = package.die_count
    for group in package.memories:
        for number in range(group.count):
            stack = group.stack
            name = f"{group.name}[{number}]"
            sites.append(
                MemorySite(
                    component + number,
                    name,
                    stack.capacity_bytes,
                    stack.bandwidth_bytes_per_s,
                    stack.joules_per_byte,
                    stack.peak_bandwidth_bytes_per_s or stack.bandwidth_bytes_per_s,
                    stack.ports,
                )
            )
        component += group.count
    return (*sites, *_die_sites(package))


def _die_sites(package: Package) -> list[MemorySite]:
    sites, component = [], 0
    for group in package.dies:
        for number in range(group.count):
            die = group.chiplet
            if die.memory_bytes > 0 and die.memory_bandwidth_bytes_per_s > 0:
                name = f"{group.name}[{number}].memory"
                bandwidth = die.memory_bandwidth_bytes_per_s
                energy = die.joules_per_memory_byte
                sites.append(MemorySite(component + number, name, die.memory_bytes, bandwidth, energy, bandwidth))
        component += group.count
    return sites


def bandwidth_shares(sites: Sequence[MemorySite]) -> FloatArray:
    """Each site's share of the bandwidth of all: its share of every operand."""
    bandwidth = np.array([site.bandwidth_bytes_per_s for site in sites], dtype=np.float64)
    total = bandwidth.cumsum()[-1] if len(bandwidth) else 0.0  # in order, as for many packages at once
    return bandwidth / total if total > 0 else bandwidth


def work_shares(chiplets: Sequence[Chiplet]) -> FloatArray:
    """Each die's share of the work: its matrix peak over that of all (its vector peak where none multiplies)."""
    return shares_by_peak([(die.matmul_flops_per_s, die.vector_flops_per_s) for die in chiplets])


def shares_by_peak(peaks: Sequence[tuple[float, float]]) -> FloatArray:
    """`work_shares` of dies with these matrix and vector peaks, in one unit."""
    rate = np.array([matrix for matrix, _ in peaks], dtype=np.float64)
    if not rate.sum() > 0:
        rate = np.array([vector for _, vector in peaks], dtype=np.float64)
    if not rate.sum() > 0:
        rate = np.ones(len(peaks))
    return np.asarray(rate / rate.cumsum()[-1])


def nominal_peaks(groups: Sequence[DieGroup]) -> dict[str, tuple[float, float]]:
    """Matrix and vector peak of a die of each group relative to the fastest of all, rounded to half octaves.

    Links displace compute on dies of every type in about the same ratio, so that this hardly depends on bandwidth.
    """
    matrix = _half_octaves(tuple([group.chiplet.matmul_flops_per_s for group in groups]))
    vector = _half_octaves(tuple([group.chiplet.vector_flops_per_s for group in groups]))
    return {group.name: peaks for group, peaks in zip(groups, zip(matrix, vector, strict=True), strict=True)}


@lru_cache(maxsize=4096)
def _half_octaves(peaks: tuple[float, ...]) -> tuple[float, ...]:
    most = max(peaks, default=0.0)
    return tuple(2.0 ** (round(2.0 * math.log2(peak / most)) / 2.0) if peak > 0 else 0.0 for peak in peaks)


def overlaps(rows: FloatArray, columns: FloatArray) -> FloatArray:
    """Overlap of two cuts of the unit interval, shapes (..., rows), (..., columns) to (..., rows, columns); sums to 1.

    What is less than rounding leaves of a sum is none: it would stand for a path that no byte takes.
    """
    row_ends, column_ends = rows.cumsum(axis=-1), columns.cumsum(axis=-1)
    low = np.maximum((row_ends - rows)[..., :, None], (column_ends - columns)[..., None, :])
    width = np.minimum(row_ends[..., :, None], column_ends[..., None, :]) - low
    return np.where(width > _ROUNDING, width, 0.0)


def fetch_matrix(site_share: FloatArray, work_share: FloatArray, homes: str) -> FloatArray:
    """Bytes that flow from each site to each die per byte of an operand that is held once; sums to 1."""
    if homes == "interleaved":
        return np.outer(site_share, work_share)
    return overlaps(site_share, work_share)


@lru_cache(maxsize=4096)
def imbalance(units: int, shares: tuple[float, ...]) -> float:
    """Work of the most loaded die over its fair share when `units` equal, indivisible units are dealt out.

    The least `x ≥ 1` with `Σ_i floor(x·units·share_i) ≥ units`; for equal shares over `d` dies this is
    `ceil(units/d)·d/units`.
    """
    if units <= 0 or len(shares) < 2:
        return 1.0
    if sum(_whole(units * share) for share in shares) >= units:
        return 1.0
    fair = [units * share for share in shares if share > 0]
    steps = sorted({count / amount for amount in fair for count in range(1, units + 1) if count >= amount})
    low, high = 0, len(steps) - 1
    while low < high:
        middle = (low + high) // 2
        if sum(_whole(steps[middle] * amount) for amount in fair) >= units:
            high = middle
        else:
            low = middle + 1
    return steps[low]


def _whole(amount: float) -> int:
    # A share such as 1/3 of 24 heads must count as 8, not as 7.999…
    return int(amount + 1e-9)
