"""Readers of families with a gated delta rule: Qwen3-Next, Qwen3.5 and Kimi Linear."""

from __future__ import annotations

from hydra_dse.errors import one_of
from hydra_dse.model.blocks import Block, DeltaNet, FeedForward, Mixer, Model, MoE
from hydra_dse.model.huggingface import common
from hydra_dse.model.huggingface.fields import MAX_LAYERS, Fields
from hydra_dse.model.huggingface.sparse import latent_attention

KINDS = ("linear_attention", "full_attention")


def read_qwen3_next(fields: Fields) -> Model:
    """Qwen3-Next: three gated DeltaNet layers to one of gated attention, mixtures with a gated shared expert."""
    if fields.size("num_experts", default=0, low=0):
        return _qwen_model(fields, common.sparse_layers(fields, _qwen_mixture(fields)))
    return _qwen_model(fields, [common.mlp(fields)] * common.layer_count(fields))


def read_qwen3_5(fields: Fields) -> Model:
    """Qwen3.5: Qwen3-Next's mixers with dense MLPs or, in its MoE family, mixtures.

    Files of the multimodal checkpoints nest the language model in `text_config`; the vision tower is not counted.
    """
    text = _text(fields)
    layers = common.layer_count(text)
    part: FeedForward = _qwen_mixture(text) if text.has("num_experts") else common.mlp(text)
    return _qwen_model(text, [part] * layers)


def read_kimi_linear(fields: Fields) -> Model:
    """Kimi Linear (arXiv 2510.26692): Kimi Delta Attention and latent attention, mixtures after the first layers."""
    layers = common.layer_count(fields)
    kinds = _kimi_kinds(fields, layers)
    mixers: dict[str, Mixer] = {
        "linear_attention": _kimi_delta(fields),
        "full_attention": latent_attention(fields, output_gate=fields.flag("mla_use_output_gate", default=False)),
    }
    labels = {"linear_attention": "delta_attention", "full_attention": "latent_attention"}
    parts = _kimi_parts(fields, layers)
    blocks = [
        Block(label=labels[kind], mixers=(mixers[kind],), feed_forward=part, norms=2)
        for kind, part in zip(kinds, parts, strict=True)
    ]
    return common.assemble(fields, blocks)


def read_kimi_k3(fields: Fields) -> Model:
    """Kimi K3: Kimi Linear in `text_config` with latent mixtures; vision tower and depth residuals not counted."""
    return read_kimi_linear(_text(fields))


def _text(fields: Fields) -> Fields:
    """The nested language model, with the outer keys standing in for those it leaves out."""
    if not fields.has("text_config"):
        return fields
    inner = fields.section("text_config")
    outer = {name: value for name, value in fields.values.items() if name == "tie_word_embeddings"}
    return Fields(fields.document, inner.path, {**outer, **inner.values})


def _qwen_model(fields: Fields, parts: list[FeedForward]) -> Model:
    gate = fields.flag("attn_output_gate", default=True)
    mixers: dict[str, Mixer] = {
        "linear_attention": _gated_delta(fields),
        "full_attention": common.attention(fields, head_dim=256, qk_norm=True, output_gate=gate),
    }
    labels = {"linear_attention": "delta_net", "full_attention": "attention"}
    kinds = _qwen_kinds(fields, len(parts))
    blocks = [
        Block(label=labels[kind], mixers=(mixers[kind],), feed_forward=part, norms=2)
        for kind, part in zip(kinds, parts, strict=True)
    ]
    return common.assemble(fields, blocks)


def _qwen_kinds(fields: Fields, layers: int) -> list[str]:
    kinds = common.layer_kinds(fields, KINDS, names=str)
    if kinds is not None:
        return kinds
    interval = fields.size("full_attention_interval", default=4, high=MAX_LAYERS)
    return ["linear_attention" if (index + 1) % interval else "full_attention" for index in range(layers)]


def _qwen_mixture(fields: Fields) -> MoE:
    shared = fields.size("shared_expert_intermediate_size", default=0, low=0)
    return common.mixture(fields, "moe_intermediate_size", shared_inner=shared, shared_gate=shared > 0)


def _gated_delta(fields: Fields) -> DeltaNet:
    key_heads, value_heads = fields.size("linear_num_key_heads"), fields.size("linear_num_value_heads")
    if value_heads % key_heads:
        fields.fail(f"{key_heads} key heads do not divide {value_heads} value heads", "linear_num_key_heads")
    return DeltaNet(
        key_heads=key_heads,
        value_heads=value_heads,
        key_dim=fields.size("linear_key_head_dim"),
        value_dim=fields.size("linear_value_head_dim"),
        conv=fields.size("linear_conv_kernel_dim", default=4, high=64),
    )


def _kimi_delta(fields: Fields) -> DeltaNet:
    source, names = fields, ("linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim")
    if fields.has("linear_attn_config"):
        source, names = fields.section("linear_attn_config"), ("num_heads", "head_dim", "short_conv_kernel_size")
    heads, head_dim = source.size(names[0]), source.size(names[1])
    full_rank = source.flag("use_full_rank_gate", default=False)
    return DeltaNet(
        key_heads=heads,
        value_heads=heads,
        key_dim=head_dim,
        value_dim=head_dim,
        conv=source.size(names[2], default=4, high=64),
        per_channel_gate=True,
        decay_rank=head_dim,
        gate_rank=0 if full_rank else head_dim,
    )


def _kimi_kinds(fields: Fields, layers: int) -> list[str]:
    kinds = common.layer_kinds(fields, KINDS, names=str)
    if kinds is not None:
        return kinds
    lists = fields.section("linear_attn_config")
    delta, latent = lists.sizes("kda_layers", low=1), lists.sizes("full_attn_layers", low=1)
    if delta is None or latent is None:
        lists.missing("kda_layers" if delta is None else "full_attn_layers")
    # The published lists count layers from one.
    by_layer = {**dict.fromkeys(delta, KINDS[0]), **dict.fromkeys(latent, KINDS[1])}
    for layer in range(1, layers + 1):
        if layer not in by_layer:
            lists.fail(f"layer {layer} of {layers} is in neither list", "kda_layers")
    return [by_layer[layer] for layer in range(1, layers + 1)]


def _kimi_parts(fields: Fields, layers: int) -> list[FeedForward]:
    inner = fields.size("moe_intermediate_size")
    shared = fields.size("num_shared_experts", "n_shared_experts", default=0, low=0)
    latent = fields.optional_size("routed_expert_hidden_size")
    experts, top_k = ("num_experts", "num_local_experts"), ("num_experts_per_token", "num_experts_per_tok")
    normed = latent is not None and fields.flag("latent_moe_use_norm", default=False)
    sparse = MoE(
        inner=inner,
        routing=common.routing(fields, experts, top_k),
        shared_inner=shared * inner,
        latent_width=latent,
        extra_parameters=latent if latent is not None and normed else 0,
    )
    dense = common.mlp(fields)
    kinds = fields.words("mlp_layer_types")
    if kinds is None:
        first = fields.size("first_k_dense_replace", default=1, low=0, high=MAX_LAYERS)
        step = fields.size("moe_layer_freq", default=1, high=MAX_LAYERS)
        return [dense if index < first or index % step else sparse for index in range(layers)]
    parts: dict[str, FeedForward] = {"dense": dense, "sparse": sparse}
    for place, kind in enumerate(kinds):
        if kind not in parts:
            fields.fail(f"unknown kind {kind!r}; accepted: {one_of(parts)}", "mlp_layer_types", place)
    common.check_count(fields, list(kinds), "mlp_layer_types")
    return [parts[kind] for kind in kinds]
