"""A design whose die groups are cut into the stages of a pipeline."""

from __future__ import annotations

from dataclasses import replace

from hydra_dse.design.nouns import Design
from hydra_dse.hardware.components import DieGroup


def pipelined(design: Design) -> Design:
    """Return the design with each die group as one group per stage of `mapping.pipeline`, `A` as `A.1`, `A.2`, ….

    Dies keep their numbers, so slots stay what they are.  Counts that the degree does not divide give the first stages
    one die more.
    """
    degree = design.mapping.pipeline
    if degree == 1:
        return design
    groups: list[DieGroup] = []
    names: dict[str, tuple[str, ...]] = {}
    for group in design.package.dies:
        least, more = divmod(group.count, degree)
        parts = [
            replace(group, name=f"{group.name}.{stage + 1}", count=least + (stage < more), stage=stage)
            for stage in range(degree)
        ]
        kept = [part for part in parts if part.count]
        groups += kept
        names[group.name] = tuple(part.name for part in kept)
    mapped = {
        kind: tuple(part for name in chosen for part in names.get(name, ()))
        for kind, chosen in design.mapping.groups.items()
    }
    return replace(
        design,
        package=replace(design.package, dies=tuple(groups)),
        mapping=replace(design.mapping, groups=mapped),
    )
