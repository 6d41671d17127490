"""Operators of mixers: attention, latent attention, selective scan, state-space duality, gated delta rule.

Prefill runs the linear-time mixers chunk by chunk as GEMMs (Dao and Gu, arXiv 2405.21060 §6; Yang et al.,
arXiv 2412.06464 §3), causal halves counted once; decode updates the state on vector units.  Mamba-1 has no chunked
form and stays on vector units in both.
"""

from __future__ import annotations

from dataclasses import replace

from hydra_dse.model.blocks import Attention, DeltaNet, LatentAttention, Mamba1, Mamba2, Mixer, ShortConv
from hydra_dse.model.feed_forward_operators import SILU_FLOPS, projection
from hydra_dse.model.operators import Operator, OperatorClass

ROPE_FLOPS = 3.0
"""Two products and one addition per rotated element."""


def mixer_operators(mixer: Mixer, hidden: int) -> list[Operator]:
    """Operators of one mixer between residual streams of width `hidden`, in order of execution."""
    if isinstance(mixer, Attention):
        return _attention(mixer, hidden)
    if isinstance(mixer, LatentAttention):
        return _latent_attention(mixer, hidden)
    if isinstance(mixer, Mamba1):
        return _mamba1(mixer, hidden)
    if isinstance(mixer, Mamba2):
        return _mamba2(mixer, hidden)
    if isinstance(mixer, DeltaNet):
        return _delta_net(mixer, hidden)
    return _short_conv(mixer, hidden)


def attention_adapters(mixer: Attention, hidden: int) -> list[Operator]:
    """Low-rank adapters on queries, keys and values; each use of the shared attention owns its own."""
    width = hidden if mixer.input_width is None else mixer.input_width
    outputs = mixer.heads * mixer.head_dim + mixer.kv_heads * (mixer.head_dim + mixer.values)
    rank = mixer.adapter_rank
    down = projection("down", OperatorClass.ATTENTION_PROJECTION, width, 3 * rank)
    up = projection("up", OperatorClass.ATTENTION_PROJECTION, rank, outputs)
    return [
        replace(down, gather_elements_per_token=width),
        replace(up, gather_elements_per_token=3 * rank, parallel_units=mixer.heads),
    ]


def _attention(mixer: Attention, hidden: int) -> list[Operator]:
    width = hidden if mixer.input_width is None else mixer.input_width
    queries, outputs = mixer.heads * mixer.head_dim, mixer.heads * mixer.values
    cached = mixer.kv_heads * (mixer.head_dim + mixer.values)
    projected = queries + (outputs if mixer.output_gate else 0) + (cached if mixer.keeps_kv else 0)
    extra = (projected if mixer.bias else 0) + (2 * mixer.head_dim if mixer.qk_norm else 0)
    inward = projection("qkv", OperatorClass.ATTENTION_PROJECTION, width, projected, extra)
    core = Operator(
        name="core",
        kind=OperatorClass.ATTENTION,
        weight_elements=mixer.extra_parameters,
        vector_flops_per_token=ROPE_FLOPS * (queries + mixer.kv_heads * mixer.head_dim)
        + (SILU_FLOPS * outputs if mixer.output_gate else 0.0),
        matmul_flops_per_pair=2.0 * mixer.heads * (mixer.head_dim + mixer.values),
        kv_elements_per_token=cached,
        kv_heads=mixer.kv_heads,
        kv_writes=mixer.keeps_kv,
        window=mixer.window,
        activation_elements_per_token=queries + cached + outputs,
        # Without a projection of its own the output joins that of the block's other mixer.
        reduce_elements_per_token=0 if mixer.projects_output else outputs,
        parallel_units=mixer.kv_heads,
    )
    # Projections split by query heads; the core by key-value heads, whose cache lies in one place.
    operators = [replace(inward, gather_elements_per_token=width, parallel_units=mixer.heads), core]
    if mixer.projects_output:
        bias = mixer.bias if mixer.output_bias is None else mixer.output_bias
        operators.append(_outward(OperatorClass.ATTENTION_PROJECTION, outputs, hidden, bias, mixer.heads))
    return operators


def _outward(kind: OperatorClass, inputs: int, hidden: int, bias: bool, units: int) -> Operator:
    """Row-parallel projection back into the residual stream."""
    out = projection("out", kind, inputs, hidden, hidden if bias else 0)
    return replace(out, reduce_elements_per_token=hidden, parallel_units=units)


def _latent_attention(mixer: LatentAttention, hidden: int) -> list[Operator]:
    """MLA: prefill expands keys and values, decode attends in the latent space (absorbed projections)."""
    heads, latent = mixer.heads, mixer.kv_rank + mixer.rope_dim
    queries, outputs = heads * (mixer.nope_dim + mixer.rope_dim), heads * mixer.value_dim
    direct = queries if mixer.query_rank is None else mixer.query_rank
    gate = outputs if mixer.output_gate else 0
    biased = (latent + (0 if mixer.query_rank is None else direct)) if mixer.bias else 0
    norms = mixer.kv_rank + (0 if mixer.query_rank is None else mixer.query_rank)
    kind = OperatorClass.ATTENTION_PROJECTION
    down = projection("down", kind, hidden, direct + latent + gate, biased + norms)
    expanded = mixer.kv_rank * heads * (mixer.nope_dim + mixer.value_dim)
    query_up = 0 if mixer.query_rank is None else mixer.query_rank * queries
    up = Operator(
        name="up",
        kind=kind,
        weight_elements=expanded + query_up,
        matmul_flops_per_token=2.0 * (expanded + query_up),
        reduce_width=mixer.kv_rank,
        output_width=heads * (mixer.nope_dim + mixer.value_dim),
        activation_elements_per_token=latent + queries + outputs,
        gather_elements_per_token=latent + (0 if mixer.query_rank is None else mixer.query_rank),
        parallel_units=heads,
    )
    core = Operator(
        name="core",
        kind=OperatorClass.ATTENTION,
        weight_elements=mixer.extra_parameters,
        vector_flops_per_token=ROPE_FLOPS * (heads + 1) * mixer.rope_dim + SILU_FLOPS * gate,
        matmul_flops_per_pair=2.0 * heads * (mixer.nope_dim + mixer.rope_dim + mixer.value_dim),
        matmul_flops_per_decode_pair=2.0 * heads * (2 * mixer.kv_rank + mixer.rope_dim),
        kv_elements_per_token=latent,
        kv_heads=1,
        activation_elements_per_token=queries + latent + outputs,
        parallel_units=heads,
    )
    down = replace(down, gather_elements_per_token=hidden)
    return [down, up, core, _outward(kind, outputs, hidden, mixer.bias, heads)]


def _mamba1(mixer: Mamba1, hidden: int) -> list[Operator]:
    inner, low = mixer.inner, mixer.dt_rank + 2 * mixer.state
    inward = projection("in", OperatorClass.SSM_PROJECTION, hidden, 2 * inner, 2 * inner if mixer.bias else 0)
    select = projection("select", OperatorClass.SSM_PROJECTION, inner, low, low if mixer.norms else 0)
    step = projection("step", OperatorClass.SSM_PROJECTION, mixer.dt_rank, inner, inner)
    scan = Operator(
        name="scan",
        kind=OperatorClass.SSM_SCAN,
        weight_elements=inner * (mixer.state + 1) + mixer.extra_parameters,
        # Decay, its exponential, input, update and readout; then skip and gate.
        vector_flops_per_token=9.0 * inner * mixer.state + (SILU_FLOPS + 2.0) * inner,
        state_elements=inner * mixer.state,
        activation_elements_per_token=4 * inner + 2 * mixer.state,
    )
    return [
        replace(inward, gather_elements_per_token=hidden),
        _convolution(inner, mixer.conv, mixer.conv_bias),
        replace(select, reduce_elements_per_token=low),
        replace(step, gather_elements_per_token=low),
        scan,
        _outward(OperatorClass.SSM_PROJECTION, inner, hidden, mixer.bias, 0),
    ]


def _mamba2(mixer: Mamba2, hidden: int) -> list[Operator]:
    inner, heads = mixer.inner, mixer.heads
    projected = inner + mixer.conv_channels + heads
    inward = projection("in", OperatorClass.SSM_PROJECTION, hidden, projected, projected if mixer.bias else 0)
    state = inner * mixer.state
    intra = mixer.chunk * (mixer.groups * mixer.state + inner)  # causal half of 2·chunk·(…)
    scan = Operator(
        name="scan",
        kind=OperatorClass.SSM_SCAN,
        weight_elements=3 * heads + (inner if mixer.gated_norm else 0) + mixer.extra_parameters,
        # Step sizes, skip connection, gate and grouped norm.
        vector_flops_per_token=(SILU_FLOPS + 2.0 + (5.0 if mixer.gated_norm else 0.0)) * inner + 5.0 * heads,
        matmul_flops_per_prefill_token=intra + 4.0 * state,
        vector_flops_per_prefill_token=3.0 * state / mixer.chunk,
        vector_flops_per_decode_token=6.0 * state,
        state_elements=state,
        activation_elements_per_token=projected + inner,
        parallel_units=heads,
    )
    out_bias = mixer.bias if mixer.output_bias is None else mixer.output_bias
    return [
        replace(inward, gather_elements_per_token=hidden, parallel_units=heads),
        replace(_convolution(mixer.conv_channels, mixer.conv, mixer.conv_bias), parallel_units=heads),
        scan,
        _outward(OperatorClass.SSM_PROJECTION, inner, hidden, out_bias, heads),
    ]


def _delta_net(mixer: DeltaNet, hidden: int) -> list[Operator]:
    keys, values, heads = mixer.keys, mixer.values, mixer.value_heads
    streams = 2 * keys + values
    low_rank = (mixer.decay_rank if mixer.per_channel_gate else heads) + heads
    gate = mixer.gate_rank or values
    inward = projection("in", OperatorClass.SSM_PROJECTION, hidden, streams + low_rank + gate)
    return [
        replace(inward, gather_elements_per_token=hidden, parallel_units=mixer.key_heads),
        *_delta_gates(mixer),
        replace(_convolution(streams, mixer.conv, bias=False), parallel_units=mixer.key_heads),
        _delta_scan(mixer),
        _outward(OperatorClass.SSM_PROJECTION, values, hidden, bias=False, units=mixer.key_heads),
    ]


def _delta_gates(mixer: DeltaNet) -> list[Operator]:
    """Second halves of low-rank gates: decay per key channel, output gate."""
    found = []
    for name, rank, outputs in (
        ("decay", mixer.decay_rank if mixer.per_channel_gate else 0, mixer.keys),
        ("gate", mixer.gate_rank, mixer.values),
    ):
        if rank:
            operator = projection(name, OperatorClass.SSM_PROJECTION, rank, outputs)
            found.append(replace(operator, gather_elements_per_token=rank, parallel_units=mixer.key_heads))
    return found


def _delta_scan(mixer: DeltaNet) -> Operator:
    """Chunked delta rule: three key products and two value products inside a chunk, three with the state."""
    heads, key, value, chunk = mixer.value_heads, mixer.key_dim, mixer.value_dim, mixer.chunk
    state = heads * key * value
    decays = mixer.keys if mixer.per_channel_gate else mixer.value_heads
    logs = mixer.key_heads if mixer.per_channel_gate else mixer.value_heads
    return Operator(
        name="scan",
        kind=OperatorClass.SSM_SCAN,
        weight_elements=decays + logs + value + mixer.extra_parameters,
        # Key and query norms, gate and output norm.
        vector_flops_per_token=8.0 * mixer.keys + (SILU_FLOPS + 5.0) * mixer.values,
        matmul_flops_per_prefill_token=heads * chunk * (3.0 * key + 2.0 * value) + 6.0 * state,
        vector_flops_per_prefill_token=state / chunk,
        # Decay, read by key, rank-one update, read by query.
        vector_flops_per_decode_token=7.0 * state,
        state_elements=state,
        activation_elements_per_token=2 * mixer.keys + 3 * mixer.values,
        parallel_units=mixer.key_heads,
    )


def _short_conv(mixer: ShortConv, hidden: int) -> list[Operator]:
    width = mixer.width
    inward = projection("in", OperatorClass.SSM_PROJECTION, hidden, 3 * width, 3 * width if mixer.bias else 0)
    convolution = _convolution(width, mixer.conv, mixer.bias)
    # Two products with gates around the convolution take the place of the activation.
    flops = (2.0 * mixer.conv + 2.0) * width
    return [
        replace(inward, gather_elements_per_token=hidden),
        replace(convolution, vector_flops_per_token=flops, activation_elements_per_token=4 * width),
        _outward(OperatorClass.SSM_PROJECTION, width, hidden, mixer.bias, 0),
    ]


def _convolution(channels: int, taps: int, bias: bool) -> Operator:
    """Depthwise causal convolution and its activation; its state is the last `taps − 1` inputs."""
    return Operator(
        name="conv",
        kind=OperatorClass.SSM_CONV,
        weight_elements=channels * (taps + (1 if bias else 0)),
        vector_flops_per_token=(2.0 * taps + SILU_FLOPS) * channels,
        conv_state_elements=(taps - 1) * channels,
        activation_elements_per_token=2 * channels,
    )
