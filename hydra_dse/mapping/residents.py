"""Several models on one package: the design as each of them sees it, and the memory they share.

Every model keeps one copy of its weights in the stacks; what they leave is cache memory.  Models that use the same
dies divide the SRAM that keeps weights resident in equal parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hydra_dse.design.nouns import Design
from hydra_dse.errors import Fault, InputError, did_you_mean, one_of
from hydra_dse.mapping.groups import groups_of_pool, pool_names
from hydra_dse.mapping.layout import bandwidth_shares, memory_sites
from hydra_dse.mapping.operands import operands_of, precision_of
from hydra_dse.mapping.staged import staged
from hydra_dse.mapping.storage import memory_of, stored_weights
from hydra_dse.mapping.violations import mapping_violations
from hydra_dse.model.blocks import Model
from hydra_dse.results.nouns import Violation


@dataclass(frozen=True)
class Resident:
    """One of the models on a package.

    Attributes:
        design: the design restricted to the dies of the model.
        cache_bytes: what its caches may fill, alone or together with those of the others (see `shared`).
        shared: whether all models fill the same memory.
        dies: indices of its dies by pool name.
    """

    model: Model
    design: Design
    cache_bytes: float
    shared: bool
    dies: dict[str, frozenset[int]]

    def meets(self, pool: str, other: Resident, other_pool: str) -> bool:
        """Whether two pools have dies in common."""
        return bool(self.dies[pool] & other.dies[other_pool])


def seen_by(design: Design, model: Model) -> Design:
    """The design as its only model sees it: restricted to the dies that the mapping gives to the model."""
    mapping, only = design.mapping, design.mapping.models.get(model.name, ())
    if not mapping.models and mapping.only == only:
        return design
    return replace(design, mapping=replace(mapping, models={}, only=only))


def residents_of(design: Design, models: Sequence[Model]) -> tuple[Resident, ...]:
    """Return the design as each model sees it, in their order.

    Raises:
        InputError: the mapping names a model that is not served while one of several has no die groups of its own.
    """
    _check_names(design, models)
    if len(models) == 1:
        operands = operands_of(models[0], precision_of(design, models[0]))
        cache = memory_of(design, operands, memory_sites(design.package)).cache_bytes
    else:
        bound, weights = _memory(design, models)
        cache = max(0.0, bound - sum(weights))
    shared = design.mapping.cache == "shared"
    chosen = [_groups(design, model) for model in models]
    found = []
    for model, groups in zip(models, chosen, strict=True):
        sharers = max(sum(name in other for other in chosen) for name in groups) if groups else 1
        mapping = replace(
            design.mapping,
            models={},
            only=design.mapping.models.get(model.name, ()),
            sram_weight_share=design.mapping.sram_weight_share / max(sharers, 1),
        )
        seen = replace(design, mapping=mapping)
        found.append(
            Resident(model, seen, cache if shared else cache / len(models), shared, _dies(seen)),
        )
    return tuple(found)


def residents_violations(design: Design, models: Sequence[Model]) -> tuple[Violation, ...]:
    """Every reason why a design cannot hold or run all of the models; empty where it can."""
    found = [broken for part in residents_of(design, models) for broken in mapping_violations(part.design, part.model)]
    if not found and len(models) > 1:
        bound, weights = _memory(design, models)
        operands = [operands_of(model, precision_of(design, model)) for model in models]
        least = sum(weights) + sum(o.state_bytes_per_sequence + o.kv_bytes_per_token for o in operands)
        if least > bound:
            levers = ("more memory stacks", "larger stacks", "weights of fewer bits", "fewer or smaller models")
            names = ", ".join(model.name for model in models)
            found.append(Violation(f"weights and one sequence of each of {names}", least, bound, "bytes", levers))
    return tuple(dict.fromkeys(found))


def _memory(design: Design, models: Sequence[Model]) -> tuple[float, list[float]]:
    """Bytes that fit until the first stack is full, spread by bandwidth, and the weights of each model.

    What experts placed whole hold beyond the share of a stack is taken off its capacity.
    """
    sites = memory_sites(design.package)
    share = bandwidth_shares(sites)
    operands = [operands_of(model, precision_of(design, model)) for model in models]
    weights = [part.weight_bytes for part in operands]
    uneven = sum((stored_weights(design, part, sites) - part.weight_bytes * share for part in operands), 0.0 * share)
    pairs = zip(sites, share.tolist(), uneven.tolist(), strict=True) if sites else ()
    return min(((site.capacity_bytes - more) / part for site, part, more in pairs if part > 0), default=0.0), weights


def _groups(design: Design, model: Model) -> tuple[str, ...]:
    named = design.mapping.models.get(model.name)
    return named if named is not None else tuple(group.name for group in design.package.dies)


def _dies(design: Design) -> dict[str, frozenset[int]]:
    package, only = design.package, design.mapping.only
    return {
        pool: frozenset(die for group in groups_of_pool(package, pool, only) for die in package.die_indices(group.name))
        for pool in pool_names(design)
    }


def _check_names(design: Design, models: Sequence[Model]) -> None:
    """A misspelt model would quietly use all dies."""
    names = [model.name for model in models]
    if len(models) > 1 and design.mapping.memories:
        message = f"mapping.memories: memories of each pool serve one model, the workload has {', '.join(names)}"
        raise InputError(Fault(message))
    if len(models) > 1 and staged(design):
        message = f"mapping.pipeline: packages as stages serve one model, the workload has {', '.join(names)}"
        raise InputError(Fault(message))
    unknown = [name for name in design.mapping.models if name not in names]
    if len(models) > 1 and unknown and any(name not in design.mapping.models for name in names):
        hint = did_you_mean(unknown[0], names)
        raise InputError(
            Fault(
                f"mapping.models of design {design.name or design.identity} names {unknown[0]!r}, which the workload "
                f"does not serve{hint}; expected {one_of(names)}"
            )
        )
