"""Cards and traces made by hand, for the tests of bundles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CARD = """\
version: 1
description: a test  # said by nobody
hf_url: null
trace_url: ''
contributor: x
contact: x@example.com
workload:
  model:
    phase: inference
    moe: false
    granularity: model_fwd
    model_family: llama-3.1-8b
    precision: bf16
    epochs: 1
    iteration: 4
    model_arch:
      num_params: 8030261248
      num_params_embedding: 1050673152
      num_layers: 32
      num_heads: 32
      head_dim: 128
  data:
    batch_size: 4
    seq_len: 128
    input_len: 128
    output_len: 16
    dataset: synthetic
    max-num-seqs: 8
  hardware:
    network_topo:
      topology: ring
      bandwidth_gbps: [200, 2400]
    xpu_spec:
      type: GPU
      model: nvidia_a100
      total_count: 2
      count_per_node: 2
    driver_version: none
Model-executor:
  framework:
    name: simulator
    compiler_tool_selection: plain_pytorch
  model_plan_parallelization:
    dp_replicate: 1
    dp_shard: 1
    tp: 2
    pp: 1
    cp: 1
    ep: 1
    pp_mb: 1
  communication_library:
    name: NCCL
    version: "2.27.5"
    env: {NCCL_DEBUG: WARN}
  protocol_selection: [p2p]
metric_source:
  traces:
    - json
  metrics_specific_trace: []
zzz_unknown: kept
"""


def span(name: str, start: float, duration: float, **more: Any) -> dict[str, Any]:
    """A complete event; a kernel unless `cat` says otherwise."""
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": start, "dur": duration, **more}


def collective(kind: str, start: float, duration: float, elements: int, **more: Any) -> dict[str, Any]:
    """A collective of two ranks in bf16."""
    out = more.pop("out", elements)
    arguments = {
        "Collective name": kind.lower(), "In msg nelems": elements, "Out msg nelems": out, "Group size": 2,
        "dtype": "BFloat16", "Process Group Ranks": "[0, 1]", "stream": 20, **more,
    }  # fmt: skip
    return span(f"ncclDevKernel_{kind}_Sum", start, duration, tid=20, args=arguments)


def step(number: int, start: float, duration: float, kind: str = "execute_context_") -> dict[str, Any]:
    """A step marker."""
    return span(f"{kind}{number}", start, duration, cat="user_annotation", tid=1)


def write_bundle(folder: Path, *ranks: list[dict[str, Any]], card: str | None = CARD) -> Path:
    """A folder with a card of its name and one trace a rank."""
    folder.mkdir(parents=True, exist_ok=True)
    if card is not None:
        (folder / f"{folder.name}.yaml").write_text(card)
    for number, events in enumerate(ranks):
        text = json.dumps({"schemaVersion": 1, "traceEvents": events, "distributedInfo": {"world_size": len(ranks)}})
        (folder / f"rank{number}_trace.json").write_text(text)
    return folder


def changed(*pairs: tuple[str, str], card: str = CARD) -> str:
    """The card with texts replaced, each of which must stand in it."""
    for old, new in pairs:
        assert old in card, old
        card = card.replace(old, new, 1)
    return card
