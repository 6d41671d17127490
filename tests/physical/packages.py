"""A small package with round figures, to sum by hand."""

from __future__ import annotations

from dataclasses import replace

from hydra_dse.hardware.components import Chiplet, DieGroup, MemoryGroup, MemoryStack, Package
from hydra_dse.hardware.links import LinkClass
from hydra_dse.hardware.topology import build_topology

DIE = Chiplet(
    name="die",
    style="mac-array",
    technology_nm=22,
    area_mm2=100.0,
    matmul_flops_per_s=20e12,
    vector_flops_per_s=1e12,
    sram_bytes=32e6,
    sram_bandwidth_bytes_per_s=4e12,
    ports=4,
    link_bandwidth_bytes_per_s=512e9,
    joules_per_flop=1e-12,
    joules_per_vector_flop=2e-12,
    joules_per_sram_byte=5e-12,
    static_power_w=3.0,
)
STACK = MemoryStack(
    "hbm", "HBM3", 16e9, 600e9, 5e-11, 110.0, phy_area_mm2=10.0, base_die_area_mm2=50.0, static_power_w=4.0
)
LINK = LinkClass("link", 5e-9, 4e-12, 0.9, 112e9, 25.0)


def package(leaf: bool = True) -> Package:
    small = replace(DIE, name="small", area_mm2=80.0, static_power_w=2.0)
    return Package(
        name="p",
        topology=build_topology("mesh", 3, 2, 11.0, 12.0),
        link=LINK,
        link_bandwidth_bytes_per_s=256e9,
        dies=(DieGroup("A", DIE, 2), DieGroup("B", small, 1)),
        memories=(MemoryGroup("HBM", STACK, 3),),
        memory_is_leaf=leaf,
    )
