"""Requests in a trace: slices of their phases, instants of their dates, flows to the iterations that served them."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from hydra_dse.bundle import conventions as words
from hydra_dse.bundle.writing import names
from hydra_dse.bundle.writing.files import Event, microseconds, nanoseconds
from hydra_dse.records import Visit

FLOW = "request"


def request_events(
    visits: Sequence[Visit],
    window_s: tuple[float, float],
    ends: Mapping[float, tuple[int, int]],
    lane_of: Callable[[int], int],
) -> Iterator[tuple[Event, int, int]]:
    """Yield events with their start and length in ns.

    Args:
        visits: of requests, in any order.
        window_s: what is outside is cut off; the dates themselves stand in the arguments.
        ends: track and start (ns) of the iterations by their end in s.
        lane_of: makes the track of a lane and returns its number.
    """
    seen = [visit for visit in visits if _overlaps(visit, window_s)]
    seen.sort(key=lambda visit: (visit.arrival_s, visit.request))
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    lanes = 0
    for visit in seen:
        while busy and busy[0][0] <= visit.arrival_s:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, lanes = lanes, lanes + 1
        end_s = visit.last_token_s if not math.isnan(visit.last_token_s) else visit.arrival_s
        heapq.heappush(busy, (end_s, lane))
        yield from _one(visit, window_s, ends, lane_of(lane))


def _overlaps(visit: Visit, window_s: tuple[float, float]) -> bool:
    last = visit.last_token_s if not math.isnan(visit.last_token_s) else visit.arrival_s
    return visit.arrival_s <= window_s[1] and last >= window_s[0]


def _one(
    visit: Visit, window_s: tuple[float, float], ends: Mapping[float, tuple[int, int]], track: int
) -> Iterator[tuple[Event, int, int]]:
    first, last = nanoseconds(window_s[0]), nanoseconds(window_s[1])
    where = {"pid": names.REQUESTS, "tid": track}
    args: dict[str, object] = {
        "request": visit.request, "class": visit.class_index, "prompt_tokens": visit.prompt_tokens,
        "output_tokens": visit.output_tokens, "arrival_s": visit.arrival_s, "preemptions": visit.preemptions,
    }  # fmt: skip
    dates = {
        "scheduled_s": visit.scheduled_s, "first_token_s": visit.first_token_s, "last_token_s": visit.last_token_s
    }  # fmt: skip
    args |= {name: value for name, value in dates.items() if not math.isnan(value)}
    phases = [
        ("queued", visit.arrival_s, visit.scheduled_s),
        ("prefill", visit.scheduled_s, visit.first_token_s),
        ("decode", visit.first_token_s, visit.last_token_s),
    ]
    for name, start_s, end_s in phases:
        if math.isnan(end_s):
            continue
        start, end = max(nanoseconds(start_s), first), min(nanoseconds(end_s), last)
        if end > start:
            times = {"ts": microseconds(start), "dur": microseconds(end - start)}
            event = {"ph": "X", "name": f"{name} {visit.request}", "cat": "phase", **where, **times, "args": args}
            yield event, start, end - start
    instants = [
        (words.ARRIVAL, visit.arrival_s),
        (words.FIRST_TOKEN, visit.first_token_s),
        (words.LAST_TOKEN, visit.last_token_s),
    ]
    for name, time_s in instants:
        if not math.isnan(time_s) and first <= nanoseconds(time_s) <= last:
            time = nanoseconds(time_s)
            about = {"ph": "i", "s": "t", "cat": words.REQUEST, "name": name, **where}
            yield {**about, "ts": microseconds(time), "args": args}, time, 0
    yield from _flow(visit, ends, track, first)


def _flow(
    visit: Visit, ends: Mapping[float, tuple[int, int]], track: int, first: int
) -> Iterator[tuple[Event, int, int]]:
    """An arrow from the prompt of a request to the iteration that ended with its first token."""
    served = ends.get(visit.first_token_s)
    if served is None:
        return
    engine, started = served
    start = max(nanoseconds(visit.scheduled_s), first)
    about = {"cat": FLOW, "name": "prompt", "id": visit.request}
    source = {"ph": "s", **about, "pid": names.REQUESTS, "tid": track, "ts": microseconds(start)}
    yield source, start, 0
    target = {"ph": "f", "bp": "e", **about, "pid": names.ENGINES, "tid": engine, "ts": microseconds(started)}
    yield target, started, 0
