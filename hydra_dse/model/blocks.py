"""An LLM as blocks: what each mixer and feed-forward part is made of, in the terms of its architecture.

These dataclasses hold dimensions only.  Parameter counts and cache sizes are in `hydra_dse.model.counts`,
FLOPs and bytes in `hydra_dse.model.lowering`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hydra_dse.model.operators import Routing
from hydra_dse.model.precision import Precision


@dataclass(frozen=True)
class Attention:
    """Grouped-query attention.

    Attributes:
        heads, kv_heads, head_dim: query heads, key-value heads, elements of a query or key.
        value_dim: elements of a value, None = `head_dim`.
        input_width: width of what is projected, None = `hidden_size`.
        bias: whether the query, key and value projections have one.
        output_bias: whether the output projection has one, None = as `bias`.
        qk_norm: whether queries and keys are normalised per head.
        output_gate: whether a gate as wide as the output is projected beside the queries.
        window: attention window in tokens, None = unlimited.
        keeps_kv: False where it projects no keys and values and reads the cache of an earlier layer.
        projects_output: False where another mixer of the block projects the joint output (Hymba).
        adapter_rank: rank of the adapters on queries, keys and values that each use owns (Zamba2); 0 = none.
        extra_parameters: further parameters (attention sinks, a convolution on the projections).
    """

    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int | None = None
    input_width: int | None = None
    bias: bool = False
    qk_norm: bool = False
    output_gate: bool = False
    window: int | None = None
    keeps_kv: bool = True
    extra_parameters: int = 0
    output_bias: bool | None = None
    projects_output: bool = True
    adapter_rank: int = 0

    @property
    def values(self) -> int:
        """Elements of a value."""
        return self.head_dim if self.value_dim is None else self.value_dim


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention (MLA): one compressed cache row per token, shared by all heads.

    Queries and keys have `nope_dim + rope_dim` elements a head, values `value_dim`; the cache holds
    `kv_rank + rope_dim` elements a token (DeepSeek-V2, arXiv 2405.04434).  `query_rank` is None where queries are
    projected at full rank; `bias` is that of the projections into the latent spaces and out.
    """

    heads: int
    kv_rank: int
    rope_dim: int
    nope_dim: int
    value_dim: int
    query_rank: int | None = None
    extra_parameters: int = 0
    output_gate: bool = False
    bias: bool = False


@dataclass(frozen=True)
class Mamba1:
    """Selective state space mixer of Mamba (Jamba, Zamba, Falcon-Mamba): state `inner × state` per sequence."""

    inner: int
    state: int
    conv: int
    dt_rank: int
    heads: int = 1
    norms: bool = False
    bias: bool = False
    conv_bias: bool = True
    extra_parameters: int = 0


@dataclass(frozen=True)
class Mamba2:
    """State-space-duality mixer of Mamba-2: state `heads × head_dim × state` per sequence.

    `bias` is that of the input projection, `output_bias` of the output projection (None = as `bias`).
    """

    heads: int
    head_dim: int
    state: int
    groups: int
    conv: int
    chunk: int = 256
    bias: bool = False
    conv_bias: bool = True
    gated_norm: bool = True
    extra_parameters: int = 0
    output_bias: bool | None = None

    @property
    def inner(self) -> int:
        """Width of the mixer: all channels of all heads."""
        return self.heads * self.head_dim

    @property
    def conv_channels(self) -> int:
        """Channels of the convolution: inner width and both group projections."""
        return self.inner + 2 * self.groups * self.state


@dataclass(frozen=True)
class DeltaNet:
    """Gated delta rule: gated DeltaNet (Qwen3-Next) or, with a gate per channel, Kimi Delta Attention.

    State `value_heads × key_dim × value_dim` per sequence.

    Attributes:
        per_channel_gate: whether every key channel decays on its own (KDA) or every head (gated DeltaNet).
        decay_rank: rank of the projection of per-channel decays.
        gate_rank: rank of the output gate's projection, 0 = full rank.
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv: int
    per_channel_gate: bool = False
    gate_rank: int = 0
    chunk: int = 64
    extra_parameters: int = 0
    decay_rank: int = 0

    @property
    def keys(self) -> int:
        """Width of all keys (and of all queries)."""
        return self.key_heads * self.key_dim

    @property
    def values(self) -> int:
        """Width of all values."""
        return self.value_heads * self.value_dim


@dataclass(frozen=True)
class ShortConv:
    """Gated short convolution mixer (LFM2)."""

    width: int
    conv: int
    bias: bool = False


@dataclass(frozen=True)
class Mlp:
    """Dense feed-forward part; `gated` has three matrices, plain has two; each use owns adapters of `adapter_rank`."""

    inner: int
    gated: bool = True
    bias: bool = False
    adapter_rank: int = 0
    input_width: int | None = None


@dataclass(frozen=True)
class MoE:
    """Mixture of experts with shared experts, and with a latent width in front of the routed ones where stated."""

    inner: int
    routing: Routing
    gated: bool = True
    shared_inner: int = 0
    shared_gate: bool = False
    latent_width: int | None = None
    router_bias: bool = False
    expert_bias: bool = False
    extra_parameters: int = 0


Mixer = Attention | LatentAttention | Mamba1 | Mamba2 | DeltaNet | ShortConv
FeedForward = Mlp | MoE


@dataclass(frozen=True)
class Block:
    """One layer: mixers that run on the same input (side by side where there are two), then a feed-forward part.

    Attributes:
        label: short name for tables, e.g. `"mamba"`, `"attention"`, `"mlp"`, `"attention+mamba"`.
        mixers: none, one, or several in parallel.
        feed_forward: None where the layer has none.
        norms: normalisation vectors of `hidden_size` elements.
        weights_of: index of an earlier block whose weights this block shares, None where it owns its own.
        own_parameters: elements of a square projection that stays this block's own beside shared weights.
        width: input width where it differs from the model's (concatenated inputs of Zamba's shared block).
    """

    label: str
    mixers: tuple[Mixer, ...] = ()
    feed_forward: FeedForward | None = None
    norms: int = 1
    weights_of: int | None = None
    own_parameters: int = 0
    width: int | None = None


@dataclass(frozen=True)
class Model:
    """A language model as a stack of blocks between an embedding and a head.

    Attributes:
        name: preset name or file stem.
        family: the `model_type` of its configuration.
        hidden_size, vocabulary: widths.
        blocks: the layers in order.
        tied_embeddings: whether the head reuses the embedding table.
        max_position_embeddings: longest sequence it is made for, None where unlimited or not stated.
        precision: formats of its operands as served by default.
        extra_parameters: parameters outside the blocks (final norm, positional tables).
        source: where its figures come from.
    """

    name: str
    family: str
    hidden_size: int
    vocabulary: int
    blocks: tuple[Block, ...]
    tied_embeddings: bool = False
    max_position_embeddings: int | None = None
    precision: Precision = field(default_factory=Precision)
    extra_parameters: int = 0
    source: str = ""
