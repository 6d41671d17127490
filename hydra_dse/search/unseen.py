"""The nearest outer point that was not scored yet: repair of proposals outside the space, and of repeats.

Distance counts steps: one per choice between two numbers, one between any two words.  Spaces small enough to
list are searched in one vectorised pass, larger ones breadth-first from the proposal; both find a point at the
least distance, and draw among equally near ones from the seed and the trial, so that no direction is preferred.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np

from hydra_dse.errors import Fault, InputError
from hydra_dse.rng import derive
from hydra_dse.search.outer import OuterPoint, OuterSpace, is_ordered

_MOST_LISTED = 30_000
"""Outer points up to which a space is listed."""
_MOST_STEPS = 20_000
"""Points that one search for an unseen neighbour visits."""


class Unseen:
    """Outer points of a space that are still to be scored.

    Raises:
        InputError: the space is empty.
    """

    def __init__(self, space: OuterSpace, seed: int, most_listed: int = _MOST_LISTED) -> None:
        self._space = space
        self._seed = seed
        self._seen: set[OuterPoint] = set()
        self._ordered = tuple(is_ordered(parameter) for parameter in space.outer)
        self._sizes = tuple(len(parameter.choices) for parameter in space.outer)
        self._listed = list(space.points()) if space.combinations <= most_listed else None
        self._array = np.array(self._listed, dtype=np.int64) if self._listed else None
        self._free = np.ones(len(self._listed or ()), dtype=bool)
        self._row = {point: row for row, point in enumerate(self._listed or ())}
        if self.nearest(tuple(0 for _ in space.outer), "first") is None:
            raise InputError(_empty(space))

    @property
    def listed(self) -> bool:
        """Whether the space is small enough to list."""
        return self._listed is not None

    def mark(self, point: OuterPoint) -> None:
        """Count the point as seen."""
        self._seen.add(point)
        if point in self._row:
            self._free[self._row[point]] = False

    def nearest(self, point: OuterPoint, key: object) -> OuterPoint | None:
        """The unseen point nearest to `point` (itself where it is one); None where none is found."""
        if point not in self._seen and self._space.inside(point):
            return point
        if self._listed is not None:
            return self._nearest_listed(point, key)
        return self._nearest_by_steps(point, key)

    def _nearest_listed(self, point: OuterPoint, key: object) -> OuterPoint | None:
        rows = np.flatnonzero(self._free)
        if len(rows) == 0 or self._array is None or self._listed is None:
            return None
        apart = np.abs(self._array[rows] - np.array(point, dtype=np.int64))
        distance = np.where(self._ordered, apart, apart != 0).sum(axis=1)
        nearest = rows[distance == distance.min()]
        return self._listed[int(derive(self._seed, "neighbour", key).choice(nearest))]

    def _nearest_by_steps(self, point: OuterPoint, key: object) -> OuterPoint | None:
        rng = derive(self._seed, "neighbour", key)
        queue, met = deque([point]), {point}
        while queue and len(met) < _MOST_STEPS:
            found = []
            for _ in range(len(queue)):  # one ring of equal distance
                for step in self._steps(queue.popleft()):
                    if step not in met:
                        met.add(step)
                        queue.append(step)
                        if step not in self._seen and self._space.inside(step):
                            found.append(step)
            if found:
                return found[int(rng.integers(len(found)))]
        return None

    def _steps(self, point: OuterPoint) -> Iterator[OuterPoint]:
        for position, (ordered, size) in enumerate(zip(self._ordered, self._sizes, strict=True)):
            index = point[position]
            near = (index - 1, index + 1) if ordered else range(size)
            for other in near:
                if 0 <= other < size and other != index:
                    yield (*point[:position], other, *point[position + 1 :])


def _empty(space: OuterSpace) -> Fault:
    names = ", ".join(parameter.name for parameter in space.space.parameters)
    return Fault(f"space {space.space.name!r} is empty: no combination of {names} satisfies its rules")
