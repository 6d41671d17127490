"""Several models on one package: memory that is left, parts of the SRAM, dies of each pool."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hydra_dse.config import load_design, load_model
from hydra_dse.design.nouns import Design
from hydra_dse.errors import InputError
from hydra_dse.mapping import map_design, operands_of, residents_of, residents_violations, seen_by

MODELS = [load_model(name) for name in ("nemotron-h-8b", "llama-3.1-8b")]
DESIGN = load_design("hydra-24-nemotron-chat")


def mapped_to(**models: tuple[str, ...]) -> Design:
    named = {name.replace("_", "-").replace("3-1", "3.1"): groups for name, groups in models.items()}
    return replace(DESIGN, mapping=replace(DESIGN.mapping, models=named))


def test_one_model_sees_the_design_as_it_is() -> None:
    [resident] = residents_of(DESIGN, MODELS[:1])
    assert resident.design == DESIGN
    assert resident.cache_bytes == map_design(DESIGN, MODELS[0]).memory.cache_bytes
    assert seen_by(DESIGN, MODELS[0]) is DESIGN


def test_a_model_with_dies_of_its_own_sees_those_whether_others_are_served_or_not() -> None:
    apart = mapped_to(nemotron_h_8b=("Mp", "Md"), llama_3_1_8b=("Ap", "Ad"))
    for model in MODELS:
        assert seen_by(apart, model) == residents_of(apart, [model])[0].design


def test_weights_of_both_models_leave_the_cache_memory() -> None:
    """Six equal stacks: all that both models' weights do not fill."""
    capacity = 6 * DESIGN.package.memories[0].stack.capacity_bytes
    weights = sum(operands_of(model, model.precision).weight_bytes for model in MODELS)
    for resident in residents_of(DESIGN, MODELS):
        assert resident.shared
        assert resident.cache_bytes == pytest.approx(capacity - weights)


def test_models_on_the_same_dies_divide_the_sram_for_weights() -> None:
    whole = DESIGN.mapping.sram_weight_share
    assert [r.design.mapping.sram_weight_share for r in residents_of(DESIGN, MODELS)] == [whole / 2] * 2
    apart = mapped_to(nemotron_h_8b=("Mp", "Md"), llama_3_1_8b=("Ap", "Ad"))
    assert [r.design.mapping.sram_weight_share for r in residents_of(apart, MODELS)] == [whole] * 2


def test_pools_meet_where_they_have_dies_in_common() -> None:
    first, second = residents_of(DESIGN, MODELS)
    assert first.meets("decode", second, "decode") and not first.meets("decode", second, "prefill")
    first, second = residents_of(mapped_to(nemotron_h_8b=("Mp", "Md"), llama_3_1_8b=("Ap", "Ad")), MODELS)
    assert not first.meets("decode", second, "decode")
    assert first.dies["prefill"] == set(DESIGN.package.die_indices("Mp"))


def test_a_model_whose_dies_lack_a_phase_is_a_violation() -> None:
    broken = residents_violations(mapped_to(nemotron_h_8b=("Mp",)), MODELS)
    assert any("pool 'decode'" in violation.constraint for violation in broken)


def test_names_are_checked_only_where_a_served_model_has_no_entry() -> None:
    other = mapped_to(nemotron_h_8b=("Mp", "Md"), zamba2_7b=("Ap", "Ad"))
    assert residents_of(other, MODELS[:1])
    with pytest.raises(InputError, match="zamba2-7b"):
        residents_of(other, MODELS)
