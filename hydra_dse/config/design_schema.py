"""Pydantic models of a design file: package, dies, memories, mapping, policy, placement, precision."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PlainSerializer, ValidatorFunctionWrapHandler, WrapValidator, model_validator

from hydra_dse import extensions
from hydra_dse.config.faults import at_key
from hydra_dse.config.fields import (
    BytesPerSecond,
    Count,
    Mm,
    Mm2,
    Name,
    PositiveCount,
    PositiveNumber,
    Seconds,
    Section,
    Share,
    Text,
    Watts,
)
from hydra_dse.config.hardware_schema import Format
from hydra_dse.config.policy_schema import PolicySection
from hydra_dse.design.nouns import PLACEMENTS
from hydra_dse.hardware.frequency import HIGHEST, LOWEST
from hydra_dse.model.operators import OperatorClass

Size = Annotated[Mm, Field(gt=0)]


class GridSection(Section):
    """A grid of equal tiles: width and height of a tile, spacing included.

    `columns: fit` takes as many as hold all dies and stacks of the package.
    """

    kind: Literal["mesh", "torus", "hex"]
    columns: PositiveCount | Literal["fit"]
    rows: PositiveCount
    tile: tuple[Size, Size]

    @model_validator(mode="after")
    def _not_too_many(self) -> GridSection:
        if self.columns != "fit" and self.columns * self.rows > 4096:
            raise at_key("columns", f"{self.columns} x {self.rows} tiles are more than the 4096 that are supported")
        return self


class SlotSection(Section):
    """A rectangle of a floorplan, by its centre and size."""

    x: Mm
    y: Mm
    width: Size
    height: Size


class FloorplanSection(Section):
    """Rectangles that are linked where they face each other within `reach`."""

    kind: Literal["floorplan"]
    slots: Annotated[list[SlotSection], Field(min_length=1, max_length=512)]
    reach: Mm = 2.0


class LinkChoiceSection(Section):
    """The NoI links of a package."""

    class_: Name = Field(alias="class")
    bandwidth: Annotated[BytesPerSecond, Field(gt=0)]


class LimitsSection(Section):
    """What the package may not exceed."""

    silicon: Annotated[Mm2, Field(gt=0)] | None = None
    interposer: Annotated[Mm2, Field(gt=0)] | None = None
    power: Annotated[Watts, Field(gt=0)] | None = None


class PackageSection(Section):
    """Slots, links and limits."""

    topology: Annotated[GridSection | FloorplanSection, Field(discriminator="kind")]
    link: LinkChoiceSection
    memory_tiles: Literal["leaf", "routing"] = "leaf"
    limits: LimitsSection = LimitsSection()
    technology: Name | None = None


class FabricSection(Section):
    """Links between packages: `links` between each two (or of each to a switch) of a `bandwidth` per direction each.

    `class` names a class of links, whose latency `latency` replaces.
    """

    class_: Name = Field(alias="class")
    bandwidth: Annotated[BytesPerSecond, Field(gt=0)]
    latency: Annotated[Seconds, Field(ge=0)] | None = None
    links: Annotated[PositiveCount, Field(le=16)] = 1
    topology: Literal["direct", "switch"] = "direct"


class DieGroupSection(Section):
    """Equal dies: a library name or the path of a die's file, how many, and what they serve.

    `links` gives a composed die more or fewer NoI links than its recipe has (six on a hexagonal grid); `package` names
    one of several packages.
    """

    chiplet: Name
    count: Count
    links: PositiveCount | None = None
    families: list[Literal["attention", "ssm"]] = Field(default_factory=list)
    phase: Literal["prefill", "decode", "any"] = "any"
    fast_format: Literal["none", "fp8", "int8", "fp4", "int4"] = "none"
    frequency: Annotated[PositiveNumber, Field(ge=LOWEST, le=HIGHEST)] = 1.0
    package: Name | None = None


class MemoryGroupSection(Section):
    """Equal memory stacks; `package` names one of several packages."""

    stack: Name
    count: Count
    package: Name | None = None


class MappingSection(Section):
    """Operator classes → die groups, and how operands are laid out."""

    groups: dict[OperatorClass, Annotated[list[Name], Field(min_length=1)]] = Field(default_factory=dict)
    parallelism: Literal["tensor", "replica", "expert"] = "tensor"
    homes: Literal["aligned", "interleaved"] = "aligned"
    sram_weight_share: Share = 0.5
    expert_placement: Literal["round_robin", "popularity"] = "round_robin"
    replicated_experts: Annotated[Count, Field(le=4096)] = 0
    pipeline: Annotated[PositiveCount, Field(le=64)] = 1
    scan_split: Literal["peak", "speed"] = "peak"

    @model_validator(mode="after")
    def _experts_in_one_stage(self) -> MappingSection:
        if self.pipeline > 1 and self.parallelism == "expert":
            raise at_key("pipeline", f"{self.pipeline} stages with experts placed whole are not modelled; use 1 stage")
        return self

    models: dict[Name, Annotated[list[Name], Field(min_length=1)]] = Field(default_factory=dict)
    cache: Literal["shared", "equal"] = "shared"
    memories: dict[Literal["prefill", "decode"], Annotated[list[Name], Field(min_length=1)]] = Field(
        default_factory=dict
    )

    @model_validator(mode="after")
    def _memories_of_both_pools(self) -> MappingSection:
        if not self.memories:
            return self
        missing = [pool for pool in ("prefill", "decode") if pool not in self.memories]
        if missing:
            raise at_key("memories", f"pool {missing[0]!r} has none; name groups of both pools, or of neither")
        both = [name for name in self.memories["prefill"] if name in self.memories["decode"]]
        if both:
            raise at_key("memories", f"{both[0]!r} belongs to both pools; leave memories out where pools share them")
        if self.parallelism == "expert" or self.pipeline > 1:
            raise at_key("memories", "memories of each pool need parallelism: tensor or replica, and pipeline: 1")
        return self


def _added_placement(value: object, check: ValidatorFunctionWrapHandler) -> object:
    """Names in the group `hydra_dse.placements` are taken beside our own."""
    if isinstance(value, str) and value not in PLACEMENTS and value in extensions.names(extensions.PLACEMENTS):
        return value
    return check(value)


class PlacementSection(Section):
    """How components get their slots, or the slots themselves (dies first, then stacks)."""

    algorithm: Annotated[
        Literal["communication_aware", "hydra", "round_robin", "random", "explicit"] | None,
        WrapValidator(_added_placement),
        PlainSerializer(lambda name: name),
    ] = None
    slots: list[Count] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> PlacementSection:
        if self.slots is not None and self.algorithm not in (None, "explicit"):
            raise at_key("slots", f"slots are given, so the algorithm {self.algorithm!r} would not be used; drop one")
        if self.slots is None and self.algorithm == "explicit":
            raise at_key("algorithm", "an explicit placement needs `slots`")
        return self


class PrecisionSection(Section):
    """Formats of the operands; what is not named is bf16, and fp32 for the recurrent state."""

    weights: Format = "bf16"
    activations: Format = "bf16"
    kv: Format = "bf16"
    state: Format = "fp32"
    conv_state: Format = "bf16"


class DesignSection(Section):
    """A design file: one `package`, or several `packages` and the `fabric` that joins them."""

    name: Name | None = None
    source: Text = ""
    package: PackageSection | None = None
    packages: Annotated[dict[Name, PackageSection], Field(min_length=2, max_length=16)] | None = None
    fabric: FabricSection | None = None
    dies: Annotated[dict[Name, DieGroupSection], Field(min_length=1)]
    memories: dict[Name, MemoryGroupSection] = Field(default_factory=dict)
    mapping: MappingSection = MappingSection()
    policy: PolicySection = PolicySection()
    placement: PlacementSection = PlacementSection()
    precision: PrecisionSection | None = None

    @model_validator(mode="after")
    def _one_package_or_several(self) -> DesignSection:
        if self.package is None and self.packages is None:
            raise at_key("package", "is missing; a design has a package, or several packages and a fabric")
        if self.package is not None and self.packages is not None:
            raise at_key("packages", "a design has one package or several packages, not both; drop one of the keys")
        if self.packages is None and self.fabric is not None:
            raise at_key("fabric", "joins several packages; write packages: with two or more, or drop fabric")
        if self.packages is not None and self.fabric is None:
            raise at_key("packages", f"{' and '.join(self.packages)} need a fabric: class and bandwidth of its links")
        return self
