"""Sections that describe lengths, and the distributions they stand for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from hydra_dse.config.faults import at_key
from hydra_dse.config.fields import (
    Name,
    Number,
    PositiveCount,
    PositiveNumber,
    Section,
    Text,
)
from hydra_dse.errors import InputError
from hydra_dse.workload.lengths import JointLengths
from hydra_dse.workload.marginals import MAX_TOKENS, Constant, Lognormal, Marginal, Quantiles
from hydra_dse.workload.traces.record import MAX_ROWS, Columns

Tokens = Annotated[int, Field(strict=True, ge=1, le=MAX_TOKENS)]


class ColumnsSection(Section):
    """Names of the columns of a plain CSV trace."""

    prompt: Name
    output: Name
    arrival: Name | None = None
    time_unit: Literal["s", "ms", "us", "datetime"] = "s"


class LognormalSection(Section):
    """Lognormal lengths; mean and CV are those after the bounds are applied."""

    mean: PositiveNumber
    cv: PositiveNumber
    minimum: PositiveNumber = 1.0
    maximum: PositiveNumber | None = None

    @model_validator(mode="after")
    def _possible(self) -> LognormalSection:
        _check(self)
        return self


class QuantilesSection(Section):
    """Published percentiles (`min`, `p50`, `p99.9`, `max`, …) and mean."""

    quantiles: dict[str, PositiveNumber]
    mean: PositiveNumber | None = None

    @model_validator(mode="after")
    def _possible(self) -> QuantilesSection:
        for name in self.quantiles:
            if name not in ("min", "max") and not re.fullmatch(r"p\d{1,2}(\.\d+)?", name):
                raise at_key(
                    "quantiles", f"{name!r} is not a percentile; expected min, max, or p50, p99.9 and the like"
                )
        for name in ("min", "max"):
            if name not in self.quantiles:
                raise at_key("quantiles", f"missing key {name!r}")
        _check(self)
        return self


MarginalSection = Tokens | QuantilesSection | LognormalSection


# Tags differ from every key, so that a fault's location tells them apart.
_FIXED, _QUANTILES, _LOGNORMAL = "<fixed>", "<quantiles>", "<lognormal>"


def _marginal_kind(value: Any) -> str:
    if isinstance(value, (Mapping, QuantilesSection, LognormalSection)):
        inside = "quantiles" in value if isinstance(value, Mapping) else isinstance(value, QuantilesSection)
        return _QUANTILES if inside else _LOGNORMAL
    return _FIXED


MarginalField = Annotated[
    Annotated[Tokens, Tag(_FIXED)]
    | Annotated[QuantilesSection, Tag(_QUANTILES)]
    | Annotated[LognormalSection, Tag(_LOGNORMAL)],
    Discriminator(_marginal_kind),
]


class JointSection(Section):
    """Prompt and output lengths, each a number of tokens, a lognormal or quantiles."""

    prompt: MarginalField
    output: MarginalField
    correlation: Annotated[Number, Field(gt=-1, lt=1)] = 0.0


class LengthsFile(JointSection):
    """A file of `workloads/lengths`, or a user's own."""

    name: Name
    source: Text = ""
    note: Text = ""


class EmpiricalSection(Section):
    """Recorded pairs: in the file as `rows`, or in a CSV or trace at `path`."""

    rows: Annotated[tuple[tuple[Tokens, Tokens], ...], Field(min_length=1)] | None = None
    path: Name | None = None
    columns: ColumnsSection | None = None
    limit: Annotated[PositiveCount, Field(le=MAX_ROWS)] = MAX_ROWS

    @model_validator(mode="after")
    def _one_of_both(self) -> EmpiricalSection:
        if (self.rows is None) == (self.path is None):
            raise at_key("path", "give either rows or path")
        return self


def _lengths_kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "empirical" if "rows" in value or "path" in value else "joint"
    if isinstance(value, (JointSection, EmpiricalSection)):
        return "joint" if isinstance(value, JointSection) else "empirical"
    return "named"


LengthsField = Annotated[
    Annotated[Name, Tag("named")]
    | Annotated[EmpiricalSection, Tag("empirical")]
    | Annotated[JointSection, Tag("joint")],
    Discriminator(_lengths_kind),
]


def marginal(section: int | QuantilesSection | LognormalSection) -> Marginal:
    """The distribution that a section describes.

    Raises:
        InputError: its figures contradict each other.
    """
    if isinstance(section, int):
        return Constant(section)
    if isinstance(section, LognormalSection):
        return Lognormal(section.mean, section.cv, section.minimum, section.maximum)
    rows = sorted((_level(name), tokens) for name, tokens in section.quantiles.items())
    return Quantiles(tuple(row[0] for row in rows), tuple(row[1] for row in rows), section.mean)


def _level(name: str) -> float:
    return {"min": 0.0, "max": 1.0}[name] if name in ("min", "max") else float(name[1:]) / 100


def _check(section: QuantilesSection | LognormalSection) -> None:
    try:
        marginal(section)
    except InputError as error:
        raise PydanticCustomError("impossible", "{text}", {"text": str(error)}) from None


def lengths_of(section: JointSection) -> JointLengths:
    """The joint distribution of a section."""
    return JointLengths(marginal(section.prompt), marginal(section.output), section.correlation)


def columns_of(section: ColumnsSection | None) -> Columns | None:
    """Column names for the trace reader, None where it shall recognise them."""
    return None if section is None else Columns(section.prompt, section.output, section.arrival, section.time_unit)
