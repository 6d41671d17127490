"""Readers of recorded request traces; the format is recognised from the header or the first line."""

from __future__ import annotations

from hydra_dse.workload.traces.read import FORMATS, read_lengths, read_trace, sniff
from hydra_dse.workload.traces.record import MAX_ROWS, Columns, Trace

__all__ = ["FORMATS", "MAX_ROWS", "Columns", "Trace", "read_lengths", "read_trace", "sniff"]
