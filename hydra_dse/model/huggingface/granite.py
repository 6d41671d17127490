"""Readers of Bamba and Granite 4 hybrids: Mamba-2 or attention, then a feed-forward part, in every layer."""

from __future__ import annotations

from dataclasses import replace

from hydra_dse.model.blocks import Block, FeedForward, Mixer, Model
from hydra_dse.model.huggingface import common
from hydra_dse.model.huggingface.fields import Fields


def read_bamba(fields: Fields) -> Model:
    """Bamba: the layers of `attn_layer_indices` attend, the others are Mamba-2; a gated MLP in each."""
    layers = common.layer_count(fields)
    attended = fields.sizes("attn_layer_indices") or ()
    if any(index >= layers for index in attended):
        fields.fail(f"names a layer beyond the {layers} there are", "attn_layer_indices")
    kinds = common.layer_kinds(fields, ("mamba", "attention")) or [
        "attention" if index in attended else "mamba" for index in range(layers)
    ]
    return common.assemble(fields, _layers(fields, kinds, common.mlp(fields)))


def read_granite_hybrid(fields: Fields) -> Model:
    """Granite 4 hybrid: a shared gated MLP in every layer, beside a mixture where there are experts."""
    shared = fields.size("shared_intermediate_size", low=0)
    experts = fields.size("num_local_experts", "num_experts", default=0, low=0)
    part: FeedForward
    if experts:
        part = common.mixture(
            fields, "intermediate_size", experts=("num_local_experts", "num_experts"), shared_inner=shared
        )
    else:
        part = replace(common.mlp(fields, "shared_intermediate_size"), bias=False)
    kinds = common.layer_kinds(fields, ("mamba", "attention"))
    if kinds is None:
        fields.missing("layer_types", "layers_block_type")
    return common.assemble(fields, _layers(fields, kinds, part))


def _layers(fields: Fields, kinds: list[str], part: FeedForward) -> list[Block]:
    mixers: dict[str, Mixer] = {}
    if "mamba" in kinds:
        mixers["mamba"] = common.mamba2(fields)
    if "attention" in kinds:
        mixers["attention"] = common.attention(fields)
    return [Block(label=kind, mixers=(mixers[kind],), feed_forward=part, norms=2) for kind in kinds]
