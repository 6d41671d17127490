"""Readers of dense transformers: Llama, Mistral, Qwen2, Qwen3."""

from __future__ import annotations

from hydra_dse.model.blocks import Attention, Block, FeedForward, Model
from hydra_dse.model.huggingface import common
from hydra_dse.model.huggingface.fields import MAX_LAYERS, Fields


def transformer_block(mixer: Attention, part: FeedForward) -> Block:
    """A pre-norm transformer layer: a norm before each of its two halves."""
    return Block(label="attention", mixers=(mixer,), feed_forward=part, norms=2)


def windows(fields: Fields, layers: int) -> list[int | None]:
    """Window of each layer of Qwen2 and Qwen3: layers from `max_window_layers` on slide, if sliding is on."""
    if not fields.flag("use_sliding_window", default=False):
        return [None] * layers
    window = fields.optional_size("sliding_window")
    kinds = fields.words("layer_types")
    if kinds is not None:
        return [window if kind == "sliding_attention" else None for kind in kinds]
    first = fields.size("max_window_layers", default=layers, low=0, high=MAX_LAYERS)
    return [window if index >= first else None for index in range(layers)]


def read_llama(fields: Fields) -> Model:
    """Llama: grouped-query attention and a gated MLP in every layer."""
    block = transformer_block(common.attention(fields), common.mlp(fields))
    return common.assemble(fields, [block] * common.layer_count(fields))


def read_mistral(fields: Fields) -> Model:
    """Mistral: as Llama, with one window for all layers where `sliding_window` is set."""
    mixer = common.attention(fields, bias=False, window=fields.optional_size("sliding_window"))
    return common.assemble(fields, [transformer_block(mixer, common.mlp(fields))] * common.layer_count(fields))


def read_qwen2(fields: Fields) -> Model:
    """Qwen2 and Qwen2.5: biases on queries, keys and values, none on the output."""
    part = common.mlp(fields)
    blocks = [
        transformer_block(common.attention(fields, bias=True, output_bias=False, window=window), part)
        for window in windows(fields, common.layer_count(fields))
    ]
    return common.assemble(fields, blocks)


def read_qwen3(fields: Fields) -> Model:
    """Qwen3: queries and keys normalised per head; `head_dim` is its own dimension."""
    part = common.mlp(fields)
    blocks = [
        transformer_block(common.attention(fields, head_dim=128, qk_norm=True, window=window), part)
        for window in windows(fields, common.layer_count(fields))
    ]
    return common.assemble(fields, blocks)
