"""Short keys for large frozen nouns, so that a cache does not hash a topology of a hundred slots at every look-up."""

from __future__ import annotations

from collections.abc import Hashable

from hydra_dse.design.nouns import MappingChoice
from hydra_dse.hardware.components import Package

_LIMIT = 8192
_by_id: dict[int, tuple[Hashable, int]] = {}
_by_value: dict[Hashable, int] = {}
_issued = 0


def token(noun: Hashable) -> int:
    """Return a number that equal nouns share.

    It is found by identity first; an entry keeps its noun alive, so an id is not reused while it stands.  Numbers are
    never issued twice: after the tables were emptied a cache may miss but never mistake.
    """
    global _issued
    known = _by_id.get(id(noun))
    if known is not None:
        return known[1]
    if len(_by_id) >= _LIMIT:
        _by_id.clear()
        _by_value.clear()
    number = _by_value.get(noun)
    if number is None:
        _issued += 1
        number = _by_value[noun] = _issued
    _by_id[id(noun)] = (noun, number)
    return number


def components_key(package: Package) -> tuple[object, ...]:
    """Key of the dies and stacks of a package."""
    return (
        tuple((g.name, token(g.chiplet), g.count, g.families, g.phase, g.stage) for g in package.dies),
        tuple((g.name, token(g.stack), g.count) for g in package.memories),
        tuple((part.die_count, part.stack_count) for part in package.parts),
    )


def package_key(package: Package) -> tuple[object, ...]:
    """Key of everything in a package that a model reads."""
    return (
        components_key(package),
        token(package.topology),
        token(package.link),
        package.link_bandwidth_bytes_per_s,
        package.memory_is_leaf,
        token(package.limits),
        token(package.technology),
        # Links and limits of each of several packages; its components are those above, in order.
        tuple(package_key(part) for part in package.parts),
        token(package.fabric),
    )


def mapping_key(choice: MappingChoice) -> tuple[object, ...]:
    """Key of a mapping choice."""
    named = tuple((kind, choice.groups[kind]) for kind in sorted(choice.groups))
    experts = choice.expert_placement, choice.replicated_experts, choice.pipeline
    memories = tuple((pool, choice.memories[pool]) for pool in sorted(choice.memories))
    cut = choice.parallelism, choice.homes, choice.scan_split, choice.sram_weight_share
    return named, *cut, *experts, choice.only, memories
