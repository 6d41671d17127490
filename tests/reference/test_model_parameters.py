"""Parameters of every configuration of the reference data against its index."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hydra_dse.errors import InputError
from hydra_dse.model import active_parameters, operators_of, read_model, total_parameters

ROOT = Path(os.environ.get("HYDRA_DSE_REFERENCE", Path(__file__).parents[3] / "shared" / "reference"))
FOLDER = ROOT / "models"
INDEX: dict[str, dict[str, Any]] = (
    json.loads((FOLDER / "_index.json").read_text()) if (FOLDER / "_index.json").is_file() else {}
)

pytestmark = pytest.mark.skipif(not INDEX, reason=f"no reference models under {FOLDER}")

INCOMPLETE = {
    "hymba-1.5b-base": "num_key_value_heads",
    "falcon-h1-0.5b": "vocab_size",
    "falcon-h1-1.5b-deep": "intermediate_size",
    "falcon-h1-34b": "intermediate_size",
    "lfm2-moe-class-default": "layer_types",
}
"""Files that lack what a count needs, with the key that is named."""

KDA_PROJECTION = 21 * 2304 * 4096
"""The index's own count of Kimi Linear has one `hidden × inner` projection fewer in each of its 21 KDA layers than
`transformers` allocates (queries, keys, values and output); the library's count is the one followed."""


def with_key(key: str) -> list[str]:
    return [name for name, row in INDEX.items() if row.get(key) is not None]


def published() -> list[tuple[str, float]]:
    """Published totals of three or more digits, in parameters."""
    found = []
    for name, row in INDEX.items():
        stated = str(row.get("published_total_params") or "")
        digits = stated.rstrip("B").replace(".", "")
        if stated.endswith("B") and digits.isdigit() and len(digits.lstrip("0")) >= 3:
            found.append((name, float(stated.rstrip("B")) * 1e9))
    return found


@pytest.mark.parametrize("name", sorted(set(INDEX) - set(INCOMPLETE)))
def test_every_complete_configuration_is_read_and_lowered_whole(name: str) -> None:
    model = read_model(FOLDER / f"{name}.json")
    owned = sum(operator.weight_elements * operator.weight_copies for operator in operators_of(model))
    assert owned == total_parameters(model)


@pytest.mark.parametrize("name", with_key("transformers_params_billion"))
def test_totals_agree_with_transformers_within_half_a_percent(name: str) -> None:
    total = total_parameters(read_model(FOLDER / f"{name}.json"))
    assert total / 1e9 == pytest.approx(INDEX[name]["transformers_params_billion"], rel=0.005)


@pytest.mark.parametrize("name", with_key("computed_total_params"))
def test_totals_agree_with_the_reference_count_within_half_a_percent(name: str) -> None:
    total = total_parameters(read_model(FOLDER / f"{name}.json"))
    assert total == pytest.approx(INDEX[name]["computed_total_params"], rel=0.005)


@pytest.mark.parametrize("name", with_key("computed_active_params"))
def test_active_parameters_agree_with_the_reference_count_within_half_a_percent(name: str) -> None:
    left_out = KDA_PROJECTION if name == "kimi-linear-48b-a3b" else 0
    active = active_parameters(read_model(FOLDER / f"{name}.json")) - left_out
    assert active == pytest.approx(INDEX[name]["computed_active_params"], rel=0.005)


@pytest.mark.parametrize(("name", "total"), published())
def test_totals_agree_with_published_ones_within_three_percent(name: str, total: float) -> None:
    assert total_parameters(read_model(FOLDER / f"{name}.json")) == pytest.approx(total, rel=0.03)


@pytest.mark.parametrize(("name", "key"), sorted(INCOMPLETE.items()))
def test_an_incomplete_configuration_is_one_fault_that_names_the_key(name: str, key: str) -> None:
    if name not in INDEX:
        pytest.skip(f"the reference data has no {name}")
    with pytest.raises(InputError, match=key) as caught:
        read_model(FOLDER / f"{name}.json")
    assert len(caught.value.faults) == 1


@pytest.mark.parametrize(
    ("name", "missing", "billions"),
    [
        # The index's notes give the values that complete these files, and the totals that they make.
        ("falcon-h1-0.5b", {"vocab_size": 32784}, 0.521),
        ("falcon-h1-1.5b-deep", {"intermediate_size": 3072, "vocab_size": 65537}, 1.55),
        ("falcon-h1-34b", {"intermediate_size": 21504, "vocab_size": 261120, "mamba_n_groups": 2}, 33.6),
    ],
)
def test_an_incomplete_configuration_completed_by_the_notes_meets_their_total(
    name: str, missing: dict[str, int], billions: float, tmp_path: Path
) -> None:
    config = {**json.loads((FOLDER / f"{name}.json").read_text()), **missing}
    path = tmp_path / "model.json"
    path.write_text(json.dumps(config))
    assert total_parameters(read_model(path)) / 1e9 == pytest.approx(billions, rel=0.005)
