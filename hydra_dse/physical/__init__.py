"""Area, power and physical limits of packages."""

from hydra_dse.physical.area import AreaShare, area_mm2, interposer_mm2, silicon
from hydra_dse.physical.limits import RETICLE_MM2, package_violations
from hydra_dse.physical.power import memory_static_w, peak_power_w, static_power_w

__all__ = [
    "RETICLE_MM2",
    "AreaShare",
    "area_mm2",
    "interposer_mm2",
    "memory_static_w",
    "package_violations",
    "peak_power_w",
    "silicon",
    "static_power_w",
]
