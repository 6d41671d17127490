"""Sections of an experiment file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from hydra_dse.config.faults import at_key
from hydra_dse.config.fields import Count, Name, Number, PositiveCount, Rate, Seconds, Section, Share, Text

PositiveSeconds = Annotated[Seconds, Field(gt=0)]
SAMPLERS = ("nsga2", "nsga3", "random", "tpe", "qmc", "neighbours")


def _named_or_inline(value: Any) -> str:
    return "inline" if isinstance(value, dict) else "named"


# The mapping is checked on its own, as a workload or a space, so that its faults keep their places.
NamedOrInline = Annotated[
    Annotated[Name, Tag("named")] | Annotated[dict[str, Any], Tag("inline")], Discriminator(_named_or_inline)
]


class ConstraintSection(Section):
    """Bounds on a metric."""

    metric: Name
    at_most: Number | None = None
    at_least: Number | None = None

    @model_validator(mode="after")
    def _some_bound(self) -> ConstraintSection:
        if self.at_most is None and self.at_least is None:
            raise at_key("at_most", "give at_most, at_least or both")
        if self.at_most is not None and self.at_least is not None and self.at_most < self.at_least:
            raise at_key("at_most", f"at_most {self.at_most:g} is below at_least {self.at_least:g}")
        return self


class SearchSection(Section):
    """How to search."""

    sampler: Literal["nsga2", "nsga3", "random", "tpe", "qmc", "neighbours"] = "nsga2"
    trials: Annotated[PositiveCount, Field(le=100_000_000)] = 2000
    population: Annotated[PositiveCount, Field(ge=2, le=1_000_000)] = 40
    seed: Annotated[Count, Field(lt=2**63)] = 0


class ValidationSection(Section):
    """How the best designs are simulated.

    `max_replications`: what a design gets at most while its place on the front is undecided (twice `replications`);
    `outside`: feasible designs drawn at random that are simulated too (a quarter of `top`).
    """

    top: PositiveCount = 5
    requests: Annotated[PositiveCount, Field(ge=10, le=100_000_000)] = 2000
    replications: Annotated[PositiveCount, Field(le=10_000)] = 3
    warmup_share: Annotated[Share, Field(lt=1)] = 0.1
    max_replications: Annotated[PositiveCount, Field(le=10_000)] | None = None
    outside: Count | None = None

    @model_validator(mode="after")
    def _no_fewer_than_all(self) -> ValidationSection:
        if self.max_replications is not None and self.max_replications < self.replications:
            raise at_key("max_replications", f"fewer than the {self.replications} replications of every design")
        return self


class ScenariosSection(Section):
    """Several models and workloads, each pair a scenario, that aggregated objectives look at."""

    models: Annotated[tuple[Name, ...], Field(min_length=1, max_length=64)] | None = None
    workloads: Annotated[tuple[NamedOrInline, ...], Field(min_length=1, max_length=64)] | None = None
    load: Annotated[Share, Field(gt=0, lt=1)] | None = None
    probe: Annotated[PositiveCount, Field(le=10_000)] = 16

    @model_validator(mode="after")
    def _several(self) -> ScenariosSection:
        if self.models is None and self.workloads is None:
            raise at_key("models", "give models, workloads or both")
        return self


class DynamicSection(Section):
    """Task maps under a load that shifts: which of them, how fast it shifts, and how much is offered."""

    task_maps: Annotated[tuple[Literal["static", "fcfs", "stealing", "elastic"], ...], Field(min_length=2)] = (
        "static",
        "fcfs",
        "stealing",
        "elastic",
    )
    cycles: Annotated[tuple[PositiveSeconds, ...], Field(min_length=1, max_length=64)]
    loads: Annotated[tuple[Annotated[Share, Field(gt=0)], ...], Field(min_length=1, max_length=16)] = (0.8,)
    least_cycles: Annotated[PositiveCount, Field(le=1000)] = 4
    role_up_prompts: PositiveCount = 2
    role_down_prompts: Count = 0
    role_unit_dies: PositiveCount = 1
    role_units_to_prefill: Count = 1
    role_units_to_decode: Count = 0

    @model_validator(mode="after")
    def _each_once(self) -> DynamicSection:
        for key in ("task_maps", "cycles", "loads"):
            values = getattr(self, key)
            if len(set(values)) < len(values):
                raise at_key(key, "a value is listed twice")
        if self.role_down_prompts >= self.role_up_prompts:
            raise at_key("role_down_prompts", f"must be fewer than role_up_prompts = {self.role_up_prompts}")
        return self


class InputSection(Section):
    """A file that a stored experiment was read from."""

    path: Name
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ExperimentSection(Section):
    """An experiment file."""

    schema_version: Literal[1] = 1
    name: Name | None = None
    purpose: Text = ""
    source: Text = ""
    model: Name | None = None
    workload: NamedOrInline
    rate: Rate | None = None
    space: NamedOrInline
    objectives: Annotated[tuple[Name, ...], Field(min_length=1, max_length=8)]
    constraints: tuple[ConstraintSection, ...] = ()
    search: SearchSection = SearchSection()
    validation: ValidationSection = ValidationSection()
    calibration: Name = "measured"
    scenarios: ScenariosSection | None = None
    dynamic: DynamicSection | None = None
    quick: dict[Name, Any] = Field(default_factory=dict)
    inputs: tuple[InputSection, ...] = ()
