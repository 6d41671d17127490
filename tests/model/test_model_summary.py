"""Summaries against the sanity values of the modelling notes (first-principles counts, printed to three digits)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hydra_dse.model import Model, Precision, read_model
from hydra_dse.model.summary import summarise

PRESETS = Path(__file__).parents[2] / "workloads" / "models"


def preset(name: str) -> Model:
    return read_model(PRESETS / f"{name}.json")


@pytest.mark.parametrize(
    ("name", "tokens", "tera_flops"),
    [
        ("llama3-8b", 1024, 15.6),
        ("llama3-8b", 8192, 140),
        ("llama3-8b", 65536, 2110),
        ("nemotron-h-8b", 1024, 15.7),
        ("nemotron-h-8b", 8192, 128),
        ("nemotron-h-8b", 65536, 1146),
    ],
)
def test_prefill_flops_match_the_notes(name: str, tokens: int, tera_flops: float) -> None:
    # The notes let the head work for every position.
    cost = summarise(preset(name), prefill_tokens=tokens).prefill
    assert cost.flops_with_all_logits / 1e12 == pytest.approx(tera_flops, rel=0.01)


def test_the_head_works_for_one_position_of_a_prompt() -> None:
    model = preset("llama3-8b")
    cost = summarise(model, prefill_tokens=1000).prefill
    spared = cost.flops_with_all_logits - cost.flops
    assert spared == pytest.approx(999 * 2 * model.vocabulary * model.hidden_size)


def test_caches_of_nemotron_h_8b_match_the_notes() -> None:
    summary = summarise(preset("nemotron-h-8b"))
    assert summary.state_bytes_per_sequence == pytest.approx(102e6, rel=0.005)
    assert summary.kv_bytes_per_token == pytest.approx(16.4e3, rel=0.005)
    assert summary.total_parameters == pytest.approx(8.10e9, rel=0.001)


def test_a_state_in_bf16_halves_the_state_of_nemotron_h_8b() -> None:
    summary = summarise(preset("nemotron-h-8b"), precision=Precision(state="bf16"))
    assert summary.state_bytes_per_sequence == pytest.approx(51e6, rel=0.02)


def test_weights_read_by_a_decode_step_match_the_notes() -> None:
    # 15.0 and 15.1 GB: all but the embedding table.
    for name, gigabytes in (("llama3-8b", 15.0), ("nemotron-h-8b", 15.1)):
        assert summarise(preset(name)).decode.weight_bytes / 1e9 == pytest.approx(gigabytes, rel=0.005)


def test_decode_weight_bytes_of_nemotron_h_8b_split_as_the_notes_say() -> None:
    # physics.md rule 1: MLP 56 %, Mamba 35 %, LM head 7 %, attention 2 %.
    summary = summarise(preset("nemotron-h-8b"))
    read = summary.decode.weight_bytes / 2
    shares = {row.label: row.parameters / read for row in summary.blocks}
    assert shares["mlp"] == pytest.approx(0.56, abs=0.01)
    assert shares["mamba"] == pytest.approx(0.35, abs=0.01)
    assert shares["attention"] == pytest.approx(0.02, abs=0.01)


@pytest.mark.parametrize("name", ["zamba2-7b", "nemotron-3-nano", "hymba-1.5b", "gpt-oss-20b", "kimi-linear-48b-a3b"])
def test_rows_of_the_block_table_add_up(name: str) -> None:
    summary = summarise(preset(name))
    assert summary.outer_parameters + sum(row.parameters for row in summary.blocks) == summary.total_parameters
    assert sum(row.count for row in summary.blocks) == summary.layers
    assert sum(row.kv_bytes_per_token for row in summary.blocks) == summary.kv_bytes_per_token
    assert sum(row.state_bytes_per_sequence for row in summary.blocks) == summary.state_bytes_per_sequence
    assert sorted(place for row in summary.blocks for place in row.layers) == list(range(summary.layers))


def test_a_decode_step_reads_the_cache_of_its_context() -> None:
    summary = summarise(preset("gpt-oss-20b"), context_tokens=4096)
    assert summary.decode.kv_bytes == summary.kv_bytes_at_context + summary.kv_bytes_per_token
    assert summary.kv_bytes_at_context < 4096 * summary.kv_bytes_per_token


def test_the_dictionary_is_plain_json_with_the_promised_keys() -> None:
    data = summarise(preset("jamba-tiny")).as_dict()
    promised = {
        "schema_version",
        "total_parameters",
        "active_parameters",
        "weight_bytes",
        "kv_bytes_per_token",
        "state_bytes_per_sequence",
        "blocks",
    }
    assert promised <= set(json.loads(json.dumps(data)))
    assert data["weight_bytes"] == data["weight_bytes_by_format"]["bf16"] == 2 * data["total_parameters"]


def test_active_parameters_are_fewer_only_where_there_are_experts() -> None:
    dense, sparse = summarise(preset("bamba-9b")), summarise(preset("jamba-mini"))
    assert dense.active_parameters == dense.total_parameters
    assert sparse.active_parameters < sparse.total_parameters / 4
