"""Pydantic models of a search space: parameters and the constraint on their counts, around a design template."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr, model_validator

from hydra_dse.config.faults import at_key
from hydra_dse.config.fields import Count, Flag, Name, PositiveCount, Section, Text

MAX_CHOICES = 10_000
Choice = StrictBool | StrictInt | StrictFloat | StrictStr


class RangeSection(Section):
    """Whole numbers from `from` to `to`, both included where the step meets them."""

    from_: int = Field(alias="from", strict=True)
    to: int = Field(strict=True)
    step: PositiveCount = 1

    @model_validator(mode="after")
    def _not_empty(self) -> RangeSection:
        if self.to < self.from_:
            raise at_key("to", f"the range {self.from_}..{self.to} is empty")
        if (self.to - self.from_) // self.step >= MAX_CHOICES:
            raise at_key("to", f"the range holds more than {MAX_CHOICES} values")
        return self


class ParameterSection(Section):
    """One dimension: a list or a range of choices, with the unit they are written in."""

    choices: Annotated[list[Choice], Field(min_length=1, max_length=MAX_CHOICES)] | None = None
    range: RangeSection | None = None
    unit: Name | None = None
    inner: Flag = False

    @model_validator(mode="after")
    def _choices_or_range(self) -> ParameterSection:
        if (self.choices is None) == (self.range is None):
            raise at_key("choices", "a parameter needs either `choices` or `range`")
        for earlier, later in pairwise(self.values()):
            if isinstance(earlier, str) != isinstance(later, str) or isinstance(earlier, bool) != isinstance(
                later, bool
            ):
                raise at_key("choices", f"choices must be of one kind, got {earlier!r} and {later!r}")
            if not isinstance(earlier, str) and not isinstance(later, str) and later <= earlier:
                raise at_key("choices", f"numeric choices must ascend, got {earlier!r} before {later!r}")
        if len(set(self.values())) != len(self.values()):
            raise at_key("choices", "choices must differ from each other")
        return self

    def values(self) -> tuple[bool | int | float | str, ...]:
        """The choices in order."""
        if self.range is not None:
            return tuple(range(self.range.from_, self.range.to + 1, self.range.step))
        return tuple(self.choices or ())


class CountsSection(Section):
    """Counts that share the tiles: those of `parameters`, and `rest`, which takes what they leave."""

    tiles: PositiveCount
    parameters: Annotated[list[Name], Field(min_length=1)]
    rest: Name | None = None
    rest_minimum: Count = 1
    rest_parity: Literal["odd", "even", "any"] = "any"


class SpaceSection(Section):
    """A search space file; the template's sections are checked with values in place."""

    name: Name | None = None
    source: Text = ""
    parameters: Annotated[dict[Name, ParameterSection], Field(min_length=1)]
    counts: CountsSection | None = None
    repair: Literal["nearest", "none"] = "nearest"
    package: Any = None
    packages: Any = None
    fabric: Any = None
    dies: Any
    memories: Any = None
    mapping: Any = None
    policy: Any = None
    placement: Any = None
    precision: Any = None
