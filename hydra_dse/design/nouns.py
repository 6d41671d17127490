"""Design = Package + Placement + mapping choice + Policy, with the model precision it is served at."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from hydra_dse.hardware.components import Package
from hydra_dse.model.operators import OperatorClass
from hydra_dse.model.precision import Precision
from hydra_dse.policy import Policy

PLACEMENTS = ("communication_aware", "hydra", "round_robin", "random", "explicit")
HOMES = ("aligned", "interleaved")


@dataclass(frozen=True)
class Placement:
    """Slot of every component of a package (dies first, then stacks, as numbered by the package)."""

    slots: tuple[int, ...]
    algorithm: str = "explicit"


@dataclass(frozen=True)
class MappingChoice:
    """Which die groups run which operators, and how operands are laid out: decisions, no times.

    Attributes:
        groups: operator class → names of die groups (of either phase; a pool uses those of its phase).
            Classes not named follow the families of the die groups: attention classes go to groups that serve
            `"attention"`, SSM classes to groups that serve `"ssm"`, all others to every group of the pool.
        parallelism: `"tensor"` (one copy of the weights, split over the dies of a group), `"replica"`
            (every die streams all weights and works on its share of the batch) or `"expert"` (each expert of a
            mixture whole on one die, tokens go to their experts; all else as under `"tensor"`).
        homes: `"aligned"` (each die's shard lies in the fewest stacks) or `"interleaved"` (over all stacks).
        sram_weight_share: share of die SRAM that keeps weights resident.
        expert_placement: of expert parallelism: `"round_robin"`, or `"popularity"` (the most popular expert first, to
            the least loaded die).
        replicated_experts: of expert parallelism: how many of the most popular experts have a copy at every die.
        pipeline: stages of consecutive blocks, each on its own part of every die group (see `design.pipeline`).
        models: model name → names of the die groups that serve it; a model not named is served by all of them.
        cache: how models that share memory divide what caches may fill: `"shared"` (whoever comes first) or
            `"equal"` (a fixed equal part each).
        memories: pool (`"prefill"`, `"decode"`) → memory groups that it keeps weights and caches in, where each pool of
            a disaggregated design has memories of its own; empty = both read one copy in all of them.
        scan_split: how unlike dies share the convolutions and scans of state-space layers: `"peak"` (by matrix peak, as
            everything else) or `"speed"` (by their speed at them).
        only: die groups that take part at all (empty = all); set where a design is seen by one of its models.
    """

    groups: Mapping[OperatorClass, tuple[str, ...]] = field(default_factory=dict)
    parallelism: str = "tensor"
    homes: str = "aligned"
    sram_weight_share: float = 0.5
    expert_placement: str = "round_robin"
    replicated_experts: int = 0
    pipeline: int = 1
    models: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cache: str = "shared"
    only: tuple[str, ...] = ()
    memories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    scan_split: str = "peak"


@dataclass(frozen=True)
class Design:
    """A complete candidate.

    Attributes:
        parameters: the search parameters it was built from, in the space's order (empty for a hand-written one).
        placement: slots, or None until `hydra_dse.placement.place` has chosen them by `placement_algorithm`.
        precision: operand formats; None = the model's own.
    """

    package: Package
    policy: Policy
    mapping: MappingChoice = field(default_factory=MappingChoice)
    placement_algorithm: str = "communication_aware"
    placement: Placement | None = None
    precision: Precision | None = None
    parameters: tuple[tuple[str, object], ...] = ()
    name: str = ""

    @property
    def identity(self) -> str:
        """Twelve hex digits that name the design by its parameters (or by its name)."""
        text = repr(self.parameters) if self.parameters else repr((self.name, self.package, self.policy))
        if self.package.technology is not None and not self.parameters:
            text += repr(self.package.technology)
        if self.package.parts and not self.parameters:
            text += repr((self.package.parts, self.package.fabric))
        return hashlib.sha256(text.encode()).hexdigest()[:12]
