"""Children of the front, for spaces too large to list: parameters of two parents mixed, then a few of them changed.

In a small space the unseen neighbours of the front are soon all scored; in a large one a step of one choice hardly
moves, and what makes two designs of the front good must come together.  So a child takes each parameter from one of two
designs of the front (uniform crossover, Syswerda 1989), and each of its parameters then changes with a probability that
makes one change likely: a number by a step or a few, a word to any other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hydra_dse.rng import derive
from hydra_dse.search.outer import OuterPoint, OuterSpace, is_ordered

Parent = tuple[OuterPoint, int]
"""An outer point and the variant in its inner grid."""

_CROSSED = 0.7
_CHANGES = 1.5
"""Mean number of parameters of a child that change."""
_LONGER_STEP = 0.3
"""Probability that a step goes on for one more choice."""


class Offspring:
    """Draws children of designs of a space; the same for the same seed and key."""

    def __init__(self, space: OuterSpace, seed: int) -> None:
        parameters = (*space.outer, *space.inner)
        self._space, self._seed = space, seed
        self._outer = len(space.outer)
        self._sizes = np.array([len(parameter.choices) for parameter in parameters], dtype=np.int64)
        self._ordered = [is_ordered(parameter) for parameter in parameters]
        self._inner_shape = tuple(self._sizes[self._outer :].tolist()) or (1,)

    def child(self, parents: Sequence[Parent], key: object, boldness: int = 0) -> Parent:
        """Return a child of two of the parents, which stand in order of preference.

        Args:
            parents: designs of the front, those preferred first.
            key: of the draw, unique in a search.
            boldness: how many more parameters change, for when children are known already.
        """
        rng = derive(self._seed, "offspring", key, boldness)
        first = self._genes(parents[int(rng.integers(len(parents), size=2).min())])
        second = self._genes(parents[int(rng.integers(len(parents)))])
        mixed = (rng.random(len(first)) < 0.5) & (rng.random() < _CROSSED)
        genes = np.where(mixed, second, first)
        changed = rng.random(len(genes)) < (_CHANGES + boldness) / len(genes)
        if not changed.any() and (np.array_equal(genes, first) or np.array_equal(genes, second)):
            changed[int(rng.integers(len(genes)))] = True
        for place in np.flatnonzero(changed).tolist():
            genes[place] = self._changed(int(genes[place]), place, rng)
        return self._parent(genes)

    def near(self, variant: int, count: int, key: object) -> list[int]:
        """Return up to `count` variants of the inner grid near one of them, itself first."""
        rng = derive(self._seed, "near", key)
        here = np.array(np.unravel_index(variant, self._inner_shape))
        apart = np.abs(np.indices(self._inner_shape).reshape(len(here), -1).T - here).sum(axis=1)
        return [int(one) for one in np.lexsort((rng.random(len(apart)), apart))[:count]]

    def _genes(self, parent: Parent) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        inner = np.unravel_index(parent[1], self._inner_shape)[: len(self._sizes) - self._outer]
        return np.array([*parent[0], *(int(index) for index in inner)], dtype=np.int64)

    def _parent(self, genes: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Parent:
        inner = tuple(genes[self._outer :].tolist()) or (0,)
        outer = self._space.repaired(tuple(genes[: self._outer].tolist()))
        return outer, int(np.ravel_multi_index(inner, self._inner_shape))

    def _changed(self, index: int, place: int, rng: np.random.Generator) -> int:
        size = int(self._sizes[place])
        if size == 1:
            return index
        if not self._ordered[place]:
            return (index + int(rng.integers(1, size))) % size
        step = int(rng.geometric(1 - _LONGER_STEP)) * (1 if rng.random() < 0.5 else -1)
        moved = min(max(index + step, 0), size - 1)
        return moved if moved != index else index - (1 if step > 0 else -1)
