"""Types for the fields of YAML sections: quantities with units, strict numbers, and the common base class.

A quantity is read from text with a unit into an SI float, and dumped as text that reads back to the same float,
so that a section survives `model_dump` and `model_validate` exactly.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import core_schema

from hydra_dse import units


class Section(BaseModel):
    """A mapping in a YAML file: unknown keys are faults, and nothing changes after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True, defer_build=True)


def _parse(value: Any, dimension: str) -> float:
    return units.parse(value, dimension)


class Quantity:
    """Marks a field as a quantity: text with a unit is read, and an SI float dumped as exact text.

    A `BeforeValidator` with a `PlainSerializer` says the same, but has the signatures of the two functions looked up
    for every field: a tenth of the time that the sections take to build.
    """

    def __init__(self, dimension: str) -> None:
        self.dimension = dimension
        self._read = partial(_parse, dimension=dimension)
        self._dump = core_schema.plain_serializer_function_ser_schema(partial(units.exact, dimension=dimension))

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(self._read, handler(source), serialization=self._dump)


Bytes = Annotated[float, Quantity("bytes")]
BytesPerSecond = Annotated[float, Quantity("bytes_per_s")]
BytesPerSecondPerMm = Annotated[float, Quantity("bytes_per_s_per_mm")]
BytesPerSecondPerMm2 = Annotated[float, Quantity("bytes_per_s_per_mm2")]
Seconds = Annotated[float, Quantity("seconds")]
Hertz = Annotated[float, Quantity("hertz")]
FlopsPerSecond = Annotated[float, Quantity("flops_per_s")]
Joules = Annotated[float, Quantity("joules")]
JoulesPerByte = Annotated[float, Quantity("joules_per_byte")]
JoulesPerFlop = Annotated[float, Quantity("joules_per_flop")]
Watts = Annotated[float, Quantity("watts")]
Mm = Annotated[float, Quantity("mm")]
Mm2 = Annotated[float, Quantity("mm2")]
Rate = Annotated[float, Quantity("rate"), Field(gt=0)]
RateOrZero = Annotated[float, Quantity("rate")]
Usd = Annotated[float, Quantity("usd")]

Share = Annotated[float, Quantity("share"), Field(ge=0, le=1)]
Count = Annotated[int, Field(strict=True, ge=0)]
PositiveCount = Annotated[int, Field(strict=True, ge=1)]
Number = Annotated[float, Field(strict=True)]
PositiveNumber = Annotated[float, Field(strict=True, gt=0)]
NonNegativeNumber = Annotated[float, Field(strict=True, ge=0)]
Text = Annotated[str, Field(strict=True)]
Name = Annotated[str, Field(strict=True, min_length=1, max_length=200)]
Flag = Annotated[bool, Field(strict=True)]
