"""What a run did: the work of the iterations in the window, and all requests."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from hydra_dse.records import IterationSpan, PassedSpan, Visit


@dataclass
class WindowWork:
    """What the iterations of the window did, for the card.

    Attributes:
        whole_from_s, whole_until_s: between them every iteration of every engine has left its spans.
    """

    iterations: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    decode_sequences: int = 0
    decode_iterations: int = 0
    flops: float = 0.0
    start_s: float = float("inf")
    end_s: float = 0.0
    energy_j: float = 0.0
    whole_from_s: float = 0.0
    whole_until_s: float = float("inf")

    def add(self, span: IterationSpan) -> None:
        """Count an iteration."""
        self.iterations += 1
        self.prompt_tokens += span.prefill_tokens
        self.output_tokens += span.emitted_tokens
        self.decode_sequences += span.decode_sequences
        self.decode_iterations += span.decode_sequences > 0
        self.start_s, self.end_s = min(self.start_s, span.start_s), max(self.end_s, span.end_s)
        self.energy_j += span.energy_j

    def passes(self, span: PassedSpan) -> None:
        """Take iterations that left no spans."""
        if span.early:
            self.whole_from_s = max(self.whole_from_s, span.end_s)
        else:
            self.whole_until_s = min(self.whole_until_s, span.start_s)

    @property
    def whole_s(self) -> list[float] | None:
        """When every iteration of every engine left its spans, None where that is never so."""
        start, end = max(self.start_s, self.whole_from_s), min(self.end_s, self.whole_until_s)
        return [start, end] if end > start else None


class RequestedWork:
    """What was asked of a run: counts and a digest of all requests."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int, int, float]] = []

    def add(self, record: Visit) -> None:
        """Take a request."""
        lengths = (record.prompt_tokens, record.output_tokens)
        self._rows.append((record.request, record.class_index, *lengths, float(record.arrival_s)))

    def as_block(self) -> dict[str, object]:
        """The block `unit_of_work` of a card."""
        text = "".join(f"{row[1]} {row[2]} {row[3]} {row[4]!r}\n" for row in sorted(self._rows))
        return {
            "kind": "request",
            "requests": len(self._rows),
            "prompt_tokens": sum(row[2] for row in self._rows),
            "output_tokens": sum(row[3] for row in self._rows),
            "workload_sha256": hashlib.sha256(text.encode()).hexdigest(),
        }

    def as_table(self) -> str:
        """The requests in order of arrival, every digit of their times kept."""
        rows = sorted(self._rows)
        lines = (f"{row[4]!r},{row[2]},{row[3]}\n" for row in rows)
        return "arrival_s,prompt_tokens,output_tokens\n" + "".join(lines)

    @property
    def mean_lengths(self) -> tuple[float, float]:
        """Mean prompt and output tokens."""
        count = max(1, len(self._rows))
        return sum(row[2] for row in self._rows) / count, sum(row[3] for row in self._rows) / count
