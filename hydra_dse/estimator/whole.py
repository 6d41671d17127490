"""Iterations of whole prompts: which prompts fill one, where prompts are not cut.

`prefill_first` admits prompts in order while they fit the budget; one that does not fit opens the next iteration, and
one longer than the budget runs alone (next-fit packing).  The mean iteration of a backlog follows from walking once
along a fixed sequence that has the distribution of the prompts: from any start the next one is a look-up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.rng import derive

FloatArray = NDArray[np.float64]

WALK = 1024
"""Prompts of the backlog that is packed."""
CLASSES = 4
"""Of iterations, by their tokens."""


@dataclass(frozen=True)
class Packed:
    """Iterations of a backlog in classes of equally many, by their tokens; each of shape (n, classes).

    Attributes:
        tokens, prompts, pairs: mean per iteration: prompt tokens, prompts, causal pairs.
    """

    tokens: FloatArray
    prompts: FloatArray
    pairs: FloatArray


def packed_whole(budget: FloatArray, lengths: LengthMoments) -> Packed:
    """Pack whole prompts into budgets of shape (n,)."""
    sizes = _sequence(lengths)
    values, which = np.unique(budget, return_inverse=True)
    found = [_walk(sizes, float(value)) for value in values]
    columns = (np.array([each[part] for each in found])[which] for part in range(3))
    return Packed(*columns)


def _sequence(lengths: LengthMoments) -> FloatArray:
    """Prompt sizes in a fixed random order, with the mean of the distribution."""
    bins = lengths.prompt_bins
    ends = np.cumsum(bins.weight)
    starts = ends - bins.weight
    at = np.column_stack((starts + bins.weight / 4.0, ends - bins.weight / 4.0)).ravel()
    halves = np.column_stack((bins.size - bins.half_gap, bins.size + bins.half_gap)).ravel()
    sizes = np.interp((np.arange(WALK) + 0.5) / WALK, at, halves)
    order = derive(0, "whole prompts").permutation(WALK)
    return np.asarray(sizes[order] * (lengths.prompt / sizes.mean()))


def _walk(sizes: FloatArray, budget: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean tokens, prompts and pairs of the iterations in each class, by next fit around the sequence once."""
    twice = np.concatenate((sizes, sizes))
    before = np.concatenate(([0.0], np.cumsum(twice)))
    ends = np.searchsorted(before, before[:WALK] + budget * (1.0 + 1e-12), side="right") - 1
    following = np.maximum(ends, np.arange(WALK) + 1).tolist()
    starts = []
    at = 0
    while at < WALK:
        starts.append(at)
        at = following[at]
    first = np.array(starts)
    last = np.array([following[start] for start in starts])
    tokens = before[last] - before[first]
    squares = np.concatenate(([0.0], np.cumsum(twice**2)))
    pairs = (squares[last] - squares[first]) / 2.0
    order = np.argsort(tokens, kind="stable")
    groups = np.array_split(order, CLASSES) if len(order) >= CLASSES else [order] * CLASSES
    rows = [(tokens[group].mean(), float((last - first)[group].mean()), pairs[group].mean()) for group in groups]
    return tuple(np.array(column) for column in zip(*rows, strict=True))  # type: ignore[return-value]
