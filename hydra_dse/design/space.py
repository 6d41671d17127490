"""A search space: named parameters with finite choices, and how a choice becomes a design."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from hydra_dse.design.nouns import Design

Value = str | int | float | bool
Point = Mapping[str, Value]


@dataclass(frozen=True)
class Parameter:
    """One dimension: its name, its choices in order, and whether it is cheap to vary.

    `inner` parameters (link bandwidth, batch limit, token budget, …) do not change the placement: a search
    evaluates all their values for one outer point in a single vectorised batch.  A `runtime` parameter sets the
    policy alone, so that an owner of the hardware may choose it anew for every model and load.
    """

    name: str
    choices: tuple[Value, ...]
    inner: bool = False
    runtime: bool = False


@dataclass(frozen=True)
class SearchSpace:
    """Finite discrete space.

    Attributes:
        parameters: in a fixed order; numeric choices ascend.
        derived: names that `complete` adds (e.g. the die count that takes the rest).
        complete: returns the point with derived values, or None where the point is not in the space
            (e.g. the counts do not sum to the tiles).
        build: turns a completed point into a design without placement.
        repair: optional; moves a point that is not in the space to one that is (deterministic).
    """

    name: str
    parameters: tuple[Parameter, ...]
    complete: Callable[[Point], Point | None]
    build: Callable[[Point], Design]
    derived: tuple[str, ...] = ()
    repair: Callable[[Point], Point] | None = None
    source: str = ""

    def points(self) -> Iterator[Point]:
        """Every completed point of the space, in lexicographic order of the choices."""
        yield from self._extend({}, 0)

    def _extend(self, chosen: dict[str, Value], depth: int) -> Iterator[Point]:
        if depth == len(self.parameters):
            done = self.complete(chosen)
            if done is not None:
                yield done
            return
        for choice in self.parameters[depth].choices:
            chosen[self.parameters[depth].name] = choice
            yield from self._extend(dict(chosen), depth + 1)
