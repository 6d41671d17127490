"""Layouts of pipelines: those that contradict themselves, and the one whose most loaded chip is loaded least.

A layout says how many layers each chip of a pipeline holds.  It contradicts itself where it has not one entry for each
chip, or where its layers do not add up to the model's.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from hydra_dse.bench.record import Profile


@dataclass(frozen=True)
class Contradiction:
    """A plan that cannot be run as written, and every reason."""

    name: str
    line: int | None
    reasons: tuple[str, ...]


def contradictions(layers: int | None, chips: int, layout: Sequence[int]) -> tuple[str, ...]:
    """Return what is wrong with a layout; empty where nothing is."""
    reasons = []
    if len(layout) != chips:
        reasons.append(f"{len(layout)} entries for {chips} chips")
    if layers is not None and sum(layout) != layers:
        reasons.append(f"{sum(layout)} layers placed, the model has {layers}")
    return tuple(reasons)


def check_layouts(profiles: Sequence[Profile]) -> list[Contradiction]:
    """Return the plans that contradict themselves, reading only layers, chips of a pipeline, and layout."""
    found = []
    for profile in profiles:
        if not profile.layout:
            continue
        chips = profile.chips // (profile.replicas or 1)
        reasons = contradictions(profile.model.layers, chips, profile.layout)
        if reasons:
            found.append(Contradiction(profile.name, profile.line, reasons))
    return found


@dataclass(frozen=True)
class Partition:
    """Items of a pipeline cut into contiguous runs, one a chip.

    Attributes:
        counts: items on each chip, in order.
        heaviest: load of the most loaded chip.
        loads: of each chip.
    """

    counts: tuple[int, ...]
    heaviest: float
    loads: tuple[float, ...]


def best_partition(
    loads: Sequence[float],
    chips: int,
    sizes: Sequence[float] | None = None,
    capacity: float = math.inf,
    first: float = 0.0,
) -> Partition | None:
    """Return the contiguous partition with the least heaviest load, None where no partition fits the memory.

    Exact: over all items and chips the least heaviest load of a prefix on k chips follows from that on k − 1.  With a
    later cut the prefix grows heavier and the last chip lighter, so the best cut lies where the two cross.  Chips may
    stay empty, the last ones where there are more chips than items.

    Args:
        loads: time of each item (embedding, layers, head), in order.
        chips: of the pipeline.
        sizes: bytes of each item.
        capacity: bytes of one chip.
        first: load that the first chip bears besides (an embedding and a head that share weights).
    """
    count, spare = len(loads), max(chips - len(loads) - 1, 0)
    work = [0.0, *accumulate(loads)]
    stored = [0.0, *accumulate(sizes or [0.0] * count)]
    best = [_cost(work, stored, 0, end, capacity) + first for end in range(count + 1)]
    cuts: list[list[int]] = []
    for _ in range(1, chips - spare):
        row, cut = [math.inf] * (count + 1), [0] * (count + 1)
        for end in range(count + 1):
            cross = _crossing(best, work, stored, end, capacity)
            for start in range(max(cross - 1, 0), min(cross, end) + 1):
                heaviest = max(best[start], _cost(work, stored, start, end, capacity))
                if heaviest < row[end]:
                    row[end], cut[end] = heaviest, start
        best = row
        cuts.append(cut)
    if math.isinf(best[count]):
        return None
    ends = [count]
    for cut in reversed(cuts):
        ends.append(cut[ends[-1]])
    edges = [0, *reversed(ends)]
    counts = tuple(end - start for start, end in pairwise(edges))
    sums = [work[end] - work[start] for start, end in pairwise(edges)]
    return Partition((*counts, *(0,) * spare), best[count], (sums[0] + first, *sums[1:], *(0.0,) * spare))


def _crossing(best: Sequence[float], work: Sequence[float], stored: Sequence[float], end: int, capacity: float) -> int:
    """First cut at which the prefix is as heavy as the last chip."""
    return bisect_left(range(end + 1), True, key=lambda start: best[start] >= _cost(work, stored, start, end, capacity))


def _cost(work: Sequence[float], stored: Sequence[float], start: int, end: int, capacity: float) -> float:
    fits = stored[end] - stored[start] <= capacity * (1 + 1e-12)
    return work[end] - work[start] if fits else math.inf


def pipeline_rate(micro_batches: int, micro_batch: float, loads: Sequence[float], fixed_s: float = 0.0) -> float:
    """Samples per second of a pipeline: `m·b / ((m + p − 1)·max t + c)`.

    Args:
        micro_batches: of a step.
        micro_batch: samples of each.
        loads: seconds that each chip spends on a micro batch.
        fixed_s: cost of a step besides.
    """
    return micro_batches * micro_batch / ((micro_batches + len(loads) - 1) * max(loads) + fixed_s)
