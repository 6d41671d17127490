"""Readers of mixture-of-experts transformers: Mixtral, Qwen3-MoE, gpt-oss, DeepSeek-V3."""

from __future__ import annotations

from dataclasses import replace

from hydra_dse.model.blocks import Block, LatentAttention, Model, MoE
from hydra_dse.model.huggingface import common
from hydra_dse.model.huggingface.dense import transformer_block
from hydra_dse.model.huggingface.fields import MAX_LAYERS, Fields


def read_mixtral(fields: Fields) -> Model:
    """Mixtral: every layer a mixture of gated experts as wide as `intermediate_size`."""
    mixer = common.attention(fields, bias=False, window=fields.optional_size("sliding_window"))
    part = common.mixture(fields, "intermediate_size", experts=("num_local_experts", "num_experts"))
    return common.assemble(fields, [transformer_block(mixer, part)] * common.layer_count(fields))


def read_qwen3_moe(fields: Fields) -> Model:
    """Qwen3-MoE: Qwen3 attention; mixtures but for the layers named dense."""
    window = fields.optional_size("sliding_window") if fields.flag("use_sliding_window", default=False) else None
    mixer = common.attention(fields, qk_norm=True, window=window)
    parts = common.sparse_layers(fields, common.mixture(fields, "moe_intermediate_size"))
    return common.assemble(fields, [transformer_block(mixer, part) for part in parts])


def read_gpt_oss(fields: Fields) -> Model:
    """gpt-oss: one attention sink per head, every other layer with a window, biases everywhere."""
    layers = common.layer_count(fields)
    sinks = fields.size("num_attention_heads")
    full = common.attention(
        fields, bias=fields.flag("attention_bias", default=True), head_dim=64, extra_parameters=sinks
    )
    sliding = replace(full, window=fields.optional_size("sliding_window"))
    mixture = common.mixture(
        fields,
        "intermediate_size",
        experts=("num_local_experts", "num_experts"),
        top_k=("num_experts_per_tok", "experts_per_token"),
    )
    part = replace(mixture, router_bias=True, expert_bias=True)
    accepted = ("sliding_attention", "full_attention")
    kinds = common.layer_kinds(fields, accepted, names=str)
    if kinds is None:
        kinds = [accepted[index % 2] for index in range(layers)]
    mixers = {"sliding_attention": sliding, "full_attention": full}
    return common.assemble(fields, [transformer_block(mixers[kind], part) for kind in kinds])


def latent_attention(fields: Fields, *, output_gate: bool = False) -> LatentAttention:
    """Multi-head latent attention from its usual keys; a null `q_lora_rank` means full-rank queries."""
    return LatentAttention(
        heads=fields.size("num_attention_heads"),
        kv_rank=fields.size("kv_lora_rank"),
        rope_dim=fields.size("qk_rope_head_dim", low=0),
        nope_dim=fields.size("qk_nope_head_dim"),
        value_dim=fields.size("v_head_dim"),
        query_rank=fields.optional_size("q_lora_rank"),
        output_gate=output_gate,
        bias=fields.flag("attention_bias", default=False),
    )


def read_deepseek_v3(fields: Fields) -> Model:
    """DeepSeek-V3: latent attention; the first layers dense, the others a mixture with shared experts.

    The multi-token-prediction module is not part of the served model (arXiv 2412.19437 §2.2) and not counted.
    """
    layers = common.layer_count(fields)
    inner = fields.size("moe_intermediate_size")
    shared = fields.size("n_shared_experts", default=0, low=0)
    sparse = MoE(
        inner=inner,
        routing=common.routing(fields, ("n_routed_experts", "num_local_experts"), ("num_experts_per_tok",)),
        shared_inner=shared * inner,
    )
    dense = common.mlp(fields)
    first = fields.size("first_k_dense_replace", default=0, low=0, high=MAX_LAYERS)
    step = fields.size("moe_layer_freq", default=1, high=MAX_LAYERS)
    mixer = latent_attention(fields)
    blocks = [
        Block(
            label="latent_attention",
            mixers=(mixer,),
            feed_forward=dense if index < first or index % step else sparse,
            norms=2,
        )
        for index in range(layers)
    ]
    return common.assemble(fields, blocks)
