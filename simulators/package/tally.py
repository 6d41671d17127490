"""Counting iterations so that every byte, joule and busy second can be told afterwards.

All of them are sums over iterations of functions of the rows, or linear in the features of a composition.  So an
iteration only adds to a count by rows and to a dozen sums; the sums are whole numbers, hence the same in any order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulators.iteration import Stretch, Work

FloatArray = NDArray[np.float64]
FEW_STEPS = 64
"""So few numbers are added faster without arrays."""


@dataclass(frozen=True, eq=False)
class Counts:
    """What was executed, as values.

    Attributes:
        iterations: number of iterations by (rows, emitted rows).
        features: sums over iterations of prefill tokens, prefill sequences and decode sequences, shape (3,).
        attended: sums of prefill pairs, prefill context and decode context by attention window, shape (windows, 3).
        parts_s: seconds of operators that are not in the row tables, by execution group.
    """

    iterations: dict[tuple[int, int], int]
    features: FloatArray
    attended: FloatArray
    parts_s: FloatArray

    def since(self, earlier: Counts) -> Counts:
        """What was executed after `earlier`."""
        fresh = {key: count - earlier.iterations.get(key, 0) for key, count in self.iterations.items()}
        return Counts(
            {key: count for key, count in fresh.items() if count},
            self.features - earlier.features,
            self.attended - earlier.attended,
            self.parts_s - earlier.parts_s,
        )

    @property
    def total(self) -> int:
        """Number of iterations."""
        return sum(self.iterations.values())


class Tally:
    """Running counts of one pool."""

    def __init__(self, windows: int, groups: int) -> None:
        self.iterations: dict[tuple[int, int], int] = {}
        self.prefill_tokens = 0
        self.prefill_sequences = 0
        self.decode_sequences = 0
        self.pairs = [0.0] * (1 + windows)
        self.read = [0] * (1 + windows)
        self.decode_context = [0] * (1 + windows)
        self.parts_s = [0.0] * groups

    def add(self, work: Work) -> None:
        """Count one iteration."""
        batch = work.batch
        key = (batch.rows, batch.emitted_tokens)
        self.iterations[key] = self.iterations.get(key, 0) + 1
        self.decode_sequences += batch.decode_sequences
        self.decode_context[0] += batch.attended.decode_tokens
        for number, part in enumerate(batch.windowed, 1):
            self.decode_context[number] += part.decode_tokens
        if batch.prefill_tokens:
            self.prefill_tokens += batch.prefill_tokens
            self.prefill_sequences += batch.prefill_sequences
            for number, part in enumerate((batch.attended, *batch.windowed)):
                self.pairs[number] += part.prefill_pairs
                self.read[number] += part.prefill_tokens
        for group, seconds in enumerate(work.parts_s):
            self.parts_s[group] += seconds

    def add_stretch(self, stretch: Stretch) -> None:
        """Count consecutive decode steps, with the same sums as one by one."""
        batch, steps = stretch.first, len(stretch.duration_s)
        key = (batch.rows, batch.emitted_tokens)
        self.iterations[key] = self.iterations.get(key, 0) + steps
        self.decode_sequences += steps * batch.decode_sequences
        for number, part in enumerate((batch.attended, *batch.windowed)):
            self.decode_context[number] += steps * part.decode_tokens + part.decode_growth * steps * (steps - 1) // 2
        for group, seconds in enumerate(stretch.parts_s):
            self.parts_s[group] = _added(self.parts_s[group], seconds)

    def counts(self) -> Counts:
        """Return the counts so far."""
        return Counts(
            dict(self.iterations),
            np.array((self.prefill_tokens, self.prefill_sequences, self.decode_sequences), dtype=np.float64),
            np.array((self.pairs, self.read, self.decode_context), dtype=np.float64).T,
            np.array(self.parts_s),
        )


def _added(total: float, values: FloatArray | list[float]) -> float:
    """Add values one by one, in order."""
    if len(values) < FEW_STEPS:
        for value in values if isinstance(values, list) else values.tolist():
            total += value
        return total
    return float(np.cumsum(np.concatenate(([total], values)))[-1])
