"""Readers of kernel latency tables in the columns of aiconfigurator's published data."""

from __future__ import annotations

from collections.abc import Sequence

from hydra_dse.calibration.kernel_forms import (
    CHUNK_SCAN,
    CONVOLUTION,
    CONVOLUTION_UPDATE,
    DECODE_ATTENTION,
    GEMM,
    NARROW_GEMM,
    PREFILL_ATTENTION,
    RECURRENT_SCAN,
    STATE_UPDATE,
)
from hydra_dse.calibration.rows import Row, Table

MS = 1e-3
# Bytes of an operand and speed over the 16-bit peak, by format.
FORMATS = {"bfloat16": ("bf16", 2.0, 1.0), "fp8": ("fp8", 1.0, 2.0), "nvfp4": ("fp4", 0.5, 4.0)}


def gemm(rows: Sequence[Row]) -> list[Table]:
    """GEMM tables, one per format; tables of narrow ones hold the conversion of activations."""
    tables: dict[str, Table] = {}
    for row in rows:
        if row.text("gemm_dtype") not in FORMATS:
            continue
        variant, width, speed = FORMATS[row.text("gemm_dtype")]
        table = tables.setdefault(variant, Table(GEMM if width == 2.0 else NARROW_GEMM, variant))
        shape = (row.number("m"), row.number("n"), row.number("k"))
        table.rows.append((*shape, width, speed, 0.0, row.number("latency_ms") * MS))
    return list(tables.values())


def attention(rows: Sequence[Row]) -> list[Table]:
    """Prefill rows (step 0) and decode rows of an attention table; full attention, heads of 128 only."""
    prefill, decode = Table(PREFILL_ATTENTION, ""), Table(DECODE_ATTENTION, "")
    for row in rows:
        if row.number("head_dim") != 128 or row.number("window_size") > 0 or row.text("kv_cache_dtype") != "bfloat16":
            continue
        heads = (row.number("num_heads"), row.number("num_key_value_heads"))
        time = row.number("latency_ms") * MS
        if row.number("step") == 0:
            prefill.rows.append((row.number("batch_size"), row.number("isl"), *heads, time))
        else:
            decode.rows.append((row.number("batch_size"), row.number("step") + row.number("isl"), *heads, time))
    return [prefill, decode]


def delta(rows: Sequence[Row]) -> list[Table]:
    """Gated delta net and Kimi delta attention: scans, state updates and convolutions."""
    tables: dict[tuple[str, str], Table] = {}

    def add(form_table: Table, *row: float) -> None:
        tables.setdefault((form_table.form.name, form_table.variant), form_table).rows.append(row)

    for row in rows:
        kernel, batch, length = row.text("kernel_source"), row.number("batch_size"), row.number("seq_len")
        heads, width, state = row.number("num_v_heads"), row.number("head_v_dim"), row.number("head_k_dim")
        time = row.number("latency_ms") * MS
        channels = 2.0 * row.number("num_k_heads") * state + heads * width
        if row.text("phase") == "verify":
            continue
        if kernel.startswith("chunk_gated_delta_rule"):
            add(Table(RECURRENT_SCAN, "gdn"), batch, length, heads, time)
        elif kernel == "chunk_kda":
            add(Table(CHUNK_SCAN, "kda"), batch, length, heads, heads, width, state, 64.0, 0.0, time)
        elif "packed_decode" in kernel:
            add(Table(STATE_UPDATE, "kda" if "kda" in kernel else "gdn"), batch, heads, width, state, time)
        elif kernel.startswith("causal_conv1d_fn"):
            add(Table(CONVOLUTION, "kda" if kernel.endswith("qkv3") else "gdn"), batch, length, channels, time)
        elif kernel == "causal_conv1d_update":
            variant = "kda" if row.number("num_k_heads") == heads else "gdn"
            add(Table(CONVOLUTION_UPDATE, variant), batch, channels, time)
    return list(tables.values())


def mamba(rows: Sequence[Row]) -> list[Table]:
    """Mamba-2: chunk scan and convolutions."""
    scan, conv, update = Table(CHUNK_SCAN, "mamba2"), Table(CONVOLUTION, "mamba2"), Table(CONVOLUTION_UPDATE, "mamba2")
    for row in rows:
        kernel, batch, length = row.text("kernel_source"), row.number("batch_size"), row.number("seq_len")
        heads, width, state = row.number("nheads"), row.number("head_dim"), row.number("d_state")
        channels = heads * width + 2.0 * row.number("n_groups") * state
        time = row.number("latency_ms") * MS
        if kernel == "mamba_chunk_scan_combined":
            chunked = (row.number("n_groups"), width, state, row.number("chunk_size"), 1.0)
            scan.rows.append((batch, length, heads, *chunked, time))
        elif kernel == "causal_conv1d_fn":
            conv.rows.append((batch, length, channels, time))
        elif kernel == "causal_conv1d_update":
            update.rows.append((batch, channels, time))
    return [scan, conv, update]
