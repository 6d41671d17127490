"""Parameters, weight bytes, KV cache and recurrent state of a model, from the dimensions of its blocks.

Weights that several blocks share count once; an adapter or projection counts for every block that owns it.
"""

from __future__ import annotations

from hydra_dse.model.blocks import (
    Attention,
    Block,
    DeltaNet,
    FeedForward,
    LatentAttention,
    Mamba1,
    Mamba2,
    Mixer,
    Mlp,
    Model,
    MoE,
    ShortConv,
)
from hydra_dse.model.precision import Precision


def total_parameters(model: Model) -> int:
    """All parameters, shared ones once; embedding and head as one where they are tied."""
    return outer_parameters(model) + sum(block_parameters(model, block) for block in model.blocks)


def active_parameters(model: Model) -> int:
    """Parameters that one token passes: all but the experts it is not routed to."""
    return total_parameters(model) - sum(_idle_parameters(model, block) for block in model.blocks)


def outer_parameters(model: Model) -> int:
    """Embedding, head, final norm and whatever else lies outside the blocks."""
    tables = 1 if model.tied_embeddings else 2
    return tables * model.vocabulary * model.hidden_size + model.extra_parameters


def block_parameters(model: Model, block: Block) -> int:
    """Parameters that this block owns (not those it borrows from an earlier one)."""
    own = block.own_parameters + _adapter_parameters(model, block)
    if block.weights_of is not None:
        return own
    parts = sum(mixer_parameters(mixer, model.hidden_size) for mixer in block.mixers)
    if block.feed_forward is not None:
        parts += feed_forward_parameters(block.feed_forward, model.hidden_size)
    return own + parts + block.norms * model.hidden_size


def weight_bytes(model: Model, precision: Precision) -> float:
    """Bytes of all weights at the precision's weight format."""
    return total_parameters(model) * precision.weight_bytes


def kv_bytes_per_token(model: Model, precision: Precision) -> float:
    """KV-cache bytes one token adds, over the blocks that keep KV (each use of a shared block keeps its own)."""
    return _kv_elements_per_token(model) * precision.kv_bytes


def kv_bytes(model: Model, precision: Precision, context_tokens: float) -> float:
    """KV-cache bytes of one sequence at a context; blocks with a window keep no more than the window."""
    kept = 0.0
    for mixer in _mixers(model):
        window = mixer.window if isinstance(mixer, Attention) else None
        tokens = context_tokens if window is None else min(context_tokens, window)
        kept += kv_elements(mixer) * tokens
    return kept * precision.kv_bytes


def state_bytes_per_sequence(model: Model, precision: Precision) -> float:
    """Recurrent state (SSM or delta rule, then convolution, each in its own format) of one sequence."""
    recurrent = sum(state_elements(mixer) for mixer in _mixers(model))
    convolution = sum(conv_state_elements(mixer) for mixer in _mixers(model))
    return recurrent * precision.state_bytes + convolution * precision.conv_state_bytes


def kv_elements(mixer: Mixer) -> int:
    """KV-cache elements that a mixer keeps per token."""
    if isinstance(mixer, Attention):
        return mixer.kv_heads * (mixer.head_dim + mixer.values) if mixer.keeps_kv else 0
    if isinstance(mixer, LatentAttention):
        return mixer.kv_rank + mixer.rope_dim
    return 0


def state_elements(mixer: Mixer) -> int:
    """Elements of a mixer's recurrent state per sequence, convolution left out."""
    if isinstance(mixer, Mamba1):
        return mixer.inner * mixer.state
    if isinstance(mixer, Mamba2):
        return mixer.inner * mixer.state
    if isinstance(mixer, DeltaNet):
        return mixer.value_heads * mixer.key_dim * mixer.value_dim
    return 0


def conv_state_elements(mixer: Mixer) -> int:
    """Elements of a mixer's convolution state per sequence: the last `width − 1` inputs of every channel."""
    if isinstance(mixer, Mamba1):
        return (mixer.conv - 1) * mixer.inner
    if isinstance(mixer, Mamba2):
        return (mixer.conv - 1) * mixer.conv_channels
    if isinstance(mixer, DeltaNet):
        return (mixer.conv - 1) * (2 * mixer.keys + mixer.values)
    if isinstance(mixer, ShortConv):
        return (mixer.conv - 1) * mixer.width
    return 0


def mixer_parameters(mixer: Mixer, hidden: int) -> int:
    """Parameters of one mixer between residual streams of width `hidden` (adapters left out)."""
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
    conv = mixer.width * mixer.conv
    biases = 4 * mixer.width + hidden if mixer.bias else 0
    return 4 * mixer.width * hidden + conv + biases


def feed_forward_parameters(part: FeedForward, hidden: int) -> int:
    """Parameters of one feed-forward part (adapters left out)."""
    if isinstance(part, Mlp):
        width = hidden if part.input_width is None else part.input_width
        return _mlp(width, part.inner, part.gated, part.bias)
    width = hidden if part.latent_width is None else part.latent_width
    experts = part.routing.experts * expert_parameters(part, hidden)
    router = hidden * part.routing.experts + (part.routing.experts if part.router_bias else 0)
    latent = 0 if part.latent_width is None else 2 * hidden * width
    shared = _mlp(hidden, part.shared_inner, part.gated, bias=False)
    return experts + router + latent + shared + (hidden if part.shared_gate else 0) + part.extra_parameters


def expert_parameters(part: MoE, hidden: int) -> int:
    """Parameters of one routed expert."""
    width = hidden if part.latent_width is None else part.latent_width
    return _mlp(width, part.inner, part.gated, part.expert_bias)


def _mixers(model: Model) -> list[Mixer]:
    return [mixer for block in model.blocks for mixer in block.mixers]


def _kv_elements_per_token(model: Model) -> int:
    return sum(kv_elements(mixer) for mixer in _mixers(model))


def _idle_parameters(model: Model, block: Block) -> int:
    part = block.feed_forward
    if not isinstance(part, MoE) or block.weights_of is not None:
        return 0
    return (part.routing.experts - part.routing.top_k) * expert_parameters(part, model.hidden_size)


def _adapter_parameters(model: Model, block: Block) -> int:
    part = block.feed_forward
    adapters = 0
    if isinstance(part, Mlp) and part.adapter_rank:
        outputs = part.inner * (2 if part.gated else 1)
        adapters += part.adapter_rank * (model.hidden_size + outputs)
    for mixer in block.mixers:
        if isinstance(mixer, Attention) and mixer.adapter_rank:
            width = model.hidden_size if mixer.input_width is None else mixer.input_width
            outputs = mixer.heads * mixer.head_dim + mixer.kv_heads * (mixer.head_dim + mixer.values)
            adapters += mixer.adapter_rank * (3 * width + outputs)
    return adapters


def _mlp(width: int, inner: int, gated: bool, bias: bool) -> int:
    matrices = 3 if gated else 2
    biases = (matrices - 1) * inner + width if bias else 0
    return matrices * width * inner + biases


def _attention(mixer: Attention, hidden: int) -> int:
    width = hidden if mixer.input_width is None else mixer.input_width
    queries, outputs = mixer.heads * mixer.head_dim, mixer.heads * mixer.values
    projected = queries + (outputs if mixer.output_gate else 0)
    if mixer.keeps_kv:
        projected += mixer.kv_heads * (mixer.head_dim + mixer.values)
    total = projected * (width + (1 if mixer.bias else 0)) + mixer.extra_parameters
    if mixer.qk_norm:
        total += 2 * mixer.head_dim
    if mixer.projects_output:
        output_bias = mixer.bias if mixer.output_bias is None else mixer.output_bias
        total += outputs * hidden + (hidden if output_bias else 0)
    return total


def _latent_attention(mixer: LatentAttention, hidden: int) -> int:
    queries = mixer.heads * (mixer.nope_dim + mixer.rope_dim)
    outputs = mixer.heads * mixer.value_dim
    latent = mixer.kv_rank + mixer.rope_dim
    if mixer.query_rank is None:
        query, biased = hidden * queries, latent + hidden
    else:
        query = mixer.query_rank * (hidden + queries + 1)  # + 1: its normalisation
        biased = latent + hidden + mixer.query_rank
    cache = hidden * latent + mixer.kv_rank * (1 + mixer.heads * (mixer.nope_dim + mixer.value_dim))
    output = outputs * hidden * (2 if mixer.output_gate else 1)
    return query + cache + output + (biased if mixer.bias else 0) + mixer.extra_parameters


def _mamba1(mixer: Mamba1, hidden: int) -> int:
    inner, low = mixer.inner, mixer.dt_rank + 2 * mixer.state
    projections = 3 * inner * hidden + (2 * inner + hidden if mixer.bias else 0)
    conv = inner * (mixer.conv + (1 if mixer.conv_bias else 0))
    selection = inner * low + inner * (mixer.dt_rank + 1)
    dynamics = inner * (mixer.state + 1)
    return projections + conv + selection + dynamics + (low if mixer.norms else 0) + mixer.extra_parameters


def _mamba2(mixer: Mamba2, hidden: int) -> int:
    projected = mixer.inner + mixer.conv_channels + mixer.heads
    output_bias = mixer.bias if mixer.output_bias is None else mixer.output_bias
    biases = (projected if mixer.bias else 0) + (hidden if output_bias else 0)
    conv = mixer.conv_channels * (mixer.conv + (1 if mixer.conv_bias else 0))
    dynamics = 3 * mixer.heads + (mixer.inner if mixer.gated_norm else 0)
    return hidden * (projected + mixer.inner) + biases + conv + dynamics + mixer.extra_parameters


def _delta_net(mixer: DeltaNet, hidden: int) -> int:
    streams = 2 * mixer.keys + mixer.values
    if mixer.per_channel_gate:
        decay = mixer.decay_rank * (hidden + mixer.keys) + mixer.keys + mixer.key_heads
    else:
        decay = hidden * mixer.value_heads + 2 * mixer.value_heads
    gate = mixer.gate_rank * (hidden + mixer.values) if mixer.gate_rank else hidden * mixer.values
    beta = hidden * mixer.value_heads
    conv = streams * mixer.conv
    output = mixer.values * hidden + mixer.value_dim
    return hidden * streams + decay + gate + beta + conv + output + mixer.extra_parameters
