"""Which inner variants of an outer point to score: those that made the front, and two others in turn.

The whole inner grid of every outer point would spend most of a budget on variants that never make the front
(narrow links, small batches).  So the first generation scores whole grids; later ones score the *active*
variants, which stand in the archive, and two of the others in rotation, so that none is written off for good.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hydra_dse.design.space import Point
from hydra_dse.search.outer import OuterPoint

_EXPLORED = 2
"""Variants beyond those of the front that every generation tries."""


@dataclass(frozen=True)
class Candidate:
    """An outer point to score: indices in its inner grid, and the completed points in the same order."""

    outer: OuterPoint
    variants: tuple[int, ...]
    points: tuple[Point, ...]


class Variants:
    """Keeps which variants were scored, by running number of the design and by outer point."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._turn = 0
        self._candidates: list[Candidate] = []
        self._first_rows: list[int] = []
        self._rows = 0
        self._scored: dict[OuterPoint, set[int]] = {}

    def add(self, candidate: Candidate) -> None:
        """Take a scored candidate, in order."""
        self._candidates.append(candidate)
        self._first_rows.append(self._rows)
        self._rows += len(candidate.points)
        self._scored.setdefault(candidate.outer, set()).update(candidate.variants)

    def owner(self, row: int) -> tuple[OuterPoint, int]:
        """Outer point and variant of the design that was scored as number `row`."""
        place = bisect_right(self._first_rows, row) - 1
        candidate = self._candidates[place]
        return candidate.outer, candidate.variants[row - self._first_rows[place]]

    def active(self, front_rows: Iterable[int]) -> list[int]:
        """Variants of the designs of the front; all while there is no front."""
        found = sorted({self.owner(row)[1] for row in front_rows})
        return found or list(range(self._count))

    def chosen_count(self, active: list[int]) -> int:
        """How many variants `chosen` returns."""
        return min(len(active) + _EXPLORED, self._count)

    def chosen(self, active: list[int]) -> list[int]:
        """The active variants and the next of the others."""
        others = [variant for variant in range(self._count) if variant not in active]
        explored = [others[(self._turn + step) % len(others)] for step in range(min(_EXPLORED, len(others)))]
        self._turn += len(explored)
        return sorted([*active, *explored])

    def missing(self, outer: OuterPoint, wanted: Iterable[int]) -> list[int]:
        """Those of the wanted variants that were not scored yet."""
        scored = self._scored.get(outer, set())
        return [variant for variant in wanted if variant not in scored]

    def unfinished(self) -> Iterator[OuterPoint]:
        """Outer points with variants that were not scored, in the order they were first scored."""
        return (outer for outer, scored in self._scored.items() if len(scored) < self._count)
