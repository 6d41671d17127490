"""Pydantic models of a technology: processes, dies, interposer, substrate, prices, economics, cooling, leakage."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from hydra_dse.config.faults import at_key
from hydra_dse.config.fields import (
    Mm,
    Name,
    NonNegativeNumber,
    Number,
    PositiveCount,
    PositiveNumber,
    Section,
    Share,
    Text,
    Usd,
)

YieldShare = Annotated[Share, Field(gt=0)]
Money = Annotated[Usd, Field(ge=0)]


class ProcessSection(Section):
    """A silicon process."""

    defects_per_cm2: NonNegativeNumber
    wafer: Money
    nre: Money


class ProcessesSection(Section):
    """Processes by node in nm."""

    nodes: Annotated[dict[Annotated[float, Field(gt=0)], ProcessSection], Field(min_length=1)]
    source: Text


class DiesSection(Section):
    """Yield and test of dies, and the wafer they come from."""

    yield_model: Literal["negative-binomial", "poisson", "murphy", "seeds"] = "negative-binomial"
    clustering: PositiveNumber = 10.0
    wafer_diameter: Annotated[Mm, Field(gt=0)]
    edge: Annotated[Mm, Field(ge=0)]
    scribe: Annotated[Mm, Field(ge=0)]
    test_coverage: Share
    test_usd_per_mm2: NonNegativeNumber
    source: Text


class InterposerSection(Section):
    """The carrier of the dies."""

    wafer: Money
    defects_per_cm2: NonNegativeNumber
    clustering: PositiveNumber
    bond_yield: YieldShare
    bump_usd_per_mm2: NonNegativeNumber
    c4_usd_per_mm2: NonNegativeNumber
    nre_usd_per_mm2: NonNegativeNumber
    nre_fixed: Money
    pitch: Annotated[Mm, Field(gt=0)]
    layers: PositiveCount
    wire_gbit_per_s: PositiveNumber
    max_reticles: PositiveNumber
    stitch_yield: YieldShare
    stitch_cost: NonNegativeNumber
    source: Text


class SubstrateSection(Section):
    """The organic substrate."""

    area_factor: PositiveNumber
    usd_per_mm2: NonNegativeNumber
    attach_yield: YieldShare
    source: Text


class EconomicsSection(Section):
    """Volume, life and electricity."""

    volume: PositiveNumber
    years: PositiveNumber
    utilisation: YieldShare
    usd_per_kwh: NonNegativeNumber
    pue: Annotated[Number, Field(ge=1)]
    source: Text


class SolidSection(Section):
    """A layer."""

    thickness: Annotated[Mm, Field(gt=0)]
    w_per_mk: PositiveNumber


class CoolingSection(Section):
    """Layers up to the heat sink, and what they may reach."""

    ambient_c: Number
    sink_k_per_w: PositiveNumber
    overhang: Annotated[Mm, Field(ge=0)]
    interposer: SolidSection
    bumps: SolidSection
    die: SolidSection
    tim: SolidSection
    spreader: SolidSection
    sink: SolidSection
    fill_w_per_mk: PositiveNumber
    stack_mm2_k_per_w: NonNegativeNumber
    die_limit_c: Number
    dram_limit_c: Number
    refresh_c: Number
    refresh_share: Share
    source: Text

    @model_validator(mode="after")
    def _limits_above_ambient(self) -> CoolingSection:
        for key in ("die_limit_c", "dram_limit_c"):
            if getattr(self, key) <= self.ambient_c:
                raise at_key(key, f"{getattr(self, key):g} must be above ambient_c = {self.ambient_c:g}")
        return self


class LeakageSection(Section):
    """Temperature dependence of static power."""

    share: Share
    per_k: NonNegativeNumber
    nominal_c: Number
    source: Text


class TechnologySection(Section):
    """A technology file."""

    name: Name | None = None
    processes: ProcessesSection
    dies: DiesSection
    interposer: InterposerSection
    substrate: SubstrateSection
    memory_usd_per_gb: dict[Name, NonNegativeNumber | Text]
    economics: EconomicsSection
    cooling: CoolingSection
    leakage: LeakageSection

    @model_validator(mode="after")
    def _prices(self) -> TechnologySection:
        prices = self.memory_usd_per_gb
        if not isinstance(prices.get("other"), float | int):
            raise at_key("memory_usd_per_gb", "needs a price `other` for technologies that it does not name")
        for name, value in prices.items():
            if isinstance(value, str) != (name == "source"):
                raise at_key("memory_usd_per_gb", f"{name}: expected a price in USD per GB, and one text `source`")
        return self
