"""The benchmark of large traces, on a small one."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.traces import measured, table, write_trace
from hydra_dse.bundle.metrics import evaluate, measure


def test_the_made_trace_has_the_metrics_that_it_was_made_with(tmp_path: Path) -> None:
    found = evaluate(measure(write_trace(tmp_path / "made", 9.0)))
    assert found.values["avg_step_time"] == pytest.approx(50e-3)
    assert found.values["average_memory_bandwidth"] == pytest.approx(65536 / 2.5e-6 / 1e9)
    assert found.values["collective_bandwidth_allreduce_gb_per_s"] == pytest.approx(2 * 2097152 * 1.5 / 60.25e-6 / 1e9)
    assert found.warnings == ()


@pytest.mark.slow
def test_figures_of_the_benchmark_have_units_and_references(tmp_path: Path) -> None:
    figures = table(tmp_path, 20.0)
    assert figures["trace_size"][0] == pytest.approx(20, rel=0.01)
    assert figures["trace_metrics_peak"][0] < 200
    assert figures["trace_metrics_rate"][2] is not None


def test_a_program_that_fails_is_no_figure(tmp_path: Path) -> None:
    import subprocess

    with pytest.raises(subprocess.CalledProcessError):
        measured("raise SystemExit(3)", tmp_path)
