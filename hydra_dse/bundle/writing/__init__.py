"""Writing bundles: traces of a run, its card, its launch script and its metrics."""

from __future__ import annotations

from hydra_dse.bundle.writing.bundle import LEAST, METRICS, SCRIPT, BundleWriter, Recipe, parse_window
from hydra_dse.bundle.writing.card import card_of
from hydra_dse.bundle.writing.check import check_traces, events_of
from hydra_dse.bundle.writing.files import TIMELINE_FILE, digest_of, rank_file, sha256
from hydra_dse.bundle.writing.records_only import RecordsOnly
from hydra_dse.bundle.writing.sink import MOST_BYTES, TraceSink

__all__ = [
    "LEAST",
    "METRICS",
    "MOST_BYTES",
    "SCRIPT",
    "TIMELINE_FILE",
    "BundleWriter",
    "Recipe",
    "RecordsOnly",
    "TraceSink",
    "card_of",
    "check_traces",
    "digest_of",
    "events_of",
    "parse_window",
    "rank_file",
    "sha256",
]
