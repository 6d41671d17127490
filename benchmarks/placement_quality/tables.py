"""Rows of the benchmark's tables: ratios over packages with bootstrap intervals, and those of simulated placements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.placement_quality.gaps import ALGORITHMS, Gap
from benchmarks.placement_quality.simulated import Effect
from hydra_dse.rng import derive

_DRAWS = 2000
_OPTIMAL = 1.0 + 1e-5
"""Objectives are computed in single precision."""


def gap_rows(gaps: Sequence[Gap]) -> list[dict[str, object]]:
    """One row for each algorithm: mean ratio with its 95 % interval over packages, worst, share optimal, time."""
    rows: list[dict[str, object]] = []
    for algorithm in ALGORITHMS:
        mine = [gap for gap in gaps if gap.algorithm == algorithm and np.isfinite(gap.ratio)]
        if not mine:
            continue
        ratios = np.array([gap.ratio for gap in mine])
        picks = derive(0, "placement gap", mine[0].kind, algorithm).integers(len(ratios), size=(_DRAWS, len(ratios)))
        low, high = np.percentile(ratios[picks].mean(axis=1), (2.5, 97.5))
        rows.append({
            "kind": mine[0].kind, "algorithm": algorithm, "packages": len(ratios), "mean": float(ratios.mean()),
            "mean:low": float(low), "mean:high": float(high), "worst": float(ratios.max()),
            "share_optimal": float(np.mean(ratios <= _OPTIMAL)),
            "cpu_ms": 1e3 * float(np.median([gap.cpu_s for gap in mine])),
        })  # fmt: skip
    return rows


def effect_row(effect: Effect) -> dict[str, object]:
    """One row for a placement."""
    row: dict[str, object] = {
        "kind": effect.kind, "link_gb_per_s": effect.link_gb_per_s, "algorithm": effect.algorithm,
        "objective": effect.objective,
    }  # fmt: skip
    for name, (value, low, high) in (("saturation", effect.saturation), ("ttft", effect.ttft)):
        row |= {name: value, f"{name}:low": low, f"{name}:high": high}
    return row
