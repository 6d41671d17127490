"""`hydra-dse bench`: tables, JSON shapes, plots, files, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.reports import SUMMARY, SWEEP, compile_report, with_children, written

KERNELS = (("fc1", 900.0, 100_000, 90), ("attention1", 1800.0, 50_000, 80))


@pytest.fixture
def report(tmp_path: Path) -> Path:
    return compile_report(tmp_path / "report.txt", with_children(KERNELS, 1))


def test_tier1_prints_allocation_denominator_and_imbalance(hydra, report):
    answer = hydra("bench", "tier1", str(report))
    assert (answer.code, answer.err) == (0, "")
    for text in ("pe 48.73%", "307,840", "0.833", "bound by compute of the chip"):
        assert text in answer.out


def test_the_json_of_tier1_has_the_keys_that_scripts_rely_on(hydra, report):
    data = json.loads(hydra("bench", "tier1", str(report), "--json", "--total", "pe=300000").out)
    assert data["schema_version"] == 1
    assert data["allocation_ratio"] == {"pe": 0.5}
    assert data["load_imbalance"] == pytest.approx(125 / 150)
    assert data["chip_to_slowest_kernel"] == pytest.approx(860.3 / 900)
    assert {level["name"] for level in data["roofline"]["levels"]} == {"sram", "far memory"}


def test_the_json_of_tier2_has_the_keys_that_scripts_rely_on(hydra, tmp_path):
    path = written(tmp_path / "sweep.csv", SWEEP)
    data = json.loads(hydra("bench", "tier2", str(path), "--json").out)
    assert {"schema_version", "scaling", "batch_saturation", "precision_gain", "failures"} <= set(data)
    assert [failure["reason"] for failure in data["failures"]] == ["no value in the table", "OOM"]


def test_a_modelled_chip_sweeps_and_ends_with_advice(hydra, tmp_path):
    plot = tmp_path / "roof.svg"
    words = ("--chip", "sn30", "--sweep", "layers=2/4,hidden=256/512", "--plot", str(plot))
    answer = hydra("bench", "tier1", *words)
    assert answer.code == 0
    assert answer.out.count("modelled") == 4
    assert "bound by" in answer.out
    assert plot.read_bytes().startswith(b"<?xml")


@pytest.mark.slow
def test_plots_are_the_same_bytes_every_time(hydra, tmp_path):
    files = [tmp_path / name for name in ("a.png", "b.png")]
    for file in files:
        assert (
            hydra("bench", "tier1", "--chip", "gc200", "--sweep", "layers=4,hidden=256", "--plot", str(file)).code == 0
        )
    assert files[0].read_bytes() == files[1].read_bytes()


def test_tier2_of_a_modelled_chip_has_scaling_batches_and_precisions(hydra):
    answer = hydra("bench", "tier2", "--chip", "gc200", "--sweep", "layers=4,hidden=256,sequence=128", "--json")
    data = json.loads(answer.out)
    assert all(data[key] for key in ("scaling", "batch_saturation", "precision_gain"))
    assert any("pipeline scaling" in line and "falls after" in line for line in data["advice"])
    assert any("saturates" in line for line in data["advice"])


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_normalised_profiles_are_written_and_read_again(hydra, report, tmp_path, suffix):
    out = tmp_path / f"profiles{suffix}"
    first = hydra("bench", "tier1", str(report), "--out", str(out), "--json")
    again = hydra("bench", "tier1", str(out), "--json")
    assert json.loads(again.out) == json.loads(first.out)


def test_contradictory_layouts_are_printed_with_their_lines(hydra, tmp_path):
    text = "\n".join([*SWEEP.splitlines()[:2], '1,bad,"[0, 3, 3, 3, 3]",12,4,1,4,1,64'])
    path = written(tmp_path / "plan.csv", text)
    answer = hydra("bench", "layouts", str(path))
    assert answer.out.splitlines() == [
        f"{path}:3: bad: 5 entries for 4 chips",
        "2 layouts checked, 1 contradict themselves",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "give PROFILE files or --chip NAME"),
        (("x.csv", "--chip", "h100"), "one of the two"),
        (("x.csv", "--sweep", "layers=1"), "--sweep goes with --chip"),
        (("--chip", "h10"), "did you mean 'h100'"),
        (("--chip", "h100", "--sweep", "layrs=1"), "did you mean 'layers'"),
        (("--chip", "h100", "--plot", "a.pdf"), ".png or .svg"),
        (("nothing.csv",), "nothing.csv: cannot be read"),
        (("--chip", "h100", "--total", "core=x"), "RESOURCE=COUNT"),
        (("--chip", "h100", "--calibration", "defalt"), "did you mean 'default'"),
    ],
)
def test_mistakes_end_in_one_message(hydra, words, message):
    answer = hydra("bench", "tier1", *words)
    assert answer.code == 2
    assert message in answer.err
    assert "Traceback" not in answer.err


def test_a_malformed_table_is_named_with_file_and_line(hydra, tmp_path):
    path = written(tmp_path / "s.csv", SUMMARY.replace("6.11", "fast"))
    answer = hydra("bench", "tier1", str(path))
    assert answer.code == 2
    assert f"{path}:2: throughput" in answer.err
