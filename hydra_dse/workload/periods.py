"""The time after which a workload repeats: what is shorter sees a part of it, with another rate or another mix."""

from __future__ import annotations

from hydra_dse.workload.arrivals import Mmpp
from hydra_dse.workload.nouns import Workload
from hydra_dse.workload.varying import Diurnal, Piecewise


def period_s(workload: Workload) -> float | None:
    """Seconds of a cycle of rates or shifts, of phases drawn at random their mean; None for one that is stationary."""
    arrivals = workload.arrivals
    periods = []
    if isinstance(arrivals, Diurnal) and arrivals.amplitude > 0.0:
        periods.append(arrivals.period_s)
    elif isinstance(arrivals, Piecewise) and len(set(arrivals.rates_per_s)) > 1:
        periods.append(sum(arrivals.lengths_s))
    elif isinstance(arrivals, Mmpp) and len(set(arrivals.rates_per_s)) > 1:
        periods.append(sum(arrivals.sojourns_s))
    if workload.shifts and workload.cycle_s is not None:
        periods.append(workload.cycle_s)
    return max(periods, default=None)


def part_of_period(workload: Workload, run_s: float) -> str | None:
    """What to tell of runs that last so long, None where they see a whole period."""
    period = period_s(workload)
    if period is None or run_s >= period:
        return None
    share = run_s / period
    return (
        f"runs of {run_s:.3g} s see {100 * share:.2g} % of the {period:.4g} s after which workload {workload.name!r} "
        "repeats: rates and latencies are those of that part; simulate more requests, or shorten the period"
    )
