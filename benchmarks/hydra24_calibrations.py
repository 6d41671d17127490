"""The hydra-24 front under three calibrations and under drawn ones: `python benchmarks/hydra24_calibrations.py`.

Scores every package of the space at one link bandwidth and batch, load by load the same for all, under `measured`,
`default` and a roofline with one efficiency for everything; then the designs of the fronts under drawn calibrations.
Writes `docs/calibration_front.csv`, which `docs/generate_calibration.py` reads.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hydra_dse.config import load_calibration, load_experiment
from hydra_dse.estimator import estimate_designs
from hydra_dse.estimator.calibration_draws import posterior
from hydra_dse.hardware.calibration import ACCESS_KINDS, Calibration, CalibrationSet
from hydra_dse.model.operators import OperatorClass

OUT = Path(__file__).resolve().parents[1] / "docs" / "calibration_front.csv"
ONE_EFFICIENCY = 0.7
LINK, BATCH = 512, 32
RATE, LATENCY = "saturation_tokens_per_s", "ttft_mean_s"


def roofline() -> CalibrationSet:
    """One efficiency for every operator and access, and no fixed costs."""
    shares = dict.fromkeys(OperatorClass, ONE_EFFICIENCY)
    memory = dict.fromkeys(ACCESS_KINDS, ONE_EFFICIENCY)
    return CalibrationSet(Calibration("roofline", shares, memory, 0.0, 0.0, source="assumption"), {})


def front(rate: NDArray[np.float64], latency: NDArray[np.float64]) -> list[int]:
    """Rows that no other row beats in both, fastest first."""
    kept: list[int] = []
    best = np.inf
    for row in np.lexsort((latency, -rate)):
        if np.isfinite(rate[row]) and latency[row] < best:
            kept.append(int(row))
            best = float(latency[row])
    return kept


def main(arguments: Sequence[str] | None = None) -> int:
    """Score and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--rate", type=float, default=2.0, help="requests per second, the same for all")
    options = parser.parse_args(arguments)
    experiment = load_experiment("quickstart")
    points = [
        point for point in experiment.space.points() if point["link_gb_per_s"] == LINK and point["max_batch"] == BATCH
    ]
    workload = experiment.workload
    workload = replace(workload, arrivals=replace(workload.arrivals, rate_per_s=options.rate))
    designs = [experiment.space.build(point) for point in points]
    sets = {"measured": load_calibration("measured"), "default": load_calibration("default"), "roofline": roofline()}
    tables = {name: estimate_designs(designs, workload, one) for name, one in sets.items()}
    fronts = {name: front(table.metrics[RATE], table.metrics[LATENCY]) for name, table in tables.items()}
    rows = sorted({row for found in fronts.values() for row in found})
    drawn = posterior([designs[row] for row in rows], workload, sets["measured"], options.draws)
    with OUT.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        names = [f"{column}_{name}" for name in sets for column in ("rate", "rank", "ttft", "front")]
        writer.writerow(["hbm", "Ap", "Ad", "Mp", "Md", *names, "rate_low", "rate_high", "best_share"])
        wins = np.mean(np.argmax(drawn.draws[RATE], axis=1)[:, None] == np.arange(len(rows)), axis=0)
        for number, row in enumerate(rows):
            line: list[object] = [points[row][key] for key in ("hbm", "Ap", "Ad", "Mp")]
            line.append(designs[row].package.die_count - sum(int(points[row][key]) for key in ("Ap", "Ad", "Mp")))
            for name, table in tables.items():
                rank = int(np.sum(table.metrics[RATE] > table.metrics[RATE][row])) + 1
                speed, wait = table.metrics[RATE][row], table.metrics[LATENCY][row]
                line += [f"{speed:.0f}", rank, f"{wait:.4f}", int(row in fronts[name])]
            low, high = np.quantile(drawn.draws[RATE][:, number], [0.05, 0.95])
            writer.writerow([*line, f"{low:.0f}", f"{high:.0f}", f"{wins[number]:.2f}"])
    sys.stdout.write(f"{len(designs)} designs, {len(rows)} on one of the fronts\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
