"""Readers of sweeps over dataflow machines."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hydra_dse.calibration.dataflow_forms import (
    IPU_PIPELINE,
    RDU_ALLOCATION,
    RDU_HOST,
    RDU_LAYERS,
    RDU_SERVING,
    RDU_WIDTHS,
    VOCABULARY,
    WSE_BUSY,
    WSE_ELEMENTS,
    WSE_RATES,
    WSE_STREAMING,
    WSE_TRANSMISSION,
    WSE_UTILISATION,
)
from hydra_dse.calibration.rows import Row, Table
from hydra_dse.errors import Fault, InputError, did_you_mean

MS = 1e-3
AT_TARGET = 0.98
WAITING = 50.0
"""Compute utilisation, in percent, below which kernels mostly wait for transport."""
# Parameters, layers, width, KV heads × head width of models that serving tables name.
MODELS = {
    "llama-2-7b": (6.74e9, 32.0, 4096.0, 4096.0),
    "llama-2-13b": (13.02e9, 40.0, 5120.0, 5120.0),
    "llama-2-70b": (68.98e9, 80.0, 8192.0, 1024.0),
    "llama-3-8b": (8.03e9, 32.0, 4096.0, 1024.0),
    "llama-3-70b": (70.55e9, 80.0, 8192.0, 1024.0),
    "llama-3.1-8b": (8.03e9, 32.0, 4096.0, 1024.0),
    "llama-3.1-70b": (70.55e9, 80.0, 8192.0, 1024.0),
    "llama-3.1-405b": (405.85e9, 126.0, 16384.0, 1024.0),
    "llama-3.2-3b": (3.21e9, 28.0, 3072.0, 1024.0),
    "llama-3.3-70b": (70.55e9, 80.0, 8192.0, 1024.0),
    "mistral-7b": (7.25e9, 32.0, 4096.0, 1024.0),
    "qwen2-7b": (7.62e9, 28.0, 3584.0, 512.0),
    "qwen2-72b": (72.71e9, 80.0, 8192.0, 1024.0),
    "qwen2.5-7b": (7.62e9, 28.0, 3584.0, 512.0),
    "qwen2.5-72b": (72.71e9, 80.0, 8192.0, 1024.0),
}
_EDITION = re.compile(r"^meta-|-(hf|instruct|chat|it|base|v\d+(\.\d+)?)(?=-|$)")
"""What names of editions add to the name of a shape."""


GPT2_WIDTH, GPT2_LENGTH = 768.0, 1024.0
GPT2_FLOPS = {
    "fc": 3.0 * 2.0 * GPT2_LENGTH * 4.0 * GPT2_WIDTH**2,
    "attention": 3.0 * (2.0 * GPT2_LENGTH * 4.0 * GPT2_WIDTH**2 + 4.0 * GPT2_LENGTH**2 * GPT2_WIDTH),
    "emb_fc": 3.0 * 2.0 * GPT2_LENGTH * GPT2_WIDTH * VOCABULARY,
}
"""FLOPs of a kernel for one sample in training (1,024 tokens, which its report does not state): one of two feed-forward
matrices, a layer's projections and attention, the head."""


def rdu_serving(rows: Sequence[Row]) -> list[Table]:
    """End-to-end latencies of tensor-parallel serving and times to the first token, one table per model."""
    tables: dict[str, Table] = {}
    for row in rows:
        latency = row.optional("end_to_end_latency_s")
        if latency is None:
            continue
        name = row.text("model").rsplit("/", 1)[-1].lower()
        shape = _EDITION.sub("", name)
        if shape not in MODELS:
            message = f"no shape of model {name!r}{did_you_mean(shape, MODELS)}; known: {', '.join(MODELS)}"
            raise InputError(Fault(message, file=row.file, line=row.line, path="model"))
        parameters, layers, width, kv_width = MODELS[shape]
        load = (row.number("input_tokens"), row.number("output_tokens"), row.number("batch_size"))
        model = (2.0 * parameters, 4.0 * kv_width * layers, parameters, layers, width)
        table = tables.setdefault(name, Table(RDU_SERVING, name))
        table.rows.append((*load, *model, latency))
        first = row.optional("ttft_s")
        if first is not None:
            table.rows.append((load[0], 1.0, load[2], *model, first))
    return list(tables.values())


def rdu_training(rows: Sequence[Row]) -> list[Table]:
    """Time of RDU training by depth at each width, and over widths; the host's time; the busiest section."""
    tables: dict[tuple[str, str], Table] = {}
    for row in rows:
        time = row.optional("rdu_latency_ms")
        if time is None:
            continue
        mode, width, layers = row.text("compile_mode").lower(), row.number("embedding_size"), row.number("layers")
        batch, length = row.number("batch_size"), row.number("sequence_length")
        depth = tables.setdefault(("depth", f"{mode}-{width:.0f}"), Table(RDU_LAYERS, f"{mode}-{width:.0f}"))
        depth.rows.append((layers, time * MS))
        widths = tables.setdefault(("width", mode), Table(RDU_WIDTHS, mode))
        widths.rows.append((layers, width, batch * length, length, time * MS))
        host = row.optional("host_latency_ms")
        if host:
            tables.setdefault(("host", mode), Table(RDU_HOST, mode)).rows.append((layers, width, host * MS))
        busiest = row.optional("highest_pcu_utilization_pct")
        if busiest:
            used = tables.setdefault(("allocation", mode), Table(RDU_ALLOCATION, mode))
            used.rows.append((layers, width, busiest / 100.0))
    return [table for table in tables.values() if len(table.rows) > len(table.form.parameters)]


def wse_streaming(rows: Sequence[Row]) -> list[Table]:
    """Training steps of a wafer that streams weights, over models and batches."""
    table = Table(WSE_STREAMING, "training")
    for row in rows:
        batch, length = row.number("batch_size"), row.number("max_sequence_length")
        rate = row.optional("derived_throughput_samples_per_s")
        if rate:
            size = (row.number("layers"), row.number("hidden_size"), batch * length, length)
            table.rows.append((*size, batch / rate))
    return [table]


def ipu_pipeline(rows: Sequence[Row]) -> list[Table]:
    """Steps of a global batch on pipelined IPUs: batch over sequences per second."""
    table = Table(IPU_PIPELINE, "gpt-117m")
    for row in rows:
        pipelined = "pipeline" in row.text("workload") and row.text("metric_with_unit").startswith("throughput")
        batch, rate = row.optional("batch_size_global_or_micro"), row.optional("value")
        if pipelined and batch is not None and rate:
            table.rows.append((batch, batch / rate))
    return [table]


def wse_depth(rows: Sequence[Row]) -> list[Table]:
    """By width: elements while the target rate holds, rates up to the collapse, and rates in it."""
    known = [row for row in rows if row.optional("throughput_samples_per_s")]
    best: dict[float, float] = {}
    for row in known:
        width = row.number("d_model")
        best[width] = max(best.get(width, 0.0), row.number("throughput_samples_per_s"))
    tables: dict[tuple[str, float], Table] = {}
    for row in known:
        rate, width = row.number("throughput_samples_per_s"), row.number("d_model")
        layers, elements = row.number("total_layers"), row.optional("sum_pe_count")
        collapsed = (row.optional("compute_utilization_pct") or 100.0) < WAITING
        found = [(WSE_TRANSMISSION if collapsed else WSE_RATES, rate)]
        if elements is not None and rate >= AT_TARGET * best[width]:
            found.append((WSE_ELEMENTS, elements))
        for form, value in found:
            table = tables.setdefault((form.name, width), Table(form, f"width-{width:.0f}"))
            table.rows.append((layers, value))
    return [table for table in tables.values() if len({row[0] for row in table.rows}) > 1]


def wse_kernels(rows: Sequence[Row]) -> list[Table]:
    """Utilisation of matrix kernels against the width of the model by kernel class, and rates of GPT-2's kernels."""
    busy = Table(WSE_BUSY, "gpt-2")
    widths = {"gpt2_compile_report.txt": 768.0, "compile_report_7.txt": 256.0, "compile_report_11.txt": 256.0}
    tables = {"fc": Table(WSE_UTILISATION, "fc"), "attention": Table(WSE_UTILISATION, "attention")}
    for row in rows:
        name, elements = row.text("kernel"), row.optional("active_pes_count")
        share, width = row.optional("compute_utilization_pct"), widths.get(row.text("report_file"))
        kind = next((kind for kind in tables if name.startswith(kind)), None)
        if kind is not None and "." not in name and elements and share and width:
            tables[kind].rows.append((width, elements, share / 100.0))
        flops = next((GPT2_FLOPS[start] for start in GPT2_FLOPS if name.startswith(start)), None)
        rate = row.optional("samples_per_s")
        if width == GPT2_WIDTH and flops and "." not in name and elements and share and rate:
            busy.rows.append((flops, elements, share / 100.0, rate))
    return [table for table in (*tables.values(), busy) if table.rows]
