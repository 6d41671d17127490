"""Elastic systems of placed designs: iteration costs of every role state, and what moves between states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.nouns import Design
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.mapping import MappedDesign, map_design, pool_names, precision_of, role_plan, switch_traffic
from hydra_dse.model.blocks import Model
from simulators.iteration import Work
from simulators.noi.links import PlacedLinks
from simulators.package import Ledger, PackageCost, PlacedHardware
from simulators.package.ledger import moved_ledger
from simulators.serving.roles import Roles

FloatArray = NDArray[np.float64]


@dataclass(eq=False)
class RoleMoves:
    """Transfers between neighbouring role states, as busy seconds of every memory site and link.

    Attributes:
        busy: shape (transfers, resources), those left out by `keep` taken off; whole: all sites, then all links.
        hardware: of a role state: memories and links are the same in all.
    """

    busy: FloatArray
    rows: dict[tuple[int, int], int]
    seconds: list[float]
    die_groups: int
    whole: FloatArray
    hardware: PlacedHardware

    @property
    def table(self) -> FloatArray:
        """Busy seconds, shape (transfers, resources)."""
        return self.busy

    def keep(self, resources: Sequence[int]) -> None:
        """Leave out all sites and links but these."""
        self.busy = np.ascontiguousarray(self.busy[:, resources])

    def ledger(self, changes: Mapping[tuple[int, int], int]) -> Ledger:
        """The ledger of so many changes from one state to another."""
        busy = np.zeros(self.whole.shape[1])
        for change, count in sorted(changes.items()):
            busy += count * self.whole[self.rows[change]]
        sites = self.hardware.site_count
        bandwidth = np.array([site.bandwidth_bytes_per_s for site in self.hardware.mapped.sites])
        link_bytes = busy[sites:] * self.hardware.links.capacity_bytes_per_s
        return moved_ledger(self.hardware, "role change", busy[:sites] * bandwidth, link_bytes)

    def __call__(self, before: int, after: int) -> Work:
        """The transfer from one state to another."""
        row = self.rows[before, after]
        seconds = self.seconds[row]
        if seconds <= 0.0:
            return Work(0.0)
        busy = np.concatenate((np.zeros(self.die_groups), self.busy[row] / seconds))
        return Work(seconds, usage_of=lambda _: busy)


def elastic_costs(
    design: Design, model: Model, calibration: CalibrationSet
) -> tuple[dict[str, PackageCost], Roles, RoleMoves]:
    """Return the costs by pool (`"decode"`; in another state `"decode+1"`), the role states, and the transfers."""
    plan = role_plan(design)
    by_state: list[dict[str, PackageCost]] = []
    hardware: list[PlacedHardware] = []
    for state in plan.states:
        placed = PlacedHardware(state, map_design(state, model), calibration, precision_of(design, model))
        hardware.append(placed)
        by_state.append({name: PackageCost(placed, name) for name in pool_names(state)})
    moves = _moves(hardware, sum(group.count > 0 for group in plan.states[0].package.dies))
    costs = {
        name if state == plan.native else f"{name}{state - plan.native:+d}": cost
        for state, pools in enumerate(by_state)
        for name, cost in pools.items()
    }
    policy = design.policy
    frozen: tuple[Mapping[str, PackageCost], ...] = tuple(by_state)
    roles = Roles(frozen, plan.native, policy.role_up_prompts, policy.role_down_prompts, moves)
    return costs, roles, moves


def role_parts(design: Design) -> dict[str, tuple[str, float]]:
    """For each die group of the role states: the die group of the design, and its share of that one's dies."""
    plan = role_plan(design)
    weights = plan.merge_weights()
    return {name: (whole, weights[name]) for name, whole in plan.part_of.items()}


def _moves(hardware: Sequence[PlacedHardware], die_groups: int) -> RoleMoves:
    rows: dict[tuple[int, int], int] = {}
    busy: list[FloatArray] = []
    for before in range(len(hardware)):
        for after in (before - 1, before + 1):
            if 0 <= after < len(hardware):
                rows[before, after] = len(busy)
                busy.append(_busy_s(hardware[before].mapped, hardware[after]))
    width = hardware[0].site_count + hardware[0].links.count
    table = np.array(busy).reshape(len(busy), width)
    seconds = [float(row.max(initial=0.0)) for row in busy]
    return RoleMoves(table, rows, seconds, die_groups, table, hardware[0])


def _busy_s(before: MappedDesign, after: PlacedHardware) -> FloatArray:
    """Seconds that the change keeps each memory site and link busy."""
    links: PlacedLinks = after.links
    matrix = switch_traffic(before, after.mapped, after.precision.weight_bytes)
    everything = range(after.mapped.component_count)
    on_links = links.count_bytes(everything, everything, matrix) / links.capacity_bytes_per_s
    sites = [matrix[site.component].sum() / site.bandwidth_bytes_per_s for site in after.mapped.sites]
    return np.concatenate((sites, on_links))


def merged_shares(shares: dict[str, float], parts: dict[str, tuple[str, float]]) -> dict[str, float]:
    """Busy shares with those of the parts of a die group joined to one."""
    merged: dict[str, float] = {}
    for name, value in shares.items():
        whole, weight = parts.get(name.removeprefix("utilization_"), ("", 1.0))
        key = f"utilization_{whole}" if whole and name.startswith("utilization_") else name
        merged[key] = merged.get(key, 0.0) + value * weight
    return merged
