"""Area of a package's silicon at one node: what products of different nodes are divided by when they are compared.

Transistors per area of large accelerators by node, between nodes on straight lines of the logarithms:

    iso_mm2 = Σ area · density(node) / density(7 nm)

These densities are of whole products, with their SRAM and PHYs, which shrink less than logic does.  The square of
the ratio of feature sizes is the other end: it favours coarse nodes.
"""

from __future__ import annotations

from hydra_dse.hardware.components import Package
from hydra_dse.physical.area import area_mm2

ISO_NODE_NM = 7.0
# Million transistors per mm² of NVIDIA's GM200 (8.0 G on 601 mm²), GP100 (15.3 G, 610), GV100 (21.1 G, 815), GA100
# (54.2 G, 826) and GH100 (80 G, 814), from the white papers of those architectures.
MTR_PER_MM2 = {28.0: 13.3, 16.0: 25.1, 12.0: 25.9, 7.0: 65.6, 4.0: 98.3}


def density_mtr_per_mm2(node_nm: float) -> float:
    """Transistors per area at a node, in millions per mm²; beyond the table the nearest two nodes are drawn on."""
    import numpy as np

    nodes = sorted(MTR_PER_MM2)
    place = min(max(int(np.searchsorted(nodes, node_nm)), 1), len(nodes) - 1)
    fine, coarse = nodes[place - 1], nodes[place]
    slope = np.log(MTR_PER_MM2[coarse] / MTR_PER_MM2[fine]) / np.log(coarse / fine)
    return float(MTR_PER_MM2[fine] * (node_nm / fine) ** slope)


def iso_node_mm2(package: Package) -> float:
    """Silicon of a package if its dies were made at `ISO_NODE_NM`; what is no die counts as of the coarsest node.

    NaN where a die states no node.
    """
    dies = [
        (group.chiplet.area_mm2 * group.count, group.chiplet.technology_nm) for group in package.dies if group.count
    ]
    if not dies or any(not node > 0.0 for _, node in dies):
        return float("nan")
    rest = area_mm2(package) - sum(area for area, _ in dies)
    parts = [*dies, (rest, max(node for _, node in dies))]
    return sum(area * density_mtr_per_mm2(node) for area, node in parts) / density_mtr_per_mm2(ISO_NODE_NM)
