"""Known answers on measured profiles; skipped where the reference data is absent."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from hydra_dse.bench.layouts import check_layouts
from hydra_dse.bench.merge import merged
from hydra_dse.bench.metrics import (
    allocation_ratios,
    chip_to_slowest_kernel,
    load_imbalance,
    unweighted_imbalance,
)
from hydra_dse.bench.readers import read_profiles
from hydra_dse.bench.record import Profile
from hydra_dse.bench.tier1 import tier1_of
from hydra_dse.bench.tier2 import tier2_of

ROOT = Path(os.environ.get("HYDRA_DSE_REFERENCE", Path(__file__).parents[3] / "shared" / "reference"))
FOLDER = ROOT / "dabench"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no reference data at {FOLDER}")

TABLES = (
    "cs2_bert_training_usc", "cs2_gpt3_training_usc", "cs2_sparse_matmul", "inference_published",
    "ipu_experiment_plan", "ipu_measurements", "sn30_gpt2_sweep", "sn30_llama_precision", "sn40l_inference",
    "tenstorrent_inference", "wse2_depth_width_sweep", "wse2_kernels", "wse2_reports", "wse_training_throughput",
)  # fmt: skip


def profiles(*names: str) -> list[Profile]:
    return merged(each for name in names for each in read_profiles(FOLDER / f"{name}.csv"))


@pytest.mark.parametrize("name", TABLES)
def test_every_measured_table_is_read_and_its_runs_have_a_rate_a_reason_or_are_plans(name: str) -> None:
    for profile in read_profiles(FOLDER / f"{name}.csv"):
        known = profile.rate is not None or bool(profile.units) or profile.kind == "plan"
        assert known != bool(profile.failure) or (profile.failure and profile.units), profile
        assert profile.line is not None


def test_reports_give_the_printed_allocation_and_the_imbalance_computed_elsewhere() -> None:
    found = {profile.name: profile for profile in profiles("wse2_kernels", "wse2_reports")}
    with (FOLDER / "wse2_reports.csv").open() as file:
        stated = list(csv.DictReader(file))
    assert len(found) == len(stated) == 3
    for row in stated:
        profile = found[row["report_file"]]
        ratio = allocation_ratios(profile)["pe"]
        assert ratio.total == 307_840
        assert ratio.mean * 100 == pytest.approx(float(row["sum_pe_over_307840_pct"]), abs=0.005)
        assert ratio.mean == pytest.approx(ratio.stated, abs=0.005)
        assert load_imbalance(profile) == pytest.approx(float(row["LI_pe_weighted_all"]), abs=5e-5)
        assert unweighted_imbalance(profile) == pytest.approx(float(row["LI_unweighted_all"]), abs=5e-5)


def test_the_gpt2_report_allocates_92_percent_evenly() -> None:
    profile = next(each for each in profiles("wse2_kernels", "wse2_reports") if each.name.startswith("gpt2"))
    assert round(allocation_ratios(profile)["pe"].mean * 100, 2) == 91.72
    assert round(load_imbalance(profile) or 0, 3) == 0.979
    assert chip_to_slowest_kernel(profile) == pytest.approx(860.3 / 861.1)


def test_the_layout_checker_finds_the_twelve_contradictory_plans() -> None:
    plans = read_profiles(FOLDER / "ipu_experiment_plan.csv")
    found = check_layouts(plans)
    assert len(plans) == 89
    assert [each.line for each in found] == list(range(79, 91))
    assert all(each.name.startswith("gpt_batchsize_benchmark.sh") for each in found)


def test_a_summary_says_that_shallow_models_are_bound_by_the_host_and_deep_ones_by_the_chip() -> None:
    runs = [run for run in profiles("sn30_gpt2_sweep") if run.configuration == "O3" and run.model.hidden == 1600]
    bound = {run.model.layers: relief.binding for run in runs if (relief := tier1_of(run).relief)}
    assert bound == {1: "host", 6: "host", 12: "host", 36: "device"}


def test_the_precision_gain_names_both_configurations() -> None:
    gains = {(each.base, each.faster): each.gain for each in tier2_of(profiles("sn30_llama_precision")).precision_gain}
    assert gains["close_mix", "mix"] == pytest.approx(0.21 / 0.156 - 1)
    assert ("mix", "close_mix") not in gains


def test_failed_runs_are_listed_with_their_reasons_and_not_averaged_in() -> None:
    result = tier2_of(profiles("wse_training_throughput"))
    assert [failure.line for failure in result.failures] == [4, 5, 7, 15]
    assert "capacity" in result.failures[2].reason


def test_a_pipeline_saturates_at_a_batch_of_2048() -> None:
    found = {each.subject: each for each in tier2_of(profiles("ipu_measurements")).batch_saturation}
    pipeline = next(each for name, each in found.items() if "GPT 117M" in name)
    # 2,048 to 4,096 gains 2.3 % (interpolated); 512 to 1,024 gains 8.9 %.
    assert pipeline.smallest_saturating_batch == 2048


def test_scaling_over_hosts_counts_the_best_run_of_each_size() -> None:
    (scaling,) = (each for each in tier2_of(profiles("ipu_measurements")).scaling if "ResNet" in each.subject)
    assert [point.chips for point in scaling.points] == [1, 2, 4, 8, 16]
    assert scaling.points[-1].efficiency == pytest.approx(23082.9 / 16 / 1862.9)
