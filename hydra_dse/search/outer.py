"""The two levels of a search space: outer points that the sampler proposes, inner variants scored with each.

An outer point is a tuple of choice indices, one per outer parameter.  All inner parameters of a point form a
grid whose designs share a placement, so one vectorised call scores them all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from hydra_dse.design.space import Parameter, Point, SearchSpace, Value
from hydra_dse.errors import Fault, InputError

OuterPoint = tuple[int, ...]


class OuterSpace:
    """Outer points of a space, their variants and their neighbours."""

    def __init__(self, space: SearchSpace) -> None:
        for parameter in space.parameters:
            if not parameter.choices:
                raise InputError(Fault(f"space {space.name!r}: parameter {parameter.name!r} has no choices"))
        self.space = space
        self.outer = tuple(parameter for parameter in space.parameters if not parameter.inner)
        self.inner = tuple(parameter for parameter in space.parameters if parameter.inner)
        self._grid = _grid(self.inner, [parameter.choices for parameter in self.inner])
        self._corners = _grid(
            self.inner,
            [tuple(dict.fromkeys((parameter.choices[0], parameter.choices[-1]))) for parameter in self.inner],
        )
        self._index = [_positions(parameter) for parameter in self.outer]
        self._inside: dict[OuterPoint, bool] = {}

    @property
    def inner_count(self) -> int:
        """Variants of an outer point, those outside the space included."""
        return len(self._grid)

    def values(self, point: OuterPoint) -> dict[str, Value]:
        """Parameter values of an outer point."""
        return {parameter.name: parameter.choices[index] for parameter, index in zip(self.outer, point, strict=True)}

    def index(self, values: Point) -> OuterPoint:
        """Outer point of parameter values (inner and derived ones are ignored)."""
        return tuple(
            positions[values[parameter.name]] for parameter, positions in zip(self.outer, self._index, strict=True)
        )

    def variant(self, values: Point) -> int:
        """Index of parameter values in the inner grid."""
        wanted = {parameter.name: values[parameter.name] for parameter in self.inner}
        return self._grid.index(wanted)

    def variants(self, point: OuterPoint, chosen: Sequence[int] | None = None) -> list[tuple[int, Point]]:
        """Index and completed point of the inner variants that lie in the space, all or those chosen, in order."""
        outer = self.values(point)
        indices = range(len(self._grid)) if chosen is None else chosen
        done = ((index, self._completed(outer, self._grid[index])) for index in indices)
        return [(index, variant) for index, variant in done if variant is not None]

    def _completed(self, outer: Point, inner: Point) -> Point | None:
        values = {**outer, **inner}
        return self.space.complete({parameter.name: values[parameter.name] for parameter in self.space.parameters})

    def inside(self, point: OuterPoint) -> bool:
        """Whether a corner of the point's inner grid lies in the space.

        Rules that join inner and outer parameters (a batch limit that needs so many stacks) hold at one end of
        the inner choices if they hold anywhere, so the corners stand for the grid.
        """
        if point not in self._inside:
            outer = self.values(point)
            self._inside[point] = any(self._completed(outer, inner) is not None for inner in self._corners)
        return self._inside[point]

    def repaired(self, point: OuterPoint) -> OuterPoint:
        """The point itself where it lies in the space, else what the space's own repair makes of it."""
        if self.inside(point) or self.space.repair is None:
            return point
        return self.index(self.space.repair({**self._grid[0], **self.values(point)}))

    @property
    def combinations(self) -> int:
        """Combinations of outer choices, those outside the space included."""
        return math.prod(len(parameter.choices) for parameter in self.outer)

    def points(self) -> Iterator[OuterPoint]:
        """Every outer point in the space, in lexicographic order."""
        every = product(*(range(len(parameter.choices)) for parameter in self.outer))
        return (point for point in every if self.inside(point))


def is_ordered(parameter: Parameter) -> bool:
    """Whether the choices are numbers, so that a step up or down has a meaning."""
    return all(isinstance(choice, int | float) and not isinstance(choice, bool) for choice in parameter.choices)


def _grid(parameters: Sequence[Parameter], choices: Sequence[tuple[Value, ...]]) -> list[dict[str, Value]]:
    names = [parameter.name for parameter in parameters]
    return [dict(zip(names, values, strict=True)) for values in product(*choices)]


def _positions(parameter: Parameter) -> dict[Value, int]:
    return {choice: index for index, choice in enumerate(parameter.choices)}


def evenly(count: int, total: int) -> list[int]:
    """`count` indices of `range(total)`, spread evenly and ascending."""
    return (
        np.unique(np.linspace(0, total - 1, count).round().astype(int)).tolist() if count < total else [*range(total)]
    )
