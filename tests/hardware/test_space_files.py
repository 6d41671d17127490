"""Search-space files: sizes of the shipped ones, what a point is, repair, speed, and wrong files."""

from __future__ import annotations

import itertools
import math
import pickle
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from shipped_points import points_of

from hydra_dse.config import bundled, load_space
from hydra_dse.config.finder import find
from hydra_dse.config.loader import load_yaml, parse_yaml
from hydra_dse.config.points import Counts
from hydra_dse.config.spaces import resolved_space, space_of
from hydra_dse.design.space import SearchSpace
from hydra_dse.errors import InputError
from hydra_dse.hardware.fabric import parts_of
from hydra_dse.physical import package_violations

SMALL = find("spaces", "small-9").read_text()


@pytest.fixture(scope="module")
def hydra() -> SearchSpace:
    return load_space("hydra-24")


def test_the_hybrid_space_has_the_17040_points_of_the_paper(hydra: SearchSpace) -> None:
    # Four odd counts that sum to n: C(n/2 + 1, 3); 4 bandwidths x 6 batch limits.
    packages = sum(math.comb((24 - hbm) // 2 + 1, 3) for hbm in range(2, 17, 2))
    assert packages * 24 == 17_040
    assert sum(1 for _ in hydra.points()) == 17_040


def test_the_pure_space_has_the_5040_points_of_the_paper() -> None:
    assert sum(24 - hbm - 1 for hbm in range(2, 17)) * 24 == 5_040
    assert sum(1 for _ in load_space("hydra-24-pure").points()) == 5_040


def test_points_are_those_that_the_rule_of_the_paper_gives(hydra: SearchSpace) -> None:
    odd = range(1, 24, 2)
    by_rule = {
        (hbm, ap, ad, mp, 24 - hbm - ap - ad - mp)
        for hbm in range(2, 17, 2)
        for ap, ad, mp in itertools.product(odd, repeat=3)
        if 24 - hbm - ap - ad - mp >= 1
    }
    found = {tuple(point[name] for name in ("hbm", "Ap", "Ad", "Mp", "Md")) for point in hydra.points()}
    assert found == by_rule


def test_a_design_of_the_space_has_the_counts_bandwidth_and_policy_of_its_point(hydra: SearchSpace) -> None:
    point = hydra.complete({"hbm": 6, "Ap": 1, "Ad": 1, "Mp": 5, "link_gb_per_s": 512, "max_batch": 8})
    assert point is not None
    design = hydra.build(point)
    package = design.package
    assert [(group.name, group.count, group.phase) for group in package.dies] == [
        ("Ap", 1, "prefill"),
        ("Ad", 1, "decode"),
        ("Mp", 5, "prefill"),
        ("Md", 11, "decode"),
    ]
    assert [group.families for group in package.dies] == [("attention",), ("attention",), ("ssm",), ("ssm",)]
    assert (package.die_count, package.stack_count) == (18, 6)
    assert package.link_bandwidth_bytes_per_s == 512e9
    assert all(group.chiplet.link_bandwidth_bytes_per_s == 512e9 for group in package.dies)
    assert package.memory_is_leaf
    assert (design.policy.max_batch, design.policy.token_budget, design.policy.serving) == (8, 2048, "disaggregated")
    assert design.parameters == (
        ("hbm", 6),
        ("Ap", 1),
        ("Ad", 1),
        ("Mp", 5),
        ("link_gb_per_s", 512),
        ("max_batch", 8),
        ("Md", 11),
    )


def test_link_bandwidth_sets_the_cores_of_the_dies(hydra: SearchSpace) -> None:
    point = {"hbm": 6, "Ap": 1, "Ad": 1, "Mp": 5, "Md": 11, "max_batch": 8}
    cores = [
        hydra.build({**point, "link_gb_per_s": speed}).package.dies[3].chiplet.cores for speed in (256, 384, 512, 640)
    ]
    assert cores == [31, 28, 25, 22]  # marca decode die of the paper


def test_designs_differ_in_identity_and_share_packages(hydra: SearchSpace) -> None:
    points = list(hydra.points())[:2400]
    designs = [hydra.build(point) for point in points]
    assert len({design.identity for design in designs}) == len(designs)
    assert len({id(design.package) for design in designs}) == len(designs) / 6  # six batch limits a package
    assert len({id(design.package.topology) for design in designs}) == 1


def test_only_bandwidth_and_batch_are_inner(hydra: SearchSpace) -> None:
    assert [parameter.name for parameter in hydra.parameters if parameter.inner] == ["link_gb_per_s", "max_batch"]
    assert hydra.derived == ("Md",)


def test_building_a_design_takes_less_than_a_quarter_millisecond(hydra: SearchSpace) -> None:
    points = list(itertools.islice(hydra.points(), 4000))
    best = math.inf
    for _ in range(3):
        start = time.process_time()
        for point in points:
            hydra.build(point)
        best = min(best, (time.process_time() - start) / len(points))
    assert best < 250e-6  # 10-30 us here; the bound leaves room for slow machines


@pytest.mark.slow
@pytest.mark.parametrize("name", bundled("spaces"))
def test_every_shipped_space_stays_inside_its_declared_limits(name: str) -> None:
    space = load_space(name)
    packages = {id(package): package for package in (space.build(point).package for point in points_of(space))}
    assert packages
    parts = [part for package in packages.values() for part in parts_of(package)]
    assert all(part.limits.interposer_mm2 is not None for part in parts)
    assert {violation.constraint for package in packages.values() for violation in package_violations(package)} == set()


def test_the_28_nm_dies_do_not_fit_the_tiles_of_the_space() -> None:
    space = load_space("hydra-24", ["dies.Md.chiplet=hydra-marca-decode-28nm"])
    violations = package_violations(space.build(next(space.points())).package)
    assert [violation.constraint for violation in violations] == ["slot area of Md"]
    assert violations[0].demand == pytest.approx(142.919, abs=0.01)


def test_the_28_nm_dies_on_tiles_that_hold_them_do_not_fit_the_interposer() -> None:
    changes = [f"dies.{name}.chiplet=hydra-{die}-28nm" for name, die in DIES.items()]
    space = load_space("hydra-24", [*changes, "package.topology.tile=[12 mm, 12 mm]"])
    violations = package_violations(space.build(next(space.points())).package)
    assert [violation.constraint for violation in violations] == ["interposer area"]
    assert violations[0].demand > 24 * 143


DIES = {"Ap": "tscs-prefill", "Ad": "tscs-decode", "Mp": "marca-prefill", "Md": "marca-decode"}


def test_a_space_survives_pickling() -> None:
    space = load_space("small-9")
    copy = pickle.loads(pickle.dumps(space))
    assert [copy.build(point) for point in copy.points()] == [space.build(point) for point in space.points()]


@pytest.mark.parametrize("name", bundled("spaces"))
def test_a_resolved_space_reads_back_to_the_same_designs(name: str) -> None:
    document = load_yaml(find("spaces", name))
    plain = resolved_space(document)
    assert plain["policy"]["block_tokens"] == 16  # a default, written out
    again = space_of(parse_yaml(yaml.safe_dump(plain, sort_keys=False)), name)
    space = space_of(document, name)
    assert again.parameters == space.parameters
    points = list(itertools.islice(space.points(), 200))
    assert [again.build(point) for point in points] == [space.build(point) for point in points]


# Repair.


@given(
    hbm=st.sampled_from(range(2, 17, 2)),
    counts=st.tuples(*[st.sampled_from(range(1, 20, 2))] * 3),
    batch=st.sampled_from((2, 64)),
)
def test_repair_ends_in_the_space_and_keeps_points_that_are_in_it(
    hydra: SearchSpace, hbm: int, counts: tuple[int, int, int], batch: int
) -> None:
    point = {"hbm": hbm, "Ap": counts[0], "Ad": counts[1], "Mp": counts[2], "link_gb_per_s": 384, "max_batch": batch}
    assert hydra.repair is not None
    fixed = hydra.repair(point)
    assert hydra.complete(fixed) is not None
    assert (fixed == point) == (hydra.complete(point) is not None)
    assert (fixed["link_gb_per_s"], fixed["max_batch"]) == (384, batch)
    assert hydra.repair(point) == fixed


def test_repair_lowers_the_largest_count_first() -> None:
    counts = Counts(10, {"a": (1, 2, 3, 4, 5), "b": (1, 2, 3, 4, 5)}, "rest", 2)
    assert counts.repair({"a": 5, "b": 5}) == {"a": 4, "b": 4}


def test_repair_meets_the_parity_of_the_rest() -> None:
    counts = Counts(10, {"a": (1, 2, 3), "b": (1, 3)}, "rest", 1, "even")
    fixed = counts.repair({"a": 2, "b": 3})
    assert counts.complete(fixed) == {"a": 1, "b": 3, "rest": 6}


def test_counts_without_a_rest_must_fill_the_tiles() -> None:
    counts = Counts(4, {"a": (1, 2), "b": (1, 2)})
    assert counts.complete({"a": 2, "b": 2}) == {"a": 2, "b": 2}
    assert counts.complete({"a": 1, "b": 2}) is None
    assert counts.reachable()
    assert not Counts(5, {"a": (1, 2), "b": (1, 2)}).reachable()


@given(
    tiles=st.integers(1, 20),
    a=st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True),
    b=st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True),
    minimum=st.integers(0, 4),
    parity=st.sampled_from(("odd", "even", "any")),
)
def test_a_space_is_reachable_exactly_when_a_point_completes(
    tiles: int, a: list[int], b: list[int], minimum: int, parity: str
) -> None:
    counts = Counts(tiles, {"a": tuple(sorted(a)), "b": tuple(sorted(b))}, "rest", minimum, parity)
    points = [{"a": x, "b": y} for x in sorted(a) for y in sorted(b)]
    assert counts.reachable() == any(counts.complete(point) is not None for point in points)


# Wrong files.


def faults(tmp_path: Path, *changes: tuple[str, str], overrides: tuple[str, ...] = ()) -> list[str]:
    text = SMALL
    for wrong, right in changes:
        assert wrong in text
        text = text.replace(wrong, right)
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_space(path, overrides)
    return [str(fault).removeprefix(f"{tmp_path}/") for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("wrong", "right", "message"),
    [
        ("[2, 3, 4]", "[2, 4, 3]", "s.yaml:8:18: parameters.hbm.choices: numeric choices must ascend, got 4 before 3"),
        ("[2, 3, 4]", "[]", "s.yaml:8:18: parameters.hbm.choices: needs at least 1 entries"),
        ("{choices: [2, 3, 4]}", "{range: {from: 4, to: 2}}", "parameters.hbm.range.to: the range 4..2 is empty"),
        ("{choices: [2, 3, 4]}", "{chioces: [2]}", "s.yaml:8:9: parameters.hbm.chioces: unknown key 'chioces'"),
        ("tiles: 9", "tiles: 4", "s.yaml:15:17: counts.tiles: the space is empty"),
        ("count: $hbm", "count: $hbmm", "memories.HBM.count: no parameter called 'hbmm' (did you mean 'hbm'?)"),
        ("$max_batch", "8", "s.yaml:13:3: parameters.max_batch: parameter 'max_batch' is not used"),
        ("[4, 8,", "[0, 8,", "s.yaml:13:25: parameters.max_batch.choices[0]: policy.max_batch: must be at least 1"),
        ("unit: GB/s", "unit: GB", "'256 GB' is a size in bytes, but a bandwidth is needed"),
        ("[256, 512]", "[256, 1600]", "leave no room for a core and an SRAM bank"),
        ("Ap: {choices: [1, 2]}", "Ap: {choices: [1, 2], inner: true}", "which can change the placement"),
        ("hydra-hbm3", "hydra-hbm4", "memories.HBM.stack: no memory called 'hydra-hbm4' in the library (did you mean"),
        ("rest: Md", "rest: Mp", "'Mp' takes the rest, so it cannot be a parameter as well"),
        ("[hbm, Ap, Ad, Mp]", "[hbm, Aq, Ad, Mp]", "s.yaml:15:38: counts.parameters[1]: no parameter called 'Aq'"),
        ("policy:", "polcy:", "polcy: unknown key 'polcy' (did you mean 'policy'?)"),
        ("policy:", "mapping: {groups: {mlp: [Ax]}}\npolicy:", "mapping.groups.mlp[0]: no die group called 'Ax'"),
        ("hydra-tscs-prefill-22nm", "../x.yaml", "leaves the folder of the file"),
    ],
)
def test_a_fault_of_a_space_file_names_its_place_and_what_is_accepted(
    tmp_path: Path, wrong: str, right: str, message: str
) -> None:
    assert any(message in fault for fault in faults(tmp_path, (wrong, right)))


def test_faults_of_several_sections_are_reported_at_once(tmp_path: Path) -> None:
    found = faults(
        tmp_path, ("phase: decode}\n  Mp", "phase: decod}\n  Mp"), ("token_budget: 1024", "token_budget: -3")
    )
    assert [fault.split(":")[1] for fault in found] == ["25", "32"]


def test_an_override_is_checked_like_the_file(tmp_path: Path) -> None:
    found = faults(tmp_path, overrides=("policy.token_budget=lots",))
    assert found == ["--set policy.token_budget: policy.token_budget: expected a whole number, got 'lots'"]


def test_overrides_change_the_space() -> None:
    space = load_space("small-9", ["parameters.hbm.choices=[2]", "policy.token_budget=512"])
    points = list(space.points())
    assert {point["hbm"] for point in points} == {2}
    assert space.build(points[0]).policy.token_budget == 512


def test_a_die_of_ones_own_beside_the_space_takes_part_in_it(tmp_path: Path) -> None:
    die = {
        "style": "vector",
        "technology_nm": 7,
        "area": "90 mm2",
        "peak": "30 TFLOP/s",
        "format": "bf16",
        "vector_peak": "10 TFLOP/s",
        "sram": {"capacity": "32 MB", "bandwidth": "4 TB/s"},
        "links": 4,
        "link_bandwidth": "512 GB/s",
        "source": "own",
    }
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(die))
    (tmp_path / "s.yaml").write_text(SMALL.replace("hydra-marca-decode-22nm", "mine.yaml"))
    space = load_space(tmp_path / "s.yaml")
    chiplets: Mapping[str, str] = {g.name: g.chiplet.name for g in space.build(next(space.points())).package.dies}
    assert chiplets["Md"] == "mine"
