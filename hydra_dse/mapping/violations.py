"""What a design lacks to serve a model at all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.nouns import Design
from hydra_dse.hardware.components import DieGroup
from hydra_dse.mapping.apart import apart, site_shares
from hydra_dse.mapping.formats import speed_of
from hydra_dse.mapping.groups import groups_of_class, groups_of_pool, pool_names
from hydra_dse.mapping.layout import bandwidth_shares, memory_sites
from hydra_dse.mapping.nouns import MemorySite
from hydra_dse.mapping.operands import Operands, operands_of, precision_of
from hydra_dse.mapping.staged import stage_shares, stage_site_shares, staged
from hydra_dse.mapping.stages import stages_of
from hydra_dse.mapping.storage import stored_weights
from hydra_dse.model.blocks import Model
from hydra_dse.results.nouns import Violation

FloatArray = NDArray[np.float64]


def mapping_violations(design: Design, model: Model) -> tuple[Violation, ...]:
    """Return every reason why a design cannot hold or run a model; empty where it can."""
    operands = operands_of(model, precision_of(design, model))
    return (*memory_violations(design, operands), *die_violations(design, operands))


def memory_violations(design: Design, operands: Operands) -> tuple[Violation, ...]:
    """No memory at all, or weights that do not fit with room for one token of one sequence."""
    sites = memory_sites(design.package)
    if not sites:
        return (Violation("no memory on the package", 1, 0, "stacks", ("add a memory stack",)),)
    share = bandwidth_shares(sites)
    if design.mapping.parallelism == "expert":
        return _overfull(design, operands)
    if apart(design):
        return _apart(design, operands, sites)
    if staged(design):
        return _staged(design, operands, sites)
    bound = min(site.capacity_bytes / part for site, part in zip(sites, share, strict=True) if part > 0)
    least = operands.weight_bytes + operands.state_bytes_per_sequence + operands.kv_bytes_per_token
    if least <= bound:
        return ()
    levers = ("more memory stacks", "larger stacks", "weights of fewer bits", "a smaller model")
    return (Violation("weights and one sequence exceed memory", least, bound, "bytes", levers),)


def _apart(design: Design, operands: Operands, sites: Sequence[MemorySite]) -> tuple[Violation, ...]:
    """Weights that do not fit into the memories of a pool with one token of one sequence."""
    least = operands.weight_bytes + operands.state_bytes_per_sequence + operands.kv_bytes_per_token
    levers = ("more or larger stacks for that pool", "weights of fewer bits", "one memory for both pools")
    found = []
    for pool, share in zip(pool_names(design), site_shares(design, sites), strict=True):
        bound = _room(sites, share)
        if least > bound:
            what = f"weights and one sequence exceed the memories of pool {pool!r}"
            found.append(Violation(what, least, bound, "bytes", levers))
    return tuple(found)


def _staged(design: Design, operands: Operands, sites: Sequence[MemorySite]) -> tuple[Violation, ...]:
    """Weights and caches of a stage that the memory of its package does not hold with one token of one sequence."""
    weights, kv, state = stage_shares(operands, design.mapping.pipeline)
    least = weights + kv * operands.kv_bytes_per_token + state * operands.state_bytes_per_sequence
    levers = ("more or larger stacks on that package", "weights of fewer bits", "more packages")
    found = []
    shares = stage_site_shares(design, sites)
    for part, share, demand in zip(design.package.parts, shares, least.tolist(), strict=True):
        bound = _room(sites, share)
        if demand > bound:
            what = f"weights and one sequence of its stage exceed the memory of package {part.name!r}"
            found.append(Violation(what, demand, bound, "bytes", levers))
    return tuple(found)


def _room(sites: Sequence[MemorySite], share: FloatArray) -> float:
    """Bytes, dealt to sites by shares, at which the first of them is full; 0 where none has a share."""
    rooms = [site.capacity_bytes / part for site, part in zip(sites, share.tolist(), strict=True) if part > 0]
    return min(rooms, default=0.0)


def _overfull(design: Design, operands: Operands) -> tuple[Violation, ...]:
    """The site that experts placed whole fill most above its capacity; none where all fit with one sequence."""
    sites = memory_sites(design.package)
    sequence = operands.state_bytes_per_sequence + operands.kv_bytes_per_token
    least = stored_weights(design, operands, sites) + sequence * bandwidth_shares(sites)
    worst = max(range(len(sites)), key=lambda number: least[number] / sites[number].capacity_bytes)
    bound = sites[worst].capacity_bytes
    if least[worst] <= bound:
        return ()
    levers = ("more memory stacks", "larger stacks", "weights of fewer bits", "fewer replicated experts")
    demand = float(least[worst])
    return (Violation(f"weights and one sequence exceed {sites[worst].name}", demand, bound, "bytes", levers),)


def die_violations(design: Design, operands: Operands) -> tuple[Violation, ...]:
    """A pool without dies, an operator class without a die group, a number format without hardware."""
    found: list[Violation] = []
    for pool in pool_names(design):
        groups = groups_of_pool(design.package, pool, design.mapping.only)
        if not groups:
            levers = (f"add a die group of phase {pool!r} or 'any'", "serve colocated")
            found.append(Violation(f"no dies in pool {pool!r}", 1, 0, "dies", levers))
            continue
        found += _unmapped(design, operands, pool, groups)
        found += _unsupported(operands, groups)
    return tuple(dict.fromkeys(found))


def _unmapped(design: Design, operands: Operands, pool: str, groups: tuple[DieGroup, ...]) -> list[Violation]:
    degree = design.mapping.pipeline
    found = []
    for stage, operators in enumerate(stages_of(operands, degree)):
        mine = tuple(group for group in groups if group.stage == stage)
        where = f"of pool {pool!r}" if degree == 1 else f"in stage {stage + 1} of {degree} of pool {pool!r}"
        levers = (f"add a die group of that family to pool {pool!r}",)
        found += [
            Violation(
                f"no die group {where} runs {kind.value!r} operators",
                1,
                0,
                "die groups",
                (*levers, f"map {kind.value!r} to another group" if degree == 1 else "fewer stages or more dies"),
            )
            for kind in dict.fromkeys(operator.kind for operator in operators)
            if not groups_of_class(mine, design.mapping, kind)
        ]
    return found


def _unsupported(operands: Operands, groups: tuple[DieGroup, ...]) -> list[Violation]:
    wanted = operands.precision.activations
    return [
        Violation(
            f"die {group.chiplet.name!r} does not multiply {wanted}",
            1,
            0,
            "formats",
            (f"activations in {group.chiplet.matmul_format}", f"a die that supports {wanted}"),
        )
        for group in groups
        if group.chiplet.matmul_flops_per_s > 0 and speed_of(group.chiplet, wanted) is None
    ]
