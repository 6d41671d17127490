"""What the readers make of each family, and that dialects of one architecture agree."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hydra_dse.model import (
    Model,
    Precision,
    kv_bytes,
    kv_bytes_per_token,
    read_model,
    state_bytes_per_sequence,
    total_parameters,
)
from hydra_dse.model.blocks import Attention, DeltaNet, LatentAttention, Mamba2, Mlp, MoE

Read = Callable[[Mapping[str, Any]], Model]
Write = Callable[..., Path]

LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 100,
}
NEMOTRON = {
    "model_type": "nemotron_h",
    "hidden_size": 64,
    "vocab_size": 100,
    "hybrid_override_pattern": "M-*E",
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "mamba_num_heads": 8,
    "mamba_head_dim": 16,
    "ssm_state_size": 16,
    "n_groups": 2,
    "intermediate_size": 96,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 40,
    "moe_shared_expert_intermediate_size": 56,
    "moe_latent_size": 32,
}
ZAMBA2 = {
    "model_type": "zamba2",
    "hidden_size": 64,
    "vocab_size": 100,
    "num_hidden_layers": 6,
    "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid", "hybrid", "mamba"],
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "intermediate_size": 128,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_ngroups": 2,
    "n_mamba_heads": 8,
    "num_mem_blocks": 2,
    "adapter_rank": 8,
}
QWEN3_5 = {
    "model_type": "qwen3_5_text",
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "intermediate_size": 96,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "vocab_size": 100,
}
KIMI = {
    "model_type": "kimi_linear",
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "intermediate_size": 96,
    "num_experts": 8,
    "num_experts_per_token": 2,
    "num_shared_experts": 1,
    "moe_intermediate_size": 40,
    "first_k_dense_replace": 1,
    "vocab_size": 100,
}
KIMI_CHECKPOINT = {
    **KIMI,
    "linear_attn_config": {
        "full_attn_layers": [4],
        "kda_layers": [1, 2, 3],
        "head_dim": 16,
        "num_heads": 4,
        "short_conv_kernel_size": 4,
    },
}


def blocks(model: Model) -> tuple[object, ...]:
    return tuple(replace(block, label="") for block in model.blocks)


def test_nemotron_letters_stand_for_mamba_mlp_attention_and_experts(read: Read) -> None:
    model = read(NEMOTRON)
    assert [block.label for block in model.blocks] == ["mamba", "mlp", "attention", "moe"]
    mamba, mlp, attention, moe = model.blocks
    assert mamba.mixers == (Mamba2(heads=8, head_dim=16, state=16, groups=2, conv=4, chunk=128),)
    assert mlp.feed_forward == Mlp(inner=96, gated=False)
    assert attention.mixers == (Attention(heads=4, kv_heads=2, head_dim=16),)
    assert isinstance(moe.feed_forward, MoE)
    assert (moe.feed_forward.latent_width, moe.feed_forward.shared_inner) == (32, 56)


@pytest.mark.parametrize(
    "listed",
    [["mamba", "mlp", "attention", "moe"], ["linear_attention", "mlp", "full_attention", "moe"]],
)
def test_nemotron_pattern_and_both_lists_of_layers_agree(listed: list[str], read: Read) -> None:
    as_list = {name: value for name, value in NEMOTRON.items() if name != "hybrid_override_pattern"}
    assert read({**as_list, "layers_block_type": listed}) == read(NEMOTRON)


def test_zamba2_dialect_of_its_authors_agrees_with_that_of_transformers(read: Read) -> None:
    renamed = {
        "mamba_d_state": "state_size",
        "mamba_d_conv": "conv_dimension",
        "mamba_expand": "expansion_factor",
        "adapter_rank": "lora_rank",
        "intermediate_size": "ffn_hidden_size",
    }
    old = {renamed.get(name, name): value for name, value in ZAMBA2.items() if name != "n_mamba_heads"}
    old |= {"mamba_headdim": 16, "use_shared_block_lora": True, "use_shared_attention_lora": False}
    assert read(old) == read(ZAMBA2)


def test_zamba2_shared_blocks_take_turns_and_keep_a_cache_per_use(read: Read) -> None:
    model = read(ZAMBA2)
    shared = [(place, block) for place, block in enumerate(model.blocks) if block.label == "shared_attention"]
    places = [place for place, _ in shared]
    assert [block.weights_of for _, block in shared] == [None, None, places[0]]
    assert len(model.blocks) == 9
    one_use = 2 * 4 * (2 * 64 // 4)  # keys and values of four heads as wide as twice the model over four
    assert kv_bytes_per_token(model, Precision()) == 3 * one_use * 2


def test_zamba2_third_use_adds_only_its_adapters_and_projection(read: Read) -> None:
    fewer = {**ZAMBA2, "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid", "mamba", "mamba"]}
    added = total_parameters(read(ZAMBA2)) - total_parameters(read(fewer))
    assert added == 8 * (64 + 2 * 128) + 64 * 64


def test_qwen3_5_nested_text_config_agrees_with_the_flat_one(read: Read) -> None:
    nested = {"model_type": "qwen3_5", "tie_word_embeddings": False, "text_config": QWEN3_5, "vision_config": {}}
    assert replace(read(nested), family="") == replace(read(QWEN3_5), family="")


def test_qwen3_5_attends_in_every_fourth_layer_with_a_gate(read: Read) -> None:
    kinds = [type(block.mixers[0]) for block in read(QWEN3_5).blocks]
    assert kinds == [DeltaNet, DeltaNet, DeltaNet, Attention]
    last = read(QWEN3_5).blocks[3].mixers[0]
    assert isinstance(last, Attention)
    assert last.output_gate
    assert last.qk_norm


def test_kimi_linear_lists_of_the_checkpoint_agree_with_layer_types(read: Read) -> None:
    listed = {
        **KIMI,
        "linear_num_heads": 4,
        "linear_head_dim": 16,
        "linear_conv_kernel_dim": 4,
        "layer_types": ["linear_attention"] * 3 + ["full_attention"],
        "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
    }
    assert read(listed) == read(KIMI_CHECKPOINT)


def test_latent_attention_caches_one_row_for_all_heads(read: Read) -> None:
    model = read(KIMI_CHECKPOINT)
    assert isinstance(model.blocks[3].mixers[0], LatentAttention)
    assert kv_bytes_per_token(model, Precision()) == (32 + 8) * 2


def test_kimi_k3_reads_its_text_config_with_latent_experts_and_full_gates(read: Read) -> None:
    linear = {**KIMI_CHECKPOINT["linear_attn_config"], "use_full_rank_gate": True}  # type: ignore[dict-item]
    text = {**KIMI_CHECKPOINT, "routed_expert_hidden_size": 32, "linear_attn_config": linear}
    model = read({"model_type": "kimi_k3", "text_config": text})
    delta, part = model.blocks[1].mixers[0], model.blocks[1].feed_forward
    assert isinstance(delta, DeltaNet)
    assert delta.gate_rank == 0
    assert isinstance(part, MoE)
    assert part.latent_width == 32


def test_mamba2_of_state_spaces_agrees_with_the_hugging_face_dialect(read: Read) -> None:
    theirs = read({"d_model": 64, "n_layer": 2, "vocab_size": 97, "ssm_cfg": {"layer": "Mamba2", "headdim": 16}})
    ours = read(
        {
            "model_type": "mamba2",
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "vocab_size": 104,  # padded to a multiple of eight
            "num_heads": 8,
            "head_dim": 16,
            "state_size": 128,
            "n_groups": 1,
            "tie_word_embeddings": True,
        }
    )
    assert replace(theirs, family="") == replace(ours, family="")


def test_state_spaces_hybrid_attends_where_it_says_so(read: Read) -> None:
    # mamba2attn-2.7b of github.com/state-spaces/mamba: 6 of 64 layers attend, 2.70 billion parameters.
    model = read(
        {
            "d_model": 2560,
            "n_layer": 64,
            "vocab_size": 50277,
            "pad_vocab_size_multiple": 16,
            "ssm_cfg": {"layer": "Mamba2"},
            "attn_layer_idx": [9, 18, 27, 36, 45, 56],
            "attn_cfg": {
                "d_conv": 4,
                "head_dim": 128,
                "num_heads": 30,
                "out_proj_bias": False,
                "qkv_proj_bias": False,
            },
        }
    )
    assert [place for place, block in enumerate(model.blocks) if block.label == "attention"] == [9, 18, 27, 36, 45, 56]
    assert total_parameters(model) == pytest.approx(2.70e9, rel=0.01)


def test_gpt_oss_slides_in_every_other_layer(read: Read) -> None:
    model = read(
        {
            **LLAMA,
            "model_type": "gpt_oss",
            "head_dim": 16,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "sliding_window": 8,
        }
    )
    assert [block.mixers[0].window for block in model.blocks] == [8, None]  # type: ignore[union-attr]


def test_a_window_bounds_the_cache_of_its_layers_only(read: Read) -> None:
    windowed = read({**LLAMA, "model_type": "mistral", "sliding_window": 100})
    assert kv_bytes(windowed, Precision(), 1000) == 100 * kv_bytes_per_token(windowed, Precision())
    assert kv_bytes(read(LLAMA), Precision(), 1000) == 1000 * kv_bytes_per_token(read(LLAMA), Precision())


def test_qwen2_slides_only_from_max_window_layers_on(read: Read) -> None:
    sliding = {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}
    windows = [block.mixers[0].window for block in read({**LLAMA, "model_type": "qwen2", **sliding}).blocks]  # type: ignore[union-attr]
    assert windows == [None, 8]


def test_falcon_h1_runs_attention_and_mamba_side_by_side(read: Read) -> None:
    model = read({**LLAMA, "model_type": "falcon_h1", "mamba_d_ssm": 96, "mamba_n_heads": 6, "mamba_d_state": 16})
    kinds = [type(mixer) for mixer in model.blocks[0].mixers]
    assert kinds == [Attention, Mamba2]
    assert state_bytes_per_sequence(model, Precision()) == 2 * (96 * 16 * 4 + 3 * (96 + 2 * 16) * 2)


def test_state_is_fp32_unless_the_file_names_another_format(read: Read) -> None:
    assert read(NEMOTRON).precision.state == "fp32"
    assert read({**NEMOTRON, "mamba_ssm_cache_dtype": "float16"}).precision.state == "fp16"


@pytest.mark.parametrize(
    ("stated", "served"),
    [
        ({"torch_dtype": "bfloat16"}, "bf16"),
        ({"dtype": "float16"}, "fp16"),
        ({"torch_dtype": "float32"}, "bf16"),
        ({"torch_dtype": "auto"}, "bf16"),
        ({"torch_dtype": "bfloat16", "quantization_config": {"quant_method": "fp8"}}, "fp8"),
        ({"quantization_config": {"quant_method": "mxfp4"}}, "bf16"),
        ({}, "bf16"),
    ],
)
def test_weights_are_served_in_the_format_of_the_file(stated: dict[str, Any], served: str, read: Read) -> None:
    assert read({**LLAMA, **stated}).precision.weights == served


def test_infinity_nan_and_unknown_keys_are_tolerated(write: Write) -> None:
    text = json.dumps({**LLAMA, "unheard_of": {"deep": [1, None]}})
    text = text[:-1] + ', "time_step_limit": [0.0, Infinity], "noise": NaN, "max_position_embeddings": Infinity}'
    assert replace(read_model(write(text)), source="") == replace(read_model(write(LLAMA)), source="")


def test_a_folder_stands_for_its_config_json_and_names_the_model(tmp_path: Path) -> None:
    folder = tmp_path / "my-llama"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    assert read_model(folder) == read_model(folder / "config.json")
    assert read_model(folder).name == "my-llama"


def test_the_class_in_architectures_stands_in_for_a_missing_model_type(read: Read) -> None:
    bare = {name: value for name, value in LLAMA.items() if name != "model_type"}
    assert read({**bare, "architectures": ["LlamaForCausalLM"]}) == read(LLAMA)


def test_missing_head_counts_follow_the_documented_defaults(read: Read) -> None:
    bare = {name: value for name, value in LLAMA.items() if name != "num_key_value_heads"}
    assert read(bare).blocks[0].mixers[0] == Attention(heads=4, kv_heads=4, head_dim=16)
