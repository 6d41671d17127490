"""The Pareto archive: the best designs seen, kept incrementally, independent of the order they came in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hydra_dse.search.hypervolume import hypervolume, reference_beyond
from hydra_dse.search.objectives import Objectives
from hydra_dse.search.pareto import FloatArray, IntArray, nondominated


class Archive:
    """Non-dominated feasible designs, by id.

    Of designs with equal objective values the smallest id stays, so that the content depends only on which
    designs were added, not on when.  Until a feasible design is there, the least violating one is remembered.
    """

    def __init__(self, objectives: Objectives) -> None:
        self.objectives = objectives
        self.losses: FloatArray = np.empty((0, len(objectives.metrics)))
        self.rows: IntArray = np.empty(0, dtype=np.int64)
        self.identities: tuple[str, ...] = ()
        self.scored = 0
        self.feasible = 0
        self.closest: tuple[float, str] | None = None
        self._reference: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.identities)

    def add(self, identities: Sequence[str], losses: FloatArray, violation: FloatArray) -> None:
        """Take scored designs: ids, losses (designs, objectives), summed violation (designs,; 0 = feasible).

        `rows` keeps the running number of each kept design in the order of scoring.
        """
        rows = np.arange(self.scored, self.scored + len(identities))
        self.scored += len(identities)
        good = np.flatnonzero(violation <= 0)
        self.feasible += len(good)
        self._remember_closest(identities, violation)
        if len(good) == 0:
            return
        self._fix_reference(losses[good])
        names = (*self.identities, *(identities[index] for index in good.tolist()))
        self._keep_best(names, np.concatenate([self.losses, losses[good]]), np.concatenate([self.rows, rows[good]]))

    @property
    def reference(self) -> FloatArray | None:
        """Where hypervolumes end, on the objectives' scale; None while nothing is feasible."""
        return self._reference

    def hypervolume(self) -> float | None:
        """Hypervolume on the objectives' scale below a reference that was fixed when the first batch came.

        The reference is the worst value of that batch in each objective plus a tenth of its spread, so that
        numbers of one study are comparable with each other.  None while nothing is feasible.
        """
        if self._reference is None:
            return None
        return hypervolume(self.objectives.scaled(self.losses), self._reference)

    def best(self) -> dict[str, float]:
        """Best value of each objective so far, in the metric's own direction."""
        if len(self) == 0:
            return {}
        signs = np.where(self.objectives.maximised, -1.0, 1.0)
        return dict(zip(self.objectives.names, (self.losses.min(axis=0) * signs).tolist(), strict=True))

    def _keep_best(self, names: Sequence[str], losses: FloatArray, rows: IntArray) -> None:
        front = np.flatnonzero(nondominated(losses))
        by_id = sorted(front.tolist(), key=lambda index: (tuple(losses[index]), names[index]))
        kept = [index for last, index in zip([None, *by_id], by_id, strict=False) if not _equal(losses, last, index)]
        self.losses, self.rows = losses[kept], rows[kept]
        self.identities = tuple(names[index] for index in kept)

    def _fix_reference(self, losses: FloatArray) -> None:
        if self._reference is None:
            scaled = self.objectives.scaled(losses)
            worst = scaled.max(axis=0)
            self._reference = reference_beyond(worst, worst - scaled.min(axis=0))

    def _remember_closest(self, identities: Sequence[str], violation: FloatArray) -> None:
        if self.feasible or len(identities) == 0:
            return
        least = min(zip(violation.tolist(), identities, strict=True))
        self.closest = least if self.closest is None else min(self.closest, least)


def _equal(losses: FloatArray, last: int | None, index: int) -> bool:
    return last is not None and bool(np.array_equal(losses[last], losses[index]))
