"""Decode steps of a batch of a given size: duration and busy seconds as functions of the contexts alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
        return [max([base + slope * contexts[window] for base, slope in hull]) for _, window, hull in self.hulls]


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

    def busy_s(self, contexts: Sequence[int], seconds: Sequence[float]) -> FloatArray:
        """Busy seconds at these contexts, of operators that take `seconds`; summed in this order, term by term."""
        busy = self.base
        for context, slope in zip(contexts, self.per_context, strict=True):
            busy = busy + context * slope
        for longest, slope in zip(seconds, self.per_second, strict=True):
            busy = busy + longest * slope
        return busy


@dataclass(frozen=True, eq=False)
class DecodeLines:
    """Duration and busy seconds of the decode steps of a batch size."""

    entry: DecodeEntry
    usage: DecodeUsage
