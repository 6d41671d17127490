"""Metrics of a large trace: MB/s and peak memory of `trace metrics`, beside `json.load` of the same text.

The trace is made here: host operators with flows to their kernels, collectives, copies, and a marker a step, in the
proportions of a Kineto trace of training (nine host events for a kernel).  Each measurement is a process of its own.
`json.load` reads a tenth of it: its objects take ten times the memory of the text.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_CARD = """\
version: 1
workload:
  model:
    phase: training
    model_family: llama-3.1-8b
    model_arch: {num_params: 8030261248, num_params_embedding: 1050673152, num_layers: 32, num_heads: 32, head_dim: 128}
  data: {batch_size: 4, seq_len: 128}
  hardware:
    network_topo: {topology: ring, bandwidth_gbps: [200, 2400]}
    xpu_spec: {type: GPU, model: nvidia_a100, total_count: 4, count_per_node: 4}
Model-executor:
  model_plan_parallelization: {dp_replicate: 1, dp_shard: 1, tp: 4, pp: 1, cp: 1}
metric_source: {traces: [json]}
"""
_HOST = (
    '{{"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 4711, "tid": 4711, "ts": {at:.3f}, "dur": 3.125, '
    '"args": {{"External id": {id}, "Record function id": 0, "Sequence number": {id}, "Fwd thread id": 0, "Ev Idx": '
    '{id}, "Input Dims": [[4096], [512, 4096], [4096, 4096], [], []]}}}}'
)
_FLOW = '{{"ph": "s", "id": {id}, "pid": 4711, "tid": 4711, "ts": {at:.3f}, "cat": "ac2g", "name": "ac2g"}}'
_KERNEL = (
    '{{"ph": "X", "cat": "kernel", "name": "sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x32_stage4", '
    '"pid": 0, "tid": 7, "ts": {at:.3f}, "dur": 40.5, "args": {{"External id": {id}, "queued": 0, "device": 0, '
    '"context": 1, "stream": 7, "correlation": {id}, "registers per thread": 234, "shared memory": 131072, '
    '"blocks per SM": 1.185185, "warps per SM": 9.481481, "grid": [32, 4, 1], "block": [256, 1, 1], '
    '"est. achieved occupancy %": 12}}}}'
)
_COLLECTIVE = (
    '{{"ph": "X", "cat": "kernel", "name": '
    '"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", '
    '"pid": 0, "tid": 20, "ts": {at:.3f}, "dur": 60.25, "args": {{"External id": {id}, "Collective name": "allreduce", '
    '"In msg nelems": 2097152, "Out msg nelems": 2097152, "Group size": 4, "dtype": "BFloat16", '
    '"Process Group Ranks": "[0, 1, 2, 3]", "stream": 20}}}}'
)
_COPY = (
    '{{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": 0, "tid": 7, "ts": {at:.3f}, '
    '"dur": 2.5, "args": {{"External id": {id}, "stream": 7, "bytes": 65536, "memory bandwidth (GB/s)": 26.2}}}}'
)
_STEP = (
    '{{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{id}", "pid": 4711, "tid": 4711, "ts": {at:.3f}, '
    '"dur": 50000.0, "args": {{}}}}'
)


def events(mega_bytes: float) -> Iterator[str]:
    """Texts of events, of about so many MB together."""
    written, number, at = 0, 0, 1.7e15
    while written < mega_bytes * 1e6:
        number += 1
        at += 50.0
        texts = [_HOST.format(id=number, at=at + i * 4) for i in range(8)]
        texts += [_FLOW.format(id=number, at=at), _KERNEL.format(id=number, at=at + 5)]
        if number % 4 == 0:
            texts.append(_COLLECTIVE.format(id=number, at=at + 20))
        if number % 20 == 0:
            texts.append(_COPY.format(id=number, at=at + 46))
        if number % 1000 == 1:
            texts.append(_STEP.format(id=number // 1000, at=at))
        written += sum(map(len, texts)) + 2 * len(texts)
        yield from texts


def write_trace(folder: Path, mega_bytes: float) -> Path:
    """A bundle's folder with a card and one trace."""
    folder.mkdir(parents=True)
    (folder / f"{folder.name}.yaml").write_text(_CARD)
    with (folder / "rank0_trace.json").open("w") as file:
        file.write('{"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 4}, "traceEvents": [\n')
        for index, text in enumerate(events(mega_bytes)):
            file.write(text if index == 0 else f",\n{text}")
        file.write("\n]}\n")
    return folder


_MEASURED = """
import json, sys, time
{imports}
start, cpu = time.perf_counter(), time.process_time()
{work}
# Not ru_maxrss: a process inherits the largest size of the one that started it.
with open("/proc/self/status") as file:
    peak = 1024 * int(next(line for line in file if line.startswith("VmHWM")).split()[1])
print(json.dumps([time.process_time() - cpu, peak, values]))
"""
_OURS = _MEASURED.format(
    imports="from hydra_dse.bundle.metrics import evaluate, measure",
    work="values = len(evaluate(measure(sys.argv[1])).values)",
)
_PLAIN = _MEASURED.format(
    imports="",
    work="with open(sys.argv[1] + '/rank0_trace.json') as file: values = len(json.load(file)['traceEvents'])",
)


def measured(program: str, folder: Path) -> tuple[float, float, int]:
    """CPU seconds, peak bytes and what the program counts."""
    run = subprocess.run([sys.executable, "-c", program, str(folder)], check=True, capture_output=True, text=True)
    seconds, peak, count = json.loads(run.stdout)
    return float(seconds), float(peak), int(count)


def table(folder: Path, mega_bytes: float = 500.0) -> dict[str, tuple[float, str, float | None]]:
    """Figure → value, unit, reference."""
    large, small = write_trace(folder / "large", mega_bytes), write_trace(folder / "small", mega_bytes / 10)
    size, small_size = ((each / "rank0_trace.json").stat().st_size / 1e6 for each in (large, small))
    seconds, peak, _ = measured(_OURS, large)
    plain, plain_peak, _ = measured(_PLAIN, small)
    return {
        "trace_size": (size, "MB", None),
        "trace_metrics_rate": (size / seconds, "MB/s", small_size / plain),
        "trace_metrics_peak": (peak / 1e6, "MB", 600.0),
        "json_load_peak_per_byte": (plain_peak / 1e6 / small_size, "1", None),
    }
