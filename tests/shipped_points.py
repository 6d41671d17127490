"""Points of shipped spaces for tests: all of them where that is quick, else a seeded sample."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from hydra_dse.design.space import Point, SearchSpace

_MOST_CHOICES = 1_000_000


def points_of(space: SearchSpace, sample: int = 300) -> Iterator[Point]:
    """Every point of a space, or `sample` repaired random ones of a space too large to walk through."""
    if math.prod(len(parameter.choices) for parameter in space.parameters) <= _MOST_CHOICES:
        yield from space.points()
        return
    repair = space.repair or (lambda point: point)
    rng = np.random.default_rng(0)
    drawn = (
        {parameter.name: parameter.choices[rng.integers(len(parameter.choices))] for parameter in space.parameters}
        for _ in itertools.count()
    )
    completed = (space.complete(repair(point)) for point in drawn)
    yield from itertools.islice((point for point in completed if point is not None), sample)
