"""What a reader must know of the runs of a comparison."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from hydra_dse.design.comparison import Comparison
from hydra_dse.studies.comparison.course import Case, Measured
from hydra_dse.workload.periods import part_of_period
from hydra_dse.workload.sampling import at_rate


def short_runs(comparison: Comparison, cases: Sequence[Case]) -> tuple[str, ...]:
    """Loads whose runs see a part of the period after which they repeat, told of the shortest run of each."""
    notes = []
    for load in dict.fromkeys(case.load for case in cases):
        rates = [rate for case in cases if case.load == load for one in case.contenders for rate in _rates(one)]
        if rates:
            fastest, requests = max(rates), comparison.simulation.requests
            told = part_of_period(at_rate(comparison.loads[load].requests, fastest), requests / fastest)
            if told is not None:
                where = f"{comparison.loads[load].model}, {comparison.loads[load].workload}, {fastest:.3g} req/s"
                notes.append(f"{where}: {told}")
    return tuple(notes)


def _rates(one: Measured) -> Iterator[float]:
    """Rates that a contender was simulated at."""
    found = [*(rate for rate, _ in one.points.values()), *one.series("max_rate_requests_per_s")]
    yield from (rate for rate in found if math.isfinite(rate) and rate > 0.0)
