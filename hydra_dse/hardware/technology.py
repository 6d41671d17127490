"""What a package is made with: processes, interposer, substrate, test, prices, cooling and economics.

A package names its technology; without one it is made with the library's `default`.  All figures come from
`hydra_dse/library/technologies.yaml` or a user's file, each part with its source.
"""

from __future__ import annotations

from dataclasses import dataclass

YIELD_MODELS = ("negative-binomial", "poisson", "murphy", "seeds")


@dataclass(frozen=True)
class Process:
    """A silicon process.

    Attributes:
        node_nm: its name in nm.
        defects_per_cm2: density of killing defects.
        wafer_usd: price of a processed wafer.
        nre_usd: of a new die of `NRE_AREA_MM2`, masks and first tape-out included.
    """

    node_nm: float
    defects_per_cm2: float
    wafer_usd: float
    nre_usd: float


@dataclass(frozen=True)
class Wafer:
    """Geometry of a wafer: diameter, the ring at its edge that is lost, and the lane that the saw needs; in mm."""

    diameter_mm: float
    edge_mm: float
    scribe_mm: float


@dataclass(frozen=True)
class DieTest:
    """Test of dies before assembly.

    Attributes:
        coverage: share of faulty dies' faults that the test finds; 1 = every die that is assembled is good.
        usd_per_mm2: cost of testing one die, per area.
    """

    coverage: float
    usd_per_mm2: float


@dataclass(frozen=True)
class Interposer:
    """The carrier that dies are bonded to.

    Attributes:
        wafer_usd, defects_per_cm2, clustering: of its wafers (negative binomial).
        bond_yield: of bonding one component to it.
        bump_usd_per_mm2: micro-bumps, per die area; c4_usd_per_mm2: bumps below it, per its own area.
        nre_usd_per_mm2, nre_fixed_usd: of a new interposer.
        pitch_um, layers: of signal wires with their shields.
        wire_bits_per_s: of one wire.
        max_reticles: largest size, in exposure fields.
        stitch_yield: of each seam between exposure fields.
        stitch_cost: share of the wafer's price that each exposure field beyond the first adds.
    """

    wafer_usd: float
    defects_per_cm2: float
    clustering: float
    bond_yield: float
    bump_usd_per_mm2: float
    c4_usd_per_mm2: float
    nre_usd_per_mm2: float
    nre_fixed_usd: float
    pitch_um: float
    layers: int
    wire_bits_per_s: float
    max_reticles: float
    stitch_yield: float
    stitch_cost: float


@dataclass(frozen=True)
class Substrate:
    """The organic substrate below the interposer.

    Attributes:
        area_factor: its area over the interposer's.
        usd_per_mm2: its price.
        attach_yield: of attaching the interposer.
    """

    area_factor: float
    usd_per_mm2: float
    attach_yield: float


@dataclass(frozen=True)
class Economics:
    """What a package costs over its life.

    Attributes:
        volume: packages over which non-recurring costs are spread.
        years: of service.
        utilisation: share of that time in which it serves the load.
        usd_per_kwh: of electricity.
        pue: power of the building over power of the package.
    """

    volume: float
    years: float
    utilisation: float
    usd_per_kwh: float
    pue: float


@dataclass(frozen=True)
class Solid:
    """A layer: thickness in mm and conductivity in W/(m·K)."""

    thickness_mm: float
    w_per_mk: float


@dataclass(frozen=True)
class Cooling:
    """Layers from the interposer up to the heat sink, and what they may reach.

    Attributes:
        ambient_c: air or coolant.
        sink_k_per_w: from the top of the sink to ambient.
        overhang_mm: of spreader and sink beyond the interposer, on each side.
        interposer, bumps, die, tim, spreader, sink: layers.
        fill_w_per_mk: of what lies between dies.
        stack_mm2_k_per_w: from the hottest layer of a memory stack to its top, per area.
        die_limit_c, dram_limit_c: highest temperatures.
        refresh_c: above it DRAM refreshes twice as often.
        refresh_share: of the background power of DRAM.
    """

    ambient_c: float
    sink_k_per_w: float
    overhang_mm: float
    interposer: Solid
    bumps: Solid
    die: Solid
    tim: Solid
    spreader: Solid
    sink: Solid
    fill_w_per_mk: float
    stack_mm2_k_per_w: float
    die_limit_c: float
    dram_limit_c: float
    refresh_c: float
    refresh_share: float


@dataclass(frozen=True)
class Leakage:
    """How static power depends on temperature: `share · exp(per_k · (T − nominal)) + (1 − share)` of its value.

    Attributes:
        share: leakage in the static power of a die at the nominal temperature (the rest is its clock).
        per_k: exponent.
        nominal_c: temperature that static power is stated at.
    """

    share: float
    per_k: float
    nominal_c: float


@dataclass(frozen=True)
class Technology:
    """All of it.

    Attributes:
        processes: by node, ascending.
        yield_model, clustering: of dies; `clustering` is the α of the negative binomial model.
        memory_usd_per_gb: pairs of memory technology and price.
    """

    name: str
    processes: tuple[Process, ...]
    yield_model: str
    clustering: float
    wafer: Wafer
    test: DieTest
    interposer: Interposer
    substrate: Substrate
    memory_usd_per_gb: tuple[tuple[str, float], ...]
    economics: Economics
    cooling: Cooling
    leakage: Leakage
    sources: tuple[tuple[str, str], ...] = ()

    def process(self, node_nm: float) -> Process:
        """The process of a node; between two stated ones the nearest in ratio (4 nm is of the 5-nm family)."""
        return min(self.processes, key=lambda process: max(process.node_nm / node_nm, node_nm / process.node_nm))
