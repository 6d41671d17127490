"""Metrics of TPU profiler traces: XLA operations by `hlo_category` and by name."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from hydra_dse.bundle.metrics.communication import FACTORS, GIB
from hydra_dse.bundle.metrics.intervals import union
from hydra_dse.bundle.metrics.measured import Measured, mean, share
from hydra_dse.bundle.metrics.registry import Unavailable
from hydra_dse.bundle.metrics.steps import tpu_wall_s
from hydra_dse.bundle.reading import TpuTrace
from hydra_dse.bundle.reading.nouns import FloatArray

CATEGORY = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "reducescatter": "reduce-scatter",
    "alltoall": "all-to-all",
}
_OPERATIONS = frozenset(
    (
        *("all-reduce", "allreduce", "all_reduce", "all-gather", "allgather", "all_gather", "all-to-all", "alltoall"),
        *("reduce-scatter", "reducescatter", "reduce_scatter", "send", "recv", "broadcast"),
        *("collective-permute", "collective-permute-start", "collective-permute-done"),
    )
)
_COMMUNICATION = re.compile(
    r"nccl|all[_-]?reduce|all[_-]?gather|reduce[_-]?scatter|all[_-]?to[_-]?all|cross[_-]?device|sendrecv|collective",
    re.IGNORECASE,
)
_COMPUTE = re.compile(r"dot|convolution|gemm|matmul|fusion|compute|custom-call", re.IGNORECASE)
_COPY = re.compile(r"copy-(start|done)(?:\.(\d+))?$")
_ALLREDUCE = re.compile(r"all[_-]?reduce", re.IGNORECASE)
NO_COMMUNICATION = "no collective operation in the trace"


def _communicates(trace: TpuTrace) -> NDArray[np.bool_]:
    return trace.names.where(trace.name, lambda text: _COMMUNICATION.search(text) is not None)


def _computes(trace: TpuTrace) -> NDArray[np.bool_]:
    compute = trace.names.where(trace.name, lambda text: _COMPUTE.search(text) is not None)
    return compute & ~_communicates(trace)


def _operations(trace: TpuTrace) -> NDArray[np.bool_]:
    named = trace.names.where(trace.name, lambda text: text.lower() in _OPERATIONS)
    return named | trace.names.where(trace.category, lambda text: text.lower() in _OPERATIONS)


def fraction(bundle: Measured) -> float:
    """Mean over devices of the time of collective operations over the time of all events."""
    trace, collective = bundle.tpu, _operations(bundle.tpu)
    shares = []
    for device in np.unique(trace.device).tolist():
        mine = trace.device == device
        total = float(np.sum(trace.busy_s[mine]))
        if total > 0:
            shares.append(100.0 * float(np.sum(trace.busy_s[mine & collective])) / total)
    return mean(shares, "no device event has a duration")


def ratio(bundle: Measured) -> float:
    """The same of all devices together."""
    trace = bundle.tpu
    part = float(np.sum(trace.busy_s[_operations(trace)]))
    return 100.0 * share(part, float(np.sum(trace.busy_s)), "no device event has a duration")


def total_time_s(bundle: Measured) -> float:
    """Summed communication of all chips per iteration of the card."""
    rounds = bundle.number_or(1.0, "workload", "model", "iteration")
    return share(communication_s(bundle), rounds, "the card's iteration is not positive")


def overlap_percent(bundle: Measured) -> float:
    """Communication during which an operation computes, in the inner steps, over all communication there."""
    trace = bundle.tpu
    inner = trace.steps.inner
    if not len(inner):
        raise Unavailable("no engine steps and no StepMarker in the trace")
    end = trace.start + trace.duration
    talks, works = _communicates(trace), _computes(trace)
    talking, working = union(trace.start[talks], end[talks]), union(trace.start[works], end[works])
    windows = inner.start, inner.start + inner.duration
    total = float(np.sum(talking.within(*windows)))
    both = float(np.sum(talking.intersect(working).within(*windows)))
    return 100.0 * share(both, total, "no communication within the steps")


def volume_gb(bundle: Measured, kinds: tuple[str, ...]) -> float:
    """Summed `bytes_accessed` of the collectives of all chips, in GB."""
    trace = bundle.tpu
    mine = trace.of_categories(*(CATEGORY[kind] for kind in kinds))
    if not trace.of_categories(*CATEGORY.values()).any():
        raise Unavailable(NO_COMMUNICATION)
    return float(np.nansum(trace.accessed_bytes[mine])) / 1e9


def collective_gib_per_s(bundle: Measured, kind: str) -> float:
    """Median of bytes_accessed · factor / device time, in GiB/s; the group is every device that has such operations."""
    trace = bundle.tpu
    seconds, size = trace.device_s, trace.accessed_bytes
    chosen = trace.of_categories(CATEGORY[kind]) & (size > 0) & (seconds > 0)
    if not chosen.any():
        raise Unavailable(f"no {CATEGORY[kind]} with bytes_accessed and device_duration_ps")
    ranks = np.full(int(chosen.sum()), float(len(np.unique(trace.device[chosen]))))
    return float(np.median(size[chosen] * FACTORS[kind](ranks) / seconds[chosen])) / GIB


def compute_s(bundle: Measured) -> float:
    """Summed time of operations named dot, convolution, fusion and the like."""
    return float(np.sum(bundle.tpu.busy_s[_computes(bundle.tpu)]))


def communication_s(bundle: Measured) -> float:
    """Summed time of operations named as collectives."""
    return float(np.sum(bundle.tpu.busy_s[_communicates(bundle.tpu)]))


def communication_count(bundle: Measured) -> float:
    """Number of operations named as collectives."""
    return float(np.sum(_communicates(bundle.tpu)))


def mean_communication_s(bundle: Measured) -> float:
    """Mean time of such an operation."""
    return share(communication_s(bundle), communication_count(bundle), NO_COMMUNICATION)


def allreduce_s(bundle: Measured) -> float:
    """Summed time of operations named all-reduce."""
    trace = bundle.tpu
    return float(np.sum(trace.busy_s[trace.names.where(trace.name, lambda text: _ALLREDUCE.search(text) is not None)]))


def compute_utilization(bundle: Measured) -> float:
    """Summed compute time over the wall time of the trace."""
    return share(compute_s(bundle), tpu_wall_s(bundle), "the trace has no span")


def _messages(trace: TpuTrace, chosen: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
    said = chosen & (trace.message_bytes > 0) & (trace.device_s > 0)
    return trace.message_bytes[said], trace.device_s[said]


def mean_bandwidth_gb_per_s(bundle: Measured) -> float:
    """(n − 1) · summed message bytes / summed time, as the original has it ((n − 1) / n would be right)."""
    size, seconds = _messages(bundle.tpu, _communicates(bundle.tpu))
    chips = bundle.number("workload", "hardware", "xpu_spec", "total_count")
    return (chips - 1) * share(float(np.sum(size)), float(np.sum(seconds)), NO_COMMUNICATION) / 1e9


def hockney(bundle: Measured) -> tuple[float, float]:
    """α and β of T = 2(n − 1)(α + β S / n), least squares over AllReduces."""
    trace = bundle.tpu
    size, seconds = _messages(trace, trace.names.where(trace.name, lambda text: _ALLREDUCE.search(text) is not None))
    chips = bundle.number("workload", "hardware", "xpu_spec", "total_count")
    if len(size) < 5 or len(np.unique(size)) < 2 or chips < 2:
        raise Unavailable("needs five AllReduces of two sizes with device_duration_ps, on two chips or more")
    slope, offset = np.polyfit(size / chips, seconds / (2 * (chips - 1)), 1)
    return float(offset), float(slope)


def hockney_bandwidth(bundle: Measured) -> float:
    """1 / β."""
    return share(1.0, hockney(bundle)[1], "larger AllReduces are not slower")


def model_flops(bundle: Measured) -> float:
    """Summed `model_flops`."""
    there = bundle.tpu.model_flops > 0
    if not there.any():
        raise Unavailable("no event says its model_flops")
    return float(np.sum(bundle.tpu.model_flops[there]))


def achieved_flops_per_s(bundle: Measured) -> float:
    """Summed `model_flops` over the summed time of the events that have some."""
    trace = bundle.tpu
    seconds = float(np.sum(trace.device_s[(trace.model_flops > 0) & (trace.device_s > 0)]))
    return share(model_flops(bundle), seconds, "events with model_flops have no device_duration_ps")


def accessed_gb_per_s(bundle: Measured) -> float:
    """Bytes that operations accessed (raw where said) over the wall time, in GB/s."""
    trace = bundle.tpu
    size = np.where(np.isnan(trace.raw_bytes), trace.accessed_bytes, trace.raw_bytes)
    if np.isnan(size).all():
        raise Unavailable("no event says its bytes_accessed")
    return share(float(np.nansum(size)), tpu_wall_s(bundle), "the trace has no span") / 1e9


def copy_gb_per_s(bundle: Measured) -> float:
    """Bytes of asynchronous copies over their time, in GB/s.

    A copy lasts from the start of `copy-start.N` to the end of the next `copy-done.N` of its device, by the device's
    clock; its bytes are those that the start says.
    """
    trace = bundle.tpu
    order = np.argsort(trace.offset_s, kind="stable")
    under_way: dict[tuple[int, str], tuple[float, float]] = {}
    amount = seconds = 0.0
    for at in order.tolist():
        found = _COPY.match(trace.names.texts[int(trace.name[at])])
        if found is None or np.isnan(trace.offset_s[at]):
            continue
        key = int(trace.device[at]), found.group(2)
        if found.group(1) == "start":
            under_way[key] = float(trace.offset_s[at]), float(trace.message_bytes[at])
        elif key in under_way:
            began, size = under_way.pop(key)
            length = float(trace.offset_s[at] + np.nan_to_num(trace.device_s[at])) - began
            if size > 0 and length > 0:
                amount, seconds = amount + size, seconds + length
    return share(amount, seconds, "no copy-start.N and copy-done.N with bytes and device_offset_ps") / 1e9


def breakdown_us(bundle: Measured) -> dict[str, float]:
    """Summed µs of each collective category."""
    trace = bundle.tpu
    found = {}
    for kind, category in CATEGORY.items():
        mine = trace.of_categories(category)
        if mine.any():
            found[kind] = float(np.sum(trace.busy_s[mine])) * 1e6
    if not found:
        raise Unavailable(NO_COMMUNICATION)
    return found
