"""Where an evaluator leaves what happened: visits of requests, engine iterations, spans."""

from __future__ import annotations

from hydra_dse.records.nouns import IterationBlock, IterationRecord, RecordSink, Visit

__all__ = ["IterationBlock", "IterationRecord", "RecordSink", "Visit"]
