"""`estimate`: a service profile, arrivals and lengths in, a table of metrics out; NumPy arrays over all designs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.errors import InputError
from hydra_dse.estimator.arrivals import effective_scv
from hydra_dse.estimator.colocated import Colocated
from hydra_dse.estimator.disaggregated import Disaggregated
from hydra_dse.estimator.feasibility import blank, given, with_load
from hydra_dse.estimator.heat import HeatModel, spent_w, too_hot
from hydra_dse.estimator.intervals import intervals_of
from hydra_dse.estimator.lengths import LengthMoments, moments_of
from hydra_dse.estimator.outputs import attainment, limits_waiting, metrics_of
from hydra_dse.estimator.phases import Phases, phases_of, scv_beside
from hydra_dse.estimator.solution import Solution
from hydra_dse.estimator.solvers import Solver, solver_of
from hydra_dse.estimator.table import EstimateTable
from hydra_dse.estimator.throttle import Limits
from hydra_dse.profile.nouns import ServiceProfile
from hydra_dse.workload.nouns import ArrivalStatistics, LengthPoints, Slo

FloatArray = NDArray[np.float64]

VALIDATED_CV = 3.0
"""Largest coefficient of variation of the gaps that validation has covered."""
NO_SLO = Slo()
OVERLOADED_PHASE = (
    "one phase of the arrivals offers more than a design sustains: single waits were found to be a third or twice of "
    "what is estimated there; simulate it"
)
STEALING = (
    "task_map 'stealing' is estimated as 'static': simulated, it differed by up to 2 % at load 0.4, and by up to "
    "27 % in TTFT and 42 % in TPOT at load 0.75"
)


@dataclass(frozen=True)
class ClassSlo:
    """The promise to a share of the requests."""

    share: float
    slo: Slo

    @property
    def bounded(self) -> bool:
        """Whether anything is promised."""
        return self.slo.ttft_s is not None or self.slo.tpot_s is not None


def estimate(
    profile: ServiceProfile,
    arrivals: ArrivalStatistics,
    lengths: LengthPoints,
    slo: Slo = NO_SLO,
    percentiles: bool = True,
    *,
    max_rate: bool = False,
    class_slos: tuple[ClassSlo, ...] = (),
    calibration_error: float = 0.0,
    heat: HeatModel | None = None,
) -> EstimateTable:
    """Estimate all designs of a profile under one load.

    Args:
        profile: of the designs.
        arrivals: rate and burstiness.
        lengths: joint distribution of prompts and outputs.
        slo: bounds for attainment and goodput of all requests.
        percentiles: also p50, p90 and p99 of all latencies.
        max_rate: also the highest rate at which the SLO's percentile holds (bisection, about 12 solutions).
        class_slos: replaces `slo` where classes of requests have their own.
        calibration_error: one standard deviation of operator times, as a share; widens the intervals.
        heat: of the same designs: also temperatures, and no rate beyond the limits of temperature and power.

    Raises:
        InputError: a rate that is not positive and finite.
    """
    if not (np.isfinite(arrivals.rate_per_s) and arrivals.rate_per_s > 0):
        raise InputError(f"the arrival rate must be positive and finite, not {arrivals.rate_per_s!r} req/s")
    moments = moments_of(lengths, profile.emission)
    solver = solver_of(profile, moments)
    rate = np.full(profile.size, arrivals.rate_per_s)
    phases = phases_of(arrivals)
    scv = scv_beside(phases, arrivals)
    slos = class_slos or (ClassSlo(1.0, slo),)
    bounded = any(promise.bounded for promise in slos)
    with np.errstate(all="ignore"):
        limits = None
        if heat is not None:
            limits = Limits(heat, profile, solver, lambda one: solver_of(one, moments), scv, phases)
            solver = throttled = limits.throttled(rate)
        solution = _solved(profile, solver, rate, scv, percentiles or bounded, phases)
        metrics = metrics_of(profile, solution, rate, moments, percentiles)
        if heat is not None:
            metrics |= heat.metrics(spent_w(profile, solution))
        if bounded:
            metrics |= _goodput(solution, metrics, slos, moments)
        if max_rate and bounded:

            def highest(one: Solver) -> FloatArray:
                return highest_rate(one, scv, slos, moments, phases=phases)

            metrics["max_rate_requests_per_s"] = (
                highest(solver) if limits is None else limits.highest(throttled, highest)
            )
    known = given(profile, moments)
    infeasible = np.array([bool(found) for found in known], dtype=bool)
    if infeasible.any():
        metrics = {name: blank(name, values, infeasible) for name, values in metrics.items()}
    low, high = intervals_of(metrics, effective_scv(arrivals), calibration_error, phases is not None)
    if bounded:
        for bounds, others in ((low, high), (high, low)):
            bounds |= _goodput_beside(solution, metrics, others, slos, moments)
    # A design that refuses what is too much is never overloaded.
    offered = np.where(limits_waiting(profile), 0.0, rate)
    if limits is not None:
        hot = too_hot(offered, throttled.highest_per_s)
        known = tuple(mine or more for mine, more in zip(known, hot, strict=True))
    violations = with_load(known, offered, solver.saturation_per_s)
    notes = notes_of(arrivals, profile.task_map)
    busiest = max((speed for speed, _ in arrivals.phases), default=0.0)
    with np.errstate(invalid="ignore"):
        if (busiest > solver.saturation_per_s).any():
            notes = (*notes, OVERLOADED_PHASE)
    return EstimateTable(metrics, low, high, violations, notes)


def _solved(
    profile: ServiceProfile, solver: Solver, rate: FloatArray, scv: float, percentiles: bool, phases: Phases | None
) -> Solution:
    """The solution; an overloaded design that refuses nothing has no latencies, so none are spread out for it."""
    if percentiles and profile.max_waiting is None and isinstance(solver, Colocated | Disaggregated):
        heard = rate < solver.saturation_per_s
        heard[0] |= not heard.any()  # of one at least: there are percentiles, though none is known
        return solver.at(rate, scv, heard, phases=phases)
    return solver.at(rate, scv, percentiles, phases=phases)


def _goodput_beside(
    solution: Solution,
    metrics: dict[str, FloatArray],
    latencies: dict[str, FloatArray],
    slos: tuple[ClassSlo, ...],
    lengths: LengthMoments,
) -> dict[str, FloatArray]:
    """Attainment and goodput were latencies at one of their bounds."""
    with np.errstate(all="ignore"):
        ttft, tpot = (_factor(metrics, latencies, kind) for kind in ("ttft", "tpot"))
        return _goodput(solution, metrics, slos, lengths, ttft, tpot)


def _factor(metrics: dict[str, FloatArray], latencies: dict[str, FloatArray], kind: str) -> FloatArray:
    """How much longer a latency is at its bound, by the percentile that SLOs look at, else by the mean."""
    name = f"{kind}_p90_s" if f"{kind}_p90_s" in latencies else f"{kind}_mean_s"
    return np.nan_to_num(latencies[name] / metrics[name], nan=1.0)


def _goodput(
    solution: Solution,
    metrics: dict[str, FloatArray],
    slos: tuple[ClassSlo, ...],
    lengths: LengthMoments,
    ttft_factor: FloatArray | float = 1.0,
    tpot_factor: FloatArray | float = 1.0,
) -> dict[str, FloatArray]:
    total = sum(promise.share for promise in slos)
    shares = (attainment(solution, promise.slo, lengths, ttft_factor, tpot_factor) * promise.share for promise in slos)
    met = sum(shares, np.zeros(1)) / total
    met = np.where((metrics["load"] < 1.0) | (metrics["rejected_share"] > 0.0), met, 0.0)
    # Who is refused has not met the SLO, and is no part of the throughput.
    return {
        "slo_attainment": met * (1.0 - metrics["rejected_share"]),
        "goodput_requests_per_s": metrics["throughput_requests_per_s"] * met,
    }


def highest_rate(
    solver: Solver,
    scv: float,
    slos: tuple[ClassSlo, ...],
    lengths: LengthMoments,
    steps: int = 12,
    phases: Phases | None = None,
) -> FloatArray:
    """Highest rate at which every class attains its percentile, by bisection between 0 and saturation, shape (n,).

    Args:
        solver: of the designs.
        scv: squared coefficient of variation of the gaps.
        slos: of the classes.
        lengths: of the requests.
        steps: of the bisection.
        phases: of the arrivals; None = they come alike at all times.
    """
    low = np.zeros_like(solver.saturation_per_s)
    high = solver.saturation_per_s.copy()
    for _ in range(steps):
        middle = (low + high) / 2.0
        solution = solver.at(middle, scv, True, phases=phases)
        holds = np.ones_like(low, dtype=bool)
        for promise in slos:
            if promise.bounded:
                met = attainment(solution, promise.slo, lengths)
                if solution.rejected is not None:  # who is refused has not met it
                    met = met * (1.0 - np.nan_to_num(solution.rejected))
                holds &= met >= promise.slo.percentile
        low, high = np.where(holds, middle, low), np.where(holds, high, middle)
    return low


def notes_of(arrivals: ArrivalStatistics, task_map: str = "static") -> tuple[str, ...]:
    """What a reader must know of estimates under such arrivals and task map."""
    notes = [STEALING] if task_map == "stealing" else []
    if arrivals.cv > VALIDATED_CV:
        notes.append(f"inter-arrival CV {arrivals.cv:.3g} lies outside the validated range (0 to {VALIDATED_CV:g})")
    dispersion = effective_scv(arrivals)
    if arrivals.phases and dispersion > VALIDATED_CV**2:
        notes.append(
            f"phases of the arrivals: an index of dispersion of {dispersion:.3g} lies outside the validated range "
            f"(0 to {VALIDATED_CV**2:g}); the intervals are wider"
        )
    return tuple(notes)
