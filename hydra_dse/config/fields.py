"""Types for the fields of YAML sections: quantities with units, strict numbers, and the common base class.

A quantity is read from text with a unit into an SI float, and dumped as text that reads back to the same float,
so that a section survives `model_dump` and `model_validate` exactly.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from hydra_dse import units


class Section(BaseModel):
    """A mapping in a YAML file: unknown keys are faults, and nothing changes after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True)


def _quantity(dimension: str) -> tuple[Any, Any]:
    return (
        BeforeValidator(partial(_parse, dimension=dimension)),
        PlainSerializer(partial(units.exact, dimension=dimension)),
    )


def _parse(value: Any, dimension: str) -> float:
    return units.parse(value, dimension)


Bytes = Annotated[float, *_quantity("bytes")]
BytesPerSecond = Annotated[float, *_quantity("bytes_per_s")]
BytesPerSecondPerMm = Annotated[float, *_quantity("bytes_per_s_per_mm")]
BytesPerSecondPerMm2 = Annotated[float, *_quantity("bytes_per_s_per_mm2")]
Seconds = Annotated[float, *_quantity("seconds")]
Hertz = Annotated[float, *_quantity("hertz")]
FlopsPerSecond = Annotated[float, *_quantity("flops_per_s")]
Joules = Annotated[float, *_quantity("joules")]
JoulesPerByte = Annotated[float, *_quantity("joules_per_byte")]
JoulesPerFlop = Annotated[float, *_quantity("joules_per_flop")]
Watts = Annotated[float, *_quantity("watts")]
Mm = Annotated[float, *_quantity("mm")]
Mm2 = Annotated[float, *_quantity("mm2")]
Rate = Annotated[float, *_quantity("rate"), Field(gt=0)]
RateOrZero = Annotated[float, *_quantity("rate")]
Usd = Annotated[float, *_quantity("usd")]

Share = Annotated[float, *_quantity("share"), Field(ge=0, le=1)]
Count = Annotated[int, Field(strict=True, ge=0)]
PositiveCount = Annotated[int, Field(strict=True, ge=1)]
Number = Annotated[float, Field(strict=True)]
PositiveNumber = Annotated[float, Field(strict=True, gt=0)]
NonNegativeNumber = Annotated[float, Field(strict=True, ge=0)]
Text = Annotated[str, Field(strict=True)]
Name = Annotated[str, Field(strict=True, min_length=1, max_length=200)]
Flag = Annotated[bool, Field(strict=True)]
