"""Records of a run and the sink they go to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Visit:
    """Every date in the life of one request, in seconds from the start of the run; NaN where it never came.

    Attributes:
        request: number in order of arrival.
        scheduled_s: first admission; decode_s: first time it joined the decoding sequences (after a hand-off: when it
            got a slot).
        preemptions: how often its memory was taken and computed again.
        cached_tokens: prompt tokens found in the prefix cache at the first admission.
    """

    request: int
    class_index: int
    prompt_tokens: int
    output_tokens: int
    arrival_s: float
    scheduled_s: float
    first_token_s: float
    last_token_s: float
    preemptions: int
    decode_s: float = math.nan
    cached_tokens: int = 0


class IterationRecord(NamedTuple):
    """One engine iteration (a tuple, because runs write hundreds of thousands of them).

    Attributes:
        duration_s: the time it takes alone; beside other iterations it ends later than `start_s + duration_s`.
        decode_context_tokens: sum of the contexts of its decoding sequences.
    """

    pool: str
    engine: int
    start_s: float
    duration_s: float
    prefill_tokens: int
    decode_sequences: int
    decode_context_tokens: int


class IterationBlock(NamedTuple):
    """Consecutive decode steps of one batch, one after the other: as many records, shape (steps,) each.

    Attributes:
        decode_context_tokens: of the first step; context_growth: how much each later one has more.
    """

    pool: str
    engine: int
    start_s: NDArray[np.float64]
    duration_s: NDArray[np.float64]
    decode_sequences: int
    decode_context_tokens: int
    context_growth: int

    def records(self) -> list[IterationRecord]:
        """The steps one by one."""
        return [
            IterationRecord(self.pool, self.engine, start, duration, 0, self.decode_sequences, context)
            for start, duration, context in zip(
                self.start_s.tolist(), self.duration_s.tolist(), self.contexts.tolist(), strict=True
            )
        ]

    @property
    def contexts(self) -> NDArray[np.int64]:
        """Decode context of every step, shape (steps,)."""
        return self.decode_context_tokens + self.context_growth * np.arange(len(self.start_s), dtype=np.int64)


class RecordSink(Protocol):
    """Receives records as they happen; every method may drop what it does not need."""

    def visit(self, record: Visit) -> None:
        """Take a finished visit."""

    def iteration(self, record: IterationRecord) -> None:
        """Take an iteration that starts now."""

    def iteration_block(self, block: IterationBlock) -> None:
        """Take consecutive decode steps; the arrays are not changed afterwards."""
