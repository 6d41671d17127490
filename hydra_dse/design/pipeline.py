"""A design whose die groups are cut into the stages of a pipeline, or whose packages are its stages."""

from __future__ import annotations

from dataclasses import replace

from hydra_dse.design.nouns import Design
from hydra_dse.errors import Fault, InputError
from hydra_dse.hardware.components import DieGroup
from hydra_dse.hardware.fabric import parts_of


def pipelined(design: Design) -> Design:
    """Return the design with each die group as one group per stage of `mapping.pipeline`, `A` as `A.1`, `A.2`, ….

    Dies keep their numbers, so slots stay what they are.  Counts that the degree does not divide give the first stages
    one die more.  Of several packages each is a stage, in their order, with all of its dies and its own memory.

    Raises:
        InputError: other than one stage for each of several packages.
    """
    degree = design.mapping.pipeline
    if degree == 1:
        return design
    if design.package.parts:
        return _by_package(design)
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


def _by_package(design: Design) -> Design:
    parts, degree = parts_of(design.package), design.mapping.pipeline
    if len(parts) != degree:
        message = (
            f"{degree} stages over {len(parts)} packages: each package is a stage; use pipeline: {len(parts)} or 1"
        )
        raise InputError(Fault(message))
    dies = tuple(replace(group, stage=stage) for stage, part in enumerate(parts) for group in part.dies)
    return replace(design, package=replace(design.package, dies=dies))
