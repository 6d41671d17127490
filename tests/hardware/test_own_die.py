"""A user's own die, stack, link and calibration: one YAML file each, no Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from hydra_dse.config.hardware import load_calibration, load_chiplet, load_link, load_memory
from hydra_dse.errors import InputError

DIE = """\
name: my-die
style: mac-array
technology_nm: 5
area: 100 mm2
peak: 200 TFLOP/s
format: bf16
format_speed: {fp8: 2.0}
vector_peak: 3 TFLOP/s
array: {rows: 32, columns: 16, cores: 64}
sram: {capacity: 48 MiB, bandwidth: 10 TB/s}
links: 4
link_bandwidth: 512 GB/s
energy: {flop: 0.5 pJ/FLOP, sram: 0.2 pJ/bit}
static_power: 6 W
latency_table: [[1, 1%], [16, 0.2], [256, 0.8]]
source: "our own estimate"
"""


INLINE = "latency_table: [[1, 1%], [16, 0.2], [256, 0.8]]"


def written(folder: Path, text: str, name: str = "die.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def faults(path: Path) -> list[str]:
    with pytest.raises(InputError) as caught:
        load_chiplet(path)
    return [str(fault).removeprefix(f"{path.parent}/") for fault in caught.value.faults]


def test_a_die_of_ones_own_is_one_yaml_file(tmp_path: Path) -> None:
    die = load_chiplet(written(tmp_path, DIE))
    assert die.name == "my-die"
    assert die.matmul_flops_per_s == 200e12
    assert die.sram_bytes == 48 * 2**20
    assert die.joules_per_sram_byte == pytest.approx(1.6e-12)
    assert (die.array_rows, die.array_columns, die.cores) == (32, 16, 64)
    assert die.format_speed == (("fp8", 2.0),)
    assert die.shape_efficiency == ((1.0, 0.01), (16.0, 0.2), (256.0, 0.8))


def test_a_latency_table_may_be_a_csv_file_beside_the_die(tmp_path: Path) -> None:
    (tmp_path / "rates.csv").write_text("rows,share\n1,0.02\n128,0.75\n")
    die = load_chiplet(written(tmp_path, DIE.replace(INLINE, "latency_table_file: rates.csv")))
    assert die.shape_efficiency == ((1.0, 0.02), (128.0, 0.75))


def test_a_die_without_a_name_takes_the_name_of_its_file(tmp_path: Path) -> None:
    assert load_chiplet(written(tmp_path, DIE.replace("name: my-die\n", ""), "fast.yaml")).name == "fast"


def test_a_die_of_ones_own_may_be_composed_from_the_components_of_the_library(tmp_path: Path) -> None:
    text = (
        "kind: composed\nstyle: mac-array\ncomponents: hydra-22nm\ncore: marca\nbudget: 200 mm2\ncore_share: 50%\n"
        "links: 4\nlink_bandwidth: 512 GB/s\nformat: bf16\nsource: own\n"
    )
    die = load_chiplet(written(tmp_path, text, "big.yaml"), 256e9)
    assert die.name == "big@256GB/s"
    # By hand: (200 - 2 x 4 x 2.8652 x 0.845) mm2 are left for cores of 1.4468 x 0.845 mm2, of which half.
    assert die.cores == int(0.5 * (200 - 8 * 2.8652 * 0.845) / (1.4468 * 0.845))


@pytest.mark.parametrize(
    ("wrong", "right", "message"),
    [
        ("area: 100 mm2", "area: -100 mm2", "die.yaml:4:7: area: '-100 mm2' is negative"),
        ("peak: 200 TFLOP/s", "peak: 200", "die.yaml:5:7: peak: 200 has no unit"),
        ("name: my-die", "kind: compsed", "die.yaml:1:7: kind: 'compsed' is not accepted"),
        ("style: mac-array", "style: systolc", "die.yaml:2:8: style: 'systolc' is not accepted"),
        ("format: bf16", "formt: bf16", "die.yaml:6:1: formt: unknown key 'formt' (did you mean 'format'?)"),
        ("links: 4", "links: 0", "die.yaml:11:8: links: must be at least 1, got 0"),
        ("links: 4\n", "", "missing key 'links'"),
        ("[16, 0.2]", "[16, 1.2]", "latency_table[1][1]: must be at most 1"),
        ("[16, 0.2]", "[0.5, 0.2]", "rows of a latency table must ascend"),
        ("fp8: 2.0", "fp9: 2.0", "'fp9' is not accepted"),
        (INLINE, INLINE + "\nlatency_table_file: rates.csv", "give `latency_table` or `latency_table_file`"),
        (INLINE, "latency_table_file: ../rates.csv", "leaves the folder of the file"),
        (INLINE, "latency_table_file: rates.csv", "'rates.csv': no such file"),
    ],
)
def test_a_fault_of_a_die_file_names_its_place_and_what_is_accepted(
    tmp_path: Path, wrong: str, right: str, message: str
) -> None:
    assert wrong in DIE
    assert any(message in fault for fault in faults(written(tmp_path, DIE.replace(wrong, right))))


def test_all_faults_of_a_die_file_are_reported_at_once(tmp_path: Path) -> None:
    text = DIE.replace("200 TFLOP/s", "fast").replace("links: 4", "links: four").replace("48 MiB", "48 GB/s")
    assert [fault.split(":")[1] for fault in faults(written(tmp_path, text))] == ["5", "10", "11"]


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ("rows,share\n1,0.5\n1,0.6\n", 3),
        ("rows,share\n1,2\n", 2),
        ("rows,share\nx,1\n", 2),
        ("a,b\n", 1),
        ("rows,share\n1,nan\n", 2),
        ("rows,share\ninf,0.5\n", 2),
    ],
)
def test_a_fault_of_a_latency_table_names_file_and_line(tmp_path: Path, rows: str, line: int) -> None:
    (tmp_path / "rates.csv").write_text(rows)
    text = DIE.replace(INLINE, "latency_table_file: rates.csv")
    assert [fault.partition("rates.csv:")[2].split(":")[0] for fault in faults(written(tmp_path, text))] == [str(line)]


COMPOSED = """\
kind: composed
style: vector
components: hydra-22nm
core: marca
budget: 200 mm2
core_share: 0.5
links: 4
link_bandwidth: 512 GB/s
format: bf16
source: own
"""


@pytest.mark.parametrize(
    ("wrong", "right", "message"),
    [
        ("core_share: 0.5\n", "", "`budget` and `core_share`, or `cores` and `sram_banks`"),
        ("links: 4", "links: 4\ncores: 8", "`budget` and `core_share`, or `cores` and `sram_banks`"),
        ("hydra-22nm", "hydra-23nm", "die.yaml:3:13: components: no components called 'hydra-23nm' (did you mean"),
        ("core: marca", "core: marcia", "die.yaml:4:7: core: hydra-22nm has no core 'marcia' (did you mean 'marca'?)"),
    ],
)
def test_a_fault_of_a_composed_die_names_what_is_accepted(tmp_path: Path, wrong: str, right: str, message: str) -> None:
    assert message in faults(written(tmp_path, COMPOSED.replace(wrong, right)))[0]


def test_a_stack_of_ones_own_is_one_yaml_file(tmp_path: Path) -> None:
    text = "technology: HBM5\ncapacity: 64 GB\nbandwidth: 4 TB/s\nenergy: 4 pJ/bit\nfootprint: 150 mm2\nsource: own\n"
    stack = load_memory(written(tmp_path, text, "hbm5.yaml"))
    assert (stack.name, stack.bandwidth_bytes_per_s) == ("hbm5", 4e12)
    with pytest.raises(InputError, match="peak_bandwidth must be at least the usable bandwidth"):
        load_memory(written(tmp_path, text + "peak_bandwidth: 3 TB/s\n", "bad.yaml"))


def test_a_link_of_ones_own_is_one_yaml_file(tmp_path: Path) -> None:
    text = "latency: 4 ns\nenergy: 0.2 pJ/bit\nefficiency: 90%\ndensity: 1 TB/s/mm\nreach: 3 mm\nsource: own\n"
    link = load_link(written(tmp_path, text, "bow.yaml"))
    assert (link.name, link.efficiency, link.density_bytes_per_s_per_mm) == ("bow", 0.9, 1e12)


def test_a_calibration_must_cover_every_operator_class(tmp_path: Path) -> None:
    text = (
        "default:\n  compute: {mlp: 0.8}\n  memory: {weights: 0.8, kv: 0.8, state: 0.8, activations: 0.8}\n"
        "  operator_overhead: 1 us\n  iteration_overhead: 1 ms\n  source: own\n"
    )
    with pytest.raises(InputError, match=r"fit\.yaml:2:12: default\.compute: needs a share .*missing: embedding"):
        load_calibration(written(tmp_path, text, "fit.yaml"))
