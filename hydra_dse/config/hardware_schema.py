"""Pydantic models of the hardware library: dies, components, memory stacks, links and calibrations."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, model_validator

from hydra_dse.config.faults import at_key
from hydra_dse.config.fields import (
    Bytes,
    BytesPerSecond,
    BytesPerSecondPerMm,
    BytesPerSecondPerMm2,
    Count,
    FlopsPerSecond,
    Hertz,
    JoulesPerByte,
    JoulesPerFlop,
    Mm,
    Mm2,
    Name,
    NonNegativeNumber,
    PositiveCount,
    PositiveNumber,
    Seconds,
    Section,
    Share,
    Text,
    Watts,
)
from hydra_dse.errors import did_you_mean
from hydra_dse.hardware.calibration import ACCESS_KINDS, PARAMETERS
from hydra_dse.model.operators import OperatorClass

Style = Literal["systolic", "mac-array", "vector", "gpu", "dataflow"]
Execution = Literal["kernels", "sections", "resident", "streaming", "pipelined"]
Format = Literal["fp32", "bf16", "fp16", "fp8", "int8", "fp4", "int4"]
Efficiency = Annotated[Share, Field(gt=0)]


class CoreSection(Section):
    """A matrix core."""

    area: Mm2
    array: tuple[PositiveCount, PositiveCount]
    macs: PositiveCount
    vector_lanes: Count


class BankSection(Section):
    """An SRAM bank."""

    area: Mm2
    capacity: Bytes
    bandwidth: BytesPerSecond


class LinkAreaSection(Section):
    """Areas of one link per step of its bandwidth."""

    step: BytesPerSecond
    phy: Mm2
    bumps: Mm2
    dma: Mm2


class SfuSection(Section):
    """A special-function unit."""

    area: Mm2
    activations_per_s: NonNegativeNumber


class ComponentEnergySection(Section):
    """Dynamic energies of a process."""

    flop: JoulesPerFlop
    vector_flop: JoulesPerFlop
    sram: JoulesPerByte


class ComponentsSection(Section):
    """Component figures of one process."""

    technology_nm: PositiveNumber
    clock: Hertz
    cores: dict[str, CoreSection]
    sram_bank: BankSection
    link: LinkAreaSection
    sfu: SfuSection
    energy: ComponentEnergySection
    static_w_per_mm2: NonNegativeNumber
    source: Text


class ScaledComponentsSection(Section):
    """Components of another process, scaled in area and energy."""

    scaled_from: Name
    technology_nm: PositiveNumber
    area_scale: PositiveNumber
    energy_scale: PositiveNumber
    source: Text


class _DieSection(Section):
    name: Name | None = None
    style: Style
    links: PositiveCount
    link_bandwidth: BytesPerSecond
    format: Format
    format_speed: dict[Format, PositiveNumber] = Field(default_factory=dict)
    latency_table: Annotated[list[tuple[PositiveNumber, Efficiency]], Field(min_length=1)] | None = None
    latency_table_file: Name | None = None
    source: Text

    @model_validator(mode="after")
    def _one_table(self) -> _DieSection:
        rows = [pair[0] for pair in self.latency_table or ()]
        if any(later <= earlier for earlier, later in pairwise(rows)):
            raise at_key("latency_table", "rows of a latency table must ascend")
        if self.latency_table is not None and self.latency_table_file is not None:
            raise at_key("latency_table_file", "give `latency_table` or `latency_table_file`, not both")
        return self


class ComposedDieSection(_DieSection):
    """A die put together from components, within a budget or with fixed counts."""

    kind: Literal["composed"]
    components: Name
    core: Name
    budget: Mm2 | None = None
    core_share: Share | None = None
    cores: PositiveCount | None = None
    sram_banks: PositiveCount | None = None

    @model_validator(mode="after")
    def _one_rule(self) -> ComposedDieSection:
        budget = self.budget is not None and self.core_share is not None
        fixed = self.cores is not None and self.sram_banks is not None
        named = [value for value in (self.budget, self.core_share, self.cores, self.sram_banks) if value is not None]
        if budget == fixed or len(named) != 2:
            raise at_key("kind", "a composed die needs `budget` and `core_share`, or `cores` and `sram_banks`")
        return self


class MemoryOnDieSection(Section):
    """A memory of given size and speed."""

    capacity: Bytes
    bandwidth: BytesPerSecond


class ArraySection(Section):
    """Matrix cores of a die and the tile of one."""

    rows: PositiveCount
    columns: PositiveCount
    cores: PositiveCount


class DieEnergySection(Section):
    """Dynamic energies of a die."""

    flop: JoulesPerFlop = 0.0
    vector_flop: JoulesPerFlop = 0.0
    sram: JoulesPerByte = 0.0
    memory: JoulesPerByte = 0.0


class FixedDieSection(_DieSection):
    """A die of fixed size: a product, or a user's own."""

    kind: Literal["fixed"] = "fixed"
    technology_nm: PositiveNumber
    area: Annotated[Mm2, Field(gt=0)]
    peak: Annotated[FlopsPerSecond, Field(gt=0)]
    vector_peak: Annotated[FlopsPerSecond, Field(gt=0)]
    array: ArraySection | None = None
    sram: MemoryOnDieSection
    memory: MemoryOnDieSection | None = None
    far_memory: MemoryOnDieSection | None = None
    execution: Execution = "kernels"
    energy: DieEnergySection = DieEnergySection()
    static_power: Watts = 0.0


class MemorySection(Section):
    """A memory stack or device."""

    name: Name | None = None
    technology: Name
    capacity: Annotated[Bytes, Field(gt=0)]
    bandwidth: Annotated[BytesPerSecond, Field(gt=0)]
    peak_bandwidth: BytesPerSecond = 0.0
    energy: JoulesPerByte
    footprint: Annotated[Mm2, Field(gt=0)]
    phy_area: Mm2 = 0.0
    base_die_area: Mm2 = 0.0
    static_power: Watts = 0.0
    ports: PositiveCount = 4
    source: Text

    @model_validator(mode="after")
    def _peak_above_usable(self) -> MemorySection:
        if self.peak_bandwidth and self.peak_bandwidth < self.bandwidth:
            raise at_key("peak_bandwidth", "peak_bandwidth must be at least the usable bandwidth")
        return self


class LinkSection(Section):
    """A physical class of links of a NoI, or between packages.

    `phy_density` (bandwidth per silicon area, per direction) is of links whose ports are silicon of their own.
    """

    name: Name | None = None
    latency: Seconds
    energy: JoulesPerByte
    efficiency: Efficiency
    density: Annotated[BytesPerSecondPerMm, Field(gt=0)]
    reach: Annotated[Mm, Field(gt=0)]
    phy_density: Annotated[BytesPerSecondPerMm2, Field(gt=0)] | None = None
    source: Text


class CalibrationSection(Section):
    """Shares of peak and fixed costs."""

    compute: dict[OperatorClass, Efficiency]
    memory: dict[Literal["weights", "kv", "state", "activations"], Efficiency]
    operator_overhead: Seconds
    iteration_overhead: Seconds
    relative_error: Share = 0.2
    source: Text
    half_width: NonNegativeNumber = 0.0
    collective_overhead: Seconds = 0.0
    stage_imbalance: Annotated[float, Field(ge=1.0)] = 1.0
    kv_access: Bytes = 0.0
    intervals: dict[str, tuple[NonNegativeNumber, NonNegativeNumber]] = Field(default_factory=dict)
    basis: dict[str, Literal["measured", "fitted", "transferred", "assumption"]] = Field(default_factory=dict)
    ranges: dict[str, tuple[NonNegativeNumber, NonNegativeNumber]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _named(self) -> CalibrationSection:
        for key in ("intervals", "basis"):
            for name in getattr(self, key):
                if name not in PARAMETERS:
                    raise at_key(key, f"no parameter {name!r}{did_you_mean(name, PARAMETERS)}")
        for name, (low, high) in self.intervals.items():
            if low > high:
                raise at_key("intervals", f"{name}: {low:g} is above {high:g}")
        return self

    @model_validator(mode="after")
    def _complete(self) -> CalibrationSection:
        missing = [kind.value for kind in OperatorClass if kind not in self.compute]
        if missing:
            raise at_key("compute", f"needs a share for every operator class; missing: {', '.join(missing)}")
        absent = [kind for kind in ACCESS_KINDS if kind not in self.memory]
        if absent:
            raise at_key("memory", f"needs a share for every access kind; missing: {', '.join(absent)}")
        return self


class CalibrationSetSection(Section):
    """Calibrations by chiplet style."""

    name: Name | None = None
    default: CalibrationSection
    styles: dict[Style, CalibrationSection] = Field(default_factory=dict)
