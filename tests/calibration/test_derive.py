"""The library's measured calibration is what the shipped fits give, and says what it rests on."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from hydra_dse.calibration.derive import derived, derived_gpu
from hydra_dse.calibration.records import read_fits
from hydra_dse.config import load_calibration
from hydra_dse.config.library import LIBRARY

ROOT = Path(__file__).resolve().parents[2]
FROM_DATAFLOW = ("compute.mlp", "half_width", "operator_overhead", "collective_overhead", "stage_imbalance")


def test_the_library_holds_what_the_script_writes_now() -> None:
    path = ROOT / "benchmarks" / "derive_calibrations.py"
    spec = importlib.util.spec_from_file_location("derive_calibrations", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    held = (LIBRARY / "calibrations.yaml").read_text(encoding="utf-8")
    assert held.endswith(script.text()), "run `python benchmarks/derive_calibrations.py`"


def test_five_parameters_of_modelled_dies_come_from_dataflow_machines_with_intervals() -> None:
    part = load_calibration("measured").default
    for name in FROM_DATAFLOW:
        low, high = part.intervals[name]
        assert low < high
        assert part.basis[name] == "transferred"
    assert part.half_width > 0
    assert part.collective_overhead_s > 0
    assert part.stage_imbalance > 1


def test_launch_and_collective_together_are_bounded_by_the_rest_of_a_decode_step() -> None:
    found = derived(read_fits())
    # Eight RDUs decode Llama-3-8B in about 1.55 ms; its weights take 1.25 ms of all their bandwidth.
    whole = found["operator_overhead"].high * 256 + found["collective_overhead"].high * 64
    assert 0.2e-3 < whole < 0.35e-3


def test_a_gpu_under_its_power_limit_multiplies_at_less_than_its_cold_share() -> None:
    found = derived_gpu(read_fits())["compute.mlp"]
    assert 0.5 < found.value < 0.75
    assert found.low < found.value < found.high


@pytest.mark.parametrize("kind", ["weights", "kv", "state", "activations"])
def test_memory_shares_are_flagged_as_those_of_gpu_controllers(kind: str) -> None:
    found = derived(read_fits())[f"memory.{kind}"]
    assert found.basis == "transferred"
    assert 0.3 < found.value < 1.0
