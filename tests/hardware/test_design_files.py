"""Design files: what they say, what they may leave out, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hydra_dse.config import bundled, load_design, load_space
from hydra_dse.design.nouns import Placement
from hydra_dse.errors import InputError
from hydra_dse.model.operators import OperatorClass
from hydra_dse.model.precision import Precision
from hydra_dse.physical import package_violations
from hydra_dse.policy import Policy

DESIGN = """\
package:
  topology: {kind: mesh, columns: 2, rows: 2, tile: [12 mm, 12 mm]}
  link: {class: ucie-standard, bandwidth: 256 GB/s}
  limits: {silicon: 500 mm2, interposer: 700 mm2, power: 80 W}
dies:
  P: {chiplet: hydra-tscs-prefill-22nm, count: 1, phase: prefill}
  D: {chiplet: hydra-marca-decode-22nm, count: 2, families: [attention, ssm], phase: decode}
memories:
  HBM: {stack: hbm3, count: 1}
mapping:
  groups: {lm_head: [D], mlp: [P, D]}
  parallelism: replica
  homes: interleaved
  sram_weight_share: 25%
policy: {serving: disaggregated, max_batch: 16, scheduling: sjf, memory_watermark: 0.05}
placement: {slots: [3, 0, 1, 2]}
precision: {weights: fp8, kv: fp8}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "two.yaml"
    path.write_text(text)
    return path


def faults(tmp_path: Path, *changes: tuple[str, str]) -> list[str]:
    text = DESIGN
    for wrong, right in changes:
        assert wrong in text
        text = text.replace(wrong, right)
    with pytest.raises(InputError) as caught:
        load_design(written(tmp_path, text))
    return [str(fault).removeprefix(f"{tmp_path}/") for fault in caught.value.faults]


def test_a_design_file_says_package_mapping_policy_placement_and_precision(tmp_path: Path) -> None:
    design = load_design(written(tmp_path, DESIGN))
    package = design.package
    assert (design.name, package.name) == ("two", "two")
    assert (package.topology.kind, len(package.topology.slots), len(package.topology.edges)) == ("mesh", 4, 4)
    assert (package.link.name, package.link_bandwidth_bytes_per_s) == ("ucie-standard", 256e9)
    assert (package.limits.silicon_mm2, package.limits.interposer_mm2, package.limits.power_w) == (500, 700, 80)
    assert [(group.name, group.count, group.families, group.phase) for group in package.dies] == [
        ("P", 1, (), "prefill"),
        ("D", 2, ("attention", "ssm"), "decode"),
    ]
    assert [(group.stack.name, group.count) for group in package.memories] == [("hbm3", 1)]
    assert design.mapping.groups == {OperatorClass.LM_HEAD: ("D",), OperatorClass.MLP: ("P", "D")}
    assert (design.mapping.parallelism, design.mapping.homes) == ("replica", "interleaved")
    assert design.mapping.sram_weight_share == 0.25
    assert design.policy == Policy(max_batch=16, scheduling="sjf", memory_watermark=0.05)
    assert (design.placement_algorithm, design.placement) == ("explicit", Placement((3, 0, 1, 2)))
    assert design.precision == Precision(weights="fp8", kv="fp8")
    assert package_violations(package) == ()


def test_what_a_design_leaves_out_has_the_defaults_of_the_nouns(tmp_path: Path) -> None:
    text = DESIGN[: DESIGN.index("mapping:")].replace(
        "  limits: {silicon: 500 mm2, interposer: 700 mm2, power: 80 W}\n", ""
    )
    design = load_design(written(tmp_path, text))
    assert design.policy == Policy()
    assert design.precision is None
    assert (design.placement, design.placement_algorithm) == (None, "communication_aware")
    assert design.package.limits.interposer_mm2 is None
    assert design.package.memory_is_leaf


def test_a_design_written_by_hand_equals_the_one_of_the_space_it_comes_from() -> None:
    design = load_design("hydra-24-nemotron-chat")
    space = load_space("hydra-24")
    point = space.complete({"hbm": 6, "Ap": 1, "Ad": 1, "Mp": 5, "link_gb_per_s": 512, "max_batch": 8})
    assert point is not None
    same = space.build(point)
    assert (design.package.dies, design.package.memories) == (same.package.dies, same.package.memories)
    assert design.package.topology == same.package.topology
    assert (design.policy, design.mapping) == (same.policy, same.mapping)


@pytest.mark.parametrize("name", bundled("designs"))
def test_every_shipped_design_can_be_built(name: str) -> None:
    assert package_violations(load_design(name).package) == ()


def test_overrides_change_a_design() -> None:
    design = load_design("hydra-24-nemotron-chat", ["policy.max_batch=32", "package.link.bandwidth=256 GB/s"])
    assert design.policy.max_batch == 32
    assert design.package.dies[3].chiplet.cores == 31


def test_a_die_group_of_none_is_left_out(tmp_path: Path) -> None:
    text = DESIGN.replace("count: 2, families", "count: 0, families").replace("placement: {slots: [3, 0, 1, 2]}\n", "")
    assert [group.name for group in load_design(written(tmp_path, text)).package.dies] == ["P"]


def test_more_links_of_a_composed_die_displace_compute(tmp_path: Path) -> None:
    text = DESIGN.replace("count: 2, families", "count: 2, links: 6, families").replace("mesh", "hex")
    four, six = (load_design(written(tmp_path, text_)).package.dies[1].chiplet for text_ in (DESIGN, text))
    assert (four.ports, six.ports) == (4, 6)
    assert six.cores < four.cores
    assert six.area_mm2 <= 121.68


def test_a_die_of_fixed_size_takes_no_other_number_of_links(tmp_path: Path) -> None:
    found = faults(tmp_path, ("chiplet: hydra-marca-decode-22nm, count: 2", "chiplet: h100, count: 2, links: 6"))
    assert "two.yaml:7:39: dies.D.links: h100 has a fixed size and 18 links; only composed dies take `links`" in found


def test_dies_of_different_sizes_stand_on_a_floorplan(tmp_path: Path) -> None:
    topology = (
        "topology: {kind: floorplan, slots: ["
        "{x: 10 mm, y: 10 mm, width: 20 mm, height: 20 mm}, {x: 25.5 mm, y: 5 mm, width: 11 mm, height: 11 mm}, "
        "{x: 25.5 mm, y: 16 mm, width: 11 mm, height: 11 mm}, {x: 37 mm, y: 5 mm, width: 11 mm, height: 11 mm}]}"
    )
    text = DESIGN.replace("topology: {kind: mesh, columns: 2, rows: 2, tile: [12 mm, 12 mm]}", topology)
    text = text.replace("interposer: 700 mm2", "interposer: 1000 mm2")
    design = load_design(written(tmp_path, text.replace("hydra-tscs-prefill-22nm", "systolic-prefill-7nm")))
    assert design.package.topology.edges == ((0, 1), (0, 2), (1, 2), (1, 3))
    assert package_violations(design.package)[0].constraint == "silicon area"  # 385 mm2 of systolic die and its peers


@pytest.mark.parametrize(
    ("wrong", "right", "message"),
    [
        ("columns: 2", "columns: 0", "two.yaml:2:35: package.topology.columns: must be at least 1, got 0"),
        ("kind: mesh", "kind: ring", "'ring' is not accepted; expected 'mesh', 'torus', 'hex' or 'floorplan'"),
        ("256 GB/s", "256", "two.yaml:3:43: package.link.bandwidth: 256 has no unit"),
        ("ucie-standard", "ucie", "two.yaml:3:17: package.link.class: no link called 'ucie' in the library"),
        ("class:", "clas:", "unknown key 'clas' (did you mean 'class'?)"),
        ("hbm3,", "hbm33,", "no memory called 'hbm33' in the library (did you mean 'hbm3'?)"),
        ("count: 2", "count: -2", "dies.D.count: must be at least 0, got -2"),
        ("mlp: [P, D]", "mlp: [P, X]", "mapping.groups.mlp[1]: no die group called 'X'; known: P, D"),
        ("lm_head", "lm_haed", "'lm_haed' is not accepted"),
        ("[3, 0, 1, 2]", "[3, 0, 1]", "placement.slots: needs one slot for each of 4 components, got 3"),
        ("[3, 0, 1, 2]", "[3, 0, 1, 1]", "placement.slots: slots 1 are used more than once"),
        ("[3, 0, 1, 2]", "[4, 0, 1, 2]", "placement.slots: slots are numbered 0..3, got 4"),
        ("slots: [3", "algorithm: random, slots: [3", "the algorithm 'random' would not be used"),
        ("weights: fp8", "weights: fp6", "precision.weights: 'fp6' is not accepted"),
        ("max_batch: 16", "max_batch: 0", "policy.max_batch: must be at least 1, got 0"),
        ("max_batch: 16", "max_batch: $b", "policy.max_batch: $b is a parameter; a design has none"),
        ("memory_watermark: 0.05", "memory_watermark: 2", "policy.memory_watermark: must be"),
        ("silicon: 500 mm2", "silicon: 500 W", "'500 W' is a power, but an area is needed"),
    ],
)
def test_a_fault_of_a_design_file_names_its_place_and_what_is_accepted(
    tmp_path: Path, wrong: str, right: str, message: str
) -> None:
    assert any(message in fault for fault in faults(tmp_path, (wrong, right)))


def test_unknown_names_of_several_sections_are_reported_at_once(tmp_path: Path) -> None:
    found = faults(tmp_path, ("hbm3,", "hbm9,"), ("ucie-standard", "ucie"), ("hydra-marca-decode-22nm", "marca"))
    assert [fault.split(":")[1] for fault in sorted(found)] == ["3", "7", "9"]


def test_slots_that_overlap_are_named(tmp_path: Path) -> None:
    slots = "[{x: 5 mm, y: 5 mm, width: 9 mm, height: 9 mm}, {x: 8 mm, y: 5 mm, width: 9 mm, height: 9 mm}]"
    topology = "topology: {kind: mesh, columns: 2, rows: 2, tile: [12 mm, 12 mm]}"
    found = faults(tmp_path, (topology, f"topology: {{kind: floorplan, slots: {slots}}}"))
    assert "two.yaml:2:38: package.topology.slots: slots 0 and 1 overlap" in found


def test_a_colocated_budget_must_hold_a_token_of_each_sequence(tmp_path: Path) -> None:
    small = (
        "policy: {serving: disaggregated, max_batch: 16,",
        "policy: {serving: colocated, max_batch: 16, token_budget: 8,",
    )
    [fault] = faults(tmp_path, small)
    assert "two.yaml:15:" in fault and "policy.token_budget" in fault and "max_batch = 16" in fault
