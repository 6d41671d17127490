"""Which die groups run which operator class in which pool.

Unless a design says otherwise, attention classes run on the groups that serve the family `"attention"`, SSM classes
on those that serve `"ssm"` (a group without families serves both), and all other classes on every group of the pool.
"""

from __future__ import annotations

from hydra_dse.design.nouns import Design, MappingChoice
from hydra_dse.hardware.components import DieGroup, Package
from hydra_dse.model.operators import OperatorClass

FAMILY_OF: dict[OperatorClass, str] = {
    OperatorClass.ATTENTION: "attention",
    OperatorClass.ATTENTION_PROJECTION: "attention",
    OperatorClass.SSM_PROJECTION: "ssm",
    OperatorClass.SSM_CONV: "ssm",
    OperatorClass.SSM_SCAN: "ssm",
}

POOLS: dict[str, tuple[str, ...]] = {"colocated": ("serve",), "disaggregated": ("prefill", "decode")}


def pool_names(design: Design) -> tuple[str, ...]:
    """Names of the pools of a design: `("serve",)` or `("prefill", "decode")`."""
    return POOLS[design.policy.serving]


def groups_of_pool(package: Package, pool: str, only: tuple[str, ...] = ()) -> tuple[DieGroup, ...]:
    """Die groups of a pool: all of them for `"serve"`, else those of its phase or of any; of `only` where given."""
    members = tuple(g for g in package.dies if g.count > 0 and (pool == "serve" or g.phase in (pool, "any")))
    return tuple(group for group in members if group.name in only) if only else members


def groups_of_class(groups: tuple[DieGroup, ...], choice: MappingChoice, kind: OperatorClass) -> tuple[DieGroup, ...]:
    """Die groups among `groups` that run operators of a class; empty where none can."""
    named = choice.groups.get(kind)
    if named is not None:
        return tuple(group for group in groups if group.name in named)
    family = FAMILY_OF.get(kind)
    if family is None:
        return groups
    return tuple(group for group in groups if not group.families or family in group.families)
