"""Records of a run and the sink they go to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol


@dataclass(frozen=True, slots=True)
class Visit:
    """Every date in the life of one request, in seconds from the start of the run; NaN where it never came."""

    request: int
    class_index: int
    prompt_tokens: int
    output_tokens: int
    arrival_s: float
    scheduled_s: float
    first_token_s: float
    last_token_s: float
    preemptions: int


class IterationRecord(NamedTuple):
    """One engine iteration (a tuple, because runs write hundreds of thousands of them)."""

    pool: str
    engine: int
    start_s: float
    duration_s: float
    prefill_tokens: int
    decode_sequences: int
    decode_context_tokens: int


class RecordSink(Protocol):
    """Receives records as they happen; both methods may drop what they do not need."""

    def visit(self, record: Visit) -> None:
        """Take a finished visit."""

    def iteration(self, record: IterationRecord) -> None:
        """Take a finished iteration."""
