"""What names and values of a trace mean: copies, collectives, markers of iterations, numbers."""

from __future__ import annotations

import re

from hydra_dse.bundle import conventions as words

COPY = re.compile(r"memcpy|memset|copy_kernel|copy\.|copy-start|copy-done|\bdma\b", re.IGNORECASE)
_STEP = re.compile(r"ProfilerStep#(\d+)$")
_BATCH = re.compile(r"(^|:) ?run_batch$")
_KIND_OF_KERNEL = re.compile(r"nccl(?:Dev)?Kernel_(AllReduce|AllGather|ReduceScatter|SendRecv|Broadcast|Reduce)")
_KIND_OF_NAME = {
    **dict.fromkeys(("allreduce", "all_reduce", "allreduce_coalesced"), "allreduce"),
    **dict.fromkeys(("allgather", "all_gather", "_allgather_base", "all_gather_into_tensor"), "allgather"),
    **dict.fromkeys(
        ("reducescatter", "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor"), "reducescatter"
    ),
    **dict.fromkeys(("alltoall", "all_to_all", "all_to_allv"), "alltoall"),
    **dict.fromkeys(("broadcast", "_broadcast_oop"), "broadcast"),
    **dict.fromkeys(("send", "recv", "sendrecv"), "sendrecv"),
}


def collective_kind(name: str, collective: object) -> str | None:
    """What a kernel communicates, by its name and its argument `Collective name`; None for compute."""
    found = _KIND_OF_KERNEL.match(name)
    said = _KIND_OF_NAME.get(collective) if isinstance(collective, str) else None
    if found is None:
        return said
    kind = found.group(1).lower()
    if kind == "sendrecv":
        return said if said in ("alltoall", "sendrecv") else "sendrecv"
    return kind


def number(value: object) -> float | None:
    """A finite number, None for all else (text is not accepted, as in the original tools)."""
    if type(value) is float or type(value) is int:
        return float(value) if abs(value) < 1e18 else None  # false for NaN, and no overflow for a long integer
    return None


def marker_kind(category: str, name: str) -> str | None:
    """Which kind of iteration an event marks by its category and name, None for none."""
    if category == words.PYTHON:
        return words.BATCH_STEP if _BATCH.search(name) else None
    if category != words.ANNOTATION:
        return None
    if name.startswith(words.SERVING_STEP):
        return words.SERVING_STEP
    return words.TRAINING_STEP if _STEP.match(name) else None
