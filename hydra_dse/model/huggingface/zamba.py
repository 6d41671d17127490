"""Readers of Zamba and Zamba2: Mamba layers, some preceded by a transformer block that they share.

A shared block reads the residual stream beside the token embedding (twice the width); each use keeps its own KV
cache, its own output projection and, in Zamba2, its own low-rank adapters (arXiv 2411.15242).
"""

from __future__ import annotations

from dataclasses import replace

from hydra_dse.model.blocks import Attention, Block, Mamba1, Mamba2, Mlp, Model
from hydra_dse.model.huggingface import common
from hydra_dse.model.huggingface.fields import MAX_LAYERS, Fields

KINDS = ("mamba", "hybrid")


def read_zamba(fields: Fields) -> Model:
    """Zamba: one shared block, Mamba mixers whose selection is split over `n_mamba_heads`."""
    width = common.hidden_size(fields)
    heads = fields.size("n_mamba_heads", default=2)
    mixer = common.mamba1(fields, norms=False, heads=heads)
    if mixer.inner % heads:
        fields.fail(f"{heads} heads do not divide the inner width {mixer.inner}", "n_mamba_heads")
    shared = Block(
        label="shared_attention",
        mixers=(_attention(fields, width),),
        feed_forward=Mlp(inner=fields.size("intermediate_size")),
        norms=3,  # one over both inputs, one before the MLP
        own_parameters=width * width,
        width=2 * width,
    )
    kinds = common.layer_kinds(fields, KINDS) or _zamba_kinds(fields)
    return common.assemble(fields, _interleave(kinds, [shared], mixer), tied_by_default=True)


def read_zamba2(fields: Fields) -> Model:
    """Zamba2 in the dialect of `transformers` and in the earlier one of its authors (`state_size`, `lora_rank`)."""
    width = common.hidden_size(fields)
    bias = fields.flag("add_bias_linear", default=False)
    attention_adapters = fields.flag("use_shared_attention_adapter", "use_shared_attention_lora", default=False)
    mlp_adapters = fields.flag("use_shared_block_lora", default=True)
    rank = fields.size("adapter_rank", "lora_rank", default=128)
    inner = fields.size("intermediate_size", "ffn_hidden_size", default=4 * width)
    shared = Block(
        label="shared_attention",
        mixers=(replace(_attention(fields, width), adapter_rank=rank if attention_adapters else 0),),
        feed_forward=Mlp(inner=inner, bias=bias, adapter_rank=rank if mlp_adapters else 0),
        norms=3,
        own_parameters=width * width,
        width=2 * width,
    )
    distinct = fields.size("num_mem_blocks", default=1, high=MAX_LAYERS)
    kinds = common.layer_kinds(fields, KINDS) or _zamba2_kinds(fields)
    blocks = _interleave(kinds, [shared] * distinct, _zamba2_mixer(fields, width, bias))
    return common.assemble(fields, blocks, tied_by_default=True)


def _attention(fields: Fields, width: int) -> Attention:
    heads = fields.size("num_attention_heads")
    inner = fields.size("attention_hidden_size", default=2 * width)
    if inner % heads:
        fields.fail(f"{heads} attention heads do not divide the attention width {inner}", "num_attention_heads")
    return common.attention(fields, bias=False, head_dim=inner // heads, input_width=2 * width)


def _interleave(kinds: list[str], distinct: list[Block], mixer: Mamba1 | Mamba2) -> list[Block]:
    """Lay out the layers; the distinct shared blocks take turns, later uses borrow the weights of the first."""
    blocks: list[Block] = []
    owners: dict[int, int] = {}
    uses = 0
    for kind in kinds:
        if kind == "hybrid":
            which = uses % len(distinct)
            owner = owners.get(which)
            owners.setdefault(which, len(blocks))
            blocks.append(replace(distinct[which], weights_of=owner))
            uses += 1
        blocks.append(Block(label="mamba", mixers=(mixer,)))
    return blocks


def _zamba_kinds(fields: Fields) -> list[str]:
    layers = common.layer_count(fields)
    period = fields.size("attn_layer_period", high=MAX_LAYERS)
    offset = fields.size("attn_layer_offset", low=0, high=MAX_LAYERS)
    # The first shared use is the third layer; the period counts from there.
    later = ["hybrid" if index % period == offset else "mamba" for index in range(layers - 3)]
    return [*("mamba", "mamba", "hybrid")[:layers], *later]


def _zamba2_kinds(fields: Fields) -> list[str]:
    layers = common.layer_count(fields)
    shared = fields.sizes("hybrid_layer_ids")
    if shared is None:
        fields.missing("layers_block_type", "hybrid_layer_ids")
    if any(index >= layers for index in shared):
        fields.fail(f"names a layer beyond the {layers} there are", "hybrid_layer_ids")
    return ["hybrid" if index in shared else "mamba" for index in range(layers)]


def _zamba2_mixer(fields: Fields, width: int, bias: bool) -> Mamba2:
    inner = int(fields.factor("mamba_expand", "expansion_factor", default=2) * width)
    heads = fields.optional_size("n_mamba_heads")
    if heads is None:
        head_dim = fields.size("mamba_headdim")
        if inner % head_dim:
            fields.fail(f"heads of {head_dim} do not divide the inner width {inner}", "mamba_headdim")
        heads = inner // head_dim
    elif inner % heads:
        fields.fail(f"{heads} heads do not divide the inner width {inner}", "n_mamba_heads")
    return Mamba2(
        heads=heads,
        head_dim=inner // heads,
        state=fields.size("mamba_d_state", "state_size", default=64),
        groups=common.groups(fields, heads, "mamba_ngroups"),
        conv=fields.size("mamba_d_conv", "conv_dimension", default=4, high=64),
        chunk=fields.size("chunk_size", default=256),
        bias=bias,
    )
