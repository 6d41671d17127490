"""Keys of a design or of a space that change nothing: each is told in one line, for it may be a slip."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from hydra_dse.design.nouns import Design, MappingChoice
from hydra_dse.design.space import SearchSpace
from hydra_dse.model import operators_of
from hydra_dse.policy import Policy
from hydra_dse.workload.by_model import served
from hydra_dse.workload.nouns import Workload

_ROLES = ("role_up_prompts", "role_down_prompts", "role_unit_dies", "role_units_to_prefill", "role_units_to_decode")
_DEFAULT = {part.name: part.default for part in fields(Policy)}
_MAPPING = MappingChoice()


def without_effect(design: Design, workload: Workload | None = None) -> tuple[str, ...]:
    """Return a line for each key that is not at its default and has no effect.

    Args:
        design: as it was stated.
        workload: what it is to serve; without one, only what the design alone tells.
    """
    lines = [*_of_policy(design.policy), *_of_mapping(design.mapping)]
    if workload is not None:
        lines += [*_by_classes(design.policy, workload), *_by_models(design.mapping, workload)]
    return tuple(lines)


def without_effect_in(space: SearchSpace, workload: Workload | None = None) -> tuple[str, ...]:
    """Return a line for each key that has no effect in any design of a space.

    Looked at are a first design and those that differ from it in one parameter: what a key lacks is one choice.

    Args:
        space: what the designs are made of.
        workload: what they are to serve.
    """
    first = next(space.points(), None)
    if first is None:
        return ()
    lines = dict.fromkeys(without_effect(space.build(first), workload))
    for parameter in space.parameters:
        for choice in parameter.choices:
            if not lines:
                return ()
            changed = {other.name: first[other.name] for other in space.parameters} | {parameter.name: choice}
            point = space.complete(space.repair(changed) if space.repair is not None else changed)
            if point is not None:
                there = without_effect(space.build(point), workload)
                lines = {line: None for line in lines if line in there}
    return tuple(lines)


def _of_policy(policy: Policy) -> Iterator[str]:
    stated = [name for name in _ROLES if getattr(policy, name) != _DEFAULT[name]]
    if stated and policy.task_map != "elastic":
        yield f"policy: {', '.join(stated)}: no effect without task_map: elastic"
    if policy.host_bytes_per_s > 0 and policy.host_cache_bytes <= 0:
        yield "policy.host_bandwidth: no effect without host_cache"
    if policy.state_checkpoint_tokens != _DEFAULT["state_checkpoint_tokens"] and not policy.prefix_cache:
        yield "policy.state_checkpoint_tokens: no effect without prefix_cache: true"
    if policy.routing != "shared" and policy.batches_in_flight == 1:
        yield "policy.routing: no effect with one batch in flight"
    lost = policy.max_batch % policy.batches_in_flight
    if lost:
        held = f"{policy.max_batch - lost} sequences in {policy.batches_in_flight} equal batches"
        yield f"policy.max_batch: {lost} of {policy.max_batch} have no effect, batches_in_flight holds {held}"
    if policy.routing != "shared" and policy.serving == "colocated":
        yield "policy.routing: no effect without serving: disaggregated"


def _of_mapping(mapping: MappingChoice) -> Iterator[str]:
    stated = [name for name in ("expert_placement", "replicated_experts") if _changed(mapping, name)]
    if stated and mapping.parallelism != "expert":
        yield f"mapping: {', '.join(stated)}: no effect without parallelism: expert"
    if mapping.scan_split != "peak" and mapping.parallelism == "replica":
        yield "mapping.scan_split: no effect with parallelism: replica, whose dies share rows"


def _by_classes(policy: Policy, workload: Workload) -> Iterator[str]:
    if len({kind.priority for kind in workload.classes}) > 1:
        return
    if policy.ageing_s is not None:
        yield "policy.ageing: no effect, all classes of the workload have one priority"
    if policy.class_preemption:
        yield "policy.class_preemption: no effect, all classes of the workload have one priority"


def _by_models(mapping: MappingChoice, workload: Workload) -> Iterator[str]:
    models = [kind.model for kind in served(workload)]
    if mapping.models and not any(model.name in mapping.models for model in models):
        yield f"mapping.models: no effect, the workload has no model called {' or '.join(mapping.models)}"
    if len(models) == 1 and _changed(mapping, "cache"):
        yield "mapping.cache: no effect, the workload has one model"
    if mapping.parallelism == "expert" and all(op.routing is None for model in models for op in operators_of(model)):
        yield "mapping.parallelism: expert is no other than tensor, no model of the workload has experts"


def _changed(mapping: MappingChoice, name: str) -> bool:
    return bool(getattr(mapping, name) != getattr(_MAPPING, name))
