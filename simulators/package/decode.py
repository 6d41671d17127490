"""Decode steps of a batch of a given size: duration and busy seconds as functions of the contexts alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulators.iteration import Composition

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DecodeEntry:
    """A decode batch of a given size: all that does not depend on contexts.

    Attributes:
        seconds: duration without the operators in `hulls`.
        parts_s: the share of it that is not in the row tables, by execution group.
        hulls: (execution group, window, lines `base + slope·context`) of operators that depend on contexts.
    """

    seconds: float
    parts_s: tuple[float, ...]
    hulls: tuple[tuple[int, int, tuple[tuple[float, float], ...]], ...]

    def longest(self, contexts: Sequence[int]) -> list[float]:
        """Seconds of each operator in `hulls` at contexts without a window and inside each."""
        return [
            hull[0][0] + hull[0][1] * contexts[window]
            if len(hull) == 1
            else max([base + slope * contexts[window] for base, slope in hull])
            for _, window, hull in self.hulls
        ]


def contexts_of(batch: Composition) -> list[int]:
    """Tokens that decoding sequences attend to, without a window and inside each of them."""
    return [batch.attended.decode_tokens, *[part.decode_tokens for part in batch.windowed]]


@dataclass(frozen=True, eq=False)
class DecodeUsage:
    """Busy seconds of every die group, site and link kept, in a decode step, as functions of contexts.

    Attributes:
        base: what contexts do not change, shape (resources,).
        per_context: per token attended to, inside each attention window, shape (1 + windows, resources).
        per_second: per second of each operator that depends on contexts, shape (operators, resources).
    """

    base: FloatArray
    per_context: FloatArray
    per_second: FloatArray
    _columns: dict[int, tuple[float, tuple[float, ...], tuple[float, ...]]] = field(default_factory=dict, repr=False)

    def busy_s(self, contexts: Sequence[int], seconds: Sequence[float]) -> FloatArray:
        """Busy seconds at these contexts, of operators that take `seconds`; summed in this order, term by term."""
        busy = self.base
        for context, slope in zip(contexts, self.per_context, strict=True):
            busy = busy + context * slope
        for longest, slope in zip(seconds, self.per_second, strict=True):
            busy = busy + longest * slope
        return busy

    def column(self, resource: int) -> tuple[float, tuple[float, ...], tuple[float, ...]]:
        """The lines of one resource: `base`, `per_context` and `per_second` of it."""
        found = self._columns.get(resource)
        if found is None:
            found = self._columns[resource] = (
                float(self.base[resource]),
                tuple(self.per_context[:, resource].tolist()),
                tuple(self.per_second[:, resource].tolist()) if len(self.per_second) else (),
            )
        return found


@dataclass(frozen=True, eq=False)
class DecodeLines:
    """Duration and busy seconds of the decode steps of a batch size."""

    entry: DecodeEntry
    usage: DecodeUsage
    _most: dict[tuple[int, ...], FloatArray] = field(default_factory=dict, repr=False)

    def most(self, first: Sequence[int], last: Sequence[int]) -> FloatArray:
        """An upper bound of the busy shares while contexts grow from `first` to `last`, known for ranges of contexts.

        Busy seconds and durations grow with contexts: those at the upper ends of the ranges over the one at the lower.
        """
        low, high = [_rounded(context, 0) for context in first], [_rounded(context, 1) for context in last]
        key = (*low, *high)
        found = self._most.get(key)
        if found is None:
            shortest = self.entry.seconds + sum(self.entry.longest(low))
            found = self._most[key] = self.usage.busy_s(high, self.entry.longest(high)) / shortest
        return found


def _rounded(context: int, up: int) -> int:
    """Round to five leading bits, downwards, or one step above that."""
    shift = max(0, context.bit_length() - 5)
    return ((context >> shift) + up) << shift
