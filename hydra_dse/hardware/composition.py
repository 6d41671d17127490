"""Dies composed from components, so that link bandwidth displaces compute.

A die has a silicon budget.  Its links come first: `ports` × (PHY + bumps + DMA), each proportional to the bandwidth
of a link.  Of what is left, cores with their special-function units take the recipe's share (rounded down), SRAM
banks take the rest (rounded down):

    left  = budget − ports · (phy + bumps + dma) · link / step
    cores = ⌊share · left / (core + sfu)⌋
    banks = ⌊(left − cores · (core + sfu)) / bank⌋

One share per kind of die and one budget for all reproduce the published counts of HYDRA's four dies at its five link
bandwidths (arXiv 2608.19395 and its artifact): 37 of 40 counts exactly, three within one unit.

A MAC is two FLOPs.  HYDRA counts its matmul lanes as one operation each while its work counts two per MAC, so its
peaks are half of ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from hydra_dse import units
from hydra_dse.errors import InputError
from hydra_dse.hardware.components import AreaItem, Chiplet

FLOPS_PER_MAC = 2
# An exponential or division on a vector lane takes four element-wise operations (assumption: modelling practice puts
# them at a quarter to an eighth of the rate), so that is what one activation of a special-function unit is worth.
FLOPS_PER_ACTIVATION = 4


@dataclass(frozen=True)
class Core:
    """A matrix core: its area, its MACs as an array, and its element-wise lanes (one operation a cycle each)."""

    name: str
    area_mm2: float
    array_rows: int
    array_columns: int
    macs: int
    vector_lanes: int


@dataclass(frozen=True)
class Components:
    """Component figures of one process.

    Attributes:
        link_step_bytes_per_s: link bandwidth that the three areas below stand for, per link.
        phy_mm2, bumps_mm2, dma_mm2: of one link per step of bandwidth.
        sfu_mm2: special-function unit, one beside each core.
        joules_per_flop, joules_per_vector_flop, joules_per_sram_byte: dynamic energy.
        static_w_per_mm2: leakage and clock tree at nominal temperature.
    """

    name: str
    technology_nm: float
    clock_hz: float
    bank_mm2: float
    bank_bytes: float
    bank_bandwidth_bytes_per_s: float
    link_step_bytes_per_s: float
    phy_mm2: float
    bumps_mm2: float
    dma_mm2: float
    sfu_mm2: float
    sfu_activations_per_s: float
    joules_per_flop: float
    joules_per_vector_flop: float
    joules_per_sram_byte: float
    static_w_per_mm2: float
    source: str = ""

    def scaled(self, name: str, technology_nm: float, area: float, energy: float, source: str) -> Components:
        """Return the same components in another process: every area × `area`, every energy × `energy`."""
        return replace(
            self,
            name=name,
            technology_nm=technology_nm,
            bank_mm2=self.bank_mm2 * area,
            phy_mm2=self.phy_mm2 * area,
            bumps_mm2=self.bumps_mm2 * area,
            dma_mm2=self.dma_mm2 * area,
            sfu_mm2=self.sfu_mm2 * area,
            joules_per_flop=self.joules_per_flop * energy,
            joules_per_vector_flop=self.joules_per_vector_flop * energy,
            joules_per_sram_byte=self.joules_per_sram_byte * energy,
            source=source,
        )


@dataclass(frozen=True)
class DieRecipe:
    """How a die is put together.

    Either a budget and the share of it that cores take (`budget_mm2`, `core_share`), or fixed counts (`cores`,
    `banks`): then the die grows with its links.

    Attributes:
        link_bandwidth_bytes_per_s: of one link where the package does not say.
        format_speed: peak of other formats relative to `matmul_format`.
    """

    name: str
    style: str
    components: Components
    core: Core
    ports: int
    link_bandwidth_bytes_per_s: float
    budget_mm2: float = 0.0
    core_share: float = 0.0
    cores: int = 0
    banks: int = 0
    matmul_format: str = "bf16"
    format_speed: tuple[tuple[str, float], ...] = ()
    shape_efficiency: tuple[tuple[float, float], ...] = ()
    source: str = ""


def compose(recipe: DieRecipe, link_bandwidth_bytes_per_s: float | None = None) -> Chiplet:
    """Return the die of a recipe at a link bandwidth (per link and direction).

    Raises:
        InputError: the links leave no room for a core or a bank.
    """
    return _compose(recipe, link_bandwidth_bytes_per_s or recipe.link_bandwidth_bytes_per_s)


@lru_cache(maxsize=1024)
def _compose(recipe: DieRecipe, link: float) -> Chiplet:
    parts, core = recipe.components, recipe.core
    cores, banks = counts(recipe, link)
    items = _items(recipe, link, cores, banks)
    area = math.fsum(item.area_mm2 for item in items)
    lanes = core.vector_lanes * parts.clock_hz + parts.sfu_activations_per_s * FLOPS_PER_ACTIVATION
    return Chiplet(
        name=f"{recipe.name}@{units.format(link, 'bytes_per_s').replace(' ', '')}",
        style=recipe.style,
        technology_nm=parts.technology_nm,
        area_mm2=area,
        matmul_flops_per_s=cores * core.macs * parts.clock_hz * FLOPS_PER_MAC,
        vector_flops_per_s=cores * lanes,
        sram_bytes=banks * parts.bank_bytes,
        sram_bandwidth_bytes_per_s=banks * parts.bank_bandwidth_bytes_per_s,
        ports=recipe.ports,
        link_bandwidth_bytes_per_s=link,
        matmul_format=recipe.matmul_format,
        format_speed=recipe.format_speed,
        array_rows=core.array_rows,
        array_columns=core.array_columns,
        cores=cores,
        joules_per_flop=parts.joules_per_flop,
        joules_per_vector_flop=parts.joules_per_vector_flop,
        joules_per_sram_byte=parts.joules_per_sram_byte,
        static_power_w=area * parts.static_w_per_mm2,
        shape_efficiency=recipe.shape_efficiency,
        items=items,
        source=recipe.source,
    )


def counts(recipe: DieRecipe, link_bandwidth_bytes_per_s: float) -> tuple[int, int]:
    """Return the cores and SRAM banks of a recipe at a link bandwidth.

    Raises:
        InputError: the links leave no room for a core or a bank.
    """
    if not recipe.budget_mm2:
        return recipe.cores, recipe.banks
    parts = recipe.components
    links = link_area_mm2(parts, link_bandwidth_bytes_per_s) * recipe.ports
    left = recipe.budget_mm2 - links
    core = recipe.core.area_mm2 + parts.sfu_mm2
    cores = math.floor(recipe.core_share * left / core)
    banks = math.floor((left - cores * core) / parts.bank_mm2)
    if cores < 1 or banks < 1:
        raise InputError(
            f"{recipe.name}: {recipe.ports} links of {units.format(link_bandwidth_bytes_per_s, 'bytes_per_s')} take "
            f"{links:.1f} mm2 of {recipe.budget_mm2:.1f} mm2 and leave no room for a core and an SRAM bank; "
            "choose a lower link bandwidth or a larger die"
        )
    return cores, banks


def link_area_mm2(parts: Components, bandwidth_bytes_per_s: float) -> float:
    """Return the area of one link: PHY, bumps and DMA engine."""
    return (parts.phy_mm2 + parts.bumps_mm2 + parts.dma_mm2) * bandwidth_bytes_per_s / parts.link_step_bytes_per_s


def _items(recipe: DieRecipe, link: float, cores: int, banks: int) -> tuple[AreaItem, ...]:
    parts = recipe.components
    steps = recipe.ports * link / parts.link_step_bytes_per_s
    return (
        AreaItem(recipe.core.name, cores, cores * recipe.core.area_mm2),
        AreaItem("sfu", cores, cores * parts.sfu_mm2),
        AreaItem("sram bank", banks, banks * parts.bank_mm2),
        AreaItem("phy", recipe.ports, steps * parts.phy_mm2),
        AreaItem("bumps", recipe.ports, steps * parts.bumps_mm2),
        AreaItem("dma", recipe.ports, steps * parts.dma_mm2),
    )
