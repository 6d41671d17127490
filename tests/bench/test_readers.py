"""Every format is recognised from its content and read into the same record."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Iterable
from pathlib import Path

import pytest

from bench.reports import (
    POPVISION,
    RUN_LOG,
    SECTIONS,
    SERVING,
    STAGES,
    SUMMARY,
    SWEEP,
    TRAIN_LOG,
    compile_report,
    header,
    with_children,
    written,
)
from hydra_dse.bench.metrics import allocation_ratios, load_imbalance
from hydra_dse.bench.readers import READERS, Head, Reader, read_profiles
from hydra_dse.bench.readers.tidy import write_profiles
from hydra_dse.bench.record import MemoryLevel, ModelShape, Profile, Unit
from hydra_dse.errors import InputError

KERNELS = (("fc1", 900.0, 100_000, 90), ("attention1", 1800.0, 50_000, 80), ("add1", None, 1_000, 0))


def only(path: Path) -> Profile:
    (profile,) = read_profiles(path)
    return profile


def test_a_compile_report_keeps_the_kernels_of_its_top_level(tmp_path: Path) -> None:
    profile = only(compile_report(tmp_path / "anything.log", with_children(KERNELS, 3)))
    assert [unit.name for unit in profile.units] == ["fc1", "attention1", "add1"]
    assert (profile.samples_per_s, profile.transmission_rate_per_s) == (860.3, 861.1)
    assert profile.totals == {"pe": 307840}
    assert profile.allocation == {"pe": 0.92}
    assert profile.utilization == 0.85
    assert profile.kind == "estimate"
    assert allocation_ratios(profile)["pe"].mean == pytest.approx(151_000 / 307_840)
    # T_min = 900: fc1 counts whole, attention1 half; add1 has no rate.
    assert load_imbalance(profile) == pytest.approx((100_000 + 25_000) / 150_000)


def test_a_compile_report_without_bars_reads_alike(tmp_path: Path) -> None:
    barred = compile_report(tmp_path / "a.txt", with_children(KERNELS, 1))
    text = re.sub(r" *\| *", "   ", barred.read_text())
    assert only(written(tmp_path / "b.txt", text)).units == only(barred).units


@pytest.mark.slow
def test_a_large_compile_report_is_read_in_little_memory(tmp_path: Path) -> None:
    kernels = tuple((f"kernel{index}", 900.0 + index, 1_000, 80) for index in range(100))
    path = compile_report(tmp_path / "large.txt", with_children(kernels, 3_300))
    assert path.stat().st_size > 50e6
    tracemalloc.start()
    profile = only(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(profile.units) == 100
    assert peak < 2e6


def test_a_header_alone_is_a_report(tmp_path: Path) -> None:
    profile = only(written(tmp_path / "r.txt", header(14724.2, 17287.7, 14724.2, 62, 52)))
    assert (profile.samples_per_s, profile.allocation, profile.units) == (14724.2, {"pe": 0.62}, ())


@pytest.mark.parametrize(
    ("line", "message"),
    [("| fc9 | 1.0 | 2 |", "3 cells"), ("| fc9 | fast | 1 | 1 | 5 | 5% |", "samples_s must be a number, got 'fast'")],
)
def test_a_malformed_kernel_row_is_named_with_file_and_line(tmp_path: Path, line: str, message: str) -> None:
    path = compile_report(tmp_path / "r.txt", KERNELS)
    lines = path.read_text().splitlines()
    written(path, "\n".join([*lines[:-1], line]))
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        read_profiles(path)
    assert (caught.value.faults[0].file, caught.value.faults[0].line) == (str(path), len(lines))


def test_a_run_log_gives_its_last_global_rate_its_batch_and_its_systems(tmp_path: Path) -> None:
    profile = only(written(tmp_path / "run.log", RUN_LOG))
    assert (profile.samples_per_s, profile.batch, profile.chips, profile.line) == (516.44, 112, 2, 4)


def test_a_run_log_that_never_stepped_is_a_failed_run(tmp_path: Path) -> None:
    profile = only(written(tmp_path / "run.log", "\n".join(RUN_LOG.splitlines()[:2])))
    assert profile.samples_per_s is None
    assert "no step" in profile.failure


def test_a_performance_file_gives_what_was_measured(tmp_path: Path) -> None:
    text = '{"compile_time": 99.5, "est_samples_per_sec": 900.0, "samples_per_sec": 850.0, "total_time": 8.0}'
    profile = only(written(tmp_path / "performance.json", text))
    assert (profile.samples_per_s, profile.kind, profile.failure) == (850.0, "measured", "")


def test_an_empty_performance_file_is_a_failed_run(tmp_path: Path) -> None:
    assert only(written(tmp_path / "performance.json", "{}")).failure


def test_sections_have_times_resources_and_their_traffic(tmp_path: Path) -> None:
    profile = only(written(tmp_path / "section_report.csv", SECTIONS))
    assert profile.totals == {"pmu": 640, "pcu": 640}
    assert profile.device_s == pytest.approx(0.004)
    ratios = allocation_ratios(profile)
    assert ratios["pcu"].mean == pytest.approx((0.001 * 480 + 0.003 * 160) / (640 * 0.004))
    assert ratios["pcu"].maximum == 0.75
    assert profile.memory[0].traffic_bytes_per_s == pytest.approx((100e9 * 0.001 + 150e9 * 0.003) / 0.004)


def test_stages_are_a_pipeline_and_buffers_are_passed_over(tmp_path: Path) -> None:
    profile = only(written(tmp_path / "stage_report.csv", STAGES))
    assert [unit.time for unit in profile.units] == [100, 400]
    assert profile.time_unit == "cycles"
    assert load_imbalance(profile) == pytest.approx(250 / 400)


def test_a_summary_keeps_a_run_that_ran_out_of_memory(tmp_path: Path) -> None:
    worked, failed = read_profiles(written(tmp_path / "summary.csv", SUMMARY))
    assert (worked.host_s, worked.device_s, worked.sections, worked.batch) == (1.532, 1.088, 66, 16)
    assert (failed.failure, failed.samples_per_s, failed.model.layers) == ("OOM", None, 96)


def test_a_sweep_is_read_by_its_header_whatever_the_order_of_its_columns(tmp_path: Path) -> None:
    first, blank, failed = read_profiles(written(tmp_path / "sweep.csv", SWEEP))
    assert (first.layout, first.chips, first.replicas, first.batch) == ((0, 4, 4, 4), 8, 2, 128)
    assert (blank.failure, failed.failure) == ("no value in the table", "OOM")


def test_memory_exports_tell_the_fullest_chip_and_a_program_that_does_not_fit(tmp_path: Path) -> None:
    small, large = read_profiles(written(tmp_path / "memory.csv", POPVISION))
    assert small.memory[0].used_bytes == 800e6
    assert (small.failure, large.failure) == ("", "out of memory")


def test_a_training_log_drops_the_first_step_and_tells_the_layout(tmp_path: Path) -> None:
    profile = only(written(tmp_path / "train.log", TRAIN_LOG))
    assert (profile.samples_per_s, profile.layout, profile.model.layers) == (1059.0, (0, 2, 1), 3)


def test_a_serving_table_counts_tokens_of_prompt_and_output(tmp_path: Path) -> None:
    worked, failed = read_profiles(written(tmp_path / "serving.csv", SERVING))
    assert worked.tokens_per_s == pytest.approx(2 * 128 * 16 / 0.5)
    assert (worked.platform, worked.chips, failed.failure) == ("sn40l", 8, "no value in the table")


PROFILES = (
    Profile(
        "a, with a comma",
        "wse-2",
        2,
        "resident",
        model=ModelShape("m", 12, 768, 12, None, 3072, 3, 50257),
        batch=8.0,
        sequence=1024,
        layout=(0, 4, 8),
        samples_per_s=0.1 + 0.2,
        units=(Unit("u", "s", 0, {"pcu": 3.0, "pmu": 4.5}, 1.5), Unit("v", time=0.25)),
        totals={"pcu": 10.0},
        memory=(MemoryLevel("sram", True, 1e9, 5e8, 1e12, None), MemoryLevel("ddr", False)),
        allocation={"pcu": 0.5},
    ),
    Profile("b", "x", failure="OOM", kind="estimate"),
)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_our_own_format_comes_back_as_it_was_written(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"profiles{suffix}"
    write_profiles(PROFILES, path)
    assert tuple(read_profiles(path)) == PROFILES


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\nunit,0", "\nunits,0", "did you mean 'unit'?"),
        ("\nunit,0", "\nunit,7", "not begun"),
        (",estimate,", ",guess,", "kind must be"),
        (",12,768,", ",twelve,768,", "must be a number, got 'twelve'"),
        ("pcu=3.0", "pcu:3.0", "name=count"),
    ],
)
def test_a_malformed_tidy_file_is_named_with_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "profiles.csv"
    write_profiles(PROFILES, path)
    text = path.read_text()
    assert old in text
    written(path, text.replace(old, new, 1))
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        read_profiles(path)
    assert caught.value.faults[0].line is not None


def test_a_file_in_no_known_format_is_refused_with_the_formats_there_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no format known here.*SambaTune section report"):
        read_profiles(written(tmp_path / "x.csv", "a,b\n1,2\n"))


@pytest.mark.parametrize(
    "data",
    [
        b"PAR1 and nothing more",
        b"\x00\xff\xfe",
        b"",
        b'{"samples_per_sec": 1.0',
        b'{"samples_per_sec": "fast"}',
        b"Active PEs: many%\n",
        b"section_id,chip_id,measured latency (sec)\n0,0,soon\n",
        b'layers_per_ipu,ipus_per_replica,throughput\n"[0, four]",2,1\n',
        b"layers,hidden,throughput,RDU ms,total sections\n1.5,8,1,1,1\n",
        b"num_ipus,bytes_per_ipu\n\xff,1\n",
    ],
)
def test_no_file_however_broken_ends_in_anything_but_an_input_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "broken"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        read_profiles(path)
    assert caught.value.faults[0].file == str(path)


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_profiles(tmp_path / "nothing.csv")


def test_a_row_with_too_few_cells_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r":3: has 2 cells, the header 8"):
        read_profiles(written(tmp_path / "s.csv", "\n".join([*SUMMARY.splitlines()[:2], "1,2"])))


def test_every_shipped_reader_has_its_own_name() -> None:
    names = [reader.name for reader in READERS]
    assert len(set(names)) == len(names)


def test_a_new_vendor_is_one_small_reader(tmp_path: Path) -> None:
    """The whole of it: what tells the format, and how a line becomes a profile."""

    def read(path: Path) -> Iterable[Profile]:
        for number, line in enumerate(path.read_text().splitlines()[1:], 2):
            core, used, rate = line.split()
            units = (Unit(core, resources={"tensix": float(used)}, rate_per_s=float(rate)),)
            yield Profile(core, "newcomer", units=units, totals={"tensix": 64.0}, source=str(path), line=number)

    def recognises(head: Head) -> bool:
        return head.text.startswith("# newcomer")

    path = written(tmp_path / "n.txt", "# newcomer\nmatmul 48 10.0\n")
    (profile,) = read_profiles(path, readers=(*READERS, Reader("newcomer", recognises, read)))
    assert allocation_ratios(profile)["tensix"].mean == 0.75


VENDORS = re.compile(
    r"\b(cerebras|wse|wafer|sambanova|sambatune|rdu|sn\d+l?|pcu|pmu|graphcore|ipu|bow|gc200|popvision|nvidia|h100|b200|"
    r"tenstorrent|groq|patio)\b",
    re.IGNORECASE,
)


def test_no_module_of_metrics_names_a_vendor() -> None:
    package = Path(__file__).resolve().parents[2] / "hydra_dse" / "bench"
    named = {
        f"{path.name}:{number}": line
        for path in sorted(package.glob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if VENDORS.search(line)
    }
    assert named == {}
