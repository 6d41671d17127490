"""Area, cost, power and physical limits of packages."""

from hydra_dse.physical.area import RETICLE_MM2, AreaShare, area_mm2, interposer_mm2, silicon
from hydra_dse.physical.cost import (
    PackageCost,
    life_factors,
    package_cost,
    technology_of,
    usd_per_million_tokens,
)
from hydra_dse.physical.limits import package_violations
from hydra_dse.physical.power import memory_static_w, peak_power_w, static_power_w

__all__ = [
    "RETICLE_MM2",
    "AreaShare",
    "PackageCost",
    "area_mm2",
    "interposer_mm2",
    "life_factors",
    "memory_static_w",
    "package_cost",
    "package_violations",
    "peak_power_w",
    "silicon",
    "static_power_w",
    "technology_of",
    "usd_per_million_tokens",
]
