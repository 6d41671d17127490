"""What a package of an explained design is made of: area, cost, power by component, temperature of each phase."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.nouns import Design
from hydra_dse.estimator.heat import LINKS, MEMORY, HeatModel, spent_w
from hydra_dse.estimator.solution import Solution, Work
from hydra_dse.hardware.components import Package
from hydra_dse.physical import memory_static_w, package_cost, silicon
from hydra_dse.physical.thermal import modelled
from hydra_dse.profile.nouns import ServiceProfile
from hydra_dse.profile.slowed import SplitsEnergy

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class PartRow:
    """One kind of component.

    Attributes:
        part: die group, memory group or `links`.
        count: how many.
        area_mm2: silicon of all of them; DRAM is bought as a part and has none but its PHYs and base dies.
        cost_usd: of all of them, tested, before assembly.
        dynamic_w: mean power by what they do.
        static_w: leakage and clock at the nominal temperature, background of DRAM.
    """

    part: str
    count: int
    area_mm2: float
    cost_usd: float
    dynamic_w: float
    static_w: float


@dataclass(frozen=True)
class TemperatureRow:
    """Temperatures of one load of the package.

    Attributes:
        load: `mean`, or a phase that runs without a pause.
        dynamic_w: power of what it does.
        leakage_w: leakage of dies at these temperatures; `null` where it runs away.
        die_c: hottest die; `null` where there is none, or leakage runs away.
        dram_c: hottest memory stack; `null` likewise.
    """

    load: str
    dynamic_w: float
    leakage_w: float | None
    die_c: float | None
    dram_c: float | None


@dataclass(frozen=True)
class PackageRow:
    """The package of a design.

    Attributes:
        parts: by component.
        interposer_usd: raw interposer.
        substrate_usd: raw substrate.
        lost_usd: what assembly loses for each package that works.
        nre_usd: non-recurring cost per package.
        unit_usd: all of it; `null` where the interposer fits no wafer.
        assembly_yield: share of assembled packages that work.
        temperatures: of the mean load and of each phase; none of products that come with a cooler.
    """

    parts: tuple[PartRow, ...]
    interposer_usd: float | None
    substrate_usd: float
    lost_usd: float | None
    nre_usd: float
    unit_usd: float | None
    assembly_yield: float
    temperatures: tuple[TemperatureRow, ...]


def package_row(design: Design, profile: ServiceProfile, solution: Solution) -> PackageRow:
    """Return what the package of one placed design is made of, at a solved state."""
    package, cost = design.package, package_cost(design.package)
    mean = {name: float(watts[0]) for name, watts in spent_w(profile, solution).items()}
    return PackageRow(
        parts=_parts(package, dict((*cost.dies, *cost.memories)), mean),
        interposer_usd=_plain(cost.interposer),
        substrate_usd=cost.substrate,
        lost_usd=_plain(cost.lost),
        nre_usd=cost.nre,
        unit_usd=_plain(cost.unit),
        assembly_yield=cost.assembly_yield,
        temperatures=_temperatures(design, profile, solution, mean) if modelled(package) else (),
    )


def _parts(package: Package, usd: Mapping[str, float], dynamic_w: Mapping[str, float]) -> tuple[PartRow, ...]:
    area: dict[str, float] = {}
    for share in silicon(package):
        area[share.group] = area.get(share.group, 0.0) + share.area_mm2
    rows = []
    for group in package.dies:
        price = usd[group.name] + usd.get(f"{group.name} memory", 0.0)
        static = group.count * group.chiplet.static_power_w
        rows.append(PartRow(group.name, group.count, area[group.name], price, dynamic_w.get(group.name, 0.0), static))
    bandwidth = sum(memory.count * memory.stack.bandwidth_bytes_per_s for memory in package.memories)
    for memory in package.memories:
        share_of = memory.count * memory.stack.bandwidth_bytes_per_s / bandwidth
        moved, static = dynamic_w.get(MEMORY, 0.0) * share_of, memory.count * memory_static_w(package, memory)
        rows.append(PartRow(memory.name, memory.count, area[memory.name], usd[memory.name], moved, static))
    if not package.memories:
        rows.append(PartRow(MEMORY, package.die_count, 0.0, 0.0, dynamic_w.get(MEMORY, 0.0), 0.0))
    for part in package.parts:
        ports = f"{part.name} ports"
        rows.append(PartRow(ports, part.fabric_ports, area[ports], usd[ports], 0.0, 0.0))
    rows.append(PartRow(LINKS, len(package.topology.edges), 0.0, 0.0, dynamic_w.get(LINKS, 0.0), 0.0))
    return tuple(rows)


def _temperatures(
    design: Design, profile: ServiceProfile, solution: Solution, mean: Mapping[str, float]
) -> tuple[TemperatureRow, ...]:
    model = HeatModel([design])
    loads = {"mean": mean, **_phases(profile, solution)}
    rows = []
    for load, powers in loads.items():
        heat, _ = model.state({name: np.array([watts]) for name, watts in powers.items()})
        found = (heat.leakage_w, heat.die_c, heat.dram_c)
        rows.append(TemperatureRow(load, sum(powers.values()), *(_plain(float(values[0])) for values in found)))
    return tuple(rows)


def _phases(profile: ServiceProfile, solution: Solution) -> dict[str, dict[str, float]]:
    """Dynamic power by name while iterations of a phase run, those with prompt tokens being prefill."""
    found = {}
    for phase in ("prefill", "decode"):
        joules: dict[str, float] = {}
        seconds = 0.0
        for work in solution.work:
            pool, rate = profile.pools[work.pool], _of_phase(work, phase)
            if not rate.any() or not isinstance(pool, SplitsEnergy):
                continue
            spent = pool.spent(work.batch)
            seconds += float((np.asarray(pool.time_s(work.batch)) * rate).sum())
            for name, each in {**spent.dies_j, MEMORY: spent.memory_j, LINKS: spent.links_j}.items():
                joules[name] = joules.get(name, 0.0) + float((each * rate).sum())
        if seconds > 0.0:
            found[phase] = {name: value / seconds for name, value in joules.items()}
    return found


def _of_phase(work: Work, phase: str) -> FloatArray:
    prompts = np.broadcast_to(np.asarray(work.batch.prefill_tokens, dtype=float), work.rate_per_s.shape) > 0
    return np.where(prompts == (phase == "prefill"), work.rate_per_s, 0.0)


def _plain(value: float) -> float | None:
    return value if np.isfinite(value) else None
