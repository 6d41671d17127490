"""The quick variant of every shipped comparison runs to its end."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from hydra_dse.config import load_comparison
from hydra_dse.studies.comparison import COMPARED, compare

STUDIES = ("hydra-headline", "prior-art", "ablation", "iso-design", "engine-policies", "gpus", "duet-or-one")


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_the_quick_variant_measures_every_contender_that_can_be_built(name: str, tmp_path: Path) -> None:
    compare(name, tmp_path / "run", quick=True)
    comparison = load_comparison(name, quick=True)
    with (tmp_path / "run" / COMPARED).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["contender"] for row in rows} == {one.name for one in comparison.contenders}
    built = [row for row in rows if row["feasible"] == "True"]
    assert all(float(row["saturation_tokens_per_s"]) > 0 for row in built)
    # What may lack room on a package that was drawn small: only variants with more hardware than the package.
    assert all(" 2x " in row["contender"] or " 1.5x " in row["contender"] for row in rows if row not in built)
    [reference] = {row["ratio:saturation"] for row in rows if row["contender"] == comparison.reference}
    assert float(reference) == 1.0
