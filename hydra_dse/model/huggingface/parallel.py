"""Readers of families whose layers run attention and a state space mixer side by side: Falcon-H1 and Hymba."""

from __future__ import annotations

from dataclasses import replace

from hydra_dse.model.blocks import Attention, Block, Mlp, Model
from hydra_dse.model.huggingface import common
from hydra_dse.model.huggingface.fields import MAX_LAYERS, Fields


def read_falcon_h1(fields: Fields) -> Model:
    """Falcon-H1: both mixers see the same normalised input, their outputs are added (arXiv 2507.22448)."""
    inner = fields.optional_size("mamba_d_ssm")
    gated_norm = fields.flag("mamba_rms_norm", default=False)
    mamba = common.mamba2(fields, inner=inner, gated_norm=gated_norm)
    mixers = (
        common.attention(fields),
        replace(mamba, output_bias=fields.flag("projectors_bias", default=False)),
    )
    block = Block(label="attention+mamba", mixers=mixers, feed_forward=common.mlp(fields), norms=2)
    return common.assemble(fields, [block] * common.layer_count(fields))


def read_hymba(fields: Fields) -> Model:
    """Hymba: one projection feeds both mixers, their normalised outputs are averaged and projected jointly.

    Groups of neighbouring layers share the keys and values of their first layer; all but the global layers have a
    window; learned tokens are prepended to every prompt (arXiv 2411.13676).
    """
    layers = common.layer_count(fields)
    for place, letter in enumerate(fields.words("layer_type") or ()):
        if letter != "h":
            fields.fail(f"unknown letter {letter!r}; accepted: 'h' (attention and Mamba)", "layer_type", place)
    borrowed = _borrowed(fields, layers)
    everywhere = fields.sizes("global_attn_idx")
    window = fields.optional_size("sliding_window", "attn_window_size")
    mamba = common.mamba1(fields, norms=fields.flag("mamba_inner_layernorms", default=True))
    # Two norms before the outputs are averaged.
    mamba = replace(mamba, extra_parameters=2 * mamba.inner)
    attention = _hymba_attention(fields, mamba.inner)
    part = Mlp(inner=fields.size("intermediate_size"))
    blocks = []
    for index in range(layers):
        is_global = everywhere is None or index in everywhere
        mixer = replace(attention, keeps_kv=index not in borrowed, window=None if is_global else window)
        blocks.append(Block(label="attention+mamba", mixers=(mixer, mamba), feed_forward=part, norms=2))
    width = common.hidden_size(fields)
    learned_tokens = fields.size("num_memory_tokens", default=0, low=0)
    return common.assemble(fields, blocks, tied_by_default=True, extra_parameters=width * (1 + learned_tokens))


def _hymba_attention(fields: Fields, inner: int) -> Attention:
    heads = fields.size("num_attention_heads")
    kv_heads = fields.size("num_key_value_heads")
    if heads % kv_heads:
        fields.fail(f"{kv_heads} key-value heads do not divide {heads} attention heads", "num_key_value_heads")
    width = common.hidden_size(fields)
    # −1 in the file stands for "as wide as the model".
    stated = fields.size("attn_hidden_size", default=-1, low=-1)
    attended = width if stated <= 0 else stated
    stated_head = fields.size("kq_head_dim", default=-1, low=-1)
    for total, name in ((attended, "num_attention_heads"), (inner, "mamba_expand")):
        if total % heads:
            fields.fail(f"{heads} attention heads do not divide the width {total}", name)
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=attended // heads if stated_head <= 0 else stated_head,
        value_dim=fields.size("v_head_dim", default=inner // heads),
        projects_output=False,
    )


def _borrowed(fields: Fields, layers: int) -> frozenset[int]:
    """Layers that read the keys and values of an earlier one: all but the first of each group."""
    groups = fields.value("kv_reuse_group")
    if groups is None:
        return frozenset()
    if not isinstance(groups, list):
        fields.fail("expected a list of groups of layers", "kv_reuse_group")
    found: set[int] = set()
    for place, group in enumerate(groups):
        whole = isinstance(group, list) and all(isinstance(index, int) for index in group)
        if not whole or any(not 0 <= index < min(layers, MAX_LAYERS) for index in group):
            fields.fail(f"expected layer numbers from 0 to {layers - 1}, found {group!r}", "kv_reuse_group", place)
        found.update(sorted(group)[1:])
    return frozenset(found)
