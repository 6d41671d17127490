"""Metrics of rate runs and saturation runs, with confidence intervals over replications and batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hydra_dse.workload.nouns import RequestClass
from simulators.serving.intervals import Interval, batched_interval, interval_of
from simulators.serving.recorder import Visits
from simulators.serving.reuse_metrics import idle_share
from simulators.serving.run import Outcome

FloatArray = NDArray[np.float64]

PERCENTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
MIN_BATCHES = 3
"""Closed batches that a saturation run needs to leave out the first and the last."""
TAIL_SAMPLES = 10
"""A batch that yields a percentile holds at least this many samples beyond it."""


@dataclass
class Summary:
    """Metrics and their intervals under way."""

    metrics: dict[str, float | None] = field(default_factory=dict)
    intervals: dict[str, Interval] = field(default_factory=dict)

    def put(self, name: str, value: float | None, interval: Interval | None = None) -> None:
        """Set a metric; a value that is not finite is None.  No metric is negative, so intervals end at 0."""
        known = value is not None and np.isfinite(value)
        self.metrics[name] = value if known else None
        if known and interval is not None:
            self.intervals[name] = (max(interval[0], 0.0), interval[1])

    def mean_of(self, name: str, values: Sequence[float], weights: Sequence[float] | None = None) -> None:
        """Set a metric to the mean over replications, weighted with what each is a mean over (its time)."""
        mean = float(np.average(values, weights=weights))
        self.put(name, mean, interval_of(values, mean))


def latencies(visits: Visits, first: int) -> dict[str, FloatArray]:
    """TTFT, TTFT from scheduling, TPOT (of more than one token) and end-to-end time in s, in order of arrival.

    Of requests that were served.
    """
    served = ~visits.rejected[first:]
    kept: NDArray[np.bool_] | slice = slice(None) if served.all() else served
    # Views where all were served: of a million requests every copy counts.
    arrival, scheduled = visits.arrival_s[first:][kept], visits.scheduled_s[first:][kept]
    start, end = visits.first_token_s[first:][kept], visits.last_token_s[first:][kept]
    output = visits.output_tokens[first:][kept]
    several = output > 1
    tpot = (end - start)[several]
    tpot /= output[several] - 1
    return {"ttft": start - arrival, "ttft_scheduled": start - scheduled, "tpot": tpot, "e2e": end - arrival}


def add_latencies(summary: Summary, outcomes: Sequence[Outcome]) -> None:
    """Means and percentiles of all latencies."""
    runs = [latencies(outcome.visits, outcome.first) for outcome in outcomes]
    for kind in ("ttft", "ttft_scheduled", "tpot", "e2e"):
        samples = [run[kind] for run in runs]
        pooled = samples[0] if len(samples) == 1 else np.concatenate(samples)
        if not len(pooled):
            for statistic in ("mean", *(name for name, _ in PERCENTILES)):
                summary.put(f"{kind}_{statistic}_s", None)
            continue
        mean = float(pooled.mean())
        summary.put(f"{kind}_mean_s", mean, batched_interval(samples, _mean, centre=mean))
        for name, share in PERCENTILES:
            value = float(np.quantile(pooled, share))
            shortest = int(np.ceil(TAIL_SAMPLES / (1.0 - share)))
            summary.put(f"{kind}_{name}_s", value, batched_interval(samples, _quantile(share), shortest, centre=value))
    _add_gaps(summary, outcomes)


def _mean(values: FloatArray) -> float:
    return float(values.mean())


def _quantile(share: float) -> Callable[[FloatArray], float]:
    return lambda values: float(np.quantile(values, share))


def _add_gaps(summary: Summary, outcomes: Sequence[Outcome]) -> None:
    """Time between successive tokens, pooled over requests."""
    runs = [(outcome.gap_s, outcome.gap_weight) for outcome in outcomes if len(outcome.gap_s)]
    names = ("mean", *(name for name, _ in PERCENTILES))
    if not runs:
        for name in names:
            summary.put(f"tbt_{name}_s", None)
        return
    pooled = runs[0]
    if len(runs) > 1:
        pooled = (np.concatenate([gaps for gaps, _ in runs]), np.concatenate([weights for _, weights in runs]))
    statistics = {"mean": _weighted_mean, **{name: _weighted_quantile(share) for name, share in PERCENTILES}}
    for name, statistic in statistics.items():
        value = statistic(*pooled)
        summary.put(f"tbt_{name}_s", value, interval_of([statistic(*run) for run in runs], value))


def _weighted_mean(values: FloatArray, weights: FloatArray) -> float:
    return float(np.average(values, weights=weights))


def _weighted_quantile(share: float) -> Callable[[FloatArray, FloatArray], float]:
    """The smallest value that at least `share` of the weight does not exceed."""

    def quantile(values: FloatArray, weights: FloatArray) -> float:
        order = np.argsort(values, kind="stable")
        cumulated = np.cumsum(weights[order])
        return float(values[order[int(np.searchsorted(cumulated, share * cumulated[-1]))]])

    return quantile


def add_rates(summary: Summary, outcomes: Sequence[Outcome]) -> None:
    """Offered and served rates, batch and occupancy of the cache, per replication in its window."""
    windows = [outcome for outcome in outcomes if outcome.window_s > 0.0]
    if not windows:
        return
    per_run = [_rates(outcome) for outcome in windows]
    seconds = [outcome.window_s for outcome in windows]
    for name in per_run[0]:
        summary.mean_of(name, [values[name] for values in per_run], seconds)
    summary.mean_of(
        "preemptions_per_request",
        [float(outcome.visits.preemptions[outcome.first :].mean()) for outcome in outcomes],
    )
    _add_rejections(summary, outcomes)
    tpot = summary.metrics.get("tpot_mean_s")
    if tpot:
        bounds = summary.intervals.get("tpot_mean_s")
        inverse = (1.0 / bounds[1], 1.0 / bounds[0]) if bounds and bounds[0] > 0 else None
        summary.put("output_tokens_per_s_per_user", 1.0 / tpot, inverse)


def _add_rejections(summary: Summary, outcomes: Sequence[Outcome]) -> None:
    refused = [outcome.visits.rejected[outcome.first :].astype(np.float64) for outcome in outcomes]
    share = _mean(np.concatenate(refused))
    summary.put("rejected_share", share, batched_interval(refused, _mean, centre=share) if share > 0.0 else None)


def _rates(outcome: Outcome) -> dict[str, float]:
    start, end, seconds = outcome.start, outcome.end, outcome.window_s
    cache = outcome.system.cache
    arrivals = len(outcome.visits) - 1 - outcome.first
    share = 1.0 / (seconds * cache.capacity_bytes)
    return {
        "offered_requests_per_s": arrivals / seconds,
        "throughput_requests_per_s": (end.completed - start.completed) / seconds,
        "throughput_tokens_per_s": (end.tokens - start.tokens) / seconds,
        "batch_mean": (end.decoding_seconds - start.decoding_seconds) / seconds,
        **idle_share(outcome, share),
        "kv_occupancy": (end.block_seconds - start.block_seconds) * cache.block_bytes * share,
        "state_occupancy": (end.state_seconds - start.state_seconds) * cache.state_bytes_per_sequence * share,
    }


def add_service_levels(summary: Summary, outcomes: Sequence[Outcome], classes: Sequence[RequestClass]) -> None:
    """Share of requests that met the SLO of their class, and their rate; nothing where no class has one."""
    if all(kind.slo.ttft_s is None and kind.slo.tpot_s is None for kind in classes):
        return
    kept = [_kept(outcome.visits, classes) for outcome in outcomes]
    samples = [good[outcome.first :].astype(np.float64) for good, outcome in zip(kept, outcomes, strict=True)]
    summary.put("slo_attainment", _mean(np.concatenate(samples)), batched_interval(samples, _mean))
    rates, seconds = [], []
    for good, outcome in zip(kept, outcomes, strict=True):
        if outcome.window_s > 0.0:
            ended = outcome.visits.last_token_s
            inside = (ended > outcome.start.time_s) & (ended <= outcome.end.time_s)
            rates.append(float((good & inside).sum()) / outcome.window_s)
            seconds.append(outcome.window_s)
    if rates:
        summary.mean_of("goodput_requests_per_s", rates, seconds)


def _kept(visits: Visits, classes: Sequence[RequestClass]) -> NDArray[np.bool_]:
    """Whether each request was served and met both bounds of its class (a request of one token has no TPOT)."""
    good = ~visits.rejected
    ttft = visits.first_token_s - visits.arrival_s
    tpot = (visits.last_token_s - visits.first_token_s) / np.maximum(visits.output_tokens - 1, 1)
    for number, kind in enumerate(classes):
        mine = visits.class_index == number
        if kind.slo.ttft_s is not None:
            good &= ~mine | (ttft <= kind.slo.ttft_s)
        if kind.slo.tpot_s is not None:
            good &= ~mine | (tpot <= kind.slo.tpot_s)
    return good


def saturation_in_batches(visits: Visits) -> float:
    """Output tokens per second in a run of closed batches: from the start of the second batch to that of the last."""
    started = visits.scheduled_s
    starts = np.unique(started)
    if len(starts) < MIN_BATCHES:
        return float(visits.output_tokens.sum()) / float(visits.last_token_s.max())
    inside = (started >= starts[1]) & (started < starts[-1])
    return float(visits.output_tokens[inside].sum()) / float(starts[-1] - starts[1])


def saturation_tokens_per_s(visits: Visits, max_batch: int) -> float:
    """Output tokens per second in the steady part of a run in which all requests wait from the start.

    The steady part begins when `max_batch` requests (at least a tenth of all, at most three tenths) have ended, so
    that the batch has mixed, and ends when the queue is empty.  A request's tokens are spread evenly between its first
    and its last.
    """
    ended = np.sort(visits.last_token_s)
    skip = min(max(max_batch, len(visits) // 10), 3 * len(visits) // 10)
    start, end = float(ended[skip]), float(visits.scheduled_s.max())
    if end <= start:
        start, end = 0.0, float(ended[-1])
    return (_tokens_by(visits, end) - _tokens_by(visits, start)) / (end - start)


def _tokens_by(visits: Visits, time_s: float) -> float:
    span = visits.last_token_s - visits.first_token_s
    span = np.where(span > 0.0, span, 1.0)  # one output token: its share does not count
    share = np.clip((time_s - visits.first_token_s) / span, 0.0, 1.0)
    return float(((visits.first_token_s <= time_s) * (1.0 + share * (visits.output_tokens - 1))).sum())


def add_saturation(summary: Summary, runs: Sequence[Visits], max_batch: int, closed: bool = False) -> None:
    """Saturation rates: tokens per second, and requests as tokens over the mean output of the run's requests.

    `closed`: one engine ran closed batches.

    Over replications, work over the time it takes: windows of a record that differ make one long run.
    """
    tokens = [
        saturation_in_batches(visits) if closed else saturation_tokens_per_s(visits, max_batch) for visits in runs
    ]
    requests = [rate / float(visits.output_tokens.mean()) for rate, visits in zip(tokens, runs, strict=True)]
    work = [float(visits.output_tokens.sum()) for visits in runs]
    seconds = [each / rate if rate > 0.0 else np.inf for each, rate in zip(work, tokens, strict=True)]
    summary.mean_of("saturation_tokens_per_s", tokens, seconds if np.isfinite(seconds).all() else None)
    summary.mean_of("saturation_requests_per_s", requests, seconds if np.isfinite(seconds).all() else None)
    offered, saturated = summary.metrics.get("offered_requests_per_s"), summary.metrics["saturation_requests_per_s"]
    if offered is not None and saturated:
        summary.put("load", offered / saturated, _scaled(summary.intervals.get("saturation_requests_per_s"), offered))


def add_models(
    summary: Summary, labels: Sequence[str], runs: Sequence[Sequence[Outcome]], classes: Sequence[RequestClass]
) -> None:
    """The metrics of each model's own requests, as `<metric>@<model>`; runs hold one outcome per model."""
    for number, label in enumerate(labels):
        outcomes = [parts[number] for parts in runs if len(parts[number].visits) > parts[number].first]
        own = Summary()
        if outcomes:
            add_latencies(own, outcomes)
            add_rates(own, outcomes)
            add_service_levels(own, outcomes, classes)
        for name, value in own.metrics.items():
            summary.put(f"{name}@{label}", value, own.intervals.get(name))


def _scaled(interval: Interval | None, offered: float) -> Interval | None:
    if interval is None or interval[0] <= 0.0:
        return None
    return offered / interval[1], offered / interval[0]


def add_derived(
    summary: Summary,
    static_power_w: float,
    values: Sequence[Mapping[str, float]],
    seconds: Sequence[float] | None = None,
) -> None:
    """Utilisation, power and energy from the ledgers of the runs (one mapping of rates per run, over its seconds)."""
    for name in values[0] if values else ():
        if name != "dynamic_power_w":
            summary.mean_of(name, [value[name] for value in values], seconds)
    if values:
        summary.mean_of("power_w", [static_power_w + value["dynamic_power_w"] for value in values], seconds)
    power, tokens = summary.metrics.get("power_w"), summary.metrics.get("throughput_tokens_per_s")
    if power and tokens:
        summary.put("energy_j_per_token", power / tokens)
        summary.put("throughput_tokens_per_s_per_w", tokens / power)
    ttft = summary.metrics.get("ttft_mean_s")
    if tokens and ttft:
        summary.put("throughput_per_ttft_tokens_per_s2", tokens / ttft)
