"""Dies, memory stacks and packages: what is built, in SI units, each figure with its source.

A die type is composed from components (cores, SRAM banks, PHY, bumps, DMA), so that link bandwidth displaces
compute: see `hydra_dse.hardware.composition`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hydra_dse.hardware.links import Fabric, LinkClass

if TYPE_CHECKING:
    from hydra_dse.hardware.technology import Technology


@dataclass(frozen=True)
class AreaItem:
    """One kind of component on a die: how many, and the area of all of them."""

    name: str
    count: float
    area_mm2: float


@dataclass(frozen=True)
class Chiplet:
    """A die type as the models see it.

    Attributes:
        name: library name, e.g. `"hydra-tscs-prefill-22nm@512GB/s"`.
        style: how it multiplies matrices: `"systolic"`, `"mac-array"` (broadcast cores) or `"vector"`.
        technology_nm: process node.
        area_mm2: silicon area; equals the sum of `items` where they are given.
        matmul_flops_per_s: dense peak in `matmul_format` (2 FLOPs per MAC).
        matmul_format: format of that peak.
        format_speed: peak of other formats relative to `matmul_format`; a missing format is not supported.
        vector_flops_per_s: element-wise peak (exponentials and divisions cost more than one).
        array_rows, array_columns: tile of one core; GEMMs smaller than a tile leave it idle.
        cores: matrix cores on the die.
        sram_bytes, sram_bandwidth_bytes_per_s: on-die memory.
        ports: NoI links of the die.
        link_bandwidth_bytes_per_s: bandwidth of one link, per direction.
        memory_bytes, memory_bandwidth_bytes_per_s: memory fixed to the die (a GPU); 0 for a chiplet.
        far_memory_bytes, far_memory_bandwidth_bytes_per_s: memory beyond that (host or streaming memory); 0 = none.
        execution: how it runs a model: `"kernels"` (operators in turn), `"sections"` (parts of the model in turn, the
            operators of a part side by side), `"resident"` (all operators side by side), `"streaming"` (layers in
            turn, weights from the far memory) or `"pipelined"` (layers over chips).
        joules_per_flop, joules_per_vector_flop, joules_per_sram_byte: dynamic energy.
        joules_per_memory_byte: dynamic energy of the memory fixed to the die.
        static_power_w: leakage and clock at nominal temperature.
        shape_efficiency: optional measured table, pairs `(rows, share of peak)`, that replaces the tile rule.
        source: where the figures come from, or `"assumption: …"`.
    """

    name: str
    style: str
    technology_nm: float
    area_mm2: float
    matmul_flops_per_s: float
    vector_flops_per_s: float
    sram_bytes: float
    sram_bandwidth_bytes_per_s: float
    ports: int
    link_bandwidth_bytes_per_s: float
    matmul_format: str = "bf16"
    format_speed: tuple[tuple[str, float], ...] = ()
    array_rows: int = 1
    array_columns: int = 1
    cores: int = 1
    memory_bytes: float = 0.0
    memory_bandwidth_bytes_per_s: float = 0.0
    joules_per_flop: float = 0.0
    joules_per_vector_flop: float = 0.0
    joules_per_sram_byte: float = 0.0
    joules_per_memory_byte: float = 0.0
    static_power_w: float = 0.0
    shape_efficiency: tuple[tuple[float, float], ...] = ()
    items: tuple[AreaItem, ...] = ()
    source: str = ""
    far_memory_bytes: float = 0.0
    far_memory_bandwidth_bytes_per_s: float = 0.0
    execution: str = "kernels"


@dataclass(frozen=True)
class MemoryStack:
    """A memory stack or device on the package.

    Attributes:
        bandwidth_bytes_per_s: the most it delivers (its interface, or what is published as usable).
        peak_bandwidth_bytes_per_s: interface peak that calibrated efficiencies are a share of; 0 = the same.
        joules_per_byte: of an access, interface included.
        footprint_mm2: on the interposer.
        phy_area_mm2: host PHY and controller, charged as silicon.
        base_die_area_mm2: routing base die, charged where memory tiles route.
        ports: NoI links it can feed.
    """

    name: str
    technology: str
    capacity_bytes: float
    bandwidth_bytes_per_s: float
    joules_per_byte: float
    footprint_mm2: float
    phy_area_mm2: float = 0.0
    base_die_area_mm2: float = 0.0
    static_power_w: float = 0.0
    ports: int = 4
    peak_bandwidth_bytes_per_s: float = 0.0
    source: str = ""

    def achievable_bytes_per_s(self, efficiency: float) -> float:
        """Bandwidth of accesses that reach this share of the interface peak, never above the usable bandwidth."""
        peak = self.peak_bandwidth_bytes_per_s or self.bandwidth_bytes_per_s
        return min(self.bandwidth_bytes_per_s, peak * efficiency)


@dataclass(frozen=True)
class Slot:
    """A place on the interposer: centre and size in mm (a grid tile, or a rectangle of a floorplan)."""

    x_mm: float
    y_mm: float
    width_mm: float
    height_mm: float


@dataclass(frozen=True)
class Topology:
    """Slots and the links between them.

    Attributes:
        kind: `"mesh"`, `"torus"`, `"hex"`, `"floorplan"`, or `"fabric"` of several packages.
        columns, rows: of a grid; 0 for a floorplan.
        slots: the places, in row-major order for grids.
        edges: undirected links as pairs of slot indices, each pair once, smaller index first, sorted.
        islands: of several packages joined by a fabric the topology of each; their slots come first, in this order.
        ports: places where the links of the fabric end, by package; the slots after those of the packages.
    """

    kind: str
    columns: int
    rows: int
    slots: tuple[Slot, ...]
    edges: tuple[tuple[int, int], ...]
    # Out of the text that names a design by what it is made of, so that designs of one package keep their names.
    islands: tuple[Topology, ...] = field(default=(), repr=False)
    ports: tuple[tuple[int, ...], ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class PackageLimits:
    """What the package may not exceed; None = no limit stated."""

    silicon_mm2: float | None = None
    interposer_mm2: float | None = None
    power_w: float | None = None


@dataclass(frozen=True)
class DieGroup:
    """Equal dies of a package under one name of the design, e.g. `Ap` × 5.

    Attributes:
        name: the design's name for the group.
        chiplet: the die type.
        count: how many.
        families: operator families it serves natively: `"attention"`, `"ssm"`; empty = all.
        phase: `"prefill"`, `"decode"` or `"any"`.
        stage: of a pipeline, from 0.
    """

    name: str
    chiplet: Chiplet
    count: int
    families: tuple[str, ...] = ()
    phase: str = "any"
    stage: int = 0


@dataclass(frozen=True)
class MemoryGroup:
    """Equal memory stacks of a package under one name."""

    name: str
    stack: MemoryStack
    count: int


@dataclass(frozen=True)
class Package:
    """Dies and memory stacks on a topology of NoI links, or several such packages joined by a fabric.

    Components are numbered: all dies group by group in order, then all stacks group by group.
    A placement gives each component a slot.  Several packages are numbered as one: dies of the first, of the second,
    …, then stacks of the first, of the second, …; see `hydra_dse.hardware.fabric`.

    Attributes:
        link_bandwidth_bytes_per_s: of every NoI link, per direction.
        memory_is_leaf: True where no route may pass through a memory tile (no routing base die).
        technology: what it is made with; None = the library's `default`.
        parts: the packages that this one stands for, with all that holds for one alone (links, limits); empty for a
            single package.
        fabric: the links between packages: of all of `parts`, or those that end in this one.
        fabric_ports: ends of such links in this package.
    """

    name: str
    topology: Topology
    link: LinkClass
    link_bandwidth_bytes_per_s: float
    dies: tuple[DieGroup, ...]
    memories: tuple[MemoryGroup, ...]
    memory_is_leaf: bool = True
    limits: PackageLimits = field(default_factory=PackageLimits)
    source: str = ""
    # Out of the text that names a design by what it is made of, so that designs without one keep their names.
    technology: Technology | None = field(default=None, repr=False)
    parts: tuple[Package, ...] = field(default=(), repr=False)
    fabric: Fabric | None = field(default=None, repr=False)
    fabric_ports: int = field(default=0, repr=False)

    @property
    def die_count(self) -> int:
        """Number of compute dies."""
        return sum(group.count for group in self.dies)

    @property
    def stack_count(self) -> int:
        """Number of memory stacks."""
        return sum(group.count for group in self.memories)

    @property
    def component_groups(self) -> tuple[str, ...]:
        """Group of every component, dies first, then stacks."""
        groups: tuple[DieGroup | MemoryGroup, ...] = (*self.dies, *self.memories)
        return tuple(group.name for group in groups for _ in range(group.count))

    @property
    def footprints_mm2(self) -> tuple[float, ...]:
        """Area that every component takes on the interposer, in the same order."""
        dies = [group.chiplet.area_mm2 for group in self.dies for _ in range(group.count)]
        return (*dies, *(group.stack.footprint_mm2 for group in self.memories for _ in range(group.count)))

    def die_indices(self, group_name: str) -> tuple[int, ...]:
        """Component indices of a die group."""
        start = 0
        for group in self.dies:
            if group.name == group_name:
                return tuple(range(start, start + group.count))
            start += group.count
        raise KeyError(group_name)

    def chiplet_of(self, die: int) -> Chiplet:
        """Die type of a compute component."""
        for group in self.dies:
            if die < group.count:
                return group.chiplet
            die -= group.count
        raise IndexError(die)
