"""Parameters against the `transformers` library, on small models that vary every switch of each family.

`transformers_counts.json` holds, for 4 random small configurations per family, how many parameters `transformers`
5.24.0 allocates for it (models built without memory, elements of `parameters()` summed).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hydra_dse.model import Model, operators_of, total_parameters
from hydra_dse.model.huggingface import READERS

CASES = json.loads((Path(__file__).parent / "transformers_counts.json").read_text())

Read = Callable[[Mapping[str, Any]], Model]


def name_of(case: Mapping[str, Any]) -> str:
    return str(case["config"]["model_type"])


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_parameters_equal_those_that_transformers_allocates(case: Mapping[str, Any], read: Read) -> None:
    assert total_parameters(read(case["config"])) == case["parameters"]


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_operators_own_every_parameter_once(case: Mapping[str, Any], read: Read) -> None:
    owned = sum(operator.weight_elements * operator.weight_copies for operator in operators_of(read(case["config"])))
    assert owned == case["parameters"]


def test_every_supported_type_but_those_outside_transformers_is_covered() -> None:
    covered = {name_of(case) for case in CASES}
    nested = {"qwen3_5": "qwen3_5_text", "qwen3_5_moe": "qwen3_5_moe_text"}
    outside = {"hymba", "kimi_k3"}
    assert {nested.get(name, name) for name in READERS} - outside == covered
