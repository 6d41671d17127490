"""Temperatures of the tiles of a floorplan at the mean load, by the same superposition as of the estimate."""

from __future__ import annotations

import numpy as np

from hydra_dse.design.nouns import Design
from hydra_dse.estimator.explain_package import PackageRow
from hydra_dse.estimator.heat import LINKS, MEMORY
from hydra_dse.physical import technology_of
from hydra_dse.physical.thermal import influence_of, modelled, settle, slot_power


def slot_temperatures(placed: Design, found: PackageRow | None) -> dict[int, float]:
    """Hottest place of each occupied slot in °C; empty where the package has none or its leakage runs away.

    The power of a die group falls on its dies evenly, that of links on slots by their links.

    Args:
        placed: the design with its placement.
        found: its package taken apart, with the mean power of its parts.
    """
    package = placed.package
    if found is None or placed.placement is None or not modelled(package):
        return {}
    slots = placed.placement.slots
    power = {part.part: part for part in found.parts}
    watts = [power[name].dynamic_w / power[name].count for name in package.component_groups]
    degrees = np.zeros(len(package.topology.slots))
    for edge in package.topology.edges:
        degrees[list(edge)] += 1.0
    mine = degrees[list(slots)]
    links = power[LINKS].dynamic_w if LINKS in power else 0.0
    moved = np.array(watts) + links * mine / max(float(mine.sum()), 1e-300)
    if not package.memories and MEMORY in power:
        moved = moved + power[MEMORY].dynamic_w / len(moved)
    technology = technology_of(package)
    heat = settle(slot_power(package, slots, moved), influence_of(package.topology, technology.cooling), technology)
    if heat.slots_c is None or not np.isfinite(heat.power_w[0]):
        return {}
    return {slot: float(heat.slots_c[0, slot]) for slot in slots}
