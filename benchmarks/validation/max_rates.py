"""Whether the estimator ranks designs by the highest rate under an SLO as simulation does.

Below saturation a design serves what is offered, so throughput ranks nothing; the highest rate at which the SLO's
percentile holds does.  Both sides bisect between 0 and saturation; in simulation every design and rate gets the same
requests and gaps (common random numbers), the gaps scaled to the rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.validation import designs, placed
from benchmarks.validation.designs import PARAMETERS, Study
from benchmarks.validation.placed import PlacedCase
from benchmarks.validation.ranking import SEED, STUDY, spearman
from benchmarks.validation.serving import Dates
from benchmarks.validation.simulate import WARM_UP, replication
from benchmarks.validation.store import RESULTS, append_row
from hydra_dse.config import load_model
from hydra_dse.design.space import Point
from hydra_dse.estimator import estimate_designs
from hydra_dse.placement import place_design
from hydra_dse.workload import Renewal
from hydra_dse.workload.nouns import Requests, Slo

FloatArray = NDArray[np.float64]

LIMITS = (8, 16)
COUNT = 16
SLO = Slo(ttft_s=0.2, tpot_s=0.02, percentile=0.9)
"""Tight enough that TTFT binds on some designs and TPOT on others."""
REQUESTS = 1_000
STEPS = 6
COLUMNS = (
    "model",
    "workload",
    *PARAMETERS,
    "slots",
    "requests",
    "saturation_requests_per_s",
    "max_rate_requests_per_s",
)


def path(folder: Path = RESULTS) -> Path:
    """The file of simulated highest rates."""
    return folder / "max-rates.csv"


def points(count: int) -> list[Point]:
    """The first random designs of the ranking at each of the batch limits, in turn."""
    drawn = designs.random_points(2_000, SEED, "ranking")
    each = [[point for point in drawn if point["max_batch"] == limit] for limit in LIMITS]
    return [point for together in zip(*each, strict=False) for point in together][:count]


def attained(requests: Requests, dates: Dates, slo: Slo = SLO) -> float:
    """Share of the requests after the warm-up that meet both bounds; one token alone has no TPOT."""
    kept = slice(int(WARM_UP * len(requests)), None)
    first, last = dates.first_token_s[kept], dates.last_token_s[kept]
    steps = requests.output_tokens[kept] - 1
    good = np.ones(len(first), dtype=bool)
    if slo.ttft_s is not None:
        good &= first - requests.arrival_s[kept] <= slo.ttft_s
    if slo.tpot_s is not None:
        good &= last - first <= slo.tpot_s * steps + 1e-12
    return float(good.mean())


def highest_rate(case: PlacedCase, saturation_per_s: float) -> float:
    """Bisection to 1/64 of the saturation rate; the last rate at which the SLO held, 0 where it never did."""
    low, high = 0.0, saturation_per_s
    for _ in range(STEPS):
        rate = (low + high) / 2.0
        requests = replication(case, rate, REQUESTS, 0)
        if attained(requests, placed.serve_placed(case, requests, case.scheduling)) >= SLO.percentile:
            low = rate
        else:
            high = rate
    return low


def known(folder: Path = RESULTS) -> dict[designs.Key, tuple[float, float]]:
    """Simulated saturation and highest rates by design."""
    return {
        key: (float(row["saturation_requests_per_s"]), float(row["max_rate_requests_per_s"]))
        for key, row in designs.current(path(folder))
        if int(row["requests"]) == REQUESTS
    }


def run(count: int = COUNT, folder: Path = RESULTS) -> None:
    """Simulate the designs that are missing; their saturation rates are those of the other ranking."""
    chosen = points(count)
    designs.simulate_missing(STUDY, chosen, folder)
    saturation, done = designs.known(folder), known(folder)
    for point in chosen:
        key = STUDY.key(point)
        if key in done:
            continue
        rate = saturation[key][0]
        found = highest_rate(replace(STUDY.case(point), name="max-rate"), rate) if rate > 0 else 0.0
        _append(key, rate, found, folder)


def _append(key: designs.Key, saturation_per_s: float, highest_per_s: float, folder: Path) -> None:
    model, workload, values = key
    rates = [f"{saturation_per_s:.6g}", f"{highest_per_s:.6g}"]
    append_row(path(folder), COLUMNS, [model, workload, *values, designs.slots_digest(key), REQUESTS, *rates])


def estimates(study: Study, chosen: Sequence[Point]) -> FloatArray:
    """Estimated highest rates, 0 where a design serves nothing."""
    space, model = placed.space(), load_model(study.model)
    built = [place_design(space.build(point), model, 0)[0] for point in chosen]
    plain = placed.workload_of(study.workload, study.model)
    promised = (replace(plain.classes[0], slo=SLO),)
    workload = replace(plain, classes=promised, arrivals=Renewal(1e-3, 1.0))
    table = estimate_designs(built, workload, placed.calibration(), max_rate=True)
    return np.nan_to_num(table.metrics["max_rate_requests_per_s"])


def max_rate_section(folder: Path = RESULTS) -> str:
    """The part of the page, empty where too little is stored."""
    done = known(folder)
    chosen = [point for point in points(2_000) if STUDY.key(point) in done]
    if len(chosen) < 8:
        return ""
    rows = np.array([done[STUDY.key(point)] for point in chosen])
    simulated, guess = rows[:, 1], estimates(STUDY, chosen)
    served = simulated > 0
    error = guess[served] / simulated[served] - 1.0
    limits = np.array([int(point["max_batch"]) for point in chosen])
    lines = [
        f"## Ranking by the highest rate under an SLO: {len(chosen)} random designs",
        "",
        f"Highest rate at which {100 * SLO.percentile:.0f} % of the requests have TTFT ≤ {SLO.ttft_s} s and TPOT ≤ "
        f"{1e3 * (SLO.tpot_s or 0):.0f} ms; Poisson arrivals,",
        f"{STUDY.model} with the lengths of `{STUDY.workload}`, batch limits {' and '.join(map(str, LIMITS))}.",
        f"Bisection in simulation to 1/{2**STEPS} of the saturation rate, one run of {REQUESTS:,} requests a rate, the",
        "same for all designs: a small set and short runs, so that neighbours are not told apart.",
        "`benchmarks.validation max-rates` adds designs.",
        "",
        "| designs | measure | found | asked |",
        "|---|---|---|---|",
        f"| all {len(chosen)} | Spearman | {spearman(simulated, guess):.3f} | 0.95 |",
    ]
    for limit in LIMITS:
        mine = limits == limit
        lines.append(
            f"| batch limit {limit} ({int(mine.sum())}) | Spearman | "
            f"{spearman(simulated[mine], guess[mine]):.3f} | 0.9 |"
        )
    lines += [
        f"| all that hold the SLO at some rate ({int(served.sum())}) | error of the highest rate, median (of the "
        f"absolute; largest) | {100 * np.median(error):+.1f} % ({100 * np.median(np.abs(error)):.1f} %; "
        f"{100 * np.abs(error).max():.0f} %) | – |",
        "",
    ]
    return "\n".join(lines)
