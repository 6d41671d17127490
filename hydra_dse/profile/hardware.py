"""Placed designs reduced to distinct pieces of hardware: each is lowered once, however many designs share it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.nouns import Design
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.hardware.components import Chiplet, Package
from hydra_dse.mapping import (
    MappedDesign,
    components_key,
    die_violations,
    map_design,
    mapping_key,
    memory_violations,
    operands_of,
    package_key,
    precision_of,
    token,
    traffic,
)
from hydra_dse.model.blocks import Model
from hydra_dse.model.operators import Batch
from hydra_dse.model.precision import Precision
from hydra_dse.network_load import LinkLoad, transit_slots
from hydra_dse.operator_cost import DieRates, die_rates
from hydra_dse.physical import area_mm2, interposer_mm2, package_violations, static_power_w
from hydra_dse.profile.lowering import lower
from hydra_dse.profile.packages import packages_of
from hydra_dse.profile.recipe import Recipe, recipe_key, recipe_of
from hydra_dse.profile.row_table import RowTable, stacked
from hydra_dse.profile.rows import PoolRow, RowMaker
from hydra_dse.profile.spread import paths_of
from hydra_dse.results.nouns import Violation
from hydra_dse.routing import RouteTable, route

IntArray = NDArray[np.int64]

# A batch in which every operator runs: what it moves must find a route.
_ANY_BATCH = Batch(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)


@dataclass(eq=False)
class Hardware:
    """A distinct placed package under a mapping; `serves` is False where it has violations."""

    precision: Precision
    static_power_w: float
    area_mm2: float
    interposer_mm2: float
    violations: tuple[Violation, ...]
    cache_bytes: float = 0.0
    handoff: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    """Per byte handed over: busy seconds of the busiest site and of the busiest link, and joules; then the latency."""

    @property
    def serves(self) -> bool:
        """Whether it can serve the model."""
        return not self.violations


@dataclass(frozen=True, eq=False)
class Lowered:
    """Entries that are evaluated together, and the table of their rows in a pool."""

    entries: IntArray
    table: RowTable


@dataclass(eq=False)
class HardwareTable:
    """Finds the hardware of designs, lowering each distinct one once.

    Attributes:
        entries: distinct hardware in order of first appearance.
        pools: rows of the entries that serve, by pool.
        vectorised: lower packages of one recipe together; False = one by one, the readable way.
    """

    model: Model
    calibrations: CalibrationSet
    vectorised: bool = True
    entries: list[Hardware] = field(default_factory=list)
    pools: list[list[Lowered]] = field(default_factory=list)
    _index: dict[object, int] = field(default_factory=dict)
    _rates: dict[tuple[int, Precision, bool], DieRates] = field(default_factory=dict)
    _routes: dict[object, RouteTable] = field(default_factory=dict)
    _known: dict[object, tuple[Violation, ...]] = field(default_factory=dict)
    _recipes: dict[object, Recipe | None] = field(default_factory=dict)

    def index(self, designs: Sequence[Design]) -> list[int]:
        """Return the entry of each design, adding what is new."""
        fresh: dict[int, Design] = {}
        known: dict[object, int] = {}  # designs of one search share their parts: long keys are made once
        found: list[int] = []
        for design in designs:
            parts = id(design.package), id(design.mapping), id(design.precision), id(design.placement)
            key = (*parts, design.policy.serving)
            if key not in known:
                known[key] = self._entry(design, fresh)
            found.append(known[key])
        groups: dict[object, list[int]] = {}
        for number, design in fresh.items():
            if self.entries[number].serves:
                groups.setdefault(recipe_key(design), []).append(number)
        alone: list[int] = []
        for numbers in groups.values():
            alone += self._together([fresh[number] for number in numbers], numbers)
        self._one_by_one([fresh[number] for number in alone], alone)
        return found

    def _entry(self, design: Design, fresh: dict[int, Design]) -> int:
        slots = design.placement.slots if design.placement is not None else None
        placed = (package_key(design.package), slots, mapping_key(design.mapping))
        key = (*placed, design.policy.serving, design.precision)
        found = self._index.get(key)
        if found is None:
            found = self._index[key] = len(self.entries)
            self.entries.append(self._hardware(design))
            fresh[found] = design
        return found

    def _hardware(self, design: Design) -> Hardware:
        package = design.package
        return Hardware(
            precision=precision_of(design, self.model),
            static_power_w=static_power_w(package),
            area_mm2=area_mm2(package),
            interposer_mm2=interposer_mm2(package),
            violations=self._violations(design),
        )

    def _violations(self, design: Design) -> tuple[Violation, ...]:
        """What keeps a design from serving; designs share what their memories and their kinds of dies say."""
        package = design.package
        operands = operands_of(self.model, precision_of(design, self.model))
        own_memory = tuple([(token(g.chiplet), g.count) for g in package.dies if g.chiplet.memory_bytes > 0])
        memories: tuple[object, ...] = (
            operands,
            tuple([(token(g.stack), g.count) for g in package.memories]),
            own_memory,
        )
        if design.mapping.parallelism == "expert" or design.mapping.memories or package.parts:
            # Experts lie where their dies are, so what a stack holds depends on dies and mapping too.
            # So it does where each pool has memories of its own.
            memories = (*memories, components_key(package), mapping_key(design.mapping), design.policy.serving)
        dies = tuple([(g.name, g.families, g.phase, token(g.chiplet), g.count > 0, g.stage) for g in package.dies])
        kinds = (operands, dies, mapping_key(design.mapping), design.policy.serving)
        if memories not in self._known:
            self._known[memories] = memory_violations(design, operands)
        if kinds not in self._known:
            self._known[kinds] = die_violations(design, operands)
        found = (*self._known[memories], *self._known[kinds], *package_violations(package))
        if design.placement is not None:
            return found
        levers = ("place the design first", "a topology with more slots")
        return (*found, Violation("not placed", package.die_count + package.stack_count, 0, "slots", levers))

    def _together(self, designs: Sequence[Design], numbers: Sequence[int]) -> list[int]:
        """Lower designs of one recipe; return the numbers of those that must be lowered one by one."""
        recipe = self._recipe(designs[0]) if self.vectorised else None
        own_memory = [any(g.chiplet.memory_bytes > 0 for g in design.package.dies) for design in designs]
        if recipe is None or all(own_memory):
            return list(numbers)
        left = [number for number, own in zip(numbers, own_memory, strict=True) if own]
        shapes: dict[tuple[object, ...], list[int]] = {}
        for place, design in enumerate(designs):
            if not own_memory[place]:
                shapes.setdefault(self._shape(design), []).append(place)
        for places in shapes.values():
            left += self._lower([designs[place] for place in places], [numbers[place] for place in places], recipe)
        return left

    def _recipe(self, design: Design) -> Recipe | None:
        key = recipe_key(design)
        if key not in self._recipes:
            self._recipes[key] = recipe_of(design, operands_of(self.model, precision_of(design, self.model)))
        return self._recipes[key]

    def _shape(self, design: Design) -> tuple[object, ...]:
        """What must be equal for the rates of two designs to be evaluated together."""
        rates = self._rates_at(precision_of(design, self.model))
        return tuple([rates(group.chiplet).shape for group in design.package.dies if group.count > 0])

    def _lower(self, designs: Sequence[Design], numbers: Sequence[int], recipe: Recipe) -> list[int]:
        packages = [design.package for design in designs]
        slots = [design.placement.slots for design in designs if design.placement is not None]
        routes = [self._route(package, mine) for package, mine in zip(packages, slots, strict=True)]
        place = {id(table): at for at, table in enumerate({id(table): table for table in routes}.values())}
        distinct = list({id(table): table for table in routes}.values())
        rate_of = self._rates_at(recipe.operands.precision)
        dies = [[rate_of(group.chiplet) for group in package.dies if group.count > 0] for package in packages]
        table = np.array([place[id(one)] for one in routes], dtype=np.int64)
        rates = tuple([mine[number] for mine in dies] for number in range(len(recipe.groups)))
        on = packages_of(recipe, packages, slots, paths_of(distinct), table, rates)
        if not on.reachable.all():
            return list(numbers)
        for number, cache in zip(numbers, on.cache_bytes.tolist(), strict=True):
            self.entries[number].cache_bytes = cache
        self._add(np.array(numbers, dtype=np.int64), lower(on))
        return []

    def _add(self, entries: IntArray, tables: Sequence[RowTable]) -> None:
        while len(self.pools) < len(tables):
            self.pools.append([])
        for pool, table in zip(self.pools, tables, strict=True):
            pool.append(Lowered(entries, table))

    def _one_by_one(self, designs: Sequence[Design], numbers: Sequence[int]) -> None:
        """The readable way: each design mapped and lowered, rows of one signature stacked, pool by pool."""
        rows: list[tuple[int, tuple[PoolRow, ...]]] = []
        for number, design in zip(numbers, designs, strict=True):
            mapped = map_design(design, self.model)
            entry, placement = self.entries[number], design.placement
            if placement is None:
                continue
            load = LinkLoad(design.package, placement)
            entry.violations = (*entry.violations, *_unreachable(mapped, load, entry.precision))
            if entry.serves:
                rates = self._rates_at(entry.precision, design.mapping.pipeline)
                maker = RowMaker(design.package, mapped, load, rates, entry.precision)
                rows.append((number, tuple(maker.row(pool) for pool in mapped.pools)))
                entry.cache_bytes = mapped.memory.cache_bytes
                entry.handoff = _handoff(mapped, load)
        groups: dict[object, list[tuple[int, tuple[PoolRow, ...]]]] = {}
        for number, mine in rows:
            key = (self.entries[number].precision, tuple(row.signature for row in mine))
            groups.setdefault(key, []).append((number, mine))
        for alike in groups.values():
            pools = zip(*(mine for _, mine in alike), strict=True)
            self._add(np.array([number for number, _ in alike]), [stacked(pool) for pool in pools])

    def _route(self, package: Package, slots: tuple[int, ...]) -> RouteTable:
        """Routes; packages that differ only in what fills the slots share them."""
        cores = slots[: package.die_count] if package.memory_is_leaf else slots
        key = (token(package.topology), frozenset(cores))
        if key not in self._routes:
            self._routes[key] = route(package.topology, transit_slots(package, slots))
        return self._routes[key]

    def _rates_at(self, precision: Precision, stages: int = 1) -> Callable[[Chiplet], DieRates]:
        staged = stages > 1

        def rates(chiplet: Chiplet) -> DieRates:
            key = (token(chiplet), precision, staged)
            if key not in self._rates:
                self._rates[key] = die_rates(chiplet, self.calibrations, precision, stages)
            return self._rates[key]

        return rates


def _handoff(mapped: MappedDesign, load: LinkLoad) -> tuple[float, float, float, float]:
    """What a byte that is handed over keeps busy and consumes, and latency; nothing for a pointer."""
    if not mapped.handoff.size:
        return 0.0, 0.0, 0.0, 0.0
    joules = float(load.joules(load.loads(mapped.handoff)))
    busiest = 0.0
    for site in mapped.sites:
        moved = float(mapped.handoff[site.component].sum() + mapped.handoff[:, site.component].sum())
        busiest = max(busiest, moved / site.bandwidth_bytes_per_s)
        joules += moved * site.joules_per_byte
    # Hops on a package are nanoseconds beside a transfer of many kilobytes; links between packages need not be.
    delays, unit_s = load.delays
    latency = unit_s * float(delays.max(where=mapped.handoff > 0, initial=0.0)) if load.package.parts else 0.0
    return busiest, float(load.utilisation(mapped.handoff).max(initial=0.0)), joules, latency


def _unreachable(mapped: MappedDesign, load: LinkLoad, precision: Precision) -> list[Violation]:
    if load.routes.reachable[load.slot_of[:, None], load.slot_of].all():
        return []
    lost = sum(float(load.disconnected_bytes(traffic(mapped, pool, _ANY_BATCH, precision))) for pool in mapped.pools)
    if lost <= 0:
        return []
    levers = ("another placement", "memory stacks that pass traffic on", "fewer memory stacks")
    return [Violation("components without a route", lost, 0, "bytes", levers)]
