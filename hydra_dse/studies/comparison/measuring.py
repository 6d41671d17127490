"""Simulated figures of one design: saturation, the highest rate under the SLO, and latencies at given rates.

A run of replication `r` draws its requests from the comparison's seed and `r` alone: all contenders, rates and steps of
a bisection see the same requests, with gaps scaled to the rate (common random numbers): differences are of designs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hydra_dse.design.comparison import Comparison, Load
from hydra_dse.design.evaluator import EvaluationOptions, Evaluator
from hydra_dse.design.nouns import Design
from hydra_dse.results import Evaluation
from hydra_dse.rng import derive

HELD, SATURATED = "slo_attainment", "saturation_requests_per_s"
LATENCIES = (
    "ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s", "ttft_scheduled_mean_s", "tpot_mean_s", "tpot_p90_s",
    "e2e_mean_s", "throughput_tokens_per_s", "slo_attainment", "power_w", "energy_j_per_token", "batch_mean",
)  # fmt: skip
_NEVER = 0.02
"""Share of saturation below which a service level is called out of reach."""


class Runs:
    """Runs of one design under one load in one replication."""

    def __init__(
        self, engine: Evaluator, comparison: Comparison, load: Load, design: Design, replication: int | str
    ) -> None:
        self._engine, self._comparison, self._load, self._design = engine, comparison, load, design
        count = comparison.simulation.replications
        self._window = replication % count / count if isinstance(replication, int) else 0.0
        self._seed = int(derive(comparison.simulation.seed, "comparison", replication).integers(1 << 53))

    def at(self, rate_per_s: float, saturate: bool = False, requests: int | None = None) -> Evaluation:
        """Simulate at a rate."""
        settings = self._comparison.simulation
        options = EvaluationOptions(
            requests=requests or settings.requests,
            replications=1,
            warmup_share=settings.warmup_share,
            rate_per_s=rate_per_s,
            saturate=saturate,
            detail=settings.detail,
            window_share=self._window,
        )
        workload, calibration = self._load.requests, self._comparison.calibration
        [found] = self._engine.evaluate([self._design], workload, calibration, options, self._seed)
        return found


def highest_rate(holds: Callable[[float], bool], saturation: float, guess: float, tolerance: float) -> float:
    """The highest rate up to saturation at which a promise holds, by bisection; 0 where it holds nowhere.

    Args:
        holds: whether it holds at a rate.
        saturation: no rate above it is sustained, however well a short run hides it.
        guess: where to look first; anything.
        tolerance: relative width of the last bracket; its lower end is returned.
    """
    low, high = 0.0, saturation
    rate = guess if 0.0 < guess < high else 0.8 * high
    while high - low > tolerance * high:
        if holds(rate):
            low = rate
        else:
            high = rate
            if high < _NEVER * saturation:
                return 0.0
        rate = (low + high) / 2.0 if low > 0.0 else 0.8 * high
    return low


def rates_of(runs: Runs, comparison: Comparison, load: Load, guess: float) -> dict[str, float | None]:
    """Saturation and the highest rate of a replication, and what the package is like.

    A design that cannot serve at all has neither.
    """
    first = runs.at(guess, saturate=True)
    saturation = first.metrics.get(SATURATED)
    if not first.feasible or not saturation:
        return {"saturation_requests_per_s": None, "saturation_tokens_per_s": None, "max_rate_requests_per_s": None}
    percentile = max(kind.slo.percentile for kind in load.requests.classes)
    limit = comparison.simulation.power_limit_w

    def holds(rate_per_s: float) -> bool:
        found = runs.at(rate_per_s).metrics
        within = limit is None or (found.get("power_w") or 0.0) <= limit
        return within and (found.get(HELD) or 0.0) >= percentile

    return {
        "saturation_requests_per_s": saturation,
        "saturation_tokens_per_s": first.metrics.get("saturation_tokens_per_s"),
        "max_rate_requests_per_s": highest_rate(holds, saturation, guess, comparison.simulation.tolerance),
        "area_mm2": first.metrics.get("area_mm2"),
        "interposer_mm2": first.metrics.get("interposer_mm2"),
    }


def points_of(runs: Runs, rates_per_s: Sequence[float]) -> list[Mapping[str, float | None]]:
    """Latencies and power at rates."""
    found = [runs.at(rate) for rate in rates_per_s]
    return [{name: each.metrics.get(name) for name in LATENCIES} for each in found]
