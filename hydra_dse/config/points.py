"""Counts that share the tiles of a package: which points of a space exist, and one near a point that does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hydra_dse.design.space import Point, Value


@dataclass(frozen=True)
class Counts:
    """Counts by parameter, and the group that takes what they leave of the tiles.

    Attributes:
        choices: parameter → its choices (whole numbers, ascending).
        rest: name of the derived count; None = the counts must fill the tiles exactly.
        rest_minimum, rest_parity: of the derived count (`"odd"`, `"even"` or `"any"`).
    """

    tiles: int
    choices: Mapping[str, tuple[Value, ...]]
    rest: str | None = None
    rest_minimum: int = 1
    rest_parity: str = "any"

    @property
    def derived(self) -> tuple[str, ...]:
        """Names that `complete` adds."""
        return (self.rest,) if self.rest is not None else ()

    def complete(self, point: Point) -> Point | None:
        """Return the point with the rest, None where the counts do not fit the tiles."""
        rest = self.tiles - sum([_count(point[name]) for name in self.choices])
        if not self._fits(rest):
            return None
        return {**point, self.rest: rest} if self.rest is not None else point

    def repair(self, point: Point) -> Point:
        """Return the point itself, or one that fits: the largest count goes down a choice until the rest fits.

        Of equal counts the first one goes down.  Where lowering alone does not meet the parity of the rest, a single
        step of one count, up or down, is tried in order.
        """
        fixed = dict(point)
        while self.complete(fixed) is None:
            lower = self._lowered(fixed)
            if lower is None or self.tiles - sum(_count(fixed[name]) for name in self.choices) >= self.rest_minimum:
                return self._stepped(fixed)
            fixed = lower
        return fixed

    def reachable(self) -> bool:
        """Whether the space holds at least one point."""
        sums = {0}
        for values in self.choices.values():
            sums = {total + _count(value) for total in sums for value in values if total + _count(value) <= self.tiles}
        return any(self._fits(self.tiles - total) for total in sums)

    def why_empty(self) -> str:
        """Words for a space without points."""
        low = sum(_count(values[0]) for values in self.choices.values())
        names = ", ".join(self.choices)
        if self.rest is None:
            return f"the space is empty: no choice of {names} sums to {self.tiles} tiles"
        parity = "" if self.rest_parity == "any" else f"{self.rest_parity} and "
        return (
            f"the space is empty: {names} take at least {low} of {self.tiles} tiles and never leave a count of "
            f"{self.rest} that is {parity}at least {self.rest_minimum}"
        )

    def _fits(self, rest: int) -> bool:
        if self.rest is None:
            return rest == 0
        if rest < self.rest_minimum:
            return False
        return self.rest_parity == "any" or (rest % 2 == 1) == (self.rest_parity == "odd")

    def _lowered(self, point: Mapping[str, Value]) -> dict[str, Value] | None:
        able = [name for name, values in self.choices.items() if point[name] != values[0]]
        if not able:
            return None
        largest = max(able, key=lambda name: _count(point[name]))
        return self._moved(point, largest, -1)

    def _stepped(self, point: dict[str, Value]) -> dict[str, Value]:
        for step in (-1, 1):
            for name, values in self.choices.items():
                at = values.index(point[name]) + step
                if 0 <= at < len(values):
                    moved = self._moved(point, name, step)
                    if self.complete(moved) is not None:
                        return moved
        return point

    def _moved(self, point: Mapping[str, Value], name: str, step: int) -> dict[str, Value]:
        values = self.choices[name]
        return {**point, name: values[values.index(point[name]) + step]}


def _count(value: Value) -> int:
    return value if type(value) is int else int(value)
