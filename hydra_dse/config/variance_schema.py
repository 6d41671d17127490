"""Sections of a file that decomposes the variance over a space."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from hydra_dse.config.comparison_schema import LoadsSection
from hydra_dse.config.fields import Count, Name, PositiveCount, Section, Share

Load = Annotated[Share, Field(gt=0, lt=1)]


class ChoicesSection(Section):
    """Choices beside the parameters of the space: what a factor may name besides them."""

    placement: tuple[Literal["communication_aware", "hydra", "round_robin", "random"], ...] = ("communication_aware",)
    batching: tuple[Literal["chunked", "prefill_first", "static"], ...] = ("chunked",)
    task_map: tuple[Literal["static", "elastic"], ...] = ("static",)


class VarianceSection(Section):
    """The section `variance`: factors as lists of parameters and choices that are drawn together."""

    factors: Annotated[dict[Name, Annotated[tuple[Name, ...], Field(min_length=1)]], Field(min_length=1, max_length=20)]
    choices: ChoicesSection = ChoicesSection()
    rows: Annotated[PositiveCount, Field(ge=4, le=1_000_000)] = 256
    loads: Annotated[tuple[Load, ...], Field(min_length=1, max_length=10)] = (0.5, 0.8)
    seed: Annotated[Count, Field(lt=2**63)] = 0


class DecompositionSection(LoadsSection):
    """The file."""

    space: Name
    variance: VarianceSection
    calibration: Name = "default"
    quick: dict[Name, Any] = Field(default_factory=dict)
