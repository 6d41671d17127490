"""The presets: readable, named as their files, with source and length limit, true to what they claim."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hydra_dse.model import active_parameters, read_model, total_parameters

FOLDER = Path(__file__).parents[2] / "workloads" / "models"
FILES = sorted(FOLDER.glob("*.json"))

UNLIMITED = {"mamba2-2.7b", "mamba2-3b", "falcon-mamba-7b"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_preset_is_named_as_its_file_and_states_source_and_limit(file: Path) -> None:
    data = json.loads(file.read_text())
    model = read_model(file)
    assert model.name == data["preset"] == file.stem
    assert len(model.source) > 20
    assert "same_as" in data or "max_position_embeddings" in json.dumps(data["config"])
    assert (model.max_position_embeddings is None) == (file.stem in UNLIMITED)


def test_the_models_of_hydra_and_of_the_hybrid_families_are_there() -> None:
    names = {file.stem for file in FILES}
    hydra = {"llama3-8b", "mamba2-3b", "nemotronh-4b", "zamba2-7b", "jamba-tiny", "jamba-mini", "nemotronh-56b"}
    families = {
        "nemotron-h-8b",
        "nemotron-h-47b",
        "nemotron-h-56b",
        "nemotron-nano-9b-v2",
        "nemotron-3-nano",
        "falcon-h1",
        "bamba-9b",
        "granite-4-h-small",
        "qwen3-next",
        "llama-3.1-8b",
        "mamba2-2.7b",
    }
    assert hydra | families <= names


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("nemotron-h-8b", 8.10e9, None),  # arXiv 2504.03624: 8B
        ("nemotron-h-56b", 56.3e9, None),  # arXiv 2504.03624: 56B
        ("bamba-9b", 9.78e9, None),  # model card
        ("jamba-tiny", 0.319e9, None),  # model card: 319M
        ("nemotron-3-nano", 31.6e9, 3.6e9),  # model page: 31.6B, 3.6B active with embeddings
        ("hymba-1.5b", 1.52e9, None),  # arXiv 2411.13676
        ("falcon-mamba-7b", 7.27e9, None),  # arXiv 2410.05355
        ("deepseek-v3", 671e9, 37e9),  # arXiv 2412.19437
        ("granite-4-h-small", 32.2e9, 9e9),  # model card: 32B, 9B active
        ("gpt-oss-20b", 20.91e9, None),  # arXiv 2508.10925, table 1
    ],
)
def test_presets_meet_the_published_totals(name: str, total: float, active: float | None) -> None:
    model = read_model(FOLDER / f"{name}.json")
    assert total_parameters(model) == pytest.approx(total, rel=0.03)
    if active is not None:
        assert active_parameters(model) == pytest.approx(active, rel=0.03)


@pytest.mark.parametrize(
    ("name", "mamba", "attention"),
    # HYDRA (arXiv 2608.19395): layers of each family.
    [
        ("llama3-8b", 0, 32),
        ("mamba2-3b", 64, 0),
        ("nemotronh-4b", 24, 4),
        ("nemotronh-56b", 54, 10),
        ("zamba2-7b", 81, 13),
        ("jamba-tiny", 14, 2),
    ],
)
def test_hydra_models_have_the_layers_it_states(name: str, mamba: int, attention: int) -> None:
    labels = [block.label for block in read_model(FOLDER / f"{name}.json").blocks]
    assert labels.count("mamba") == mamba
    assert labels.count("attention") + labels.count("shared_attention") == attention
