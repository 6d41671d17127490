"""Where an evaluator leaves what happened: visits of requests, engine iterations, spans."""

from __future__ import annotations

from hydra_dse.records.nouns import IterationRecord, RecordSink, Visit

__all__ = ["IterationRecord", "RecordSink", "Visit"]
