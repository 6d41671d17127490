"""Metrics of several models: those of each model's requests, and those of all of them together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hydra_dse.errors import InputError
from hydra_dse.estimator.arrivals import effective_scv
from hydra_dse.estimator.estimate import notes_of
from hydra_dse.estimator.feasibility import blank, given, with_load
from hydra_dse.estimator.intervals import intervals_of
from hydra_dse.estimator.mix import MixSolver
from hydra_dse.estimator.mix_nouns import Interplay, Member, MixSolution
from hydra_dse.estimator.mixture import Mixture
from hydra_dse.estimator.outputs import SHARES, STATISTICS, attainment, metrics_of, ratios
from hydra_dse.estimator.solution import Latency
from hydra_dse.estimator.table import EstimateTable
from hydra_dse.results.metrics import OF_MODEL
from hydra_dse.results.nouns import Violation
from hydra_dse.workload.nouns import ArrivalStatistics

FloatArray = NDArray[np.float64]

OF_PACKAGE = ("hbm_utilization", "noi_utilization_max", "power_w", "area_mm2", "interposer_mm2")
OF_POWER = ("energy_j_per_token", "throughput_tokens_per_s_per_w")
SUMS = ("batch_mean", "kv_occupancy", "state_occupancy", "hbm_utilization", "noi_utilization_max")
RATES = ("throughput_requests_per_s", "throughput_tokens_per_s", "saturation_tokens_per_s")
PER_REQUEST = ("rejected_share", "preemptions_per_request", "ttft_scheduled_mean_s")


def estimate_mix(
    members: Sequence[Member],
    interplay: Interplay,
    arrivals: ArrivalStatistics,
    shared_cache: bool,
    known: Sequence[tuple[Violation, ...]],
    percentiles: bool = True,
    *,
    max_rate: bool = False,
    calibration_error: float = 0.0,
) -> EstimateTable:
    """Estimate all designs under the requests of several models.

    Args:
        members: the models; their profiles have the same designs.
        interplay: how their pools meet.
        arrivals: of all requests.
        shared_cache: whether the models fill the same memory.
        known: violations of each design that leave nothing to compute.
        percentiles: also p50, p90 and p99 of all latencies.
        max_rate: also the highest rate at which the SLOs hold (bisection).
        calibration_error: one standard deviation of operator times, as a share.

    Raises:
        InputError: a rate that is not positive and finite, or a policy that the estimator does not know.
    """
    if not (np.isfinite(arrivals.rate_per_s) and arrivals.rate_per_s > 0):
        raise InputError(f"the arrival rate must be positive and finite, not {arrivals.rate_per_s!r} req/s")
    rate = np.full(members[0].profile.size, arrivals.rate_per_s)
    bounded = any(promise.bounded for member in members for promise in member.promises)
    with np.errstate(all="ignore"):
        solver = MixSolver(members, interplay, shared_cache)
        solution = solver.at(rate, percentiles or bounded)
        metrics = _metrics(solver, solution, rate, percentiles)
        if bounded:
            metrics |= _goodput(solver, solution, metrics)
        if max_rate and bounded:
            metrics["max_rate_requests_per_s"] = _highest_rate(solver)
    starved = [given(member.profile, lengths) for member, lengths in zip(members, solver.moments, strict=True)]
    broken = tuple(
        tuple(own) or next((found[row] for found in starved if found[row]), ()) for row, own in enumerate(known)
    )
    infeasible = np.array([bool(found) for found in broken], dtype=bool)
    metrics = {name: blank(name.partition(OF_MODEL)[0], values, infeasible) for name, values in metrics.items()}
    low, high = _intervals(members, metrics, effective_scv(arrivals), calibration_error)
    return EstimateTable(metrics, low, high, with_load(broken, rate, solver.saturation_per_s), notes_of(arrivals))


def _metrics(solver: MixSolver, mix: MixSolution, rate: FloatArray, percentiles: bool) -> dict[str, FloatArray]:
    """Metrics of all requests, then those of each model as `<metric>@<model>`."""
    each = []
    for member, solution, lengths in zip(solver.members, mix.solutions, solver.moments, strict=True):
        each.append(metrics_of(member.profile, solution, rate * member.share, lengths, percentiles))
    shares = np.array([member.share for member in solver.members])
    whole = _rates(mix, rate, each, shares)
    whole |= _latencies(solver, mix, percentiles, whole["load"] < 1.0)
    busy = dict.fromkeys(name for found in each for name in found if name.startswith("utilization_"))
    for name in (*SUMS, *busy):
        total = sum((found.get(name, np.zeros_like(rate)) for found in each), np.zeros_like(rate))
        whole[name] = total if name == "batch_mean" else np.minimum(total, 1.0)
    if not solver.shared_cache:
        for name in ("kv_occupancy", "state_occupancy"):
            whole[name] = whole[name] / len(each)
    profile = solver.members[0].profile
    dynamic = sum((found["power_w"] - member.profile.static_power_w for found, member in _pairs(each, solver)), 0.0)
    whole["power_w"] = profile.static_power_w + np.asarray(dynamic)
    whole["energy_j_per_token"] = whole["power_w"] / np.maximum(whole["throughput_tokens_per_s"], 1e-300)
    whole["throughput_tokens_per_s_per_w"] = whole["throughput_tokens_per_s"] / whole["power_w"]
    whole |= ratios(whole)
    whole["area_mm2"], whole["interposer_mm2"] = profile.area_mm2, profile.interposer_mm2
    for found, member in _pairs(each, solver):
        for name, values in found.items():
            if name not in (*OF_PACKAGE, *OF_POWER) and not name.startswith("utilization_"):
                whole[f"{name}{OF_MODEL}{member.label}"] = values
    return whole


def _pairs(each: Sequence[dict[str, FloatArray]], solver: MixSolver) -> list[tuple[dict[str, FloatArray], Member]]:
    return list(zip(each, solver.members, strict=True))


def _rates(
    mix: MixSolution, rate: FloatArray, each: Sequence[dict[str, FloatArray]], shares: FloatArray
) -> dict[str, FloatArray]:
    whole = {
        "offered_requests_per_s": rate.copy(),
        "load": rate / mix.saturation_per_s,
        "saturation_requests_per_s": mix.saturation_per_s,
    }
    for name in RATES:
        whole[name] = np.asarray(sum(found[name] for found in each))
    for name in PER_REQUEST:
        whole[name] = np.asarray(sum(share * found[name] for share, found in zip(shares, each, strict=True)))
    return whole


def _latencies(
    solver: MixSolver, mix: MixSolution, percentiles: bool, stable: NDArray[np.bool_]
) -> dict[str, FloatArray]:
    """Means weighted with what they are averaged over, percentiles of the mixtures."""
    found = {}
    for kind in ("ttft", "tpot", "tbt", "e2e"):
        weights = _weights(kind, solver)
        parts: list[Latency] = [getattr(solution, kind) for solution in mix.solutions]
        kept = [(weight, part) for weight, part in zip(weights, parts, strict=True) if weight > 0]
        none = np.full_like(mix.saturation_per_s, np.nan)
        mean = sum((weight * part.mean_s for weight, part in kept), np.zeros_like(none)) if kept else none
        found[f"{kind}_mean_s"] = np.where(stable, mean, np.nan)
        spreads = [(weight, part.spread) for weight, part in kept if part.spread is not None]
        if percentiles and spreads:
            quantiles = _joined(spreads).quantiles(SHARES)
            for at, statistic in enumerate(STATISTICS):
                found[f"{kind}_{statistic}_s"] = np.where(stable, quantiles[:, at], np.nan)
    return found


def _weights(kind: str, solver: MixSolver) -> list[float]:
    """Requests, requests of more than one token, or gaps of each model, as shares."""
    weights = []
    for member, lengths in zip(solver.members, solver.moments, strict=True):
        weight = member.share
        if kind in ("tpot", "tbt"):
            weight *= lengths.decoding_share
        if kind == "tbt":
            weight *= lengths.decode_tokens
        weights.append(float(weight))
    total = sum(weights)
    return [weight / total if total > 0 else 0.0 for weight in weights]


def _joined(spreads: Sequence[tuple[float, Mixture]]) -> Mixture:
    weights = [
        share * spread.weight / np.maximum(spread.weight.sum(axis=1, keepdims=True), 1e-300)
        for share, spread in spreads
    ]
    smooth = all(spread.smooth for _, spread in spreads)
    return Mixture(np.hstack([spread.value for _, spread in spreads]), np.hstack(weights), smooth)


def _goodput(solver: MixSolver, mix: MixSolution, metrics: dict[str, FloatArray]) -> dict[str, FloatArray]:
    stable = metrics["load"] < 1.0
    found: dict[str, FloatArray] = {}
    met = np.zeros_like(metrics["load"])
    for member, solution, lengths in zip(solver.members, mix.solutions, solver.moments, strict=True):
        own = sum((attainment(solution, each.slo, lengths) * each.share for each in member.promises), np.zeros(1))
        own = np.where(stable, own, 0.0)
        found[f"slo_attainment{OF_MODEL}{member.label}"] = own
        found[f"goodput_requests_per_s{OF_MODEL}{member.label}"] = (
            own * metrics[f"throughput_requests_per_s{OF_MODEL}{member.label}"]
        )
        met = met + member.share * own
    return {"slo_attainment": met, "goodput_requests_per_s": metrics["throughput_requests_per_s"] * met} | found


def _highest_rate(solver: MixSolver, steps: int = 12) -> FloatArray:
    """Highest total rate at which every class of every model attains its percentile, by bisection."""
    high = solver.saturation_per_s.copy()
    low = np.zeros_like(high)
    for _ in range(steps):
        middle = (low + high) / 2.0
        mix = solver.at(middle, True)
        holds = np.ones_like(low, dtype=bool)
        for member, solution, lengths in zip(solver.members, mix.solutions, solver.moments, strict=True):
            for promise in member.promises:
                if promise.bounded:
                    holds &= attainment(solution, promise.slo, lengths) >= promise.slo.percentile
        low, high = np.where(holds, middle, low), np.where(holds, high, middle)
    return low


def _intervals(
    members: Sequence[Member], metrics: dict[str, FloatArray], scv: float, error: float
) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """Intervals of the metrics of all requests, and of each model's at the same load."""
    low, high = intervals_of(metrics, scv, error)
    for member in members:
        mark = f"{OF_MODEL}{member.label}"
        own = {name.removesuffix(mark): values for name, values in metrics.items() if name.endswith(mark)}
        own["load"] = metrics["load"]
        below, above = intervals_of(own, effective_scv(member.arrivals), error)
        low |= {f"{name}{mark}": values for name, values in below.items()}
        high |= {f"{name}{mark}": values for name, values in above.items()}
    return low, high
