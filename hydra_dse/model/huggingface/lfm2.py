"""Readers of LFM2 and its mixture-of-experts family: gated short convolutions with some attention layers."""

from __future__ import annotations

from dataclasses import replace

from hydra_dse.model.blocks import Block, FeedForward, Mixer, Mlp, Model, ShortConv
from hydra_dse.model.huggingface import common
from hydra_dse.model.huggingface.fields import MAX_LAYERS, Fields

KINDS = ("conv", "full_attention")


def read_lfm2(fields: Fields) -> Model:
    """LFM2: a gated MLP in every layer, its width adjusted where `block_auto_adjust_ff_dim` says so."""
    kinds = _kinds(fields)
    part = Mlp(inner=_adjusted_width(fields))
    return common.assemble(fields, _layers(fields, kinds, [part] * len(kinds)), tied_by_default=True)


def read_lfm2_moe(fields: Fields) -> Model:
    """LFM2-MoE: the first `num_dense_layers` keep a gated MLP, the others are mixtures."""
    kinds = _kinds(fields)
    dense: FeedForward = Mlp(inner=fields.size("intermediate_size"))
    sparse: FeedForward = common.mixture(fields, "moe_intermediate_size")
    first = fields.size("num_dense_layers", default=2, low=0, high=MAX_LAYERS)
    parts = [dense if index < first else sparse for index in range(len(kinds))]
    return common.assemble(fields, _layers(fields, kinds, parts), tied_by_default=True)


def _kinds(fields: Fields) -> list[str]:
    kinds = common.layer_kinds(fields, KINDS, names=str)
    if kinds is None:
        attended = fields.sizes("full_attn_idxs")
        if attended is None:
            fields.missing("layer_types", "full_attn_idxs")
        kinds = [KINDS[1] if index in attended else KINDS[0] for index in range(common.layer_count(fields))]
    return kinds


def _layers(fields: Fields, kinds: list[str], parts: list[FeedForward]) -> list[Block]:
    width = common.hidden_size(fields)
    convolution = ShortConv(
        width=width,
        conv=fields.size("conv_L_cache", default=3, high=64),
        bias=fields.flag("conv_bias", default=False),
    )
    attention = replace(common.attention(fields, bias=False), qk_norm=True)
    mixers: dict[str, Mixer] = {"conv": convolution, "full_attention": attention}
    labels = {"conv": "conv", "full_attention": "attention"}
    return [
        Block(label=labels[kind], mixers=(mixers[kind],), feed_forward=part, norms=2)
        for kind, part in zip(kinds, parts, strict=True)
    ]


def _adjusted_width(fields: Fields) -> int:
    """Inner width: as stated, or two thirds of it, scaled and rounded up to a multiple.

    Published files carry the switch.  One without it states the width as it is.
    """
    inner = fields.size("block_ff_dim", "intermediate_size")
    if not fields.flag("block_auto_adjust_ff_dim", default=False):
        return inner
    scaled = int(fields.factor("block_ffn_dim_multiplier", default=1.0) * int(2 * inner / 3))
    multiple = fields.size("block_multiple_of", default=256)
    return multiple * ((scaled + multiple - 1) // multiple)
