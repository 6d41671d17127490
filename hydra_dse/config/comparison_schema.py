"""Sections of a comparison file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from hydra_dse.config.experiment_schema import ConstraintSection, SearchSection
from hydra_dse.config.faults import at_key
from hydra_dse.config.fields import Count, Name, PositiveCount, PositiveNumber, Section, Share, Text, Watts
from hydra_dse.config.workload_schema import SloSection

Fraction = Annotated[Share, Field(gt=0)]


class PolicyChangeSection(Section):
    """Fields of a policy that a derived contender changes."""

    batching: Literal["chunked", "prefill_first", "static"] | None = None
    task_map: Literal["static", "elastic", "stealing", "fcfs"] | None = None
    scheduling: Literal["fcfs", "sjf", "hrrn", "edf", "least_slack"] | None = None
    max_batch: PositiveCount | None = None
    token_budget: PositiveCount | None = None


class TakeSection(Section):
    """Search parameters whose values come from what another contender was chosen with."""

    from_: Name = Field(alias="from")
    parameters: Annotated[tuple[Name, ...], Field(min_length=1)]


class ChangeSection(Section):
    """How a derived contender differs."""

    placement: Literal["communication_aware", "hydra", "round_robin", "random"] | None = None
    policy: PolicyChangeSection = PolicyChangeSection()
    take: TakeSection | None = None
    scale: dict[Name, PositiveNumber] = Field(default_factory=dict)


class ContenderSection(Section):
    """A side of a comparison: give `space` (one or several, which share the budget), `design` or `of`."""

    name: Name
    space: Name | Annotated[tuple[Name, ...], Field(min_length=1, max_length=20)] | None = None
    set: dict[Name, Any] = Field(default_factory=dict)
    placements: Count = 0
    design: Name | None = None
    of: Name | None = None
    change: ChangeSection | None = None

    @model_validator(mode="after")
    def _one_origin(self) -> ContenderSection:
        given = [key for key in ("space", "design", "of") if getattr(self, key) is not None]
        if len(given) != 1:
            raise at_key("name", "a contender needs exactly one of space, design, of")
        if (self.change is None) == (self.of is not None):
            raise at_key("change", "`of` and `change` go together")
        if self.space is None and (self.set or self.placements):
            raise at_key("set" if self.set else "placements", "is for a contender with a space")
        return self


class ComparedWorkloadSection(Section):
    """A workload with the service level that decides the highest rate."""

    workload: Name
    slo: SloSection
    arrivals: Literal["poisson", "own"] = "poisson"


class ComparedSearchSection(SearchSection):
    """How contenders are searched; see `hydra_dse.design.comparison.ComparedSearch`."""

    load: Fraction = 0.5
    pilot: Annotated[PositiveCount, Field(le=100_000)] = 128
    finalists: Annotated[PositiveCount, Field(le=1000)] = 3
    selection_requests: Annotated[PositiveCount, Field(ge=10, le=10_000_000)] = 500


class ComparedSimulationSection(Section):
    """How contenders are simulated."""

    requests: Annotated[PositiveCount, Field(ge=10, le=10_000_000)] = 1000
    replications: Annotated[PositiveCount, Field(le=1000)] = 3
    warmup_share: Annotated[Share, Field(lt=1)] = 0.1
    seed: Annotated[Count, Field(lt=2**63)] = 1
    tolerance: Annotated[Share, Field(gt=0, le=0.5)] = 0.01
    power_limit: Annotated[Watts, Field(gt=0)] | None = None
    detail: Literal["ledger", "memo", "operators"] = "ledger"


class LoadsSection(Section):
    """The head of a file that looks at every workload with every model."""

    schema_version: Literal[1] = 1
    name: Name | None = None
    purpose: Text = ""
    source: Text = ""
    models: Annotated[tuple[Name, ...], Field(min_length=1)]
    workloads: Annotated[tuple[ComparedWorkloadSection, ...], Field(min_length=1)]


class ComparisonSection(LoadsSection):
    """A comparison file."""

    objectives: Annotated[tuple[Name, ...], Field(min_length=1, max_length=10)] = ("max_rate",)
    compare: Annotated[tuple[ContenderSection, ...], Field(min_length=1, max_length=100)]
    reference: Name | None = None
    fractions: Annotated[tuple[Fraction, ...], Field(min_length=1, max_length=20)] = (0.3, 0.5, 0.7, 0.8)
    primary: Fraction = 0.8
    constraints: tuple[ConstraintSection, ...] = ()
    search: ComparedSearchSection = ComparedSearchSection()
    simulation: ComparedSimulationSection = ComparedSimulationSection()
    calibration: Name = "default"
    memory_share: Fraction = 1.0
    volume: Annotated[PositiveCount, Field(le=10**12)] | None = None
    quick: dict[Name, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _primary_is_measured(self) -> ComparisonSection:
        if self.primary not in self.fractions:
            raise at_key("primary", f"{self.primary:g} is not one of the fractions")
        return self
