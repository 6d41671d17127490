"""From a solved state to metrics: rates, latencies, occupancy, utilisation, energy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.solution import Latency, Solution
from hydra_dse.profile.nouns import ServiceProfile
from hydra_dse.results.nouns import Violation
from hydra_dse.workload.nouns import Slo

FloatArray = NDArray[np.float64]

STATISTICS = ("p50", "p90", "p99")
SHARES = (0.5, 0.9, 0.99)


def metrics_of(
    profile: ServiceProfile, solution: Solution, rate: FloatArray, lengths: LengthMoments, percentiles: bool
) -> dict[str, FloatArray]:
    """All metrics of one pool policy, each of shape (n,); latencies of overloaded designs are NaN."""
    saturation = solution.saturation_per_s
    load = rate / saturation
    stable = load < 1.0
    completed = np.minimum(rate, saturation)
    rejected = np.zeros_like(rate)
    if solution.rejected is not None:
        limited = limits_waiting(profile)
        stable = stable | limited
        rejected = np.where(limited, solution.rejected, 0.0)
        completed = np.where(limited, rate * (1.0 - rejected), completed)
    metrics = {
        "offered_requests_per_s": rate.copy(),
        "load": load,
        "saturation_requests_per_s": saturation,
        "saturation_tokens_per_s": saturation * lengths.output,
        "throughput_requests_per_s": completed,
        "throughput_tokens_per_s": completed * lengths.output,
        "batch_mean": solution.batch_mean,
        "rejected_share": rejected,
        "preemptions_per_request": solution.preemptions,
    }
    metrics |= _latencies(solution, stable, percentiles)
    if lengths.decoding_share <= 0.0:  # one output token each: there is no time between tokens
        gaps = [name for name in metrics if name.startswith(("tpot_", "tbt_"))]
        metrics |= {name: np.full_like(rate, np.nan) for name in gaps}
    metrics |= _memory(profile, solution, lengths)
    metrics |= _utilisation(profile, solution, lengths)
    metrics |= _energy(profile, solution, completed * lengths.output, lengths)
    metrics |= ratios(metrics)
    metrics["area_mm2"], metrics["interposer_mm2"] = profile.area_mm2, profile.interposer_mm2
    return metrics


def limits_waiting(profile: ServiceProfile) -> NDArray[np.bool_]:
    """Which designs refuse requests instead of letting queues grow, shape (n,)."""
    if profile.max_waiting is None:
        return np.zeros(profile.size, dtype=bool)
    return np.isfinite(profile.max_waiting)


def _latencies(solution: Solution, stable: NDArray[np.bool_], percentiles: bool) -> dict[str, FloatArray]:
    found = {"ttft_scheduled_mean_s": np.where(stable, solution.scheduled_mean_s, np.nan)}
    kinds = {"ttft": solution.ttft, "tpot": solution.tpot, "tbt": solution.tbt, "e2e": solution.e2e}
    for kind, latency in kinds.items():
        found[f"{kind}_mean_s"] = np.where(stable, latency.mean_s, np.nan)
        if percentiles and latency.spread is not None:
            quantiles = np.where(stable[:, None], latency.spread.quantiles(SHARES), np.nan)
            found |= {f"{kind}_{statistic}_s": quantiles[:, i] for i, statistic in enumerate(STATISTICS)}
    return found


def _memory(profile: ServiceProfile, solution: Solution, lengths: LengthMoments) -> dict[str, FloatArray]:
    rounding = (profile.block_tokens - 1.0) / 2.0
    kv = profile.kv_bytes_per_token * (solution.kv_tokens + solution.sequences * rounding)
    state = profile.state_bytes_per_sequence * solution.sequences
    held = np.maximum(kv + state, 1e-300)
    # Means of both may exceed the memory by the error of the chain; their sum never does.
    cut = np.minimum(1.0, profile.cache_bytes / held)
    capacity = np.maximum(profile.cache_bytes, 1e-300)
    return {"kv_occupancy": kv * cut / capacity, "state_occupancy": state * cut / capacity}


def _handed_over(profile: ServiceProfile, solution: Solution, lengths: LengthMoments) -> FloatArray:
    """Bytes per second that are handed over from prefill to decode."""
    each = profile.kv_bytes_per_token * lengths.stored + profile.state_bytes_per_sequence
    return np.asarray(solution.served_per_s * lengths.decoding_share * each)


def _utilisation(profile: ServiceProfile, solution: Solution, lengths: LengthMoments) -> dict[str, FloatArray]:
    by_pool: dict[str, dict[str, FloatArray]] = {}
    for work in solution.work:
        mine = by_pool.setdefault(work.pool, {})
        for name, seconds in profile.pools[work.pool].busy_s(work.batch).items():
            share = (np.asarray(seconds, dtype=float) * work.rate_per_s).sum(axis=1)
            mine[name] = mine.get(name, np.zeros_like(share)) + share
    if profile.handoff is not None:
        moved = _handed_over(profile, solution, lengths)
        by_pool["hand-off"] = {"hbm": moved * profile.handoff.site_s, "noi": moved * profile.handoff.link_s}
    busy: dict[str, FloatArray] = {}
    for mine in by_pool.values():
        for name, share in mine.items():
            busy[name] = busy.get(name, np.zeros_like(share)) + share
    if profile.handoff is not None and profile.handoff.between.any():
        # Pools on packages of their own share no memory and no link; what the hand-off adds to theirs is little.
        for name in ("hbm", "noi"):
            most = np.max([mine[name] for mine in by_pool.values() if name in mine], axis=0)
            busy[name] = np.where(profile.handoff.between, most, busy[name])
    names = {"hbm": "hbm_utilization", "noi": "noi_utilization_max"}
    return {names.get(name, f"utilization_{name}"): np.minimum(share, 1.0) for name, share in busy.items()}


def _energy(
    profile: ServiceProfile, solution: Solution, tokens_per_s: FloatArray, lengths: LengthMoments
) -> dict[str, FloatArray]:
    power = profile.static_power_w.copy()
    for work in solution.work:
        joule = np.asarray(profile.pools[work.pool].energy_j(work.batch), dtype=float)
        power = power + (joule * work.rate_per_s).sum(axis=1)
    if profile.handoff is not None:
        power = power + _handed_over(profile, solution, lengths) * profile.handoff.joules
    return {
        "power_w": power,
        "energy_j_per_token": power / np.maximum(tokens_per_s, 1e-300),
        "throughput_tokens_per_s_per_w": tokens_per_s / np.maximum(power, 1e-300),
    }


def ratios(metrics: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """Metrics that are ratios of others."""
    return {
        "output_tokens_per_s_per_user": 1.0 / metrics["tpot_mean_s"],
        "throughput_per_ttft_tokens_per_s2": metrics["throughput_tokens_per_s"] / metrics["ttft_mean_s"],
    }


def attainment(
    solution: Solution,
    slo: Slo,
    lengths: LengthMoments,
    ttft_factor: FloatArray | float = 1.0,
    tpot_factor: FloatArray | float = 1.0,
) -> FloatArray:
    """Share of requests that meet both bounds, taken as independent, shape (n,).

    A request of one output token has no TPOT and meets any bound on it.  The factors stretch the latencies.
    """
    share = np.ones_like(solution.saturation_per_s)
    if slo.ttft_s is not None:
        share = share * _within(solution.ttft, slo.ttft_s / ttft_factor)
    if slo.tpot_s is not None:
        share = share * (1.0 - lengths.decoding_share * (1.0 - _within(solution.tpot, slo.tpot_s / tpot_factor)))
    return share


def _within(latency: Latency, bound: float | FloatArray) -> FloatArray:
    if latency.spread is None:
        raise ValueError("solve with percentiles to know an attainment")
    return latency.spread.share_within(bound)


def starved(profile: ServiceProfile, lengths: LengthMoments) -> tuple[tuple[Violation, ...], ...]:
    """A violation for each design whose cache memory does not hold one mean request to its end, in whole blocks."""
    tokens = np.ceil((lengths.stored + lengths.output) / profile.block_tokens) * profile.block_tokens
    levers = ("more or larger memory stacks", "fewer weight copies", "a smaller KV or state format", "smaller blocks")
    need = profile.state_bytes_per_sequence + profile.kv_bytes_per_token * tokens
    return tuple(
        (Violation("cache memory of one request", float(demand), float(bound), "bytes", levers),)
        if demand > bound
        else ()
        for demand, bound in zip(need, profile.cache_bytes, strict=True)
    )


def overload(rate: FloatArray, saturation: FloatArray) -> tuple[tuple[Violation, ...], ...]:
    """A violation for each design that is offered more than it can complete."""
    levers = ("lower the arrival rate", "raise max_batch", "more or faster dies of the limiting pool")
    return tuple(
        (Violation("offered load", float(demand), float(bound), "req/s", levers),) if demand >= bound else ()
        for demand, bound in zip(rate, saturation, strict=True)
    )
