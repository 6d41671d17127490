"""Traces with one JSON object a line and prefix block hashes: Mooncake and Qwen-Bailian."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra_dse.workload.traces.record import MAX_LINE, Recorder, Trace, opened

MAX_BLOCKS = 1_000_000


@dataclass(frozen=True)
class Dialect:
    """Unit of the time stamps, and tokens of a prefix block."""

    time_scale: float
    block_tokens: int


# Sources: Mooncake (arXiv 2407.00079), ms and 512-token blocks; Qwen-Bailian traces, s and 16-token blocks.
DIALECTS = {"mooncake": Dialect(1e-3, 512), "bailian": Dialect(1.0, 16)}


def read_jsonl(path: Path, kind: str, limit: int) -> Trace:
    """Read a JSONL trace.

    Raises:
        InputError: with file and line of every fault (the first ten).
    """
    dialect = DIALECTS[kind]
    places: dict[object, int] = {}
    recorder = Recorder(str(path), limit)
    complete = True
    with opened(path) as stream:
        number = 0
        while text := stream.readline(MAX_LINE):
            number += 1
            if recorder.full:
                complete = not text.strip()
                break
            if text.strip():
                _take(recorder, number, text, dialect, places)
    return recorder.finish(kind, complete=complete, block_tokens=dialect.block_tokens)


def _take(recorder: Recorder, line: int, text: str, dialect: Dialect, places: dict[object, int]) -> None:
    try:
        row: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", str(error))
        recorder.fault(line, f"is not a JSON object ({reason}); the file may be truncated")
        return
    if not isinstance(row, dict):
        recorder.fault(line, "is not a JSON object; expected timestamp, input_length and output_length")
        return
    missing = [name for name in ("timestamp", "input_length", "output_length") if name not in row]
    if missing:
        recorder.fault(line, f"has no {', '.join(missing)}")
        return
    time_s = recorder.time(line, row["timestamp"], "timestamp", dialect.time_scale)
    prompt = recorder.tokens(line, row["input_length"], "input_length")
    output = recorder.tokens(line, row["output_length"], "output_length")
    blocks = _blocks(recorder, line, row.get("hash_ids", []))
    if time_s is not None and prompt is not None and output is not None and blocks is not None:
        before = len(recorder)
        recorder.add(line, time_s, prompt, output, blocks)
        if "chat_id" in row and len(recorder) > before:
            _link(recorder, row, places)


def _link(recorder: Recorder, row: dict[str, Any], places: dict[object, int]) -> None:
    """Note the row of the turn before; chats are known by the numbers or texts that name them."""
    chat, parent = row["chat_id"], row.get("parent_chat_id", -1)
    known = isinstance(parent, (int, str))
    recorder.parents.append(places.get(parent, -1) if known else -1)
    if isinstance(chat, (int, str)):
        places[chat] = len(recorder) - 1


def _blocks(recorder: Recorder, line: int, value: object) -> tuple[int, ...] | None:
    good = isinstance(value, list) and len(value) <= MAX_BLOCKS
    if good and isinstance(value, list) and all(type(item) is int and item >= 0 for item in value):
        return tuple(value)
    recorder.fault(line, "expected a list of block numbers of zero or more", "hash_ids")
    return None
