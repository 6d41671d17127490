"""Composed dies against the die table of HYDRA's public artifact."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from hydra_dse.config.hardware import load_chiplet

FOLDER = Path(os.environ.get("HYDRA_DSE_REFERENCE", Path(__file__).resolve().parents[3] / "shared" / "reference"))
TABLE = FOLDER / "hydra" / "die_tables.csv"
pytestmark = pytest.mark.skipif(not TABLE.is_file(), reason=f"no reference data at {TABLE}")
PHASES = {"p": "prefill", "d": "decode"}


def rows() -> list[dict[str, str]]:
    with TABLE.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_every_count_of_the_artifact_is_met_within_one_and_most_exactly() -> None:
    off = []
    for row in rows():
        core, phase = row["die"].split("_")
        die = load_chiplet(f"hydra-{core}-{PHASES[phase]}-28nm", float(row["D2D_bw_GBps"]) * 1e9)
        off += [die.cores - int(row["cores"]), die.sram_bytes / 1e6 - float(row["sram_MB"])]
    assert len(off) == 40
    assert max(map(abs, off)) <= 1
    assert sum(difference != 0 for difference in off) == 3


def test_areas_of_the_artifact_are_met_where_the_counts_are() -> None:
    compared = 0
    for row in rows():
        core, phase = row["die"].split("_")
        die = load_chiplet(f"hydra-{core}-{PHASES[phase]}-28nm", float(row["D2D_bw_GBps"]) * 1e9)
        if (die.cores, die.sram_bytes / 1e6) == (int(row["cores"]), float(row["sram_MB"])):
            assert die.area_mm2 == pytest.approx(float(row["area_mm2_28nm"]), abs=2e-3)
            assert die.matmul_flops_per_s == 2 * float(row["MAC_lanes"]) * 1e9
            compared += 1
    assert compared == 18
