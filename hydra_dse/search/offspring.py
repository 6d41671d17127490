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
from hydra_dse.search.pareto import IntArray

Parent = tuple[OuterPoint, int]
"""An outer point and the variant in its inner grid."""

_CROSSED = 0.7
"""Share of the children with two parents."""
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
        self._ordered = np.array([is_ordered(parameter) for parameter in parameters])
        self._inner_shape = tuple(self._sizes[self._outer :].tolist()) or (1,)

    def child(self, parents: Sequence[Parent], key: object, boldness: int = 0) -> Parent:
        """Return a child of two of the parents, which stand in order of preference.

        Args:
            parents: designs of the front, those preferred first.
            key: of the draw, unique in a search.
            boldness: how many more parameters change, for when children are known already.
        """
        return self.children(parents, 1, key, boldness)[0]

    def children(self, parents: Sequence[Parent], count: int, key: object, boldness: int = 0) -> list[Parent]:
        """Return `count` children as `child` makes them, drawn together; some may be alike."""
        rng = derive(self._seed, "offspring", key, boldness)
        genes = self.genes(parents)
        first = genes[rng.integers(len(parents), size=(count, 2)).min(axis=1)]
        second = genes[rng.integers(len(parents), size=count)]
        mixed = (rng.random(first.shape) < 0.5) & (rng.random((count, 1)) < _CROSSED)
        born = np.where(mixed, second, first)
        changed = rng.random(born.shape) < (_CHANGES + boldness) / born.shape[1]
        copies = ~changed.any(axis=1) & ((born == first).all(axis=1) | (born == second).all(axis=1))
        changed[copies, rng.integers(born.shape[1], size=count)[copies]] = True
        return [self._parent(row) for row in np.where(changed, self._changed(born, rng), born)]

    def near(self, variant: int, count: int, key: object) -> list[int]:
        """Return up to `count` variants of the inner grid near one of them, itself first."""
        rng = derive(self._seed, "near", key)
        here = np.array(np.unravel_index(variant, self._inner_shape))
        apart = np.abs(np.indices(self._inner_shape).reshape(len(here), -1).T - here).sum(axis=1)
        return [int(one) for one in np.lexsort((rng.random(len(apart)), apart))[:count]]

    def genes(self, parents: Sequence[Parent]) -> IntArray:
        """Index of the choice of every parameter (parents, parameters), outer ones first."""
        outer = np.array([point for point, _ in parents], dtype=np.int64)
        inner = np.unravel_index([variant for _, variant in parents], self._inner_shape)
        return np.column_stack([outer, *inner[: len(self._sizes) - self._outer]])

    def _parent(self, genes: IntArray) -> Parent:
        inner = tuple(genes[self._outer :].tolist()) or (0,)
        outer = self._space.repaired(tuple(genes[: self._outer].tolist()))
        return outer, int(np.ravel_multi_index(inner, self._inner_shape))

    def _changed(self, genes: IntArray, rng: np.random.Generator) -> IntArray:
        """Other choices for all genes (children, parameters): numbers by a step or a few, words by any other."""
        last = self._sizes - 1
        words = (genes + 1 + np.floor(rng.random(genes.shape) * last).astype(np.int64)) % self._sizes
        down = rng.random(genes.shape) < 0.5
        steps = rng.geometric(1 - _LONGER_STEP, size=genes.shape) * np.where(down, -1, 1)
        moved = np.clip(genes + steps, 0, last)
        back = np.clip(genes + np.where(down, 1, -1), 0, last)  # from the last choice the other way
        return np.where(self._ordered, np.where(moved != genes, moved, back), words)
