"""Serving: latencies of requests with queueing, SLO attainment, throughput, energy and cost.

Requests are the instants `arrival`, `first_token` and `last_token` of category `request` (see `conventions`); names and
definitions are those of the simulator's metrics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hydra_dse.bundle import conventions as words
from hydra_dse.bundle.metrics.measured import Measured, share
from hydra_dse.bundle.metrics.registry import Unavailable
from hydra_dse.bundle.reading.nouns import FloatArray, RankTrace

STATISTICS = {"mean": None, "p50": 0.5, "p90": 0.9, "p99": 0.99}
LATENCIES = ("ttft", "tpot", "e2e")
NO_REQUESTS = "no instants of requests (category 'request'): only bundles of a serving simulation have them"


@dataclass(frozen=True)
class Requests:
    """Completed requests by number: times in seconds, NaN where not said."""

    arrival: FloatArray
    first: FloatArray
    last: FloatArray
    tokens: FloatArray

    def latency_s(self, name: str) -> FloatArray:
        """`ttft`, `tpot` (requests of one token have none) or `e2e`, without those that are not known."""
        values = {
            "ttft": self.first - self.arrival,
            "tpot": (self.last - self.first) / np.where(self.tokens > 1, self.tokens - 1, np.nan),
            "e2e": self.last - self.arrival,
        }[name]
        return np.asarray(values[~np.isnan(values)])

    @property
    def span_s(self) -> float:
        """First arrival to last token."""
        return float(np.max(self.last) - np.min(self.arrival))


def requests_of(bundle: Measured) -> Requests:
    """The completed requests of all ranks; of an instant told twice the first counts.

    Raises:
        Unavailable: the trace tells of none that completed.
    """
    found: dict[int, dict[str, tuple[float, float]]] = {}
    for rank in bundle.ranks("json"):
        for what, number, at, tokens in rank.trace.requests:
            found.setdefault(number, {}).setdefault(what, (at / 1e6, tokens))
    rows = []
    for number in sorted(found):
        told = found[number]
        if words.ARRIVAL in told and words.LAST_TOKEN in told:
            last, tokens = told[words.LAST_TOKEN]
            first = told.get(words.FIRST_TOKEN, (math.nan, math.nan))[0]
            rows.append((told[words.ARRIVAL][0], first, last, tokens))
    if not rows:
        raise Unavailable(f"none of {len(found)} requests lies wholly in the trace" if found else NO_REQUESTS)
    return Requests(*np.array(rows, dtype=float).T)


def cut_requests(traces: Sequence[RankTrace]) -> int:
    """Requests of which the traces tell something, but not both arrival and last token."""
    told: dict[int, set[str]] = {}
    for trace in traces:
        for what, number, _, _ in trace.requests:
            told.setdefault(number, set()).add(what)
    return sum(not {words.ARRIVAL, words.LAST_TOKEN} <= known for known in told.values())


def latency_s(bundle: Measured, name: str, statistic: str) -> float:
    """Mean or percentile of a latency over completed requests."""
    values = requests_of(bundle).latency_s(name)
    if not len(values):
        raise Unavailable("requests have no first token or fewer than two output tokens")
    level = STATISTICS[statistic]
    return float(np.mean(values)) if level is None else float(np.quantile(values, level))


def _met(bundle: Measured) -> tuple[Requests, float]:
    """Requests, and the number of those that met the card's SLO."""
    requests = requests_of(bundle)
    bounds = {name: bundle.number_or(math.inf, words.BLOCK, "slo", f"{name}_s") for name in ("ttft", "tpot")}
    if all(bound == math.inf for bound in bounds.values()):
        raise Unavailable("the card's x_chiplet.slo has neither ttft_s nor tpot_s")
    first = requests.first - requests.arrival
    pace = (requests.last - requests.first) / np.where(requests.tokens > 1, requests.tokens - 1, np.nan)
    late = ~(first <= bounds["ttft"]) | (pace > bounds["tpot"])
    return requests, float(np.sum(~late))


def slo_attainment(bundle: Measured) -> float:
    """Share of completed requests whose TTFT and TPOT met the card's SLO."""
    requests, met = _met(bundle)
    return met / len(requests.arrival)


def goodput(bundle: Measured) -> float:
    """Requests that met the SLO per second from the first arrival to the last token."""
    requests, met = _met(bundle)
    return share(met, requests.span_s, "requests take no time")


def tokens_per_s(bundle: Measured) -> float:
    """Output tokens per second: those that the trace counts, else of completed requests since the first arrival."""
    counted = _counted(bundle)
    if counted is not None:
        first, last = span_us(bundle)
        return counted / ((last - first) / 1e6)
    requests = requests_of(bundle)
    return share(_tokens(requests), requests.span_s, "requests take no time")


def _counted(bundle: Measured) -> float | None:
    """Output tokens in the span of the trace by its counters, None where it has none."""
    found = None
    for rank in bundle.ranks("json"):
        if rank.trace.tokens is not None:
            times, values = rank.trace.tokens
            until = max(1, int(np.searchsorted(times, span_us(bundle)[1], side="right")))
            found = (found or 0.0) + float(values[until - 1] - values[0])
    return found


def requests_per_s(bundle: Measured) -> float:
    """Completed requests per second from the first arrival to the last token."""
    requests = requests_of(bundle)
    return share(float(len(requests.arrival)), requests.span_s, "requests take no time")


def _tokens(requests: Requests) -> float:
    if np.isnan(requests.tokens).any():
        raise Unavailable("a last_token does not say its output_tokens")
    return float(np.sum(requests.tokens))


def energy_j(bundle: Measured) -> float:
    """Power counters integrated over the span of the trace; without counters the card's mean power times the span."""
    first, last = span_us(bundle)
    total, told = 0.0, False
    for rank in bundle.ranks("json"):
        if rank.trace.power is not None:
            told = True
            times, watts = rank.trace.power
            edges = np.clip(np.append(times, last), first, last)
            total += float(np.sum(watts * np.diff(edges))) / 1e6
    if told:
        return total
    power = bundle.number_or(0.0, words.BLOCK, "power_w")
    if power <= 0:
        raise Unavailable("no counters named 'power' and no x_chiplet.power_w in the card")
    return power * (last - first) / 1e6


def span_us(bundle: Measured) -> tuple[float, float]:
    """First and last moment of kernels, copies, steps and requests."""
    edges: list[float] = []
    for rank in bundle.ranks("json"):
        start, end = rank.span_us
        edges += [start, end] if end > start else []
        for steps in rank.trace.steps.values():
            edges += [float(steps.start.min()), float((steps.start + steps.duration).max())]
        edges += [at for _, _, at, _ in rank.trace.requests]
    if not edges or max(edges) <= min(edges):
        raise Unavailable("the trace has no span")
    return min(edges), max(edges)


def power_w(bundle: Measured) -> float:
    """Energy over the span of the trace."""
    first, last = span_us(bundle)
    return energy_j(bundle) / ((last - first) / 1e6)


def energy_per_token(bundle: Measured) -> float:
    """Energy over output tokens: those that the trace counts, else those of completed requests."""
    counted = _counted(bundle)
    tokens = _tokens(requests_of(bundle)) if counted is None else counted
    return share(energy_j(bundle), tokens, "no output tokens")


def cost_per_million_tokens(bundle: Measured) -> float:
    """x_chiplet.usd_per_hour over the output tokens of an hour, times a million."""
    hourly = bundle.number_or(0.0, words.BLOCK, "usd_per_hour")
    if hourly <= 0:
        raise Unavailable("no x_chiplet.usd_per_hour in the card")
    return share(1e6 * hourly / 3600.0, tokens_per_s(bundle), "no output tokens")


def bench_record(bundle: Measured, key: str) -> float:
    """A number of the one record of SGLang's `bench_results.jsonl`."""
    import json

    file = bundle.folder.side_file("bench_results.jsonl")
    if file is None:
        raise Unavailable("no bench_results.jsonl in the folder")
    lines = [line for line in file.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    try:
        record = json.loads(lines[0]) if lines else None
    except (ValueError, RecursionError):
        record = None
    value = record.get(key) if isinstance(record, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e300:
        raise Unavailable(f"bench_results.jsonl has no number {key!r}")
    return float(value)


def bench_throughput(bundle: Measured) -> float:
    """Output tokens over the duration of that record."""
    tokens = bench_record(bundle, "total_output_tokens")
    return share(tokens, bench_record(bundle, "duration"), "bench_results.jsonl has no positive duration")
