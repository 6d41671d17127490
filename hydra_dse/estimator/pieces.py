"""Estimates under a workload that changes in time: one solution per piece, joined.

Pieces are solved in order of time; prompts and requests that one could not serve are served in the next.  A design
is infeasible only if it is offered too much in the long run.  Means over requests are weighted with the requests of
each piece, means over time with its duration, percentiles are those of the mixture.  Saturation is that of all
requests offered at once in their order: the time they take is the sum of the times of the pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.arrivals import effective_scv
from hydra_dse.estimator.estimate import ClassSlo, notes_of
from hydra_dse.estimator.feasibility import blank, given, with_load
from hydra_dse.estimator.intervals import intervals_of
from hydra_dse.estimator.lengths import LengthMoments, moments_of
from hydra_dse.estimator.mixture import Mixture
from hydra_dse.estimator.outputs import SHARES, STATISTICS, attainment, metrics_of, ratios
from hydra_dse.estimator.solution import Latency, Solution
from hydra_dse.estimator.solvers import Solver, solver_of
from hydra_dse.estimator.table import EstimateTable
from hydra_dse.estimator.transient import Transient, ramp
from hydra_dse.profile.nouns import ServiceProfile
from hydra_dse.workload.nouns import LengthPoints
from hydra_dse.workload.pieces import Piece

FloatArray = NDArray[np.float64]

PER_REQUEST = ("ttft_scheduled_mean_s", "ttft_mean_s", "e2e_mean_s", "preemptions_per_request", "rejected_share")
SCALED = ("hbm_utilization", "noi_utilization_max", "batch_mean", "kv_occupancy", "state_occupancy", "power_w")


@dataclass(frozen=True)
class Part:
    """A piece with its solver."""

    piece: Piece
    lengths: LengthMoments
    solver: Solver

    @property
    def scv(self) -> float:
        """Squared coefficient of variation of the gaps."""
        return effective_scv(self.piece.arrivals)


@dataclass(frozen=True)
class Course:
    """Designs over all pieces.

    Attributes:
        solutions: one per piece; served: requests per second served in each, shape (n,).
    """

    parts: tuple[Part, ...]
    solutions: tuple[Solution, ...]
    served: tuple[FloatArray, ...]


def estimate_pieces(
    profile: ServiceProfile,
    pieces: Sequence[Piece],
    promises: Callable[[Piece], tuple[ClassSlo, ...]],
    percentiles: bool = True,
    *,
    max_rate: bool = False,
    calibration_error: float = 0.0,
) -> EstimateTable:
    """Estimate all designs of a profile under pieces in order of time.

    Args:
        profile: of the designs.
        pieces: of finite duration.
        promises: the SLOs of a piece's classes.
        percentiles: also p50, p90 and p99 of all latencies.
        max_rate: also the highest mean rate at which the SLOs hold (bisection).
        calibration_error: one standard deviation of operator times, as a share.
    """
    parts = tuple(_part(profile, piece) for piece in pieces)
    slos = [promises(piece) for piece in pieces]
    bounded = any(promise.bounded for piece in slos for promise in piece)
    ones = np.ones(profile.size)
    with np.errstate(all="ignore"):
        course = follow_pieces(parts, ones, percentiles or bounded)
        metrics = _metrics(profile, course, percentiles)
        if bounded:
            metrics |= _goodput(metrics, met(course, slos))
        if max_rate and bounded:
            metrics["max_rate_requests_per_s"] = _highest_rate(parts, slos, metrics)
    whole = moments_of(
        joined_lengths([piece.lengths for piece in pieces], [piece.share for piece in pieces]), profile.emission
    )
    known = given(profile, whole)
    infeasible = np.array([bool(found) for found in known], dtype=bool)
    metrics = {name: blank(name, values, infeasible) for name, values in metrics.items()}
    scv = float(np.dot([piece.share for piece in pieces], [part.scv for part in parts]))
    low, high = intervals_of(metrics, scv, calibration_error)
    violations = with_load(known, metrics["offered_requests_per_s"], metrics["saturation_requests_per_s"])
    notes = dict.fromkeys(note for piece in pieces for note in notes_of(piece.arrivals, profile.task_map))
    return EstimateTable(metrics, low, high, violations, tuple(notes))


def _part(profile: ServiceProfile, piece: Piece) -> Part:
    lengths = moments_of(piece.lengths, profile.emission)
    return Part(piece, lengths, solver_of(profile, lengths))


def follow_pieces(parts: tuple[Part, ...], factor: FloatArray, percentiles: bool) -> Course:
    """Solve the pieces one after the other, their rates multiplied by `factor`, shape (n,).

    The backlog of the whole system is a fluid: it grows by `(λ − μ)·T` and is served as soon as there is room.  What
    of it are prompts in line is known to the prompt queue; the rest waits for a full pool.
    """
    backlog, left_s, left, room = (np.zeros_like(factor) for _ in range(4))
    solutions: list[Solution] = []
    rates: list[FloatArray] = []
    for part in parts:
        piece = part.piece
        duration = piece.duration_s
        offered = piece.arrivals.rate_per_s * factor
        slope = offered - part.solver.saturation_per_s
        after = np.maximum(backlog + slope * duration, 0.0)
        served = offered + (backlog - after) / duration
        # A pool that was not full takes the first of a backlog; a backlog of prompts alone fills no pool.
        intake = part.solver.intake
        settled = intake.slots - (solutions[-1].batch_mean if solutions else 0.0)
        room = np.where(backlog > 0, room, np.maximum(settled, 0.0))
        waiting = np.maximum(backlog - left, 0.0)
        through = np.where(slope > 0, np.minimum(offered, intake.prompts_per_s) - offered + slope, slope)
        for_slot = ramp(waiting, through, duration, room)
        held = ramp(waiting, through, duration, room + intake.places)
        transient = Transient(
            offered,
            duration,
            piece.path,
            left_s,
            held.mean,
            held.share,
            for_slot.mean - held.mean,
            1.0 / factor,
        )
        solution = part.solver.at(served, part.scv, percentiles, transient)
        left_s = np.zeros_like(factor) if solution.left_s is None else solution.left_s
        left = np.zeros_like(factor) if solution.left is None else solution.left
        backlog = after
        solutions.append(solution)
        rates.append(served)
    return Course(parts, tuple(solutions), tuple(rates))


def _metrics(profile: ServiceProfile, course: Course, percentiles: bool) -> dict[str, FloatArray]:
    """Metrics of every piece joined; latencies of designs overloaded in the long run are NaN."""
    found = [
        metrics_of(profile, solution, np.minimum(served, solution.served_per_s), part.lengths, False)
        for part, solution, served in zip(course.parts, course.solutions, course.served, strict=True)
    ]
    joined = _rates(course, found)
    time = _shares([part.piece.duration_s for part in course.parts])
    requests = _shares([part.piece.share for part in course.parts])
    for name in found[0]:
        if name in SCALED or name.startswith("utilization_"):
            joined[name] = _weighted(time, [one[name] for one in found])
        elif name in PER_REQUEST:
            joined[name] = _weighted(requests, [one[name] for one in found])
    joined |= _latencies(course, percentiles)
    # Waits along a record and prompts that share an iteration are found apart: no part exceeds its whole.
    joined["ttft_scheduled_mean_s"] = np.fmin(joined["ttft_scheduled_mean_s"], joined["ttft_mean_s"])
    stable = joined["load"] < 1.0
    for name in joined:
        if name.startswith(("ttft", "tpot", "tbt", "e2e")):
            joined[name] = np.where(stable, joined[name], np.nan)
    joined["energy_j_per_token"] = joined["power_w"] / np.maximum(joined["throughput_tokens_per_s"], 1e-300)
    joined["throughput_tokens_per_s_per_w"] = joined["throughput_tokens_per_s"] / joined["power_w"]
    joined |= ratios(joined)
    joined["area_mm2"], joined["interposer_mm2"] = profile.area_mm2, profile.interposer_mm2
    return {name: joined[name] for name in (*found[0], *(name for name in joined if name not in found[0]))}


def _rates(course: Course, found: Sequence[dict[str, FloatArray]]) -> dict[str, FloatArray]:
    """Offered and completed rates, saturation and load."""
    pieces = [part.piece for part in course.parts]
    n = len(course.served[0])
    offered = sum(piece.arrivals.rate_per_s * piece.duration_s for piece in pieces) / sum(
        piece.duration_s for piece in pieces
    )
    share = _shares([piece.share for piece in pieces])
    slowness = sum(s / solution.saturation_per_s for s, solution in zip(share, course.solutions, strict=True))
    saturation = 1.0 / np.asarray(slowness)
    tokens = float(np.dot(share, [part.lengths.output for part in course.parts]))
    completed = np.minimum(offered, saturation)
    return {
        "offered_requests_per_s": np.full(n, offered),
        "load": offered / saturation,
        "saturation_requests_per_s": saturation,
        "saturation_tokens_per_s": saturation * tokens,
        "throughput_requests_per_s": completed,
        "throughput_tokens_per_s": completed * tokens,
    }


def _latencies(course: Course, percentiles: bool) -> dict[str, FloatArray]:
    """TPOT and TBT means by what they are averaged over, and percentiles of all mixtures; NaN where nobody decodes."""
    requests = _shares([part.piece.share for part in course.parts])
    decoding = _shares([part.piece.share * part.lengths.decoding_share for part in course.parts])
    gaps = _shares([w * part.lengths.decode_tokens for w, part in zip(decoding, course.parts, strict=True)])
    weights = {"ttft": requests, "tpot": decoding, "tbt": gaps, "e2e": requests}
    found: dict[str, FloatArray] = {}
    for kind, share in weights.items():
        each: list[Latency] = [getattr(solution, kind) for solution in course.solutions]
        if not share.any():
            none = np.full(len(each[0].mean_s), np.nan)
            found |= {f"{kind}_{name}_s": none for name in ("mean", *(STATISTICS if percentiles else ()))}
            continue
        found[f"{kind}_mean_s"] = _weighted(share, [one.mean_s for one in each])
        if percentiles:
            quantiles = _mixture(share, each).quantiles(SHARES)
            found |= {f"{kind}_{name}_s": quantiles[:, i] for i, name in enumerate(STATISTICS)}
    return found


def _mixture(share: FloatArray, each: Sequence[Latency]) -> Mixture:
    spreads = [one.spread for one in each if one.spread is not None]
    weights = [
        s * spread.weight / np.maximum(spread.weight.sum(axis=1, keepdims=True), 1e-300)
        for s, spread in zip(share, spreads, strict=True)
    ]
    smooth = all(spread.smooth for spread in spreads)
    return Mixture(np.hstack([spread.value for spread in spreads]), np.hstack(weights), smooth)


def met(course: Course, slos: Sequence[tuple[ClassSlo, ...]]) -> FloatArray:
    """Share of requests that meet the promise to their class, shape (n,)."""
    share = _shares([part.piece.share for part in course.parts])
    found = []
    for part, solution, promises in zip(course.parts, course.solutions, slos, strict=True):
        total = sum(promise.share for promise in promises)
        each = [attainment(solution, promise.slo, part.lengths) * promise.share / total for promise in promises]
        found.append(np.asarray(sum(each)))
    return _weighted(share, found)


def _goodput(metrics: dict[str, FloatArray], share: FloatArray) -> dict[str, FloatArray]:
    kept = np.where(metrics["load"] < 1.0, share, 0.0)
    return {"slo_attainment": kept, "goodput_requests_per_s": metrics["throughput_requests_per_s"] * kept}


def _highest_rate(
    parts: tuple[Part, ...], slos: Sequence[tuple[ClassSlo, ...]], metrics: dict[str, FloatArray], steps: int = 12
) -> FloatArray:
    """Highest mean rate at which the promises hold on average, by bisection between 0 and saturation."""
    offered = metrics["offered_requests_per_s"]
    low, high = np.zeros_like(offered), metrics["saturation_requests_per_s"].copy()
    bounds = [(p.share * part.piece.share, p) for part, piece in zip(parts, slos, strict=True) for p in piece]
    wanted = max((p.slo.percentile for _, p in bounds if p.bounded), default=0.0)
    for _ in range(steps):
        middle = (low + high) / 2.0
        holds = met(follow_pieces(parts, middle / offered, True), slos) >= wanted
        low, high = np.where(holds, middle, low), np.where(holds, high, middle)
    return low


def joined_lengths(each: Sequence[LengthPoints], share: Sequence[float]) -> LengthPoints:
    """The mixture of length distributions with these shares."""
    return LengthPoints(
        np.concatenate([points.prompt_tokens for points in each]),
        np.concatenate([points.output_tokens for points in each]),
        np.concatenate([points.weight * s for points, s in zip(each, share, strict=True)]),
    )


def _shares(values: Sequence[float]) -> FloatArray:
    array = np.asarray(values, dtype=float)
    return np.asarray(array / array.sum()) if array.any() else array


def _weighted(share: FloatArray, values: Sequence[FloatArray]) -> FloatArray:
    return np.asarray(sum(s * np.nan_to_num(value) for s, value in zip(share, values, strict=True) if s > 0))
