"""Readers of pure state space models: Mamba, Falcon-Mamba, Mamba-2, and the dialect of the state-spaces project."""

from __future__ import annotations

import math

from hydra_dse.errors import one_of
from hydra_dse.model.blocks import Attention, Block, Mamba1, Mamba2, Mixer, Mlp, Model
from hydra_dse.model.huggingface import common
from hydra_dse.model.huggingface.fields import MAX_LAYERS, Fields


def read_mamba(fields: Fields) -> Model:
    """Mamba and Falcon-Mamba: the selective scan in every layer.

    Falcon-Mamba normalises step sizes, inputs and outputs without learned scales, so both have the same parameters.
    """
    width = common.hidden_size(fields)
    mixer = Mamba1(
        inner=fields.size("intermediate_size", "d_inner", default=int(fields.factor("expand", default=2) * width)),
        state=fields.size("state_size"),
        conv=fields.size("conv_kernel", default=4, high=64),
        dt_rank=common.dt_rank(fields, "time_step_rank"),
        bias=fields.flag("use_bias", default=False),
        conv_bias=fields.flag("use_conv_bias", default=True),
    )
    blocks = [Block(label="mamba", mixers=(mixer,))] * common.layer_count(fields)
    return common.assemble(fields, blocks, tied_by_default=True)


def read_mamba2(fields: Fields) -> Model:
    """Mamba-2 in the Hugging Face dialect."""
    width = common.hidden_size(fields)
    heads, head_dim = fields.size("num_heads"), fields.size("head_dim")
    inner = int(fields.factor("expand", default=2) * width)
    if heads * head_dim != inner:
        fields.fail(f"{heads} heads of {head_dim} do not make expand × hidden_size = {inner}", "num_heads")
    mixer = Mamba2(
        heads=heads,
        head_dim=head_dim,
        state=fields.size("state_size"),
        groups=common.groups(fields, heads, "n_groups", default=8),
        conv=fields.size("conv_kernel", default=4, high=64),
        chunk=fields.size("chunk_size", default=256),
        bias=fields.flag("use_bias", default=False),
        conv_bias=fields.flag("use_conv_bias", default=True),
    )
    blocks = [Block(label="mamba", mixers=(mixer,))] * common.layer_count(fields)
    return common.assemble(fields, blocks)


def read_state_spaces(fields: Fields) -> Model:
    """The dialect of github.com/state-spaces/mamba: constructor arguments, most of them left at their defaults."""
    width = fields.size("d_model")
    layers = fields.size("n_layer", high=MAX_LAYERS)
    multiple = fields.size("pad_vocab_size_multiple", default=8)
    vocabulary = math.ceil(fields.size("vocab_size") / multiple) * multiple
    norm_vectors = 1 if fields.flag("rms_norm", default=True) else 2
    mixer = _state_spaces_mixer(fields, width)
    attended = fields.sizes("attn_layer_idx") or ()
    inner = fields.size("d_intermediate", default=0, low=0)
    part = Mlp(inner=math.ceil(inner / 128) * 128) if inner else None
    halves = 1 if part is None else 2
    blocks = []
    for index in range(layers):
        attends = index in attended
        chosen: Mixer = _state_spaces_attention(fields, width) if attends else mixer
        label = "attention" if attends else "mamba"
        blocks.append(Block(label=label, mixers=(chosen,), feed_forward=part, norms=halves * norm_vectors))
    return Model(
        name="",
        family="",
        hidden_size=width,
        vocabulary=vocabulary,
        blocks=tuple(blocks),
        tied_embeddings=fields.flag("tie_embeddings", default=True),
        precision=common.precision(fields),
        extra_parameters=norm_vectors * width,
    )


def _state_spaces_mixer(fields: Fields, width: int) -> Mixer:
    ssm = fields.section("ssm_cfg") if fields.values.get("ssm_cfg") else Fields(fields.document, ("ssm_cfg",), {})
    layer = ssm.word("layer", default="Mamba1")
    inner = int(ssm.factor("expand", default=2) * width)
    conv = ssm.size("d_conv", default=4, high=64)
    bias, conv_bias = ssm.flag("bias", default=False), ssm.flag("conv_bias", default=True)
    if layer == "Mamba1":
        rank = math.ceil(width / 16) if ssm.value("dt_rank") in (None, "auto") else ssm.size("dt_rank")
        return Mamba1(
            inner=inner, state=ssm.size("d_state", default=16), conv=conv, dt_rank=rank, bias=bias, conv_bias=conv_bias
        )
    if layer != "Mamba2":
        ssm.fail(f"unknown layer {layer!r}; accepted: {one_of(('Mamba1', 'Mamba2'))}", "layer")
    head_dim = ssm.size("headdim", default=64)
    if inner % head_dim:
        ssm.fail(f"heads of {head_dim} do not divide the inner width {inner}", "headdim")
    return Mamba2(
        heads=inner // head_dim,
        head_dim=head_dim,
        state=ssm.size("d_state", default=128),
        groups=common.groups(ssm, inner // head_dim, "ngroups"),
        conv=conv,
        chunk=ssm.size("chunk_size", default=256),
        bias=bias,
        conv_bias=conv_bias,
        gated_norm=ssm.flag("rmsnorm", default=True),
    )


def _state_spaces_attention(fields: Fields, width: int) -> Attention:
    settings = fields.section("attn_cfg")
    heads = settings.size("num_heads")
    kv_heads = settings.size("num_heads_kv", default=heads)
    if heads % kv_heads:
        settings.fail(f"{kv_heads} key-value heads do not divide {heads} heads", "num_heads_kv")
    head_dim = settings.size("head_dim", default=width // heads)
    conv = settings.size("d_conv", default=0, low=0, high=64)
    projected = (heads + 2 * kv_heads) * head_dim
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        bias=settings.flag("qkv_proj_bias", default=True),
        output_bias=settings.flag("out_proj_bias", default=True),
        extra_parameters=projected * (conv + 1) if conv else 0,
    )
