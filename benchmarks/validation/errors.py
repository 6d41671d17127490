"""Errors of estimates against stored simulations, each counted or left out with a reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.validation import placed
from benchmarks.validation.cases import BANDS, cases
from benchmarks.validation.estimated import Estimated, estimated
from benchmarks.validation.simulate import TARGET, Simulated
from benchmarks.validation.store import digest, load

SHOWN = (
    "saturation_requests_per_s",
    *(f"ttft_{part}_s" for part in ("mean", "p50", "p90", "p99")),
    *(f"tpot_{part}_s" for part in ("mean", "p90", "p99")),
    "e2e_mean_s",
    "e2e_p90_s",
    "e2e_p99_s",
)
WAITS = ("ttft_mean_s", "ttft_p90_s", "ttft_p99_s")
LEAST_MEMORIES = 40.0


@dataclass(frozen=True)
class Comparison:
    """One metric of one configuration.

    Attributes:
        name, policy, arrivals, load, memory_bound: of the configuration.
        estimate, simulation: the values; half: relative half-width of the simulated 95 % interval.
        covered: whether the estimate's 90 % interval holds the simulated value; None without an interval.
        left_out: why this does not count; empty where it does.
    """

    name: str
    policy: str
    arrivals: str
    load: float
    memory_bound: bool
    metric: str
    estimate: float
    simulation: float
    half: float
    covered: bool | None
    left_out: str

    @property
    def error(self) -> float:
        """Signed, relative to the simulated value."""
        return self.estimate / self.simulation - 1.0

    @property
    def band(self) -> int:
        """Index of the load band."""
        return next(i for i, (_, high) in enumerate(BANDS) if self.load <= high + 1e-9)


def compare(name: str, traits: tuple[str, str, float, bool], found: Simulated, guess: Estimated) -> list[Comparison]:
    """All metrics of one configuration."""
    rows = []
    for metric in SHOWN:
        simulation, half = found.values[metric], found.half[metric]
        estimate = guess.values.get(metric, float("nan"))
        covered = guess.low[metric] <= simulation <= guess.high[metric] if metric in guess.low else None
        rows.append(
            Comparison(name, *traits, metric, estimate, simulation, half, covered, _reason(metric, found, estimate))
        )
    return rows


def _reason(metric: str, found: Simulated, estimate: float) -> str:
    if not np.isfinite(estimate):
        return "the estimate is overloaded"
    if found.half[metric] >= TARGET:
        return f"simulated interval wider than ±{100 * TARGET:.0f} %"
    if metric in WAITS and found.memories < LEAST_MEMORIES:
        return f"replications shorter than {LEAST_MEMORIES:.0f} times what the queue remembers"
    return ""


def comparisons(which: str) -> list[Comparison]:
    """Every stored configuration of a set against the estimator as it is now."""
    known, rows = load(which), []
    for case in placed.placed_cases(which) if which in placed.SEEDS else cases(which):
        stored = known.get(case.name)
        if stored is None or stored[0] != digest(case):
            continue
        rate = stored[1].values["saturation_requests_per_s"]
        if isinstance(case, placed.PlacedCase):
            guess, binds = placed.estimated_placed(case, rate), False
        else:
            guess, binds = estimated(case, rate), case.memory_bound
        rows += compare(case.name, (case.policy, case.arrival_kind, case.load, binds), stored[1], guess)
    return rows


@dataclass(frozen=True)
class Cell:
    """Errors of one metric in a group: how many count, median and 90th percentile of |error|, median error; shares."""

    count: int
    median: float
    ninth: float
    signed: float
    covered: float


def cell(rows: Sequence[Comparison]) -> Cell:
    """Statistics of the rows that count."""
    kept = [row for row in rows if not row.left_out]
    if not kept:
        return Cell(0, *(float("nan"),) * 4)
    errors = np.array([row.error for row in kept])
    covered = [row.covered for row in kept if row.covered is not None]
    return Cell(
        len(kept),
        float(np.median(np.abs(errors))),
        float(np.quantile(np.abs(errors), 0.9)),
        float(np.median(errors)),
        float(np.mean(covered)) if covered else float("nan"),
    )


def grouped(rows: Sequence[Comparison], key: Callable[[Comparison], str]) -> dict[str, list[Comparison]]:
    """Rows by group, groups in order of their names."""
    names = sorted({key(row) for row in rows})
    return {name: [row for row in rows if key(row) == name] for name in names}


def band_name(row: Comparison) -> str:
    """The load band of a row as text."""
    low, high = BANDS[row.band]
    return f"load {low:g} to {high:g}"


def table(rows: Sequence[Comparison], key: Callable[[Comparison], str], metrics: Sequence[str] = SHOWN) -> list[str]:
    """A Markdown table: metrics down, groups across, `median / 90th percentile (median signed), n` in per cent."""
    groups = {"all": list(rows), **grouped(rows, key)}
    lines = ["| metric | " + " | ".join(groups) + " |", "|---" * (len(groups) + 1) + "|"]
    for metric in metrics:
        texts = [_text(cell([row for row in group if row.metric == metric])) for group in groups.values()]
        lines.append(f"| {metric} | " + " | ".join(texts) + " |")
    return lines


def _text(found: Cell) -> str:
    if not found.count:
        return "–"
    return f"{100 * found.median:.1f} / {100 * found.ninth:.0f} ({100 * found.signed:+.1f}), {found.count}"


def coverage(rows: Sequence[Comparison], key: Callable[[Comparison], str]) -> list[str]:
    """A Markdown table: share of simulated values within the 90 % intervals, by metric and group."""
    groups = {"all": list(rows), **grouped(rows, key)}
    lines = ["| metric | " + " | ".join(groups) + " |", "|---" * (len(groups) + 1) + "|"]
    for metric in (*SHOWN, "all"):
        texts = []
        for group in groups.values():
            found = cell([row for row in group if metric in (row.metric, "all")])
            texts.append("–" if not np.isfinite(found.covered) else f"{100 * found.covered:.0f} % of {found.count}")
        lines.append(f"| {metric} | " + " | ".join(texts) + " |")
    return lines
