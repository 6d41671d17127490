"""What the estimator is asked for, by load band, and what the stored runs show of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.validation.cases import BANDS
from benchmarks.validation.errors import Cell, Comparison, cell


@dataclass(frozen=True)
class Target:
    """Largest median error asked for in each load band; `ninth`: largest 90th percentile, over all."""

    metric: str
    medians: tuple[float, float, float]
    ninth: float | None = None


TARGETS = (
    Target("saturation_requests_per_s", (0.02, 0.02, 0.02), 0.06),
    Target("ttft_mean_s", (0.05, 0.10, 0.20)),
    Target("ttft_p99_s", (0.12, 0.20, 0.30)),
    Target("tpot_mean_s", (0.015, 0.02, 0.04)),
    Target("tpot_p99_s", (0.10, 0.10, 0.10)),
    Target("e2e_mean_s", (0.03, 0.04, 0.08)),
)


def by_band(rows: Sequence[Comparison], metric: str) -> list[Cell]:
    """Statistics of a metric in each band."""
    return [cell([row for row in rows if row.metric == metric and row.band == band]) for band in range(len(BANDS))]


def table(rows: Sequence[Comparison]) -> list[str]:
    """A Markdown table: median error and target in each band, and whether it is met."""
    heads = [f"load {low:g} to {high:g}" for low, high in BANDS]
    lines = ["| median of the absolute error, % | " + " | ".join(heads) + " |", "|---" * (len(BANDS) + 1) + "|"]
    for target in TARGETS:
        texts = []
        for found, asked in zip(by_band(rows, target.metric), target.medians, strict=True):
            if not found.count:
                texts.append("none counts")
                continue
            sign = "met" if found.median <= asked else "**missed**"
            texts.append(f"{100 * found.median:.1f} (asked {100 * asked:g}: {sign}), n = {found.count}")
        lines.append(f"| {target.metric} | " + " | ".join(texts) + " |")
    return lines


def ninth(rows: Sequence[Comparison]) -> str:
    """A sentence on the target for the 90th percentile of saturation."""
    [target] = [target for target in TARGETS if target.ninth is not None]
    found = cell([row for row in rows if row.metric == target.metric])
    asked = target.ninth or 0.0
    sign = "met" if found.ninth <= asked else "missed"
    return (
        f"90th percentile of the error of the saturation rate, all loads: {100 * found.ninth:.1f} % "
        f"(asked {100 * asked:g} %: {sign}); largest {100 * max(abs(row.error) for row in _kept(rows, target)):.0f} %."
    )


def _kept(rows: Sequence[Comparison], target: Target) -> list[Comparison]:
    return [row for row in rows if row.metric == target.metric and not row.left_out]
