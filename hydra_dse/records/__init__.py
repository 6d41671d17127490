"""Where an evaluator leaves what happened: visits of requests, engine iterations, spans."""

from __future__ import annotations

from hydra_dse.records.nouns import IterationBlock, IterationRecord, RecordSink, Visit
from hydra_dse.records.spans import (
    HandoffSpan,
    IterationSpan,
    OperatorSpan,
    PackageLayout,
    PassedSpan,
    Resource,
    ResourceSpan,
    Span,
    SpanSink,
    TraceWindow,
    TransferSpan,
)

__all__ = [
    "HandoffSpan",
    "IterationBlock",
    "IterationRecord",
    "IterationSpan",
    "OperatorSpan",
    "PackageLayout",
    "PassedSpan",
    "RecordSink",
    "Resource",
    "ResourceSpan",
    "Span",
    "SpanSink",
    "TraceWindow",
    "TransferSpan",
    "Visit",
]
