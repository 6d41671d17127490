"""Kernels by families of names: what a step is made of, and which parallelism its communication belongs to."""

from __future__ import annotations

import re

import numpy as np

from hydra_dse.bundle.metrics.compute import pooled_us
from hydra_dse.bundle.metrics.measured import COMMUNICATION, Measured
from hydra_dse.bundle.metrics.registry import Unavailable

_WORD = r"(?:^|[^a-z0-9])"
FAMILIES: dict[str, re.Pattern[str]] = {
    "attention": re.compile(
        rf"flash|{_WORD}fmha|paged[_-]?attention|attention_core|attn|softmax|concat_and_cache", re.IGNORECASE
    ),
    "moe_route": re.compile(
        rf"topk|moe_align|count_and_sort|{_WORD}(?:router|routing|gate|gating)|{_WORD}(?:radix|sort|histogram)|"
        rf"{_WORD}(?<!ssm_)(?<!ssd_)(?<!chunk_)(?<!selective_)scan",
        re.IGNORECASE,
    ),
    "moe_expert": re.compile(rf"fused[_-]?moe|{_WORD}grouped|grouped_|{_WORD}experts?|act_and_mul", re.IGNORECASE),
}
"""Tried in this order after communication; the original's families in our words."""
EXCHANGE = re.compile(r"combineKernel|dispatchKernel|a2a|all[_-]?to[_-]?all", re.IGNORECASE)
"""Kernels of expert parallelism that communicate without the name of a collective."""


def family(name: str) -> str:
    """The family of a kernel by its name."""
    if COMMUNICATION.search(name) or EXCHANGE.search(name):
        return "communication"
    return next((kind for kind, pattern in FAMILIES.items() if pattern.search(name)), "other")


def break_down_ms(bundle: Measured, kind: str) -> dict[str, float]:
    """Summed ms of each family over all ranks and the whole trace; families that do not occur are 0."""
    found = dict.fromkeys(("communication", *FAMILIES, "other"), 0.0)
    for name, microseconds in pooled_us(bundle.with_kernels(kind)).items():
        found[family(name)] += microseconds / 1e3
    return found


def traffic_window_s(bundle: Measured) -> dict[str, float]:
    """Seconds of NCCL kernels by parallelism, per rank and per `RedistributeBackward` of the first rank."""
    ranks = bundle.with_kernels("json")
    marks = ranks[0].trace.redistributions
    if marks is None:
        raise Unavailable("no RedistributeBackward (a host operator of TorchTitan) marks the end of iterations")
    found = dict.fromkeys(("tp", "dp", "pp", "other"), 0.0)
    for rank in ranks:
        kernels, names = rank.trace.kernels, rank.trace.names
        before = np.searchsorted(marks.start, kernels.start, side="right") - 1
        ends = np.maximum.accumulate(marks.start + marks.duration)
        within = (before >= 0) & (kernels.start <= ends[np.maximum(before, 0)])
        for code, start_in, length in zip(
            kernels.name.tolist(), within.tolist(), kernels.duration.tolist(), strict=True
        ):
            text = names.texts[code].lower()
            if "nccl" in text:
                found[_parallelism(text, start_in)] += length / 1e6
    shared = {name: seconds / (len(marks) * len(ranks)) for name, seconds in found.items()}
    return {**shared, "total": sum(shared.values())}


def _parallelism(kernel: str, redistributes: bool) -> str:
    if "allreduce" in kernel:
        return "dp" if redistributes else "tp"
    if "broadcast" in kernel:
        return "tp"
    if "allgather" in kernel or "reducescatter" in kernel:
        return "dp"
    return "pp" if "send" in kernel or "recv" in kernel else "other"
