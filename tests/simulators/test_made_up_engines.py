"""Replays of made-up engines: a second scheduler, written here, serves a load; its log and profile are replayed.

The engine touches every sequence in every step and keeps no events.  Times of layers are sums of products of single
sizes, which interpolation between measured points gives back exactly, so that what may differ is the schedule alone.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from simulators.profiled import read_profile, read_run
from simulators.serving.replay import replay

BLOCKS = 2
DENSE = {"embedding": (3.0, 0.01, 1), "layernorm": (2.0, 0.02, 2 * BLOCKS), "mlp": (50.0, 1.5, BLOCKS)}
HEAD = (200.0, 4.0)


@dataclass(frozen=True)
class Limits:
    """Of a made-up engine; launches of `graph` sizes pad smaller iterations."""

    batch: int
    budget: int
    blocks: int
    block_tokens: int
    graph: tuple[int, ...] = ()


@dataclass
class Served:
    """A request: cached tokens, tokens to compute before it decodes, blocks, dates."""

    arrival_s: float
    prompt: int
    output: int
    cached: int = 0
    target: int = 0
    emitted: int = 0
    blocks: int = 0
    dates: list[float] = field(default_factory=list)

    @property
    def decodes(self) -> bool:
        return self.cached >= self.target


def attention_us(chunk: float, before: float, decoders: float, context: float) -> float:
    return 8.0 + 0.02 * chunk + 2e-5 * chunk * before + 0.5 * decoders + 1e-3 * decoders * context


def duration_s(plan: Sequence[tuple[Served, int]], limits: Limits) -> float:
    chunks = [(each.cached, tokens) for each, tokens in plan if not each.decodes]
    contexts = [each.cached + 1 for each, _ in plan if each.decodes]
    rows = sum(tokens for _, tokens in plan)
    padded = next((size for size in limits.graph if size >= rows), rows)
    emitting = sum(each.decodes or each.cached + tokens == each.target for each, tokens in plan)
    us = sum(times * (fixed + slope * padded) for fixed, slope, times in DENSE.values())
    us += HEAD[0] + HEAD[1] * max(1, emitting)
    mean = sum(contexts) / len(contexts) if contexts else 0.0
    if not chunks:
        return 1e-6 * (us + BLOCKS * attention_us(0, 0, len(contexts), mean))
    tokens = sum(size for _, size in chunks)
    size = tokens / len(chunks)
    before = max(0.0, sum(part * (done + part / 2) for done, part in chunks) / tokens - size / 2)
    launch = min(attention_us(1, 0, 0, 0), attention_us(0, 0, 1, 1))
    more = (len(chunks) - 1) * (attention_us(size, before, 0, 0) - launch)
    return 1e-6 * (us + BLOCKS * (more + attention_us(size, before, len(contexts), mean)))


def engine(requests: list[Served], limits: Limits) -> int:
    """Serve all in the manner of vLLM v1, write their dates and return the number of preemptions."""
    coming, waiting, running = list(requests), list[Served](), list[Served]()
    now, free, preemptions = 0.0, limits.blocks, 0
    while coming or waiting or running:
        while coming and coming[0].arrival_s <= now:
            waiting.append(coming.pop(0))
        plan: list[tuple[Served, int]] = []
        left, preempted, at = limits.budget, False, 0
        while at < len(running) and left > 0:
            each = running[at]
            tokens = 1 if each.decodes else min(each.target - each.cached, left)
            needed = -(-(each.cached + 1) // limits.block_tokens) - each.blocks if each.decodes else 0
            while needed > free and each in running:
                last, preempted = running.pop(), True
                free, preemptions = free + last.blocks, preemptions + 1
                last.blocks, last.cached, last.target = 0, 0, last.prompt + last.emitted
                waiting.insert(0, last)
            if each not in running:
                break
            free, each.blocks = free - max(needed, 0), each.blocks + max(needed, 0)
            plan.append((each, tokens))
            left, at = left - tokens, at + 1
        while waiting and left > 0 and len(running) < limits.batch and not preempted:
            needed = -(-waiting[0].target // limits.block_tokens)
            if needed > free:
                break
            each = waiting.pop(0)
            each.blocks, free = needed, free - needed
            running.append(each)
            plan.append((each, min(each.target, left)))
            left -= min(each.target, left)
        if not plan:
            now = coming[0].arrival_s
            continue
        now += duration_s(plan, limits)
        for each, tokens in plan:
            decoded = each.decodes
            each.cached += tokens
            each.target = max(each.target, each.cached)
            if decoded or each.decodes:
                each.emitted += 1
                each.dates.append(now)
                if each.emitted == each.output:
                    running.remove(each)
                    free += each.blocks
    return preemptions


def write_run(folder: Path, requests: list[Served], limits: Limits, rng: np.random.Generator) -> None:
    """The log in a shuffled order, and a profile whose tables have more columns and another order of rows."""
    rows = [
        {
            "input_toks": each.prompt,
            "output_toks": each.output,
            "queued_ts": 100.0 + each.arrival_s,
            "first_token_ts": 100.0 + each.dates[0],
            "last_token_ts": 100.0 + each.dates[-1],
        }
        for each in requests
    ]
    lines = [json.dumps(rows[int(number)]) for number in rng.permutation(len(rows))]
    (folder / "requests.jsonl").write_text("\n".join(lines))
    meta = {
        "engine_kwargs": {"max_num_seqs": limits.batch, "max_num_batched_tokens": limits.budget},
        "kv_cache": {"num_gpu_blocks": limits.blocks, "block_size": limits.block_tokens},
        "resolved_config": {"compilation_config": {"cudagraph_capture_sizes": list(limits.graph)}},
    }
    (folder / "meta.json").write_text(json.dumps(meta))
    dense = [(name, "x", n, fixed + slope * n) for name, (fixed, slope, _) in DENSE.items() for n in (4096, 1, 64)]
    head = [("lm_head", n, HEAD[0] + HEAD[1] * n) for n in (16, 1)]
    attention = [
        (c, b, n, k, attention_us(c, b, n, k))
        for c in (0, 1, 1024)
        for b in ((0, 4096) if c else (0,))
        for n in (0, 1, 64)
        for k in ((1, 4096) if n else (0,))
        if c or n
    ]
    for name, header, table in (
        ("dense.csv", "layer,note,tokens,time_us", dense),
        ("per_sequence.csv", "layer,sequences,time_us", head),
        ("attention.csv", "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us", attention),
    ):
        with (folder / name).open("w", newline="") as file:
            csv.writer(file).writerow(header.split(","))
            csv.writer(file).writerows(table[int(number)] for number in rng.permutation(len(table)))


@pytest.mark.parametrize(
    ("limits", "rate_per_s", "most", "preempts"),
    [
        (Limits(8, 512, 4000, 16), 60.0, (700, 150), False),
        (Limits(64, 256, 80, 32, (1, 2, 4, 8, 16, 32, 64)), 300.0, (900, 300), True),
        (Limits(256, 2048, 80, 8), 300.0, (300, 300), True),
    ],
)
def test_a_replay_follows_another_engine_request_by_request(
    tmp_path: Path, limits: Limits, rate_per_s: float, most: tuple[int, int], preempts: bool
) -> None:
    rng = np.random.default_rng(4)
    arrivals = np.cumsum(rng.exponential(1.0 / rate_per_s, 60))
    arrivals -= arrivals[0]
    requests = [Served(float(a), int(rng.integers(5, most[0])), int(rng.integers(1, most[1]))) for a in arrivals]
    for each in requests:
        each.target = each.prompt
    preemptions = engine(requests, limits)
    write_run(tmp_path, requests, limits, rng)
    found = replay(read_run(tmp_path), read_profile(tmp_path), BLOCKS)
    assert found.preemptions == preemptions
    assert (preemptions > 5) == preempts
    for mine, theirs in found.latencies().values():
        assert mine == pytest.approx(theirs, rel=1e-7)
