"""Forms of GPU kernels: a floor, and work over an achievable share of the peak or of the bandwidth.

Shares, not seconds, wherever a specification gives the scale, so that a fit on one chip predicts another from its
specification.

- GEMM: tiles of the result are dealt over the processors in waves; of four tile sizes the library takes the fastest;
  the inner loop has a fixed cost of `prologue` steps; traffic overlaps with it up to a power mean.  A board that has
  multiplied for milliseconds (`busy` before the kernel) meets its power limit and clocks down.
- Narrow GEMM (8-bit formats): the same, after activations in 16 bits have been read and written in the narrow format.
- Prefill attention (causal): share of the peak saturates in the prompt's length.
- Decode attention: KV bytes, in tiles of 128 tokens, over the bandwidth; a cost per sequence and KV head.
- Recurrent scans: blocks of one (sequence, head) walk their chunks one after the other, in waves over the processors.
- Chunk scans: work over all chunks, the state of each (sequence, head) in and out, and a serial chain of chunks.
- State update and convolution: bytes over the bandwidth.
"""

from __future__ import annotations

import numpy as np

from hydra_dse.calibration.nouns import ChipFigures, Columns, FloatArray, Form, Parameter

TILES = ((128, 256), (128, 128), (64, 128), (64, 64))
HEAD = 128.0
KV_TILE = 128.0
CHUNK = 64.0
POWER_S = 1e-3
"""Time in which a board's power limit acts on clocks (assumption; the rows tell milliseconds from microseconds)."""
STATE_BYTES = 4.0


def _share(name: str, start: float, meaning: str, high: float = 1.5) -> Parameter:
    return Parameter(name, "1", start, 1e-3, high, meaning)


def _floor(start: float) -> Parameter:
    return Parameter("floor", "s", start, 1e-7, 1e-3, "time of the smallest kernel: launch, first loads, drain")


def _gemm(values: FloatArray, columns: Columns, chip: ChipFigures) -> FloatArray:
    floor, share, streamed, prologue, overlap, throttled = values
    m, n, k, width, speed, busy = (columns[name] for name in ("m", "n", "k", "bytes", "speed", "busy"))
    per_processor = chip.peak_flops_per_s * speed * share / chip.processors
    compute = np.full(m.shape, np.inf)
    for rows, outer in TILES:
        waves = np.ceil(np.ceil(m / rows) * np.ceil(n / outer) / chip.processors)
        compute = np.minimum(compute, waves * rows * outer * 2.0 * (k + prologue) / per_processor)
    loaded = busy + compute
    compute = compute * (1.0 + throttled * loaded / (loaded + POWER_S))
    traffic = (width * n * k + width * m * k + 2.0 * m * n) / (chip.memory_bytes_per_s * streamed)
    return np.asarray(floor + (compute**overlap + traffic**overlap) ** (1.0 / overlap))


GEMM = Form(
    name="gemm",
    operator_class="mlp, projections, experts, lm_head",
    columns=("m", "n", "k", "bytes", "speed", "busy"),
    configuration=("n", "k"),
    parameters=(
        _floor(2.5e-6),
        _share("share", 0.8, "share of the matrix peak in the inner loop"),
        _share("streamed", 0.85, "share of the bandwidth at which weights stream"),
        Parameter("prologue", "steps", 200.0, 1.0, 4000.0, "steps of the inner width that a tile costs beyond its own"),
        Parameter("overlap", "1", 3.0, 1.0, 20.0, "power mean of compute and traffic: 1 in turn, large side by side"),
        Parameter("throttled", "1", 0.2, 1e-3, 2.0, "growth of the time of multiplication under the power limit"),
    ),
    predict=_gemm,
    response="time_s",
    formula=(
        "floor + mean_p(c · (1 + throttled · l/(l + 1 ms)), bytes / (bandwidth · streamed)), l = busy + c,"
        " c = waves · tile · 2(k + prologue) / (peak/processors · share)"
    ),
)


def _narrow(values: FloatArray, columns: Columns, chip: ChipFigures) -> FloatArray:
    converted = (2.0 + columns["bytes"]) * columns["m"] * columns["k"] / (chip.memory_bytes_per_s * values[-1])
    return np.asarray(_gemm(values[:-1], columns, chip) + converted)


NARROW_GEMM = Form(
    name="narrow-gemm",
    operator_class=GEMM.operator_class,
    columns=GEMM.columns,
    configuration=GEMM.configuration,
    parameters=(
        *GEMM.parameters,
        _share(
            "converted", 0.3, "share of the bandwidth at which activations are read in 16 bits and written narrow", 3.0
        ),
    ),
    predict=_narrow,
    response="time_s",
    formula="as gemm + (2 + bytes) · m · k / (bandwidth · converted)",
    family="gemm",
)


def _prefill(values: FloatArray, columns: Columns, chip: ChipFigures) -> FloatArray:
    floor, share, half = values
    batch, length, heads, kv_heads = (columns[name] for name in ("batch", "length", "heads", "kv_heads"))
    flops = 2.0 * HEAD * heads * batch * length * (length + 1.0)
    filled = np.minimum(1.0, batch * heads * np.ceil(length / 128.0) / chip.processors)
    compute = flops * (1.0 + half / length) / (chip.peak_flops_per_s * share * filled)
    traffic = 4.0 * (heads + kv_heads) * HEAD * batch * length / (chip.memory_bytes_per_s * 0.8)
    return np.asarray(floor + np.maximum(compute, traffic))


PREFILL_ATTENTION = Form(
    name="prefill-attention",
    operator_class="attention",
    columns=("batch", "length", "heads", "kv_heads"),
    configuration=("heads", "kv_heads"),
    parameters=(
        _floor(1e-5),
        _share("share", 0.6, "share of the matrix peak on long prompts"),
        Parameter("half_length", "tokens", 300.0, 1.0, 2e4, "prompt length at which half of that share is reached"),
    ),
    predict=_prefill,
    response="time_s",
    formula="floor + max(FLOPs (1 + half_length/length) / (peak · share · filled), bytes / (0.8 bandwidth))",
)


def _decode(values: FloatArray, columns: Columns, chip: ChipFigures) -> FloatArray:
    floor, streamed, entry = values
    batch, context, heads, kv_heads = (columns[name] for name in ("batch", "context", "heads", "kv_heads"))
    read = np.ceil(context / KV_TILE) * KV_TILE
    traffic = 4.0 * HEAD * batch * (read * kv_heads + heads)
    return np.asarray(floor + batch * kv_heads * entry + traffic / (chip.memory_bytes_per_s * streamed))


DECODE_ATTENTION = Form(
    name="decode-attention",
    operator_class="attention (kv)",
    columns=("batch", "context", "heads", "kv_heads"),
    configuration=("heads", "kv_heads"),
    parameters=(
        _floor(1e-5),
        _share("streamed", 0.85, "share of the bandwidth at which KV is read"),
        Parameter("entry", "s", 1e-8, 1e-12, 1e-5, "fixed time of one more sequence and KV head"),
    ),
    predict=_decode,
    response="time_s",
    formula="floor + batch · kv_heads · entry + bytes, contexts in tiles of 128, / (bandwidth · streamed)",
)


def _scan_flops(
    chunk: FloatArray | float, width: FloatArray | float, state: FloatArray | float, shared: FloatArray | float = 1.0
) -> FloatArray:
    """FLOPs of a chunked scan per token and head (Dao and Gu, arXiv 2405.21060 §6).

    Causal halves within the chunk, its keys and queries shared by `shared` heads, and two products with the state.
    """
    return np.asarray(chunk * state / shared + chunk * width + 4.0 * width * state)


def _recurrent_scan(values: FloatArray, columns: Columns, chip: ChipFigures) -> FloatArray:
    floor, share, entry = values
    batch, length, heads = (columns[name] for name in ("batch", "length", "heads"))
    waves = np.ceil(batch * heads / chip.processors)
    chunk = CHUNK * _scan_flops(CHUNK, HEAD, HEAD) / (chip.peak_flops_per_s / chip.processors * share)
    return np.asarray(floor + waves * (np.ceil(length / CHUNK) * chunk + entry))


RECURRENT_SCAN = Form(
    name="recurrent-scan",
    operator_class="ssm_scan",
    columns=("batch", "length", "heads"),
    configuration=("heads",),
    parameters=(
        _floor(1e-5),
        _share("share", 0.1, "share of one processor's peak while it walks a chunk"),
        Parameter("entry", "s", 1e-6, 1e-9, 1e-3, "time to enter and leave one wave of sequences and heads"),
    ),
    predict=_recurrent_scan,
    response="time_s",
    formula="floor + waves · (chunks · FLOPs of a chunk / (peak/processors · share) + entry)",
)


def _chunk_scan(values: FloatArray, columns: Columns, chip: ChipFigures) -> FloatArray:
    floor, share, moved, serial = values
    names = ("batch", "length", "heads", "groups", "width", "state", "chunk", "padded")
    batch, length, heads, groups, width, state, chunk, padded = (columns[name] for name in names)
    chunks = np.ceil(length / chunk)
    tokens = np.where(padded > 0, chunks * chunk, length)
    compute = (
        batch * tokens * heads * _scan_flops(chunk, width, state, heads / groups) / (chip.peak_flops_per_s * share)
    )
    entry = batch * heads * 2.0 * width * state * STATE_BYTES / (chip.memory_bytes_per_s * moved)
    return np.asarray(floor + compute + entry + chunks * serial)


CHUNK_SCAN = Form(
    name="chunk-scan",
    operator_class="ssm_scan",
    columns=("batch", "length", "heads", "groups", "width", "state", "chunk", "padded"),
    configuration=("heads", "width", "state"),
    parameters=(
        _floor(2e-5),
        _share("share", 0.03, "share of the matrix peak over all chunks"),
        _share("moved", 0.3, "share of the bandwidth at which states enter and leave"),
        Parameter("serial", "s", 1e-6, 1e-10, 1e-3, "time of one more chunk in the longest sequence"),
    ),
    predict=_chunk_scan,
    response="time_s",
    formula="floor + FLOPs / (peak · share) + state bytes / (bandwidth · moved) + chunks · serial",
)


def _state_update(values: FloatArray, columns: Columns, chip: ChipFigures) -> FloatArray:
    floor, moved = values
    batch, heads, width, state = (columns[name] for name in ("batch", "heads", "width", "state"))
    traffic = 2.0 * batch * heads * width * state * STATE_BYTES
    return np.asarray(floor + traffic / (chip.memory_bytes_per_s * moved))


STATE_UPDATE = Form(
    name="state-update",
    operator_class="ssm_scan (state)",
    columns=("batch", "heads", "width", "state"),
    configuration=("heads",),
    parameters=(_floor(4e-6), _share("moved", 0.8, "share of the bandwidth at which fp32 states are read and written")),
    predict=_state_update,
    response="time_s",
    formula="floor + state bytes read and written / (bandwidth · moved)",
)


def _convolution(values: FloatArray, columns: Columns, chip: ChipFigures) -> FloatArray:
    floor, streamed, entry = values
    batch, length, channels = (columns[name] for name in ("batch", "length", "channels"))
    traffic = 4.0 * batch * length * channels / (chip.memory_bytes_per_s * streamed)
    return np.asarray(floor + traffic + batch * channels * entry)


CONVOLUTION = Form(
    name="convolution",
    operator_class="ssm_conv",
    columns=("batch", "length", "channels"),
    configuration=("channels",),
    parameters=(
        _floor(5e-6),
        _share("streamed", 0.5, "share of the bandwidth at which activations stream"),
        Parameter("entry", "s", 1e-11, 1e-14, 1e-7, "time of one more sequence and channel"),
    ),
    predict=_convolution,
    response="time_s",
    formula="floor + activation bytes in and out / (bandwidth · streamed) + batch · channels · entry",
)


def _convolution_update(values: FloatArray, columns: Columns, chip: ChipFigures) -> FloatArray:
    floor, moved = values
    # One token in and out, the window of four read and written.
    traffic = columns["batch"] * columns["channels"] * 2.0 * (2.0 + 2.0 * 4.0)
    return np.asarray(floor + traffic / (chip.memory_bytes_per_s * moved))


CONVOLUTION_UPDATE = Form(
    name="convolution-update",
    operator_class="ssm_conv (state)",
    columns=("batch", "channels"),
    configuration=("channels",),
    parameters=(
        _floor(4e-6),
        _share("moved", 0.5, "share of the bandwidth at which windows are read and written", 3.0),
    ),
    predict=_convolution_update,
    response="time_s",
    formula="floor + window bytes / (bandwidth · moved)",
)

KERNEL_FORMS = (
    GEMM,
    NARROW_GEMM,
    PREFILL_ATTENTION,
    DECODE_ATTENTION,
    RECURRENT_SCAN,
    CHUNK_SCAN,
    STATE_UPDATE,
    CONVOLUTION,
    CONVOLUTION_UPDATE,
)
