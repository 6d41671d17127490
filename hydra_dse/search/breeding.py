"""Candidates of a generation in a space too large to list: packages bred from the front, few variants of each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from hydra_dse.rng import derive
from hydra_dse.search.offspring import Offspring, Parent
from hydra_dse.search.outer import OuterPoint, OuterSpace
from hydra_dse.search.pareto import IntArray
from hydra_dse.search.variants import Candidate, Variants

_DESIGNS_PER_VARIANT = 1000
"""Budget that earns a package one more variant."""
_MOST_VARIANTS = 8
"""Of a package in one generation."""
_ATTEMPTS = 20
"""To find a child that is unseen."""
_POOL = 400
"""Children among which foresight chooses."""
_OF_THE_SAMPLER = 4
"""One outer point in so many is what the sampler proposes."""


def variants_each(trials: int, inner: int) -> int:
    """Inner variants of each outer point in a space too large to list.

    One more variant of a placed package costs a twentieth of another package, but teaches less: a small budget of
    designs goes to packages, a large one, which is a matter of time, to variants as well.
    """
    return min(inner, max(1, min(trials // _DESIGNS_PER_VARIANT, _MOST_VARIANTS)))


class Breeder:
    """Makes one generation's candidates; designs that were scored or stand in the generation are not made again."""

    def __init__(self, space: OuterSpace, variants: Variants, seed: int, trials: int) -> None:
        self.each = variants_each(trials, space.inner_count)
        self._space, self._variants, self._seed = space, variants, seed
        self._offspring = Offspring(space, seed)
        self._taken: set[Parent] = set()
        self._parents: Sequence[Parent] = ()
        self._preferred: deque[Parent] = deque()
        self._started = 0

    def start(self, parents: Sequence[Parent], foresight: Callable[[IntArray], list[int]] | None) -> None:
        """Begin a generation.

        Args:
            parents: designs of the front, those preferred first; none before the first generation is scored.
            foresight: orders children by their promise; None while nothing can be told of them.
        """
        self._taken.clear()
        self._parents = parents
        self._preferred.clear()
        if foresight is not None and parents and (pool := self._pool()):
            self._preferred.extend(pool[row] for row in foresight(self._offspring.genes(pool)))

    def genes(self, candidate: Candidate) -> IntArray:
        """Choices (designs, parameters) of a candidate's designs."""
        return self._offspring.genes([(candidate.outer, variant) for variant in candidate.variants])

    def candidate(self, proposed: OuterPoint, place: int, key: str, budget: int) -> Candidate | None:
        """An outer point with unknown variants: a child of the parents, or what the sampler proposed.

        Args:
            proposed: the sampler's outer point.
            place: of the candidate in its generation.
            key: of the draws, unique in a search.
            budget: designs that may still be scored.

        Returns:
            None where every attempt led to known designs or out of the space.
        """
        bred = self._parents if place % _OF_THE_SAMPLER else ()
        for attempt in range(_ATTEMPTS):
            if bred and self._preferred:
                outer, variant = self._preferred.popleft()
            elif bred:
                outer, variant = self._offspring.child(bred, key, attempt)
            else:
                outer = self._space.repaired(proposed)
                variant = int(derive(self._seed, "variant", key, attempt).integers(self._space.inner_count))
            if not self._space.inside(outer):
                continue
            near = self._offspring.near(variant, min(self.each, budget), key)
            fresh = [one for one in self._variants.missing(outer, near) if (outer, one) not in self._taken]
            points = self._space.variants(outer, fresh)
            if points:
                self._taken.update((outer, index) for index, _ in points)
                return Candidate(outer, tuple(index for index, _ in points), tuple(done for _, done in points))
        return None

    def _pool(self) -> list[Parent]:
        """Distinct children inside the space whose design is not known."""
        self._started += 1
        children = self._offspring.children(self._parents, _POOL, f"pool/{self._started}")
        return [
            (outer, variant)
            for outer, variant in dict.fromkeys(children)
            if self._space.inside(outer) and self._variants.missing(outer, [variant])
        ]
