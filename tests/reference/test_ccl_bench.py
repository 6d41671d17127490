"""CCL-Bench: every metric of its two-rank fixture, and its index of cards.

Expected values are the table's `hand_computed` expressions in full precision.  Rank 1 takes 50 µs longer in AllReduce;
a step has 500 µs of compute and 450 or 500 µs of communication, 100 µs of which overlap.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hydra_dse.bundle.cards import parse_card
from hydra_dse.bundle.metrics import Measurement, evaluate, measure, metrics

FOLDER = Path(os.environ.get("HYDRA_DSE_REFERENCE", Path(__file__).resolve().parents[3] / "shared" / "reference"))
DATA = FOLDER / "ccl_bench"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"no reference data at {DATA}")
GIB = 2**30

HAND = {
    "avg_step_time": 1e-3,
    "mfu": 100 * (5.4e6 + 98304) * 512 / 1e-3 / (2 * 312e12),
    "communication_fraction": (450 / 950 + 500 / 1000) / 2 * 100,
    "communication_ratio": 950 / 1950 * 100,
    "total_communication_time": (450e-6 + 500e-6) / 2,
    "compute_comm_overlap": (100 / 450 + 100 / 500) / 2 * 100,
    "communication_overlap_ratio": (100 / 450 + 100 / 500) / 2,
    "total_kernel_time": 4 * (950e-6 + 1000e-6),
    "total_trace_time": 3.9e-3,
    "dominant_kernel_concentration": 400 / 975 * 100,
    "aggregate_gpu_utilization": (3400 / 3900 + 3600 / 3900) / 2 * 100,
    "mean_sm_coverage": (400 * 1 + 100 * 0.5) / 500 * 100,
    "average_memory_bandwidth": 50e6 / 50e-6 / 1e9,
    "memory_bound_fraction": 100 / 975 * 100,
    "load_imbalance_ratio": 900 / 850,
    "straggler": (2000 - 1800) / 2000,
    "bandwidth_utilization_allgather_group_6": 20e6 * 0.5 / 200e-6 / GIB,
    "bandwidth_utilization_allreduce_group_6": 10e6 * 2 * 0.5 / 100e-6 / GIB,
    "bandwidth_utilization_alltoall_group_6": 6e6 * 0.5 / 100e-6 / GIB,
    "bandwidth_utilization_reducescatter_group_6": 8e6 * 0.5 / 50e-6 / GIB,
    "collective_vol_allreduce_gb": 4 * 10e6 / 1e9,
    "collective_vol_allgather_gb": 4 * 20e6 / 1e9,
    "collective_vol_reducescatter_gb": 4 * 8e6 / 1e9,
    "collective_vol_alltoall_gb": 4 * 6e6 / 1e9,
    "collective_vol_total_gb": 4 * 44e6 / 1e9,
    "gpu_step_score": 0.5 * 16 / 2 + 0.5 * 0.44 / 1e-3,
    "memory_transfer_overhead": 200 / 3950 * 100,
}
INFERENCE = {
    "ttft": 2e-3,
    "tpot": 1e-3,
    "total_communication_time": (4 * 450e-6 + 4 * 500e-6) / 2,
    "mfu": (1.8e6 + 32768) * 512 / 0.005 / 624e12 * 100,
}
# The same events in an Nsight export, without the two collectives and the copies of device 1 told apart: a step has 500
# µs of compute, 300 or 350 µs of communication, 50 µs of copies.  Both devices' copies fall together and no compute
# covers them, so that 200 of 3950 µs show.
NSYS = {
    "dominant_kernel_concentration": 400 / (400 + 200 + 100 + 125) * 100,
    "mean_sm_coverage": (1 + 24 / 108 + 54 / 108 + 24 / 108) / 4 * 100,
    "memory_bound_fraction": (200 + 125) / 825 * 100,
    "communication_fraction": (2 * 200 + 100 + 150) / (2 * 700 + 100 + 150) * 100,
    "communication_ratio": (2 * 200 + 100 + 150) / (2 * 700 + 100 + 150) * 100,
    "total_communication_time": 4 * (300e-6 + 350e-6),
    "compute_comm_overlap": 200 / 650 * 100,
    "communication_overlap_ratio": (100 / 300 + 100 / 350) / 2,
    "load_imbalance_ratio": 750 / 700,
    "aggregate_gpu_utilization": (4 * 700 / 3700 + 4 * 750 / 3750) / 2 * 100,
    "average_memory_bandwidth": 1000.0,
    "memory_transfer_overhead": 200 / 3950 * 100,
    "total_kernel_time": 4 * (800e-6 + 850e-6),
    "total_trace_time": 3.75e-3,
    "moe_fraction": 0.0,
    # Summed over both devices and the four steps, in ms.
    "break_down_steps@communication": 4 * (0.300 + 0.350),
    "break_down_steps@other": 2 * 4 * 0.500,
    "break_down_steps@attention": 0.0,
    "break_down_steps@moe_route": 0.0,
    "break_down_steps@moe_expert": 0.0,
}


def fixture(folder: Path, *arguments: str) -> Path:
    """Run the reference's own script."""
    script(DATA / "fixture_kineto.py", folder, *arguments)
    return folder


def script(file: Path, *arguments: object) -> None:
    """In a process of its own: it leaves files for the end of the process to close."""
    subprocess.run([sys.executable, str(file), *map(str, arguments)], check=True)


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Measurement:
    return evaluate(measure(fixture(tmp_path_factory.mktemp("made") / "fixture")))


@pytest.mark.parametrize("name", HAND)
def test_a_metric_of_the_fixture_is_what_the_hand_computes(training: Measurement, name: str) -> None:
    assert training.values[name] == pytest.approx(HAND[name], rel=1e-6)


def test_the_table_agrees_with_the_hand_where_the_original_is_right() -> None:
    with (DATA / "fixture_metric_values.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len(HAND) + len(INFERENCE)
    for row in rows:
        name, _, variant = row["metric"].partition(" (inference variant")
        expected = (INFERENCE if variant else HAND)[name]
        if row["agrees"] == "yes":
            printed = row["ccl_bench_output"]
            half_a_digit = 0.5 * 10 ** -len(printed.partition(".")[2])
            assert float(printed) == pytest.approx(expected, abs=1.01 * half_a_digit)


@pytest.mark.parametrize("name", INFERENCE)
def test_a_serving_metric_of_the_fixture_is_what_the_hand_computes(tmp_path: Path, name: str) -> None:
    folder = fixture(tmp_path / "fixture", "inference")
    (folder / "logs").mkdir()
    (folder / "logs" / "x.latency.json").write_text('{"avg_latency": 0.005}')
    assert evaluate(measure(folder), (name,)).values[name] == pytest.approx(INFERENCE[name], rel=1e-6)


def test_files_named_by_kineto_are_ranks_too(tmp_path: Path) -> None:
    found = evaluate(measure(fixture(tmp_path / "fixture", "training", "kineto"))).values
    assert found["communication_ratio"] == pytest.approx(HAND["communication_ratio"], rel=1e-6)


def test_bus_bandwidth_of_an_allgather_counts_the_whole_message(training: Measurement) -> None:
    assert training.values["collective_bandwidth_allgather_gb_per_s"] == pytest.approx(40e6 * 0.5 / 200e-6 / 1e9)


def test_exposed_communication_of_the_fixture_is_what_no_compute_covers(training: Measurement) -> None:
    assert training.values["exposed_communication_s"] == pytest.approx((350e-6 + 400e-6) / 2)


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Measurement:
    made = tmp_path_factory.mktemp("made")
    source = fixture(made / "source")
    script(DATA / "fixture_nsys_sqlite.py", made / "nsys", source / "source.yaml")
    return evaluate(measure(made / "nsys"))


@pytest.mark.parametrize("name", NSYS)
def test_a_metric_of_the_export_is_what_the_hand_computes(export: Measurement, name: str) -> None:
    assert export.sources[name] == "nsys"
    assert export.values[name] == pytest.approx(NSYS[name], rel=1e-6, abs=1e-12)


def test_every_metric_of_the_export_without_a_value_has_a_reason(export: Measurement) -> None:
    assert set(export.values) == set(NSYS)
    assert all(export.unavailable.values())


def test_every_metric_of_the_catalogue_is_registered_or_not_of_the_dashboard() -> None:
    known = metrics()
    with (DATA / "metrics_catalog.csv").open(newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["on_dashboard"] == "yes"]
    assert len(rows) == 21
    for row in rows:
        first, brace, rest = row["metric"].partition("{")
        kinds, _, last = rest.partition("}")
        names = [f"{first}{kind.strip()}{last}" for kind in kinds.split(",")] if brace else [row["metric"]]
        for name in names:
            assert known[name].original
            if not known[name].missing and "json" in row["backends"]:
                assert known[name].functions


def indexed() -> list[dict[str, str]]:
    with (DATA / "cards_index.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def product_differs(row: dict[str, str]) -> bool:
    """Computed from the index alone: whether dp_replicate · dp_shard · tp · pp · cp is not the number of devices."""
    product = 1
    for part in row["parallelism"].split("|"):
        name = part.rstrip("0123456789")
        product *= int(part[len(name) :]) if name in ("dp_replicate", "dp_shard", "tp", "pp", "cp") else 1
    return product != int(row["total_count"])


def card_like(row: dict[str, str]) -> str:
    """A card with what the index tells of one found in the wild."""
    plan = "".join(
        f"      {part.rstrip('0123456789')}: {part[len(part.rstrip('0123456789')) :]}\n"
        for part in row["parallelism"].split("|")
    )
    executor = f"Model-executor:\n  framework: {{name: {row['framework']}}}\n  model_plan_parallelization:\n{plan}"
    if row["executor_position"] == "under workload":
        executor = "".join(f"  {line}\n" for line in executor.splitlines())
    arch = "\n    model_arch: {num_params: 8000000000, num_layers: 32, num_heads: 32, head_dim: 128}"
    lengths = "".join(
        f"\n    {key}: {row[key]}" for key in ("batch_size", "seq_len", "input_len", "output_len") if row[key]
    )
    return f"""version: 1
workload:
  model:
    phase: {row["phase"]}
    moe: {row["moe"]}
    model_family: {row["model_family"]}{arch if row["has_model_arch"] == "yes" else ""}
  data:
    dataset: custom{lengths}
  hardware:
    network_topo: {{topology: x, bandwidth_gbps: [{row["bandwidth_gbps_scaleout_scaleup"].replace("|", ", ")}]}}
    xpu_spec: {{type: GPU, model: {row["xpu_model"]}, total_count: {row["total_count"]}, count_per_node: 1}}
{executor}
metric_source:
  traces: [{row["metric_source_traces"].replace("|", ", ")}]
"""


def said(text: str, words: str) -> bool:
    return any(words in fault.message for fault in parse_card(text).faults())


def test_every_card_of_the_index_is_read_and_its_contradictions_found() -> None:
    rows = [row for row in indexed() if row["yaml_status"] == "ok"]
    cards = {row["card_path"]: card_like(row) for row in rows}
    assert len(rows) > 100
    for row in rows:
        text = cards[row["card_path"]]
        assert said(text, "contradictory parallelism") == product_differs(row)
        assert said(text, "wrong nesting") == (row["executor_position"] == "under workload")
        assert said(text, "missing 'model_arch'") == (row["has_model_arch"] == "no")
        assert said(text, "is not a number") == any(
            word in row["bandwidth_gbps_scaleout_scaleup"] for word in ("N/A", "TBD")
        )
        assert said(text, "no reader for traces") == bool(
            set(row["metric_source_traces"].split("|")) - {"json", "nsys", "json_tpu"}
        )
    assert sum(map(product_differs, rows)) > 20
