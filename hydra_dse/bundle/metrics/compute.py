"""Kernels: shares, coverage, busy time."""

from __future__ import annotations

import re

import numpy as np

from hydra_dse.bundle.metrics.measured import Measured, RankTimes, mean, share
from hydra_dse.bundle.metrics.registry import Unavailable
from hydra_dse.bundle.reading.meaning import COPY

_EXPERTS = re.compile(
    r"moe|expert|routing|gating|gate_|topk|dispatch|combine|grouped_gemm",
    re.IGNORECASE,
)
_GEMM = re.compile(r"gemm|cutlass|cublas|matmul|triton_mm", re.IGNORECASE)
_STREAMING = re.compile(
    r"softmax|layer_?norm|rms_?norm|batch_?norm|group_?norm|norm_kernel|elementwise|pointwise|vectorized|unary|binary|"
    r"aten::(?:add|mul|div|sub|relu|gelu|silu|sigmoid|tanh|exp|neg|abs|clamp)|reduce(?!scatter)|sum_kernel|mean_kernel",
    re.IGNORECASE,
)
NO_KERNELS = "kernels have no duration"


def pooled_us(ranks: list[RankTimes]) -> dict[str, float]:
    """Summed µs of each kernel name over all ranks."""
    found: dict[str, float] = {}
    for rank in ranks:
        kernels = rank.trace.kernels
        sums = np.bincount(kernels.name, weights=kernels.duration, minlength=len(rank.trace.names.texts))
        for text, value in zip(rank.trace.names.texts, sums.tolist(), strict=True):
            if value:
                found[text] = found.get(text, 0.0) + value
    return found


def _share_of(bundle: Measured, kind: str, pattern: re.Pattern[str]) -> float:
    pooled = pooled_us(bundle.with_kernels(kind))
    part = sum(value for name, value in pooled.items() if pattern.search(name))
    return 100.0 * share(part, sum(pooled.values()), NO_KERNELS)


def dominant(bundle: Measured, kind: str) -> float:
    """Largest share of one kernel name in the summed kernel time of all ranks."""
    pooled = pooled_us(bundle.with_kernels(kind))
    return 100.0 * share(max(pooled.values(), default=0.0), sum(pooled.values()), NO_KERNELS)


def tpu_dominant(bundle: Measured) -> float:
    """Largest share of one `hlo_category` in the time of the operations that have one."""
    trace = bundle.tpu
    named = ~trace.of_categories("")
    sums = np.bincount(trace.category[named], weights=trace.busy_s[named])
    return 100.0 * share(float(sums.max(initial=0.0)), float(sums.sum()), "no operation has an hlo_category")


def experts(bundle: Measured, kind: str) -> float:
    """Share of kernels whose name belongs to expert layers."""
    return _share_of(bundle, kind, _EXPERTS)


def coverage(bundle: Measured) -> float:
    """Duration-weighted mean of min(blocks per multiprocessor, 1)."""
    weight = total = 0.0
    for rank in bundle.with_kernels("json"):
        blocks, kernels = rank.trace.blocks_per_multiprocessor, rank.trace.kernels
        said = ~np.isnan(blocks)
        weight += float(np.sum(np.minimum(blocks[said], 1.0) * kernels.duration[said]))
        total += float(np.sum(kernels.duration[said]))
    return 100.0 * share(weight, total, "no kernel says its 'blocks per SM'")


def nsys_coverage(bundle: Measured) -> float:
    """Plain mean of min(grid / multiprocessors, 1)."""
    blocks = np.concatenate([rank.trace.blocks_per_multiprocessor for rank in bundle.with_kernels("nsys")])
    said = blocks[~np.isnan(blocks)]
    if not len(said):
        raise Unavailable("no grid sizes, or TARGET_INFO_CUDA_DEVICE lacks numMultiprocessors")
    return 100.0 * float(np.mean(np.minimum(said, 1.0)))


def memory_bound(bundle: Measured) -> float:
    """Share of kernels whose names belong to operators that stream: elementwise, norms, softmax, reductions, copies.

    A heuristic by name, kept for comparison with the original.
    """
    from hydra_dse.bundle.metrics.measured import COMMUNICATION

    pooled = pooled_us(bundle.with_kernels("json"))
    part = 0.0
    for name, value in pooled.items():
        streams = COPY.search(name) or (_STREAMING.search(name) and not _GEMM.search(name))
        part += value if streams and not COMMUNICATION.search(name) else 0.0
    return 100.0 * share(part, sum(pooled.values()), NO_KERNELS)


def nsys_memory_bound(bundle: Measured) -> float:
    """Share of the time of kernels that cover less than half of the multiprocessors."""
    part = total = 0.0
    for rank in bundle.with_kernels("nsys"):
        blocks, kernels = rank.trace.blocks_per_multiprocessor, rank.trace.kernels
        if np.isnan(blocks).any():
            raise Unavailable("no grid sizes, or TARGET_INFO_CUDA_DEVICE lacks numMultiprocessors")
        part += float(np.sum(kernels.duration[blocks < 0.5]))
        total += float(np.sum(kernels.duration))
    return 100.0 * share(part, total, NO_KERNELS)


def utilization(bundle: Measured, kind: str) -> float:
    """Mean over ranks of the time in which a kernel runs over the time from the first to the last."""
    shares = []
    for rank in bundle.with_kernels(kind):
        span = float(rank.trace.kernels.end.max() - rank.trace.kernels.start.min())
        if span > 0:
            shares.append(100.0 * rank.busy.length / span)
    return mean(shares, NO_KERNELS)


def kernel_time_s(bundle: Measured, kind: str) -> float:
    """Summed kernel time of all ranks."""
    return sum(float(np.sum(rank.trace.kernels.duration)) for rank in bundle.with_kernels(kind)) / 1e6


def trace_time_s(bundle: Measured, kind: str) -> float:
    """Start of the first to end of the last kernel over all ranks."""
    ranks = bundle.with_kernels(kind)
    first = min(float(rank.trace.kernels.start.min()) for rank in ranks)
    return (max(float(rank.trace.kernels.end.max()) for rank in ranks) - first) / 1e6


def imbalance(bundle: Measured, kind: str) -> float:
    """Longest over shortest busy time of the ranks; waiting inside a collective counts as busy."""
    busy = [rank.busy.length for rank in bundle.with_kernels(kind)]
    if len(busy) < 2:
        raise Unavailable("one rank only")
    return share(max(busy), min(busy), NO_KERNELS)
