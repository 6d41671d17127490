"""A recorded run of a vLLM-like engine: `requests.jsonl`, `timeseries.csv` and `meta.json` in one folder."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hydra_dse.errors import Fault, InputError
from hydra_dse.policy import Policy
from hydra_dse.workload.nouns import Requests

FloatArray = NDArray[np.float64]
MAX_BYTES = 512_000_000
ONE_CARD = (("tensor_parallel_size", 1), ("data_parallel_size", 1), ("pipeline_parallel_size", 1))
"""Settings of the engine under `parallel_config`: the profile holds one card and no collectives."""
SCHEDULER = (("enable_chunked_prefill", True), ("policy", "fcfs"))
DATES = ("queued_ts", "first_token_ts", "last_token_ts")


@dataclass(frozen=True, eq=False)
class RecordedRun:
    """What was offered, how the engine was set up, and what came out; times in s from the first request.

    Attributes:
        requests: in order of arrival.
        first_token_s, last_token_s: shape (requests,).
        policy: batch, budget and block size of the engine.
        cache_blocks: KV blocks of the engine.
        graph_sizes: token counts with captured launches.
        model: name of the model as the log gives it.
        prefix_caching: whether the engine reused blocks.
        time_s, running, waiting, cache_share: what the engine reported in time, shape (ticks,); empty if absent.
    """

    requests: Requests
    first_token_s: FloatArray
    last_token_s: FloatArray
    policy: Policy
    cache_blocks: int
    graph_sizes: tuple[int, ...]
    model: str
    prefix_caching: bool
    time_s: FloatArray
    running: FloatArray
    waiting: FloatArray
    cache_share: FloatArray


def read_run(folder: Path) -> RecordedRun:
    """Read a recorded run.

    Raises:
        InputError: a missing file or key, or a value out of range, with file and line; an engine that does what a
            replay does not (several cards, prompts unchunked or by priority, drafted tokens).
    """
    meta_path = folder / "meta.json"
    meta = _json(_text(meta_path), meta_path, None)
    engine, cache = _section(meta, "engine_kwargs", meta_path), _section(meta, "kv_cache", meta_path)
    block_tokens = _count(cache, "block_size", meta_path)
    resolved = _optional(meta, "resolved_config")
    # What the launch left to the engine is what the engine resolved it to.
    limits = {**_optional(resolved, "scheduler_config"), **{k: v for k, v in engine.items() if v is not None}}
    policy = Policy(
        serving="colocated",
        batching="chunked",
        max_batch=_count(limits, "max_num_seqs", meta_path),
        token_budget=_count(limits, "max_num_batched_tokens", meta_path),
        memory_watermark=0.0,
        block_tokens=block_tokens,
    )
    _supported(engine, resolved, meta_path)
    sizes = _optional(resolved, "compilation_config").get("cudagraph_capture_sizes") or ()
    if not isinstance(sizes, (list, tuple)) or any(type(size) is not int for size in sizes):
        raise InputError(Fault("must be a list of integers", str(meta_path), path="cudagraph_capture_sizes"))
    requests, first, last = _visits(folder / "requests.jsonl")
    ticks = _ticks(folder / "timeseries.csv")
    return RecordedRun(
        requests,
        first,
        last,
        policy,
        _count(cache, "num_gpu_blocks", meta_path),
        tuple(sorted(sizes)),
        str(meta.get("model", "")),
        bool(cache.get("enable_prefix_caching", False)),
        *(ticks[:, column] for column in range(4)),
    )


def _supported(engine: Mapping[str, Any], resolved: Mapping[str, Any], path: Path) -> None:
    """Check that the engine did nothing that changes its schedule or its steps and is not replayed."""
    drafts = resolved.get("speculative_config") or engine.get("speculative_config")
    if drafts is not None:
        raise InputError(Fault("drafted tokens are not replayed", str(path), path="speculative_config"))
    for section, settings in (("parallel_config", ONE_CARD), ("scheduler_config", SCHEDULER)):
        found = {**engine, **_optional(resolved, section)}
        for key, wanted in settings:
            if found.get(key, wanted) != wanted:
                message = f"a replay has {wanted!r}, the engine had {found[key]!r}"
                raise InputError(Fault(message, str(path), path=key))


def _visits(path: Path) -> tuple[Requests, FloatArray, FloatArray]:
    rows = []
    for number, line in enumerate(_text(path).splitlines(), 1):
        if not line.strip():
            continue
        row = _json(line, path, number)
        lengths = [_count(row, key, path, number) for key in ("input_toks", "output_toks")]
        dates = [_date(row, key, path, number) for key in DATES]
        if not dates[0] <= dates[1] <= dates[2]:
            raise InputError(Fault(f"dates run backwards: {', '.join(DATES)} = {dates}", str(path), number))
        rows.append((*dates, *lengths))
    if not rows:
        raise InputError(Fault("holds no request", str(path)))
    table = np.array(sorted(rows))
    table[:, :3] -= table[0, 0]
    lengths_in, lengths_out = table[:, 3].astype(np.int64), table[:, 4].astype(np.int64)
    offered = Requests(table[:, 0], lengths_in, lengths_out, np.zeros(len(table), dtype=np.int64))
    return offered, table[:, 1], table[:, 2]


def _ticks(path: Path) -> FloatArray:
    if not path.is_file():
        return np.zeros((0, 4))
    rows = []
    for number, row in enumerate(csv.DictReader(_text(path).splitlines()), 2):
        rows.append([_date(row, key, path, number) for key in ("t", "running", "waiting", "kv_cache_pct")])
    table = np.array(rows, dtype=np.float64).reshape(-1, 4)
    table[:, 3] /= 100.0
    return table


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(Fault(f"larger than {MAX_BYTES} bytes", str(path)))
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(Fault(f"cannot be read: {error}", str(path))) from error


def _json(text: str, path: Path, line: int | None) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(Fault(f"no JSON: {error}", str(path), line)) from error
    if not isinstance(found, dict):
        raise InputError(Fault("must be a JSON object", str(path), line))
    return found


def _section(data: Mapping[str, Any], key: str, path: Path) -> Mapping[str, Any]:
    found = data.get(key)
    if not isinstance(found, Mapping):
        raise InputError(Fault("missing section", str(path), path=key))
    return found


def _optional(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = data.get(key)
    return found if isinstance(found, Mapping) else {}


def _count(row: Mapping[str, Any], key: str, path: Path, line: int | None = None) -> int:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(Fault(f"must be an integer of at least 1, not {value!r}", str(path), line, path=key))
    return value


def _date(row: Mapping[str, Any], key: str, path: Path, line: int) -> float:
    try:
        value = float(row[key])
    except (KeyError, TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise InputError(Fault(f"must be a finite number, not {row.get(key)!r}", str(path), line, path=key))
    return value
