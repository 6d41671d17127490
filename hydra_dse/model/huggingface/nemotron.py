"""Reader of Nemotron-H and Nemotron 3: every layer is one mixer or one feed-forward part."""

from __future__ import annotations

from hydra_dse.errors import one_of
from hydra_dse.model.blocks import Block, Mamba2, Mlp, Model, MoE
from hydra_dse.model.huggingface import common
from hydra_dse.model.huggingface.fields import MAX_LAYERS, Fields

LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def read_nemotron_h(fields: Fields) -> Model:
    """Nemotron-H (arXiv 2504.03624), with the pattern string or with a list of layers; Nemotron 3 adds mixtures."""
    kinds = _kinds(fields)
    builders = {"mamba": _mamba, "attention": _attention, "mlp": _mlp, "moe": _moe}
    blocks = {kind: builders[kind](fields) for kind in dict.fromkeys(kinds)}
    return common.assemble(fields, [blocks[kind] for kind in kinds])


def _kinds(fields: Fields) -> list[str]:
    listed = common.layer_kinds(fields, tuple(LETTERS.values()))
    if listed is not None:
        return listed
    pattern = fields.word("hybrid_override_pattern")
    if not pattern:
        fields.missing("hybrid_override_pattern", "layers_block_type")
    if len(pattern) > MAX_LAYERS:
        fields.fail(f"{len(pattern)} layers are more than {MAX_LAYERS}", "hybrid_override_pattern")
    for place, letter in enumerate(pattern):
        if letter not in LETTERS:
            message = f"unknown letter {letter!r} at place {place + 1} of the pattern; accepted: {one_of(LETTERS)}"
            fields.fail(message, "hybrid_override_pattern")
    kinds = [LETTERS[letter] for letter in pattern]
    common.check_count(fields, kinds, "hybrid_override_pattern")
    return kinds


def _mamba(fields: Fields) -> Block:
    heads = fields.size("mamba_num_heads")
    bias = fields.flag("use_bias", default=False)
    mixer = Mamba2(
        heads=heads,
        head_dim=fields.size("mamba_head_dim"),
        state=fields.size("ssm_state_size"),
        groups=common.groups(fields, heads, "n_groups", "mamba_n_groups", default=8),
        conv=fields.size("conv_kernel", "mamba_d_conv", default=4, high=64),
        chunk=fields.size("chunk_size", "mamba_chunk_size", default=128),
        bias=bias,
        conv_bias=fields.flag("use_conv_bias", "mamba_conv_bias", default=True),
    )
    return Block(label="mamba", mixers=(mixer,))


def _attention(fields: Fields) -> Block:
    return Block(label="attention", mixers=(common.attention(fields, head_dim=128),))


def _mlp(fields: Fields) -> Block:
    part = Mlp(inner=fields.size("intermediate_size"), gated=False, bias=fields.flag("mlp_bias", default=False))
    return Block(label="mlp", feed_forward=part)


def _moe(fields: Fields) -> Block:
    bias = fields.flag("mlp_bias", default=False)
    shared = fields.size("moe_shared_expert_intermediate_size")
    latent = fields.optional_size("moe_latent_size")
    # Biases of the shared expert and of the projections into and out of the latent width.
    shared_bias = shared + common.hidden_size(fields)
    latent_bias = 0 if latent is None else latent + common.hidden_size(fields)
    part = MoE(
        inner=fields.size("moe_intermediate_size"),
        routing=common.routing(fields, ("n_routed_experts", "num_local_experts"), ("num_experts_per_tok",)),
        gated=False,
        shared_inner=shared,
        latent_width=latent,
        extra_parameters=shared_bias + latent_bias if bias else 0,
    )
    return Block(label="moe", feed_forward=part)
