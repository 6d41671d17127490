"""Small packages and traffic to place."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hydra_dse.hardware.components import Chiplet, DieGroup, MemoryGroup, MemoryStack, Package, Slot, Topology
from hydra_dse.hardware.links import LinkClass
from hydra_dse.routing import build_topology, floorplan

LINK = LinkClass("link", 5e-9, 4e-12, 0.9, 1e11, 2.0)
ROLES = {
    "Ap": ("attention", "prefill"),
    "Ad": ("attention", "decode"),
    "Mp": ("ssm", "prefill"),
    "Md": ("ssm", "decode"),
}


def die(area_mm2: float = 100.0) -> Chiplet:
    return Chiplet("die", "systolic", 22, area_mm2, 1e12, 1e11, 1e6, 1e12, 4, 100e9)


def stack(footprint_mm2: float = 100.0) -> MemoryStack:
    return MemoryStack("stack", "HBM3", 16e9, 600e9, 56e-12, footprint_mm2)


def mesh(columns: int, rows: int) -> Topology:
    return build_topology("mesh", columns, rows, 10, 10)


def package(topology: Topology, dies: dict[str, int], stacks: int, leaf: bool = True) -> Package:
    groups = tuple(
        DieGroup(name, die(), count, (ROLES[name][0],), ROLES[name][1]) for name, count in dies.items() if count
    )
    memories = (MemoryGroup("HBM", stack(), stacks),) if stacks else ()
    return Package("test", topology, LINK, 100e9, groups, memories, leaf)


def two_sizes() -> Package:
    """Two large dies in a row with four small memory slots around them."""
    slots = [Slot(10, 10, 20, 20), Slot(31, 10, 20, 20)]
    slots += [Slot(x, y, 10, 10) for x in (10, 31) for y in (-6, 26)]
    groups = (DieGroup("Ap", die(400.0), 1, ("attention",), "prefill"), DieGroup("Ad", die(400.0), 1, (), "decode"))
    return Package("sizes", floorplan(slots), LINK, 100e9, groups, (MemoryGroup("HBM", stack(), 4),), True)


def random_traffic(package: Package, seed: int, density: float = 0.5) -> NDArray[np.float64]:
    """Sparse random bytes, mostly from stacks to dies."""
    count, dies = package.die_count + package.stack_count, package.die_count
    rng = np.random.default_rng(seed)
    traffic = rng.uniform(size=(count, count)) * (rng.uniform(size=(count, count)) < density)
    traffic[dies:, :dies] *= 10
    traffic[dies:, dies:] = 0
    np.fill_diagonal(traffic, 0.0)
    return traffic * 1e9


def random_parts(package: Package, seed: int, density: float = 0.5) -> NDArray[np.float64]:
    """One to three parts of such traffic, of unlike size."""
    return np.stack([random_traffic(package, 100 * seed + part, density) / (1 + part) for part in range(1 + seed % 3)])
