"""Published totals of models whose configuration is written here from their public documentation.

None of these is a copy of a checkpoint's file: each holds what the named paper, model card or documentation states.
Counts to the last digit are those of `transformers` 5.24.0 for the same dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from hydra_dse.model import Model, active_parameters, total_parameters

Read = Callable[[Mapping[str, Any]], Model]

MISTRAL_7B = {  # arXiv 2310.06825, table 1
    "model_type": "mistral",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "head_dim": 128,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "sliding_window": 4096,
    "vocab_size": 32000,
}
QWEN3_30B_A3B = {  # arXiv 2505.09388, table 2, and the model card
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
    "intermediate_size": 6144,
    "vocab_size": 151936,
}
FALCON_MAMBA_7B = {  # arXiv 2410.05355, table 1
    "model_type": "falcon_mamba",
    "hidden_size": 4096,
    "intermediate_size": 8192,
    "num_hidden_layers": 64,
    "state_size": 16,
    "vocab_size": 65024,
    "tie_word_embeddings": False,
}
MAMBA_2_8B = {  # arXiv 2312.00752, table 12; Hugging Face dialect
    "model_type": "mamba",
    "hidden_size": 2560,
    "num_hidden_layers": 64,
    "state_size": 16,
    "vocab_size": 50280,
}
MAMBA_2_8B_STATE_SPACES = {"d_model": 2560, "n_layer": 64, "vocab_size": 50277, "ssm_cfg": {}}  # the same checkpoint
LFM2_1_2B = {  # documentation of LFM2: 10 convolution and 6 attention layers
    "model_type": "lfm2",
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 12288,
    "block_auto_adjust_ff_dim": True,
    "block_multiple_of": 256,
    "block_ffn_dim_multiplier": 1.0,
    "full_attn_idxs": [2, 5, 8, 10, 12, 14],
    "vocab_size": 65536,
}
LFM2_8B_A1B = {  # model card of LFM2-8B-A1B: 18 convolution and 6 attention layers, 32 experts, 4 active
    "model_type": "lfm2_moe",
    "hidden_size": 2048,
    "num_hidden_layers": 24,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 7168,
    "moe_intermediate_size": 1792,
    "num_experts": 32,
    "num_experts_per_tok": 4,
    "num_dense_layers": 2,
    "layer_types": ["full_attention" if index in (2, 6, 10, 14, 18, 21) else "conv" for index in range(24)],
    "vocab_size": 65536,
}
GPT_OSS_120B = {  # arXiv 2508.10925, table 1
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "num_hidden_layers": 36,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "intermediate_size": 2880,
    "num_local_experts": 128,
    "num_experts_per_tok": 4,
    "sliding_window": 128,
    "vocab_size": 201088,
}
JAMBA_LARGE = {  # arXiv 2408.12570, §2: 72 layers, width 8192, 16 experts
    "model_type": "jamba",
    "hidden_size": 8192,
    "num_hidden_layers": 72,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 24576,
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "attn_layer_period": 8,
    "attn_layer_offset": 4,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
    "vocab_size": 65536,
}
HYMBA_1_5B = {  # arXiv 2411.13676, table 11 and §3
    "model_type": "hymba",
    "hidden_size": 1600,
    "num_hidden_layers": 32,
    "num_attention_heads": 25,
    "num_key_value_heads": 5,
    "intermediate_size": 5504,
    "mamba_d_state": 16,
    "mamba_dt_rank": 100,
    "sliding_window": 1024,
    "num_memory_tokens": 128,
    "global_attn_idx": [0, 15, 31],
    "kv_reuse_group": [*([i, i + 1] for i in range(1, 15, 2)), [16, 17, 18], *([i, i + 1] for i in range(19, 31, 2))],
    "vocab_size": 32001,
}


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (MISTRAL_7B, 7_241_732_096),
        (QWEN3_30B_A3B, 30_532_122_624),
        (FALCON_MAMBA_7B, 7_272_665_088),
        (MAMBA_2_8B, 2_768_345_600),
        (MAMBA_2_8B_STATE_SPACES, 2_768_345_600),
        (LFM2_1_2B, 1_170_340_608),
        (LFM2_8B_A1B, 8_339_929_856),
        (GPT_OSS_120B, 116_829_156_672),
    ],
    ids=lambda value: value.get("model_type", "state_spaces") if isinstance(value, dict) else "",
)
def test_documented_dimensions_give_the_count_of_the_reference_library(
    config: Mapping[str, Any], parameters: int, read: Read
) -> None:
    assert total_parameters(read(config)) == parameters


@pytest.mark.parametrize(
    ("config", "total", "active"),
    [
        (QWEN3_30B_A3B, 30.5e9, 3.3e9),  # model card
        (GPT_OSS_120B, 116.83e9, 5.13e9),  # arXiv 2508.10925, table 1; active without the embedding
        (LFM2_8B_A1B, 8.3e9, None),  # model card; its 1.5B active has two digits
        (JAMBA_LARGE, 398e9, 94e9),  # arXiv 2408.12570
        (HYMBA_1_5B, 1.52e9, 1.52e9),  # arXiv 2411.13676, table 2
        (FALCON_MAMBA_7B, 7.27e9, 7.27e9),  # arXiv 2410.05355
        (MISTRAL_7B, 7.24e9, 7.24e9),  # model card
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else "",
)
def test_published_totals_are_met_within_three_percent(
    config: Mapping[str, Any], total: float, active: float | None, read: Read
) -> None:
    model = read(config)
    embedding = model.vocabulary * model.hidden_size if config is GPT_OSS_120B else 0
    assert total_parameters(model) == pytest.approx(total, rel=0.03)
    if active is not None:
        assert active_parameters(model) - embedding == pytest.approx(active, rel=0.03)


def test_hymba_keeps_the_cache_of_seventeen_layers_of_which_three_see_everything(read: Read) -> None:
    # arXiv 2411.13676 §2.4: three global layers, keys and values shared by neighbours.
    attention = [block.mixers[0] for block in read(HYMBA_1_5B).blocks]
    keepers = [mixer for mixer in attention if mixer.keeps_kv]  # type: ignore[union-attr]
    assert len(keepers) == 17
    assert sum(mixer.window is None for mixer in attention) == 3  # type: ignore[union-attr]
