"""Pools of elastic designs in every role state, and what a change of roles costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.nouns import Design
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.mapping import RolePlan, map_design, precision_of, role_plan, switch_traffic
from hydra_dse.model.blocks import Model
from hydra_dse.model.operators import Batch
from hydra_dse.network_load import LinkLoad
from hydra_dse.profile.block import Spent
from hydra_dse.profile.hardware import HardwareTable
from hydra_dse.profile.members import members_of
from hydra_dse.profile.nouns import PoolModel, RoleProfile, ServiceProfile
from hydra_dse.profile.pools import ProfiledContention, ProfiledPool

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class MergedPool:
    """A pool whose die groups are told apart by unit inside, and joined in what it reports.

    Attributes:
        pool: the pool itself.
        parts: die group of the pool → the die group of the design, and its share of that one's dies, shape (n,).
    """

    pool: ProfiledPool
    parts: Mapping[str, tuple[str, FloatArray]]

    def time_s(self, batch: Batch) -> FloatArray:
        """As of the pool."""
        return self.pool.time_s(batch)

    def energy_j(self, batch: Batch) -> FloatArray:
        """As of the pool."""
        return self.pool.energy_j(batch)

    def spent(self, batch: Batch) -> Spent:
        """What the dynamic energy is spent on, by die group of the design."""
        found = self.pool.spent(batch)
        merged: dict[str, FloatArray] = {}
        for name, joules in found.dies_j.items():
            whole, _ = self.parts.get(name, (name, None))
            merged[whole] = merged.get(whole, np.zeros_like(joules)) + joules
        return replace(found, dies_j=merged)

    def busy_s(self, batch: Batch) -> Mapping[str, FloatArray]:
        """Busy seconds by die group of the design, of `"hbm"` and `"noi"`."""
        merged: dict[str, FloatArray] = {}
        for name, seconds in self.pool.busy_s(batch).items():
            whole, weight = self.parts.get(name, (name, np.ones(self.pool.size)))
            merged[whole] = merged.get(whole, np.zeros_like(seconds)) + seconds * weight[:, None]
        return merged


def with_roles(
    profile: ServiceProfile, designs: Sequence[Design], model: Model, calibration: CalibrationSet
) -> ServiceProfile:
    """Add the role states of elastic designs to their profile."""
    plans = [role_plan(design) for design in designs]
    below = max(plan.native for plan in plans)
    above = max(len(plan.states) - 1 - plan.native for plan in plans)
    parts = _parts(plans)
    in_flight = np.array([float(design.policy.batches_in_flight) for design in designs])
    found = [_pools(plans, lent, model, calibration, in_flight) for lent in range(-below, above + 1)]
    merged: tuple[Mapping[str, PoolModel], ...] = tuple(
        {name: MergedPool(pool, parts) for name, pool in pools.items()} for pools in found
    )
    moves = np.array([_moves(plan, below, above, model) for plan in plans])
    roles = RoleProfile(
        native=below,
        pools=merged,
        contention={
            (low, high): ProfiledContention(found[low]["prefill"], found[high]["decode"])
            for low in range(len(found))
            for high in range(low, len(found))
        },
        lowest=np.array([below - plan.native for plan in plans], dtype=np.int64),
        highest=np.array([below + len(plan.states) - 1 - plan.native for plan in plans], dtype=np.int64),
        up=np.array([float(design.policy.role_up_prompts) for design in designs]),
        down=np.array([float(design.policy.role_down_prompts) for design in designs]),
        move_bytes=moves[..., 0],
        move_s=moves[..., 1],
    )
    pools = {roles.name(name, state): pool for state, both in enumerate(merged) for name, pool in both.items()}
    return replace(profile, pools=pools, roles=roles)


def _parts(plans: Sequence[RolePlan]) -> dict[str, tuple[str, FloatArray]]:
    weights = [plan.merge_weights() for plan in plans]
    whole = {name: group for plan in plans for name, group in plan.part_of.items()}
    return {name: (group, np.array([weight.get(name, 0.0) for weight in weights])) for name, group in whole.items()}


def _pools(
    plans: Sequence[RolePlan], lent: int, model: Model, calibration: CalibrationSet, in_flight: FloatArray
) -> dict[str, ProfiledPool]:
    """Both pools with `lent` units lent, or as many of them as a design has."""
    states = [plan.states[int(np.clip(plan.native + lent, 0, len(plan.states) - 1))] for plan in plans]
    table = HardwareTable(model, calibration)
    index = np.array(table.index(states), dtype=np.int64)
    return {
        name: ProfiledPool(members_of(table, index, at), in_flight) for at, name in enumerate(("prefill", "decode"))
    }


def _moves(plan: RolePlan, below: int, above: int, model: Model) -> FloatArray:
    """Bytes and seconds of every change, shape (states − 1, 2 directions, 2)."""
    result = np.zeros((below + above, 2, 2))
    placement = plan.states[0].placement
    if placement is None or len(plan.states) < 2:
        return result
    mapped = [map_design(state, model) for state in plan.states]
    if any(not pool.operators for design in mapped for pool in design.pools):
        return result
    package = plan.states[0].package
    load = LinkLoad(package, placement)
    weight_bytes = precision_of(plan.states[0], model).weight_bytes
    for low in range(len(mapped) - 1):
        for direction, (before, after) in enumerate(((low, low + 1), (low + 1, low))):
            traffic = switch_traffic(mapped[before], mapped[after], weight_bytes)
            links = load.loads(traffic) / load.capacity
            sites = [traffic[site.component].sum() / site.bandwidth_bytes_per_s for site in mapped[after].sites]
            longest = max(float(np.max(links, initial=0.0)), max(sites, default=0.0))
            result[below - plan.native + low, direction] = traffic.sum(), longest
    return result
