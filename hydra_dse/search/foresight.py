"""Which of many possible designs to score: those that promise the front the most volume.

A cheap model of the scores so far is drawn a few times at all candidates jointly (Thompson sampling).  Designs are then
taken one by one, each the one whose draw adds most to the hypervolume of the front and of those taken before it;
volumes are shares of random points below the reference.  A design that a draw holds for infeasible adds nothing there.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hydra_dse.rng import derive
from hydra_dse.search.gaussian import Encoding, Gaussian
from hydra_dse.search.pareto import BoolArray, FloatArray, IntArray

Kind = TypeVar("Kind", bound=np.generic)
_LEAST_KNOWN = 16
"""Feasible designs from which on the model is asked."""
_MOST_KNOWN = 500
"""Designs that a process is given: a fit grows with their cube."""
_DRAWS = 4
"""Of what the model holds possible, for each child."""
_POINTS = 1024
"""At which the hypervolume that a draw adds is measured."""


class Foresight:
    """Remembers the latest scores and chooses what to score next.

    Args:
        encoding: of the space's parameters.
        objectives: their number.
    """

    def __init__(self, encoding: Encoding, objectives: int, seed: int) -> None:
        self._encoding, self._seed = encoding, seed
        width = len(encoding.owner)
        self._scored: tuple[FloatArray, BoolArray] = (np.empty((0, width)), np.empty(0, dtype=bool))
        self._feasible: tuple[FloatArray, FloatArray] = (np.empty((0, width)), np.empty((0, objectives)))

    def add(self, genes: IntArray, losses: FloatArray, violation: FloatArray) -> None:
        """Take scored designs: choices (n, parameters), losses (n, objectives) and summed violation (n,)."""
        columns, good = self._encoding.columns(genes), (violation <= 0) & np.isfinite(losses).all(axis=1)
        self._scored = _joined(self._scored[0], columns), _joined(self._scored[1], good)
        self._feasible = _joined(self._feasible[0], columns[good]), _joined(self._feasible[1], losses[good])

    @property
    def knows(self) -> bool:
        """Whether enough designs were scored to learn from."""
        return len(self._feasible[0]) >= _LEAST_KNOWN

    def chosen(self, genes: IntArray, count: int, front: FloatArray, reference: FloatArray, key: object) -> list[int]:
        """Rows of up to `count` of the candidates, the most promising first.

        Args:
            genes: choices (candidates, parameters).
            count: of candidates wanted.
            front: losses (designs, objectives) of the front.
            reference: (objectives,) worst losses that count.
            key: of the draws, unique in a search.
        """
        rng = derive(self._seed, "foresight", key)
        columns = self._encoding.columns(genes)
        losses = self._drawn_losses(columns, rng)
        feasible = self._drawn_feasibility(columns, rng)
        best = np.minimum(front.min(axis=0), np.where(feasible[:, :, None], losses, np.inf).min(axis=(0, 1)))
        points = best + rng.random((_POINTS, front.shape[1])) * (reference - best)
        points = points[~_below(front, points).any(axis=0)]
        gains = np.stack([_below(drawn, points) for drawn in losses]) & feasible[:, :, None]
        return _greedy(gains, count)

    def _drawn_losses(self, columns: FloatArray, rng: np.random.Generator) -> FloatArray:
        known, losses = self._feasible
        processes = [Gaussian(self._encoding, known, values) for values in losses.T]
        return np.stack([process.draws(columns, _DRAWS, rng) for process in processes], axis=-1)

    def _drawn_feasibility(self, columns: FloatArray, rng: np.random.Generator) -> BoolArray:
        known, good = self._scored
        if good.all() or not good.any():
            return np.full((_DRAWS, len(columns)), True)
        return Gaussian(self._encoding, known, np.where(good, 1.0, -1.0)).draws(columns, _DRAWS, rng) > 0.0


def _joined(known: NDArray[Kind], more: NDArray[Kind]) -> NDArray[Kind]:
    """The last rows of both: as many as a process is given."""
    return np.concatenate([known, more])[-_MOST_KNOWN:]


def _below(losses: FloatArray, points: FloatArray) -> BoolArray:
    """Whether each of the losses (n, objectives) is at least as good as each point: (n, points)."""
    below = np.full((len(losses), len(points)), True)
    for mine, theirs in zip(losses.T, points.T, strict=True):
        below &= mine[:, None] <= theirs
    return below


def _greedy(gains: BoolArray, count: int) -> list[int]:
    """Candidates in the order of what each adds to those before it, over draws (draws, candidates, points) in turn."""
    taken: list[int] = []
    left = gains.copy()
    for place in range(min(count, gains.shape[1])):
        volume = left[place % len(left)].sum(axis=1)
        volume[taken] = -1
        best = int(np.argmax(volume))
        if volume[best] <= 0:
            volume = left.sum(axis=(0, 2))
            volume[taken] = -1
            best = int(np.argmax(volume))
        taken.append(best)
        left &= ~gains[:, best][:, None, :]
    return taken
