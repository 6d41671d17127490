"""Recorded requests of a workload file: a trace read, its sessions and clock taken as the file says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hydra_dse.config.document import Document, KeyPath
from hydra_dse.errors import InputError
from hydra_dse.workload.nouns import FloatArray, Requests
from hydra_dse.workload.replay import Replay

if TYPE_CHECKING:
    from hydra_dse.config.workload_schema import Recorded
    from hydra_dse.workload.traces.record import Trace

Result = TypeVar("Result")
TRACE: KeyPath = ("arrivals", "trace")
LATEST_START_S = 1e6
"""Of a record that keeps its own clock: dates (7e8 s and more since 2000) are no clock of a run."""


def located(document: Document, path: KeyPath, make: Callable[[], Result]) -> Result:
    """Run `make`; a fault without a place is one of the values at `path` of the document."""
    try:
        return make()
    except InputError as error:
        placed = [fault if fault.file else document.fault(path, fault.message) for fault in error.faults]
        raise InputError(placed) from None


def recorded(document: Document, section: Recorded, file: Path) -> tuple[Replay, Requests]:
    """The arrivals of a trace, and its requests.

    Raises:
        InputError: a fault of the trace, or a clock or sessions that it does not have.
    """
    from hydra_dse.config.lengths_schema import columns_of
    from hydra_dse.workload.chats import in_sessions, with_full_blocks
    from hydra_dse.workload.traces.read import read_trace

    trace = read_trace(file, kind=section.format, columns=columns_of(section.columns), limit=section.limit)
    requests = with_full_blocks(trace.requests)
    if section.sessions:
        per_token, whole = section.answer_time_per_token, requests
        requests = located(document, ("arrivals", "sessions"), lambda: in_sessions(whole, per_token))
    else:
        requests = replace(requests, parent=None)
    times_s = _from_own_zero(document, trace) if section.keep_start else requests.arrival_s
    replay = located(document, TRACE, lambda: Replay(times_s, keep_start=section.keep_start))
    return (replay.with_rate(section.rate) if section.rate else replay), requests


def _from_own_zero(document: Document, trace: Trace) -> FloatArray:
    """Arrival times of a record from its own zero."""
    path: KeyPath = ("arrivals", "keep_start")
    if trace.recorded_s is None:
        raise InputError(document.fault(path, f"a trace of format {trace.format} has no clock of its own"))
    if trace.recorded_s[0] > LATEST_START_S:
        late = f"the first request arrives {trace.recorded_s[0]:.4g} s after the zero of the record's clock"
        raise InputError(document.fault(path, f"{late} (expected at most {LATEST_START_S:g} s); leave it out"))
    return trace.recorded_s
