"""Reading traces of any origin in bounded memory: Chrome/Kineto JSON, Nsight Systems SQLite, TPU JSON."""

from __future__ import annotations

from hydra_dse.bundle.reading.events import TimedEvents, timed_events
from hydra_dse.bundle.reading.folder import TraceFolder, card_of, open_folder
from hydra_dse.bundle.reading.kineto import read_rank
from hydra_dse.bundle.reading.nouns import RankTrace
from hydra_dse.bundle.reading.nsys import read_nsys
from hydra_dse.bundle.reading.stream import EventStream
from hydra_dse.bundle.reading.tpu import TpuTrace, read_tpu

__all__ = [
    "EventStream",
    "RankTrace",
    "TimedEvents",
    "TpuTrace",
    "TraceFolder",
    "card_of",
    "open_folder",
    "read_nsys",
    "read_rank",
    "read_tpu",
    "timed_events",
]
