"""Communication: how much, how fast, how much of it shows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hydra_dse.bundle import conventions as words
from hydra_dse.bundle.metrics.intervals import Union, touching, union
from hydra_dse.bundle.metrics.measured import Measured, RankTimes, mean, share
from hydra_dse.bundle.metrics.registry import Unavailable
from hydra_dse.bundle.reading.nouns import COLLECTIVES, FloatArray

NO_COMMUNICATION = "no communication kernel"
GIB = float(2**30)

FACTORS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "allreduce": lambda n: 2 * (n - 1) / n,
    "allgather": lambda n: (n - 1) / n,
    "reducescatter": lambda n: (n - 1) / n,
    "alltoall": lambda n: (n - 1) / n,
    "broadcast": np.ones_like,
    "sendrecv": np.ones_like,
}
"""Bytes over a device's port per byte of the message, in ranks n of the group (nccl-tests, PERFORMANCE.md)."""


def _durations(rank: RankTimes) -> tuple[float, float]:
    """Summed µs of communication and of all kernels."""
    duration = rank.trace.kernels.duration
    return float(np.sum(duration[rank.communicates])), float(np.sum(duration))


def fraction(bundle: Measured) -> float:
    """Mean over ranks and inner training steps of summed communication over summed kernel time."""
    shares = []
    for rank in bundle.with_kernels("json"):
        steps = rank.trace.steps.get(words.TRAINING_STEP)
        if steps is None:
            communication, total = _durations(rank)
            shares += [100.0 * communication / total] if total > 0 else []
            continue
        kernels, inner = rank.trace.kernels, steps.inner
        windows = inner.start, inner.start + inner.duration
        total_of = touching(kernels.start, kernels.end, kernels.duration, *windows)
        weight = np.where(rank.communicates, kernels.duration, 0.0)
        part_of = touching(kernels.start, kernels.end, weight, *windows)
        there = total_of > 0
        if there.any():
            shares.append(float(np.mean(100.0 * part_of[there] / total_of[there])))
    return mean(shares, "no kernel runs within the steps")


def ratio(bundle: Measured, kind: str) -> float:
    """Summed communication over summed kernel time of all ranks."""
    sums = [_durations(rank) for rank in bundle.with_kernels(kind)]
    return 100.0 * share(sum(part for part, _ in sums), sum(total for _, total in sums), "kernels have no duration")


def total_time_s(bundle: Measured) -> float:
    """Union of communication within the inner training steps per step, else of the whole trace; mean over ranks."""
    found = []
    for rank in bundle.with_kernels("json"):
        steps, length = rank.trace.steps.get(words.TRAINING_STEP), rank.communication.length
        if steps is not None:
            inner = steps.inner
            if len(steps) > 2:
                last = inner.start[-1:] + inner.duration[-1:]
                length = float(rank.communication.within(inner.start[:1], last)[0])
            length /= len(inner)
        found.append(length / 1e6)
    return mean(found, NO_COMMUNICATION)


def nsys_total_time_s(bundle: Measured) -> float:
    """Summed communication time of all devices over the whole trace."""
    return sum(_durations(rank)[0] for rank in bundle.with_kernels("nsys")) / 1e6


def overlap_percent(bundle: Measured) -> float:
    """Communication during which something is computed over all communication, in the inner steps; mean over ranks."""
    shares = []
    for rank in bundle.with_kernels("json"):
        if rank.steps is None:
            continue
        inner = rank.steps[1].inner
        windows = inner.start, inner.start + inner.duration
        total = float(np.sum(rank.communication.within(*windows)))
        if total > 0:
            shares.append(100.0 * float(np.sum(rank.overlap.within(*windows))) / total)
    return mean(shares, "step markers missing, or no communication kernel within the steps")


def nsys_overlap_percent(bundle: Measured) -> float:
    """The same over the whole trace, devices added up."""
    ranks = bundle.with_kernels("nsys")
    total = sum(rank.communication.length for rank in ranks)
    return 100.0 * share(sum(rank.overlap.length for rank in ranks), total, NO_COMMUNICATION)


def overlap_ratio(bundle: Measured, kind: str) -> float:
    """Overlap over communication of the whole trace, mean over ranks; 0 to 1."""
    ranks = [rank for rank in bundle.with_kernels(kind) if rank.communication.length > 0]
    return mean([rank.overlap.length / rank.communication.length for rank in ranks], NO_COMMUNICATION)


def straggler(bundle: Measured) -> float:
    """(longest − shortest) / longest of the ranks' summed time in NCCL kernels."""
    times = _nccl_times(bundle)
    return (max(times) - min(times)) / max(times)


def slowdown(bundle: Measured) -> float:
    """Longest over shortest of the ranks' summed time in NCCL kernels."""
    times = _nccl_times(bundle)
    return share(max(times), min(times), "a rank has no NCCL kernel")


def _nccl_times(bundle: Measured) -> list[float]:
    times = []
    for rank in bundle.with_kernels("json"):
        kernels, names = rank.trace.kernels, rank.trace.names
        mine = names.where(kernels.name, lambda text: text.startswith(("ncclDevKernel_", "ncclKernel_")))
        times.append(float(np.sum(kernels.duration[mine])))
    if len(times) < 2 or max(times) <= 0:
        raise Unavailable("needs two ranks with NCCL kernels")
    return times


def calls(bundle: Measured) -> float:
    """NCCL kernels of the first rank."""
    rank = bundle.with_kernels("json")[0]
    mine = rank.trace.names.where(
        rank.trace.kernels.name, lambda text: text.startswith(("ncclDevKernel_", "ncclKernel_"))
    )
    return float(np.sum(mine))


def overhead(bundle: Measured) -> float:
    """Summed communication over summed kernel time of the first rank; 0 to 1."""
    part, total = _durations(bundle.with_kernels("json")[0])
    return share(part, total, "kernels have no duration")


def collective_gib_per_s(bundle: Measured, kind: str) -> float:
    """Median of bytes · factor / duration of the first rank that has such calls, bytes by "In msg nelems", in GiB/s.

    The original's number: of an AllGather it counts the shard that a rank puts in, n times less than the message.
    """
    for rank in bundle.with_kernels("json"):
        rows = rank.trace.collectives
        group = rows.group
        chosen = (rows.kind == COLLECTIVES.index(kind)) & (rows.in_bytes > 0) & (rows.duration > 0) & (group > 0)
        if chosen.any():
            port = rows.in_bytes[chosen] * FACTORS[kind](group[chosen])
            return float(np.median(port / rows.duration[chosen] * 1e6)) / GIB
    raise Unavailable(f"no {kind} kernel with 'In msg nelems', 'dtype' and 'Group size'")


def bus_gb_per_s(bundle: Measured, kind: str) -> float:
    """Median over all ranks of the bytes over a device's port per second, in GB/s (bus bandwidth of nccl-tests).

    The message of an AllGather is what comes out: "Out msg nelems", else n times what a rank puts in.
    """
    found = []
    for rank in bundle.with_kernels("json"):
        rows, group = rank.trace.collectives, rank.trace.collectives.group
        message = rows.in_bytes
        if kind == "allgather":
            message = np.where(rows.out_bytes > 0, rows.out_bytes, rows.in_bytes * group)
        needed = (group > 0) if kind not in ("broadcast", "sendrecv") else np.ones(len(rows), dtype=bool)
        chosen = (rows.kind == COLLECTIVES.index(kind)) & (message > 0) & (rows.duration > 0) & needed
        found.append(message[chosen] * FACTORS[kind](group[chosen]) / rows.duration[chosen] / 1e3)
    speeds = np.concatenate(found)
    if not len(speeds):
        raise Unavailable(f"no {kind} kernel that says its message, type and group")
    return float(np.median(speeds))


def volume_gb(bundle: Measured, kinds: tuple[str, ...]) -> float:
    """Bytes put in by the first rank over the whole trace, in GB, no algorithm factor."""
    rows = bundle.with_kernels("json")[0].trace.collectives
    chosen = np.isin(rows.kind, [COLLECTIVES.index(kind) for kind in kinds])
    if not len(rows):
        raise Unavailable("the first rank has no collective kernels")
    if not (rows.in_bytes[chosen] >= 0).any() and chosen.any():
        raise Unavailable("no collective says 'In msg nelems' and a known 'dtype'")
    return float(np.nansum(rows.in_bytes[chosen])) / 1e9


def ring_utilization(bundle: Measured) -> float:
    """Mean over AllReduces of the first rank of S (n − 1) / n over duration · 100 GB/s, as the original has it."""
    rows = bundle.with_kernels("json")[0].trace.collectives
    group = rows.group
    chosen = (rows.kind == COLLECTIVES.index("allreduce")) & (rows.in_bytes > 0) & (rows.duration > 0) & (group > 0)
    if not chosen.any():
        raise Unavailable("no allreduce kernel with 'In msg nelems', 'dtype' and 'Group size'")
    share_of = rows.in_bytes[chosen] * (group[chosen] - 1) / group[chosen] / 100e9
    return float(np.mean(share_of / (rows.duration[chosen] / 1e6)))


def exposed_s(bundle: Measured) -> float:
    """Communication during which nothing is computed, per inner step; mean over ranks."""
    return mean([exposed for exposed, _ in _exposed(bundle)], NO_COMMUNICATION)


def exposed_share(bundle: Measured) -> float:
    """The same over the step time."""
    rows = _exposed(bundle)
    return share(sum(exposed for exposed, _ in rows), sum(step for _, step in rows), "steps have no duration")


def _exposed(bundle: Measured) -> list[tuple[float, float]]:
    """Exposed communication and length of a step in seconds, by rank; without markers the whole trace is one step."""
    rows = []
    for rank in bundle.with_kernels("json"):
        if rank.steps is None:
            whole = union(rank.trace.kernels.start.min(keepdims=True), rank.trace.kernels.end.max(keepdims=True))
            rows.append(((rank.communication.length - rank.overlap.length) / 1e6, whole.length / 1e6))
            continue
        inner = rank.steps[1].inner
        windows = inner.start, inner.start + inner.duration
        hidden = rank.overlap.within(*windows)
        exposed = float(np.mean(rank.communication.within(*windows) - hidden))
        rows.append((exposed / 1e6, float(np.mean(inner.duration)) / 1e6))
    return rows


def exposed_by_kind(bundle: Measured) -> dict[str, float]:
    """Exposed communication of each collective per inner step, the first rank: what no compute covers.

    Collectives that run at the same time are both counted, so that the parts may add up to more than the whole.
    """
    rank = bundle.with_kernels("json")[0]
    kernels = rank.trace.kernels
    kinds = np.where(rank.communicates & (rank.trace.kinds < 0), COLLECTIVES.index("other"), rank.trace.kinds)
    found: dict[str, float] = {}
    for code, kind in enumerate(COLLECTIVES):
        wanted = rank.communicates & (kinds == code)
        if wanted.any():
            mine = union(kernels.start[wanted], kernels.end[wanted])
            found[kind] = _per_step(rank, mine) - _per_step(rank, mine.intersect(rank.compute))
    if not found:
        raise Unavailable(NO_COMMUNICATION)
    return found


def _per_step(rank: RankTimes, chosen: Union) -> float:
    if rank.steps is None:
        return chosen.length / 1e6
    inner = rank.steps[1].inner
    return float(np.mean(chosen.within(inner.start, inner.start + inner.duration))) / 1e6
