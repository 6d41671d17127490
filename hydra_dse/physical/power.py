"""Power that does not depend on the load, and the most that a package can draw.

Dynamic energy per FLOP, SRAM byte, memory byte and link hop are fields of the nouns (`Chiplet`, `MemoryStack`,
`LinkClass`); energy of an iteration is theirs times its work, plus `static_power_w` times its duration.
"""

from __future__ import annotations

from hydra_dse.hardware.components import MemoryGroup, Package
from hydra_dse.hardware.fabric import link_runs

# Leakage and clock of a routing base die, as of HYDRA's dies in the library (assumption).
BASE_DIE_W_PER_MM2 = 0.03


def static_power_w(package: Package) -> float:
    """Return leakage and clock of dies, background power of memory, and routing base dies where there are any."""
    if package.parts:
        return sum(static_power_w(part) for part in package.parts)
    power = sum([group.count * group.chiplet.static_power_w for group in package.dies])
    for memory in package.memories:
        power += memory.count * memory_static_w(package, memory)
    return power


def memory_static_w(package: Package, memory: MemoryGroup) -> float:
    """Return the background power of one stack, and of its base die where that routes."""
    base = 0.0 if package.memory_is_leaf else memory.stack.base_die_area_mm2 * BASE_DIE_W_PER_MM2
    return memory.stack.static_power_w + base


def peak_power_w(package: Package) -> float:
    """Return the power with every core, memory and link at its peak at once: a bound no workload exceeds."""
    if package.parts:
        between = [(link, bandwidth, count) for link, bandwidth, count in link_runs(package)[len(package.parts) :]]
        moved = sum(bandwidth * link.joules_per_byte * count for link, bandwidth, count in between)
        return sum(peak_power_w(part) for part in package.parts) + moved
    power = static_power_w(package)
    for group in package.dies:
        die = group.chiplet
        power += group.count * (
            die.matmul_flops_per_s * die.joules_per_flop
            + die.vector_flops_per_s * die.joules_per_vector_flop
            + die.sram_bandwidth_bytes_per_s * die.joules_per_sram_byte
            + die.memory_bandwidth_bytes_per_s * die.joules_per_memory_byte
        )
    power += sum([m.count * m.stack.bandwidth_bytes_per_s * m.stack.joules_per_byte for m in package.memories])
    directed_links = 2 * len(package.topology.edges)
    return power + directed_links * package.link_bandwidth_bytes_per_s * package.link.joules_per_byte
