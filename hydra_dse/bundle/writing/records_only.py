"""Records of a run without its spans."""

from __future__ import annotations

from hydra_dse.bundle.writing.sink import TraceSink
from hydra_dse.records import IterationBlock, IterationRecord, Visit


class RecordsOnly:
    """Hands the records of a run on to a sink, and wants no spans (which some runs cannot give)."""

    def __init__(self, sink: TraceSink) -> None:
        self._sink = sink

    def visit(self, record: Visit) -> None:
        """Hand on."""
        self._sink.visit(record)

    def iteration(self, record: IterationRecord) -> None:
        """Hand on."""
        self._sink.iteration(record)

    def iteration_block(self, block: IterationBlock) -> None:
        """Hand on."""
        self._sink.iteration_block(block)
