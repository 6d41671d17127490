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


def test_a_divided_cache_gives_each_model_an_equal_part() -> None:
    divided = replace(DESIGN, mapping=replace(DESIGN.mapping, cache="equal"))
    whole = residents_of(DESIGN, MODELS)[0].cache_bytes
    found = residents_of(divided, MODELS)
    assert [(resident.shared, resident.cache_bytes) for resident in found] == [(False, pytest.approx(whole / 2))] * 2


def test_the_sram_is_divided_by_the_models_that_meet_somewhere() -> None:
    # Of three models one has the attention dies to itself, the two others take the Mamba dies together.
    three = [*MODELS, load_model("zamba2-7b")]
    named = {"nemotron-h-8b": ("Mp", "Md"), "zamba2-7b": ("Mp", "Md"), "llama-3.1-8b": ("Ap", "Ad")}
    design = replace(DESIGN, mapping=replace(DESIGN.mapping, models=named))
    whole = DESIGN.mapping.sram_weight_share
    shares = {r.model.name: r.design.mapping.sram_weight_share for r in residents_of(design, three)}
    assert shares == {"nemotron-h-8b": whole / 2, "zamba2-7b": whole / 2, "llama-3.1-8b": whole}


def test_stacks_of_unlike_bandwidth_are_full_when_the_first_of_them_is() -> None:
    # All is spread by bandwidth: of two stacks of 100 GB the one of twice the pace takes two thirds and is full first.
    [group] = DESIGN.package.memories
    slow = replace(group, count=1, stack=replace(group.stack, capacity_bytes=100e9))
    twice = replace(slow.stack, bandwidth_bytes_per_s=2 * slow.stack.bandwidth_bytes_per_s)
    fast = replace(slow, name="fast", stack=twice)
    two = replace(DESIGN, package=replace(DESIGN.package, memories=(slow, fast)))
    weights = sum(operands_of(model, model.precision).weight_bytes for model in MODELS)
    assert [r.cache_bytes for r in residents_of(two, MODELS)] == [pytest.approx(150e9 - weights)] * 2
