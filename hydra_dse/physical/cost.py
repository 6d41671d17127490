"""What a package costs to make (recurring and non-recurring), and what a token costs over its life.

Recurring cost of a package assembled chip-last on an interposer, as in Chiplet Actuary (DAC 2022):

    dies + stacks                      good dies, with bumps; stacks are bought as tested parts
    + interposer + substrate           raw
    + interposer · (1/(y1·y2·y3) − 1)  bad interposers, and good ones lost with what was bonded to them
    + substrate · (1/y3 − 1)
    + (dies + stacks) · (1/(y2·y3) − 1)

with y1 the yield of the interposer and its seams, y2 of bonding every component (and of dies whose fault the test
missed), y3 of attaching the interposer to the substrate.  A good die costs `(wafer / N + test) / Y^coverage`.

A die of more than one exposure field is priced as equal dies that fit one (a product of two dies, or a wafer).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from hydra_dse.config.technology import load_technology
from hydra_dse.hardware.components import Package
from hydra_dse.hardware.technology import Interposer, Technology
from hydra_dse.physical.area import RETICLE_MM2, interposer_mm2, ports_mm2
from hydra_dse.physical.yield_models import dies_per_wafer, passed_share, shipped_good_share, silicon_yield

# Shares of a die's NRE: half for modules and three tenths for the chip grow with area, the rest is fixed (Chiplet
# Actuary); its figure is of a die of this area.
NRE_GROWS, NRE_AREA_MM2 = 0.8, 300.0
BYTES_PER_GB = 1e9
SECONDS_PER_YEAR = 365.25 * 86_400.0
J_PER_KWH = 3.6e6
TOKENS = 1e6
UNKNOWN_MEMORY = "other"
# Node of the die that holds the ports of a fabric (assumption: that of serialisers in products of 2023).
PORTS_NM = 7.0


@dataclass(frozen=True)
class DieCost:
    """One good die, tested, with bumps.

    Attributes:
        usd: its price.
        good: share of the dies that passed the test which are good.
        made: share of the dies on a wafer that are good.
        nre_usd: of its design and masks.
    """

    usd: float
    good: float
    made: float
    nre_usd: float


@dataclass(frozen=True)
class PackageCost:
    """Cost of a package, in USD.

    Attributes:
        dies: by die group, good dies with bumps.
        memories: by memory group, and memory that comes with a die.
        interposer, substrate: raw.
        lost: of the above, lost in assembly for each package that works.
        nre: non-recurring cost per package at the technology's volume.
        assembly_yield: share of assembled packages that work.
    """

    dies: tuple[tuple[str, float], ...]
    memories: tuple[tuple[str, float], ...]
    interposer: float
    substrate: float
    lost: float
    nre: float
    assembly_yield: float

    @property
    def recurring(self) -> float:
        """Cost of making one package."""
        parts = sum(usd for _, usd in (*self.dies, *self.memories))
        return parts + self.interposer + self.substrate + self.lost

    @property
    def unit(self) -> float:
        """Recurring cost and the share of the non-recurring one."""
        return self.recurring + self.nre


def technology_of(package: Package) -> Technology:
    """The technology that a package is made with."""
    return package.technology or _default()


@cache
def _default() -> Technology:
    return load_technology()


def package_cost(package: Package) -> PackageCost:
    """Return what a package costs; infinite where its interposer does not fit a wafer.

    Several packages are assembled and tested one by one; a die type that more than one uses is designed once.
    """
    technology = technology_of(package)
    nre: dict[tuple[float, float, str], float] = {}
    if not package.parts:
        return _one_package(package, technology, nre)
    parts = [_one_package(part, technology, nre) for part in package.parts]
    return PackageCost(
        dies=tuple(one for part in parts for one in part.dies),
        memories=tuple(one for part in parts for one in part.memories),
        interposer=sum(part.interposer for part in parts),
        substrate=sum(part.substrate for part in parts),
        lost=sum(part.lost for part in parts),
        nre=sum(part.nre for part in parts),
        assembly_yield=math.prod(part.assembly_yield for part in parts),
    )


def _one_package(package: Package, technology: Technology, known: dict[tuple[float, float, str], float]) -> PackageCost:
    """The cost of one package; non-recurring cost of dies that are not `known` yet, to which they are added."""
    costs = _costs_of(technology)
    dies, memories, working, nre = [], [], 1.0, {}
    for group in package.dies:
        chiplet = group.chiplet
        one = costs.die(chiplet.technology_nm, chiplet.area_mm2)
        pieces = _pieces(chiplet.area_mm2) * group.count
        dies.append((group.name, pieces * one.usd))
        working *= (one.good * technology.interposer.bond_yield) ** pieces
        nre[chiplet.technology_nm, chiplet.area_mm2, chiplet.name] = one.nre_usd
        if chiplet.memory_bytes > 0:
            memories.append((f"{group.name} memory", group.count * _memory_usd(technology, "", chiplet.memory_bytes)))
    ports_area = ports_mm2(package)
    if ports_area > 0:
        one = costs.die(PORTS_NM, ports_area)
        dies.append((f"{package.name} ports", one.usd))
        working *= one.good * technology.interposer.bond_yield
        nre[PORTS_NM, ports_area, "ports"] = one.nre_usd
    for memory in package.memories:
        stack = memory.stack
        memories.append((memory.name, memory.count * _memory_usd(technology, stack.technology, stack.capacity_bytes)))
        working *= technology.interposer.bond_yield**memory.count
    fresh = sum(usd for key, usd in nre.items() if key not in known)
    known.update(nre)
    return _assembled(package, technology, costs, tuple(dies), tuple(memories), working, fresh)


def _assembled(
    package: Package,
    technology: Technology,
    costs: _Costs,
    dies: tuple[tuple[str, float], ...],
    memories: tuple[tuple[str, float], ...],
    bonded: float,
    dies_nre_usd: float,
) -> PackageCost:
    area, carrier, substrate = interposer_mm2(package), technology.interposer, technology.substrate
    raw, made = costs.interposer(area)
    board = area * substrate.area_factor * substrate.usd_per_mm2
    attached = substrate.attach_yield
    parts = sum(usd for _, usd in (*dies, *memories))
    lost = raw * (1.0 / (made * bonded * attached) - 1.0)
    lost += board * (1.0 / attached - 1.0) + parts * (1.0 / (bonded * attached) - 1.0)
    nre = dies_nre_usd + carrier.nre_usd_per_mm2 * area + carrier.nre_fixed_usd
    volume = technology.economics.volume
    return PackageCost(dies, memories, raw, board, lost, nre / volume, bonded * attached)


def usd_per_million_tokens(package: Package, unit_usd: float, power_w: float, tokens_per_s: float) -> float:
    """Return the cost of a million output tokens: the package over the time it serves, and its electricity.

    Args:
        package: for its technology.
        unit_usd: its cost.
        power_w: mean power while it serves.
        tokens_per_s: output tokens while it serves.
    """
    return life_usd_per_s(package, unit_usd, power_w) * TOKENS / tokens_per_s if tokens_per_s > 0 else math.inf


def life_usd_per_s(package: Package, unit_usd: float, power_w: float) -> float:
    """Return the cost of a second of service: straight-line depreciation over the serving time, and electricity."""
    capital_share, usd_per_j = life_factors(package)
    return unit_usd * capital_share + power_w * usd_per_j


def life_factors(package: Package) -> tuple[float, float]:
    """Share of the unit cost that a second of service bears, and USD per joule of the package."""
    economics = technology_of(package).economics
    served_s = economics.years * SECONDS_PER_YEAR * economics.utilisation
    return 1.0 / served_s, economics.pue * economics.usd_per_kwh / J_PER_KWH


def _pieces(area_mm2: float) -> int:
    return max(1, math.ceil(area_mm2 / RETICLE_MM2 - 1e-9))


def _memory_usd(technology: Technology, kind: str, capacity_bytes: float) -> float:
    prices = dict(technology.memory_usd_per_gb)
    return prices.get(kind, prices[UNKNOWN_MEMORY]) * capacity_bytes / BYTES_PER_GB


class _Costs:
    """Costs of dies and interposers of a technology, each computed once."""

    def __init__(self, technology: Technology) -> None:
        self.technology = technology
        self._dies: dict[tuple[float, float], DieCost] = {}
        self._interposers: dict[float, tuple[float, float]] = {}

    def die(self, node_nm: float, area_mm2: float) -> DieCost:
        """A die; one that exceeds an exposure field as one of its equal parts."""
        key = (node_nm, area_mm2)
        if key not in self._dies:
            self._dies[key] = die_cost(self.technology, node_nm, area_mm2 / _pieces(area_mm2))
        return self._dies[key]

    def interposer(self, area_mm2: float) -> tuple[float, float]:
        """Raw cost and yield."""
        if area_mm2 not in self._interposers:
            self._interposers[area_mm2] = interposer_cost(self.technology, area_mm2)
        return self._interposers[area_mm2]


def die_cost(technology: Technology, node_nm: float, area_mm2: float) -> DieCost:
    """Return the cost of a good die of a node."""
    process, test = technology.process(node_nm), technology.test
    made = silicon_yield(technology.yield_model, process.defects_per_cm2, area_mm2, technology.clustering)
    raw = process.wafer_usd / dies_per_wafer(area_mm2, technology.wafer) + test.usd_per_mm2 * area_mm2
    passed = raw / passed_share(made, test.coverage)
    nre = process.nre_usd * (NRE_GROWS * area_mm2 / NRE_AREA_MM2 + 1.0 - NRE_GROWS)
    bumps = technology.interposer.bump_usd_per_mm2 * area_mm2
    return DieCost(passed + bumps, shipped_good_share(made, test.coverage), made, nre)


def interposer_cost(technology: Technology, area_mm2: float) -> tuple[float, float]:
    """Return raw cost and yield of an interposer; seams between exposure fields cost masks' time and yield."""
    carrier: Interposer = technology.interposer
    count = dies_per_wafer(area_mm2, technology.wafer)
    if count <= 0:
        return math.inf, 1.0
    seams = _pieces(area_mm2) - 1
    wafer = carrier.wafer_usd * (1.0 + carrier.stitch_cost * seams)
    made = silicon_yield("negative-binomial", carrier.defects_per_cm2, area_mm2, carrier.clustering)
    return wafer / count + carrier.c4_usd_per_mm2 * area_mm2, made * carrier.stitch_yield**seams


# By identity: the packages of a space share their technology, and hashing one costs more than the cost itself.
_KNOWN: dict[int, _Costs] = {}
_KEPT = 64


def _costs_of(technology: Technology) -> _Costs:
    known = _KNOWN.get(id(technology))
    if known is not None and known.technology is technology:
        return known
    if len(_KNOWN) >= _KEPT:
        _KNOWN.clear()
    fresh = _KNOWN[id(technology)] = _Costs(technology)
    return fresh
