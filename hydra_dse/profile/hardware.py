"""Placed designs reduced to distinct pieces of hardware: each is lowered once, however many designs share it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hydra_dse.design.nouns import Design, Placement
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.hardware.components import Chiplet, Package
from hydra_dse.mapping import (
    MappedDesign,
    map_design,
    mapping_key,
    mapping_violations,
    package_key,
    precision_of,
    token,
    traffic,
)
from hydra_dse.model.blocks import Model
from hydra_dse.model.operators import Batch
from hydra_dse.model.precision import Precision
from hydra_dse.network_load import LinkLoad
from hydra_dse.operator_cost import DieRates, die_rates
from hydra_dse.physical import area_mm2, interposer_mm2, package_violations, static_power_w
from hydra_dse.profile.rows import PoolRow, RowMaker
from hydra_dse.results.nouns import Violation

# A batch in which every operator runs: what it moves must find a route.
_ANY_BATCH = Batch(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)


@dataclass(frozen=True, eq=False)
class Hardware:
    """A distinct placed package under a mapping; `rows` is empty where it cannot serve."""

    mapped: MappedDesign | None
    rows: tuple[PoolRow, ...]
    precision: Precision
    static_power_w: float
    area_mm2: float
    interposer_mm2: float
    violations: tuple[Violation, ...]


class HardwareTable:
    """Finds the hardware of a design, lowering each distinct one once."""

    def __init__(self, model: Model, calibrations: CalibrationSet) -> None:
        self.model, self.calibrations = model, calibrations
        self.entries: list[Hardware] = []
        self._index: dict[object, int] = {}
        self._rates: dict[tuple[int, Precision], DieRates] = {}
        self._loads: dict[object, LinkLoad] = {}

    def index(self, designs: Sequence[Design]) -> list[int]:
        """Return the entry of each design, adding what is new."""
        return [self._entry(design) for design in designs]

    def _entry(self, design: Design) -> int:
        slots = design.placement.slots if design.placement is not None else None
        placed = (package_key(design.package), slots, mapping_key(design.mapping))
        key = (*placed, design.policy.serving, design.precision)
        found = self._index.get(key)
        if found is None:
            found = len(self.entries)
            self._index[key] = found
            self.entries.append(self._lower(design))
        return found

    def _lower(self, design: Design) -> Hardware:
        package, precision = design.package, precision_of(design, self.model)
        violations = [*mapping_violations(design, self.model), *package_violations(package)]
        placement = design.placement
        if placement is None:
            levers = ("place the design first", "a topology with more slots")
            violations.append(Violation("not placed", package.die_count + package.stack_count, 0, "slots", levers))
        mapped: MappedDesign | None = None
        rows: tuple[PoolRow, ...] = ()
        if not violations and placement is not None:
            mapped = map_design(design, self.model)
            load = self._link_load(package, placement)
            violations += _unreachable(mapped, load, precision)
            maker = RowMaker(package, mapped, load, self._rates_at(precision))
            rows = () if violations else tuple(maker.row(pool) for pool in mapped.pools)
        return Hardware(
            mapped=mapped,
            rows=rows,
            precision=precision,
            static_power_w=static_power_w(package),
            area_mm2=area_mm2(package),
            interposer_mm2=interposer_mm2(package),
            violations=tuple(violations),
        )

    def _link_load(self, package: Package, placement: Placement) -> LinkLoad:
        """Link loads; packages that differ only in what fills the slots share them (capacities are not read)."""
        key = (token(package.topology), package.memory_is_leaf, package.die_count, placement.slots)
        if key not in self._loads:
            self._loads[key] = LinkLoad(package, placement)
        return self._loads[key]

    def _rates_at(self, precision: Precision) -> Callable[[Chiplet], DieRates]:
        def rates(chiplet: Chiplet) -> DieRates:
            key = (token(chiplet), precision)
            if key not in self._rates:
                self._rates[key] = die_rates(chiplet, self.calibrations, precision)
            return self._rates[key]

        return rates


def _unreachable(mapped: MappedDesign, load: LinkLoad, precision: Precision) -> list[Violation]:
    if load.routes.reachable[load.slot_of[:, None], load.slot_of].all():
        return []
    lost = sum(float(load.disconnected_bytes(traffic(mapped, pool, _ANY_BATCH, precision))) for pool in mapped.pools)
    if lost <= 0:
        return []
    levers = ("another placement", "memory stacks that pass traffic on", "fewer memory stacks")
    return [Violation("components without a route", lost, 0, "bytes", levers)]
