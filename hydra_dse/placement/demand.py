"""What a placement is made for: the traffic of a design, and all that it depends on."""

from __future__ import annotations

import numpy as np

from hydra_dse.design.nouns import Design
from hydra_dse.mapping import (
    groups_of_pool,
    nominal_peaks,
    pool_names,
    reference_parts,
    residents_of,
    seen_by,
    token,
    vector_ratio,
)
from hydra_dse.model.blocks import Model
from hydra_dse.placement.problem import FloatArray


def demand_of(design: Design, models: tuple[Model, ...]) -> FloatArray:
    """Bytes of one request of each model from component to component, apart for what takes turns."""
    if len(models) == 1:
        return reference_parts(seen_by(design, models[0]), models[0])
    return np.concatenate([reference_parts(part.design, part.model) for part in residents_of(design, models)])


def placement_key(design: Design, models: tuple[Model, ...], seed: int) -> tuple[object, ...]:
    """What a placement depends on: counts and roles, topology and leaves, mapping, model and precision.

    Die types count by their footprint on a floorplan and by their rounded peaks, as in the reference traffic; where
    scans are cut by speed also by their units.
    """
    package, mapping = design.package, design.mapping
    by_area = package.topology.kind == "floorplan"
    by_speed = mapping.scan_split == "speed"
    return (
        tuple(
            (g.name, g.count, g.families, g.phase, g.chiplet.memory_bandwidth_bytes_per_s, g.chiplet.memory_bytes)
            + ((g.chiplet.area_mm2,) if by_area else ())
            + ((g.chiplet.style, vector_ratio(g.chiplet)) if by_speed else ())
            for g in package.dies
        ),
        tuple(
            (name, *peaks)
            for pool in pool_names(design)
            for name, peaks in nominal_peaks(groups_of_pool(package, pool)).items()
        ),
        tuple((g.name, g.count, token(g.stack)) for g in package.memories),
        token(package.topology),
        tuple((part.name, part.die_count, part.stack_count) for part in package.parts),
        package.memory_is_leaf,
        design.placement_algorithm,
        seed if design.placement_algorithm == "random" else 0,
        tuple((kind, mapping.groups[kind]) for kind in sorted(mapping.groups)),
        (mapping.parallelism, mapping.homes, mapping.expert_placement, mapping.replicated_experts, mapping.pipeline),
        tuple((pool, mapping.memories[pool]) for pool in sorted(mapping.memories)),
        design.policy.serving,
        design.precision,
        tuple((token(model), mapping.models.get(model.name, mapping.only)) for model in models),
    )
