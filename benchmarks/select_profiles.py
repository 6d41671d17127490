"""Select the measured profiles that the page of claims is computed from: `python -m benchmarks.select_profiles FOLDER`.

FOLDER holds the published tables (one CSV each, with a `source` column).  What is taken is written in the project's own
format with the source of every row; kernels of a report that have the same rate become one unit, which leaves
allocation and load imbalance as they are.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import replace
from pathlib import Path

from hydra_dse.bench.merge import merged
from hydra_dse.bench.readers import read_profiles
from hydra_dse.bench.readers.tidy import write_profiles
from hydra_dse.bench.record import Profile, Unit

OUT = Path(__file__).resolve().parents[1] / "docs" / "dabench-profiles.csv"
TABLES = (
    "wse2_kernels", "wse2_reports", "wse2_depth_width_sweep", "wse_training_throughput", "cs2_bert_training_usc",
    "cs2_gpt3_training_usc", "sn30_gpt2_sweep", "sn30_llama_precision", "ipu_measurements",
)  # fmt: skip


def sources(path: Path) -> dict[int, str]:
    """Source of each line of a table."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        found = {}
        for row in reader:
            found[reader.line_num] = row["source"]
        return found


def by_rate(units: tuple[Unit, ...]) -> tuple[Unit, ...]:
    """Units of equal rate as one."""
    found: dict[float | None, float] = {}
    for unit in units:
        found[unit.rate_per_s] = found.get(unit.rate_per_s, 0.0) + sum(unit.resources.values())
    resource = next((name for unit in units for name in unit.resources), "")
    return tuple(
        Unit(
            f"kernels at {rate:g}/s" if rate else "kernels without a rate", resources={resource: count}, rate_per_s=rate
        )
        for rate, count in found.items()
    )


def selected(folder: Path) -> list[Profile]:
    """Profiles of all tables, with citations in place of paths."""
    profiles = []
    for table in TABLES:
        path = folder / f"{table}.csv"
        cited = sources(path)
        for profile in read_profiles(path):
            units = by_rate(profile.units) if len(profile.units) > 1 else profile.units
            profiles.append(replace(profile, units=units, source=cited.get(profile.line or 0, ""), line=None))
    return merged(profiles)


if __name__ == "__main__":
    write_profiles(selected(Path(sys.argv[1])), OUT)
