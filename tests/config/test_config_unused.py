"""Keys of a design that change nothing are told, one line each; those that do something are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hydra_dse.config import bundled, load_design, load_model, load_space, load_workload
from hydra_dse.config.unused import without_effect, without_effect_in
from hydra_dse.design.nouns import Design, MappingChoice
from hydra_dse.design.space import Parameter, Point, SearchSpace
from hydra_dse.policy import Policy
from hydra_dse.workload.nouns import Workload


def _design(policy: Policy | None = None, mapping: MappingChoice | None = None) -> Design:
    design = load_design("hydra-24-nemotron-chat")
    return replace(design, policy=policy or design.policy, mapping=mapping or design.mapping)


def _workload() -> Workload:
    workload = load_workload("azure-conversation")
    return replace(workload, models=(load_model("nemotron-h-8b"),) * len(workload.models))


@pytest.mark.parametrize("name", ["hydra-24-nemotron-chat", "split-24-nemotron-chat", "h100"])
def test_shipped_designs_have_no_key_without_effect(name: str) -> None:
    assert without_effect(load_design(name)) == ()


@pytest.mark.parametrize(
    ("stated", "remedy", "line"),
    [
        (
            {"role_up_prompts": 9},
            {"task_map": "elastic"},
            "policy: role_up_prompts: no effect without task_map: elastic",
        ),
        ({"host_bytes_per_s": 1e9}, {"host_cache_bytes": 1e9}, "policy.host_bandwidth: no effect without host_cache"),
        (
            {"state_checkpoint_tokens": 64},
            {"prefix_cache": True},
            "policy.state_checkpoint_tokens: no effect without prefix_cache: true",
        ),
        ({"routing": "jsq"}, {"batches_in_flight": 2}, "policy.routing: no effect with one batch in flight"),
    ],
)
def test_a_key_of_the_policy_without_the_one_that_it_refines(stated: dict, remedy: dict, line: str) -> None:
    assert without_effect(_design(Policy(**stated))) == (line,)
    assert without_effect(_design(Policy(**stated, **remedy))) == ()


def test_placement_of_experts_needs_experts_placed_whole_and_a_model_that_has_them() -> None:
    chosen = MappingChoice(expert_placement="popularity", replicated_experts=2)
    assert without_effect(_design(mapping=chosen)) == (
        "mapping: expert_placement, replicated_experts: no effect without parallelism: expert",
    )
    whole = _design(mapping=replace(chosen, parallelism="expert"))
    dense = without_effect(whole, _workload())
    assert dense == ("mapping.parallelism: expert is no other than tensor, no model of the workload has experts",)
    sparse = replace(_workload(), models=(load_model("gpt-oss-20b"),) * len(_workload().models))
    assert without_effect(whole, sparse) == ()


def test_ageing_and_preemption_of_classes_need_classes_of_different_priority() -> None:
    design = _design(Policy(ageing_s=1.0, class_preemption=True))
    first = _workload().classes[0]
    alike = replace(_workload(), classes=(replace(first, priority=1), replace(first, priority=1)))
    assert [line.split(":")[0] for line in without_effect(design, alike)] == [
        "policy.ageing",
        "policy.class_preemption",
    ]
    assert without_effect(design, replace(alike, classes=(first, replace(first, priority=1)))) == ()


def test_the_division_of_the_cache_needs_several_models() -> None:
    design = _design(mapping=MappingChoice(cache="equal"))
    assert without_effect(design, _workload()) == ("mapping.cache: no effect, the workload has one model",)


def test_die_groups_of_a_model_that_is_not_served() -> None:
    design = _design(mapping=MappingChoice(models={"mamba2-8b": ("Ap", "Ad")}))
    assert without_effect(design, _workload()) == (
        "mapping.models: no effect, the workload has no model called mamba2-8b",
    )
    served = _design(mapping=MappingChoice(models={_workload().models[0].name: ("Ap", "Ad")}))
    assert without_effect(served, _workload()) == ()


def test_slots_that_batches_in_flight_cannot_share_evenly() -> None:
    line = "policy.max_batch: 2 of 32 have no effect, batches_in_flight holds 30 sequences in 3 equal batches"
    assert without_effect(_design(Policy(max_batch=32, batches_in_flight=3))) == (line,)
    assert without_effect(_design(Policy(max_batch=33, batches_in_flight=3))) == ()


def test_shipped_spaces_have_no_key_without_effect() -> None:
    assert {name: without_effect_in(load_space(name)) for name in bundled("spaces")} == dict.fromkeys(
        bundled("spaces"), ()
    )


def test_a_key_counts_as_without_effect_in_a_space_where_no_choice_gives_it_one() -> None:
    space = load_space("small-9")

    def with_policy(choices: tuple[str, ...]) -> SearchSpace:
        def build(point: Point) -> Design:
            policy = Policy(serving="disaggregated", role_up_prompts=9, task_map=str(point["map"]))
            return replace(load_design("hydra-24-nemotron-chat"), policy=policy)

        return replace(space, parameters=(Parameter("map", choices),), complete=lambda point: point, build=build,
                       repair=None)  # fmt: skip

    line = "policy: role_up_prompts: no effect without task_map: elastic"
    assert without_effect_in(with_policy(("static", "stealing"))) == (line,)
    assert without_effect_in(with_policy(("static", "elastic"))) == ()
