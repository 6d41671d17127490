"""What most readers share: widths, attention, feed-forward parts, formats, and the frame of a model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from hydra_dse.errors import did_you_mean, one_of
from hydra_dse.model.blocks import Attention, Block, FeedForward, Mamba1, Mamba2, Mlp, Model, MoE
from hydra_dse.model.huggingface.fields import MAX_LAYERS, Fields
from hydra_dse.model.operators import Routing
from hydra_dse.model.precision import Precision

LAYER_NAMES = {
    "mamba": "mamba",
    "linear_attention": "mamba",
    "m": "mamba",
    "attention": "attention",
    "full_attention": "attention",
    "hybrid": "hybrid",
    "g": "hybrid",
    "mlp": "mlp",
    "moe": "moe",
}
"""Names of layer kinds in published files and their newer spellings, as one vocabulary."""

_FORMATS = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


def hidden_size(fields: Fields) -> int:
    """Width of the residual stream."""
    return fields.size("hidden_size")


def layer_count(fields: Fields) -> int:
    """Number of layers."""
    return fields.size("num_hidden_layers", high=MAX_LAYERS)


def assemble(
    fields: Fields,
    blocks: Iterable[Block],
    *,
    tied_by_default: bool = False,
    extra_parameters: int | None = None,
) -> Model:
    """Frame the blocks with embedding, head and final norm.

    `tied_by_default` is the family's default: files leave `tie_word_embeddings` out where it equals the default.
    """
    width = hidden_size(fields)
    return Model(
        name="",
        family="",
        hidden_size=width,
        vocabulary=fields.size("vocab_size"),
        blocks=tuple(blocks),
        tied_embeddings=fields.flag("tie_word_embeddings", "tie_embedding", "tie_embeddings", default=tied_by_default),
        max_position_embeddings=fields.limit("max_position_embeddings", "model_max_length"),
        precision=precision(fields),
        extra_parameters=width if extra_parameters is None else extra_parameters,
    )


def precision(fields: Fields) -> Precision:
    """Formats in which the model is served unless a design says otherwise.

    fp32 checkpoints are served in bf16, as serving engines do; a checkpoint quantised to fp8 as a whole keeps fp8.
    The SSM state is fp32 unless the file names another format.
    """
    stored = _format(fields, "torch_dtype", "dtype", default="bf16")
    served = "bf16" if stored == "fp32" else stored
    quantised = fields.value("quantization_config")
    whole_fp8 = isinstance(quantised, dict) and quantised.get("quant_method") == "fp8"
    state = _format(fields, "mamba_ssm_cache_dtype", "mamba_ssm_dtype", default="fp32")
    return Precision(
        weights="fp8" if whole_fp8 else served, activations=served, kv=served, state=state, conv_state=served
    )


def _format(fields: Fields, *names: str, default: str) -> str:
    """Our name of a number format of the file; other spellings (`"auto"`) leave the default."""
    stated = next((fields.value(name) for name in names if fields.has(name)), None)
    return _FORMATS.get(stated, default) if isinstance(stated, str) else default


def attention(
    fields: Fields,
    *,
    bias: bool | None = None,
    head_dim: int | None = None,
    window: int | None = None,
    input_width: int | None = None,
    qk_norm: bool = False,
    output_gate: bool = False,
    output_bias: bool | None = None,
    extra_parameters: int = 0,
) -> Attention:
    """Grouped-query attention from the usual keys; `head_dim` is the family's default where the file has none."""
    heads = fields.size("num_attention_heads")
    kv_heads = fields.size("num_key_value_heads", default=heads)
    if heads % kv_heads:
        fields.fail(f"{kv_heads} key-value heads do not divide {heads} attention heads", "num_key_value_heads")
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=fields.size("head_dim", "attention_head_dim", default=head_dim or _even_head(fields, heads)),
        input_width=input_width,
        bias=fields.flag("attention_bias", default=False) if bias is None else bias,
        qk_norm=qk_norm,
        output_gate=output_gate,
        window=window,
        extra_parameters=extra_parameters,
        output_bias=output_bias,
    )


def _even_head(fields: Fields, heads: int) -> int:
    width = hidden_size(fields)
    if not (fields.has("head_dim") or fields.has("attention_head_dim")) and width % heads:
        fields.fail(f"{heads} attention heads do not divide hidden_size {width}", "num_attention_heads")
    return max(width // heads, 1)


def mlp(fields: Fields, *names: str, gated: bool = True) -> Mlp:
    """Dense feed-forward part; `names` are the keys of its inner width."""
    inner = fields.size(*(names or ("intermediate_size",)))
    return Mlp(inner=inner, gated=gated, bias=fields.flag("mlp_bias", default=False))


def routing(fields: Fields, experts: tuple[str, ...], top_k: tuple[str, ...]) -> Routing:
    """Routing of a mixture; more experts per token than there are is a fault."""
    count, active = fields.size(*experts), fields.size(*top_k)
    if active > count:
        name = next(name for name in top_k if fields.has(name))
        fields.fail(f"{active} experts per token are more than the {count} experts", name)
    return Routing(experts=count, top_k=active)


def mixture(
    fields: Fields,
    inner: str,
    *,
    experts: tuple[str, ...] = ("num_experts", "num_local_experts"),
    top_k: tuple[str, ...] = ("num_experts_per_tok",),
    shared_inner: int = 0,
    shared_gate: bool = False,
) -> MoE:
    """Mixture of gated experts."""
    return MoE(
        inner=fields.size(inner),
        routing=routing(fields, experts, top_k),
        shared_inner=shared_inner,
        shared_gate=shared_gate,
    )


def sparse_layers(fields: Fields, sparse: FeedForward) -> list[FeedForward]:
    """Feed-forward part of each layer by `mlp_only_layers` and `decoder_sparse_step` (Qwen MoE families)."""
    layers = layer_count(fields)
    only_dense = fields.sizes("mlp_only_layers") or ()
    step = fields.size("decoder_sparse_step", default=1, high=MAX_LAYERS)
    dense_here = [index in only_dense or (index + 1) % step != 0 for index in range(layers)]
    dense: FeedForward = mlp(fields) if any(dense_here) else sparse
    return [dense if is_dense else sparse for is_dense in dense_here]


def mamba1(fields: Fields, *, norms: bool, inner: int | None = None, heads: int = 1) -> Mamba1:
    """Selective-scan mixer from the `mamba_*` keys of hybrid families."""
    width = hidden_size(fields)
    return Mamba1(
        inner=inner or int(fields.factor("mamba_expand", default=2) * width),
        state=fields.size("mamba_d_state", default=16),
        conv=fields.size("mamba_d_conv", default=4, high=64),
        dt_rank=dt_rank(fields, "mamba_dt_rank"),
        heads=heads,
        norms=norms,
        bias=fields.flag("mamba_proj_bias", default=False),
        conv_bias=fields.flag("mamba_conv_bias", default=True),
    )


def dt_rank(fields: Fields, name: str) -> int:
    """Rank of the step-size projection; `"auto"` is a sixteenth of the width (Mamba, arXiv 2312.00752)."""
    if fields.value(name) in (None, "auto"):
        return math.ceil(hidden_size(fields) / 16)
    return fields.size(name)


def mamba2(fields: Fields, *, inner: int | None = None, gated_norm: bool = True) -> Mamba2:
    """State-space-duality mixer from the `mamba_*` keys of Bamba, Granite and Falcon-H1."""
    width = inner or int(fields.factor("mamba_expand", default=2) * hidden_size(fields))
    heads = fields.size("mamba_n_heads")
    if width % heads:
        fields.fail(f"{heads} heads do not divide the inner width {width}", "mamba_n_heads")
    head_dim = width // heads if fields.value("mamba_d_head") in (None, "auto") else fields.size("mamba_d_head")
    if heads * head_dim != width:
        fields.fail(f"{heads} heads of {head_dim} do not make the inner width {width}", "mamba_d_head")
    return Mamba2(
        heads=heads,
        head_dim=head_dim,
        state=fields.size("mamba_d_state"),
        groups=groups(fields, heads, "mamba_n_groups"),
        conv=fields.size("mamba_d_conv", default=4, high=64),
        chunk=fields.size("mamba_chunk_size", default=256),
        bias=fields.flag("mamba_proj_bias", default=False),
        conv_bias=fields.flag("mamba_conv_bias", default=True),
        gated_norm=gated_norm,
    )


def groups(fields: Fields, heads: int, *names: str, default: int = 1) -> int:
    """Groups of the input and output matrices of a Mamba-2 mixer; they divide the heads."""
    count = fields.size(*names, default=default)
    if heads % count:
        name = next((name for name in names if fields.has(name)), names[0])
        fields.fail(f"{count} groups do not divide {heads} heads", name)
    return count


def layer_kinds(
    fields: Fields, accepted: tuple[str, ...], names: Callable[[str], str] | None = None
) -> list[str] | None:
    """Kinds of the layers from `layers_block_type` or `layer_types`, or None where neither is there."""
    listed = fields.words("layers_block_type", "layer_types")
    if listed is None:
        return None
    key = "layers_block_type" if fields.has("layers_block_type") else "layer_types"
    translate = names or (lambda name: LAYER_NAMES.get(name, name))
    kinds = [translate(name) for name in listed]
    for place, kind in enumerate(kinds):
        if kind not in accepted:
            message = f"unknown layer kind {listed[place]!r}{did_you_mean(listed[place], accepted)}"
            fields.fail(f"{message}; accepted: {one_of(accepted)}", key, place)
    if not kinds:
        fields.fail("the list of layers is empty", key)
    check_count(fields, kinds, key)
    return kinds


def check_count(fields: Fields, kinds: list[str], name: str) -> None:
    """Fault a list or pattern of layers whose length contradicts `num_hidden_layers`."""
    stated = fields.optional_size("num_hidden_layers", high=MAX_LAYERS)
    if stated is not None and stated != len(kinds):
        fields.fail(f"describes {len(kinds)} layers, but num_hidden_layers is {stated}", name)
