"""Packages joined by a fabric: routes, placement and sums by hand, hand-offs over the fabric, both evaluators."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from hydra_dse.config import load_calibration, load_design, load_model, load_workload
from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.design.nouns import Design
from hydra_dse.errors import InputError
from hydra_dse.estimator import evaluate
from hydra_dse.estimator.lengths import moments_of
from hydra_dse.estimator.transfers import handed_over_s
from hydra_dse.hardware.fabric import fabric_links, link_runs, part_components, part_slots
from hydra_dse.interchange import layout_of
from hydra_dse.mapping import map_design, mapping_violations, operands_of, role_plan, traffic
from hydra_dse.model import kv_bytes_per_token, state_bytes_per_sequence
from hydra_dse.model.operators import Batch
from hydra_dse.network_load import LinkLoad
from hydra_dse.physical import (
    area_mm2,
    interposer_mm2,
    package_cost,
    package_violations,
    silicon,
    static_power_w,
    technology_of,
)
from hydra_dse.physical.thermal import influence_of, settle, slot_power, solve_package
from hydra_dse.placement import place_design
from hydra_dse.profile import build_profile
from hydra_dse.results import Evaluation
from hydra_dse.routing import channel_dependencies_acyclic, route
from hydra_dse.workload import at_rate
from hydra_dse.workload.nouns import LengthPoints, Workload
from simulators.iteration import Composition
from simulators.noi.links import PlacedLinks
from simulators.package import PackageCost, PlacedHardware
from simulators.package.handoff import Handoff
from simulators.serving import ServingSimulator

SHIPPED, MODEL = "duet-nemotron-chat", "nemotron-h-8b"
CALIBRATION = load_calibration("default")

THREE = """
packages:
  one: &grid
    topology: {kind: mesh, columns: 3, rows: 2, tile: [12 mm, 12 mm]}
    link: {class: hydra-noi, bandwidth: 256 GB/s}
  two: *grid
  three: *grid
fabric: {class: c2c, bandwidth: 100 GB/s, links: 2, topology: TOPOLOGY}
dies:
  P: {chiplet: hydra-tscs-prefill-22nm, count: 4, phase: prefill, package: one}
  D: {chiplet: hydra-marca-decode-22nm, count: 5, phase: decode, package: two}
  E: {chiplet: hydra-marca-decode-22nm, count: 5, phase: decode, package: three}
memories:
  A: {stack: hydra-hbm3, count: 2, package: one}
  B: {stack: hydra-hbm3, count: 1, package: two}
  C: {stack: hydra-hbm3, count: 1, package: three}
policy: {serving: disaggregated, max_batch: 16}
"""

# A line of four tiles: stack, die, die, stack.  Every path is the only one there is.
LINE = """
PACKAGES
dies:
  P: {chiplet: hydra-tscs-prefill-22nm, count: 1, phase: prefillPLACE_ONE}
  D: {chiplet: hydra-marca-decode-22nm, count: 1, phase: decodePLACE_TWO}
memories:
  A: {stack: hydra-hbm3, count: 1PLACE_ONE}
  B: {stack: hydra-hbm3, count: 1PLACE_TWO}
mapping: {memories: {prefill: [A], decode: [B]}}
policy: {serving: disaggregated, max_batch: 8}
placement: {slots: SLOTS}
"""
GRID = (
    "{{topology: {{kind: mesh, columns: {}, rows: 1, tile: [12 mm, 12 mm]}}, "
    "link: {{class: hydra-noi, bandwidth: 512 GB/s}}}}"
)


@cache
def placed(*changed: str) -> Design:
    design, violations = place_design(load_design(SHIPPED, changed), load_model(MODEL), 0)
    assert not violations
    return design


def written(tmp_path: Path, text: str, name: str = "design") -> Design:
    (tmp_path / f"{name}.yaml").write_text(text)
    return load_design(tmp_path / f"{name}.yaml")


@cache
def chat(rate: float, model: str = MODEL) -> Workload:
    plain = load_workload("azure-conversation")
    return at_rate(replace(plain, models=(load_model(model),) * len(plain.models)), rate)


def handoff_of(design: Design, model: str = MODEL) -> Handoff:
    served = load_model(model)
    return Handoff(PlacedHardware(design, map_design(design, served), CALIBRATION, served.precision))


# -- routes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topology", ["direct", "switch"])
def test_paths_between_packages_lead_over_ports_and_inside_a_package_stay_what_they_were(
    tmp_path: Path, topology: str
) -> None:
    design, _ = place_design(written(tmp_path, THREE.replace("TOPOLOGY", topology)), load_model("nemotron-h-4b"), 0)
    assert design.placement is not None
    package, load = design.package, LinkLoad(design.package, design.placement)
    table = load.routes
    assert len(table.links) == sum(count for *_, count in link_runs(package)) == len(load.capacity)
    assert channel_dependencies_acyclic(table)
    starts = [slots.start for slots in part_slots(package)]
    for number, (part, slots) in enumerate(zip(package.parts, part_slots(package), strict=True)):
        alone = route(part.topology, table.transit[slots.start : slots.stop])
        for source in range(6):
            for target in range(6):
                if alone.reachable[source, target]:
                    inside = [
                        (a + starts[number], b + starts[number])
                        for a, b in map(alone.links.__getitem__, alone.path(source, target))
                    ]
                    assert [
                        table.links[link] for link in table.path(source + starts[number], target + starts[number])
                    ] == inside
    between, slots_of = fabric_links(package), design.placement.slots
    for here, mine in enumerate(part_components(package)):
        for there, others in enumerate(part_components(package)):
            for source in mine if here != there else ():
                for target in others:
                    path = table.path(slots_of[source], slots_of[target])
                    assert sum(link in between for link in path) == (2 if topology == "switch" else 1)
                    assert len(path) == table.hops[slots_of[source], slots_of[target]]
                    ends = [table.links[link] for link in path]
                    assert all(a[1] == b[0] for a, b in pairwise(ends))


def test_parallel_links_lead_to_as_many_slots_each(tmp_path: Path) -> None:
    design, _ = place_design(written(tmp_path, THREE.replace("TOPOLOGY", "direct")), load_model("nemotron-h-4b"), 0)
    assert design.placement is not None
    load = LinkLoad(design.package, design.placement)
    one, two = part_slots(design.package)[:2]
    used: dict[int, int] = {}
    for target in two:
        link = next(link for link in load.routes.path(one.start, target) if link in fabric_links(design.package))
        used[link] = used.get(link, 0) + 1
    assert sorted(used.values()) == [3, 3]


def test_components_stay_in_their_package_and_are_placed_as_if_alone() -> None:
    design = placed()
    assert design.placement is not None
    for own, mine in zip(part_slots(design.package), part_components(design.package), strict=True):
        assert {design.placement.slots[component] for component in mine} <= set(own)


# -- sums ----------------------------------------------------------------------------------------------------------


def test_areas_power_and_cost_are_those_of_the_packages_and_a_port_die_in_each() -> None:
    whole = placed().package
    port = 400.0 / 40.0  # 400 GB/s at 40 GB/s per mm2
    alone = [replace(part, fabric=None, fabric_ports=0) for part in whole.parts]
    assert area_mm2(whole) == pytest.approx(sum(map(area_mm2, alone)) + 2 * port)
    assert area_mm2(whole) == pytest.approx(sum(share.area_mm2 for share in silicon(whole)))
    assert interposer_mm2(whole) == pytest.approx(sum(map(interposer_mm2, alone)) + 2 * port)
    assert static_power_w(whole) == pytest.approx(sum(map(static_power_w, alone)))
    parts, cost = [package_cost(part) for part in whole.parts], package_cost(whole)
    assert cost.recurring == pytest.approx(sum(part.recurring for part in parts))
    # One design of the port die for both packages.
    assert sum(part.nre for part in parts) - cost.nre > 0
    assert cost.assembly_yield == pytest.approx(parts[0].assembly_yield * parts[1].assembly_yield)


def test_limits_hold_for_each_package() -> None:
    design = load_design(
        SHIPPED, ["packages.decode.limits.interposer=1500 mm2", "packages.prefill.limits.silicon=9e3 mm2"]
    )
    [violation] = package_violations(design.package)
    assert violation.constraint == "decode: interposer area"
    assert violation.demand == pytest.approx(interposer_mm2(design.package.parts[1]))


def test_a_port_needs_a_free_side_of_a_die_at_the_edge() -> None:
    design = load_design(SHIPPED, ["packages.decode.topology.kind=torus"])
    assert any(v.constraint == "decode: fabric ports" for v in package_violations(design.package))


def test_each_package_is_as_hot_as_with_a_sink_of_its_own() -> None:
    design = placed()
    assert design.placement is not None
    package, slots = design.package, design.placement.slots
    technology = technology_of(package)
    watts = np.linspace(1.0, 12.0, len(slots))
    solved = solve_package(package, slots, watts)
    grids = settle(slot_power(package, slots, watts), influence_of(package.topology, technology.cooling), technology)
    assert solved.slots_c is not None
    assert grids.slots_c is not None
    power = 0.0
    for part, own, mine in zip(package.parts, part_slots(package), part_components(package), strict=True):
        at, spent = tuple(slots[component] - own.start for component in mine), watts[list(mine)]
        alone = solve_package(part, at, spent)
        assert alone.slots_c is not None
        assert solved.slots_c[0, own.start : own.stop] == pytest.approx(alone.slots_c[0], abs=5e-3)
        flat = settle(slot_power(part, at, spent), influence_of(part.topology, technology.cooling), technology)
        assert flat.slots_c is not None
        assert grids.slots_c[0, own.start : own.stop] == pytest.approx(flat.slots_c[0], abs=5e-3)
        power += float(alone.power_w[0])
    assert solved.power_w[0] == pytest.approx(power, rel=1e-5)


# -- the hand-off --------------------------------------------------------------------------------------------------


def test_bytes_and_time_of_a_handoff_over_the_fabric_by_hand() -> None:
    design = placed("fabric.bandwidth=10 GB/s", "fabric.latency=2 ms")
    handoff = handoff_of(design)
    # 4 attention blocks of 8 KV heads of 128 in 2 bytes, keys and values.
    moved = 1000 * 2 * 4 * 8 * 128 * 2 + handoff.hardware.mapped.memory.state_bytes_per_sequence
    crossing = handoff.ledger(1000, 1).operands["hand-off"].link_bytes[list(fabric_links(design.package))]
    assert crossing.tolist() == pytest.approx([moved, 0.0])
    assert handoff(1000).duration_s == pytest.approx(moved / (0.9 * 10e9))
    # The longest path: 2 ms of fabric and 5 ns for each hop on either package.
    assert 2e-3 < handoff.latency_s < 2e-3 + 20 * 5e-9
    profile = build_profile([design], load_model(MODEL), CALIBRATION)
    assert profile.handoff is not None
    assert profile.handoff.latency_s[0] == pytest.approx(handoff.latency_s)
    seconds = 1000 * profile.handoff_s_per_token[0] + profile.handoff_s_per_sequence[0]
    assert seconds == pytest.approx(handoff(1000).duration_s)


def test_energy_of_a_handoff_counts_each_link_by_its_class() -> None:
    design = placed()
    ledger = handoff_of(design).ledger(1000, 1)
    crossing = list(fabric_links(design.package))
    on_links = ledger.operands["hand-off"].link_bytes
    noi = on_links.sum() - on_links[crossing].sum()
    assert ledger.link_j == pytest.approx(8 * (on_links[crossing].sum() * 1.3e-12 + noi * 0.5e-12))
    assert ledger.each_link_j.sum() == pytest.approx(ledger.link_j)


def test_a_transfer_counts_in_the_time_per_token_by_the_prompts_of_short_outputs() -> None:
    lengths = moments_of(LengthPoints(np.array([1000.0, 3000.0]), np.array([101.0, 11.0]), np.array([0.5, 0.5])))
    assert lengths.stored_by_inverse == pytest.approx((1000 / 100 + 3000 / 10) / (1 / 100 + 1 / 10))
    profile = build_profile([placed("fabric.bandwidth=1 GB/s", "fabric.latency=1 ms")], load_model(MODEL), CALIBRATION)
    assert profile.handoff is not None
    joining = np.array([2.0])
    mean, short = (handed_over_s(profile, lengths, joining, prompt) for prompt in (None, lengths.stored_by_inverse))
    per_token, state, late = profile.handoff_s_per_token, profile.handoff_s_per_sequence, profile.handoff.latency_s
    left = 1.0 - 2.0 * (per_token * 2000.0 + state)
    assert mean == pytest.approx(late + (per_token * 2000.0 + state) / left)
    assert short == pytest.approx(late + (per_token * lengths.stored_by_inverse + state) / left)


def line(tmp_path: Path, packages: str, name: str, slots: str, one: str = "", two: str = "") -> Design:
    text = LINE.replace("PACKAGES", packages).replace("SLOTS", slots)
    return written(tmp_path, text.replace("PLACE_ONE", one).replace("PLACE_TWO", two), name)


def test_with_a_fabric_of_no_limits_two_packages_are_one_with_two_memories(tmp_path: Path) -> None:
    one = line(tmp_path, f"package: {GRID.format(4)}", "one", "[1, 2, 0, 3]")
    fabric = "fabric: {class: c2c, bandwidth: 2000 GB/s, latency: 0 s}"
    packages = f"packages: {{one: {GRID.format(2)}, two: {GRID.format(2)}}}\n{fabric}"
    two = line(tmp_path, packages, "two", "[1, 2, 0, 3]", ", package: one", ", package: two")
    load = chat(0.1, "nemotron-h-4b")
    options = EvaluationOptions(requests=60, replications=1, saturate=False)
    names = ("ttft_mean_s", "tpot_mean_s", "tbt_p99_s", "e2e_mean_s")
    for evaluations in (
        [evaluate([design], load, CALIBRATION)[0] for design in (one, two)],
        [ServingSimulator().evaluate([design], load, CALIBRATION, options, 0)[0] for design in (one, two)],
    ):
        single, double = evaluations
        for name in names:
            assert double.metrics[name] == pytest.approx(single.metrics[name], rel=1e-5), name
    limit = [evaluate([design], load, CALIBRATION)[0].metrics["saturation_requests_per_s"] for design in (one, two)]
    assert limit[0] == pytest.approx(limit[1], rel=1e-9)


def evaluated(
    changed: tuple[str, ...], rate: float, requests: int, saturate: bool = False
) -> tuple[Evaluation, Evaluation]:
    options = EvaluationOptions(requests=requests, replications=1, saturate=saturate)
    design = placed(*changed)
    [simulated] = ServingSimulator().evaluate([design], chat(rate), CALIBRATION, options, 0)
    return evaluate([design], chat(rate), CALIBRATION)[0], simulated


@pytest.mark.slow
def test_a_thin_fabric_bounds_the_rate_and_both_evaluators_say_by_how_much() -> None:
    changed = ("fabric.bandwidth=0.6 GB/s",)
    estimated, simulated = evaluated(changed, 2.0, 60, saturate=True)
    points, handoff = chat(2.0).classes[0].lengths.points(), handoff_of(placed(*changed))
    # Requests of one output token are not handed over.
    sent = points.mean(points.output_tokens > 1)
    state, token = handoff.moved_bytes(0), handoff.moved_bytes(1) - handoff.moved_bytes(0)
    bound = 0.9 * 0.6e9 / (state + token * points.mean(points.prompt_tokens)) / sent
    limit = estimated.metrics["saturation_requests_per_s"]
    assert limit == pytest.approx(bound, rel=1e-3)
    assert simulated.metrics["saturation_requests_per_s"] == pytest.approx(limit, rel=0.10)
    # With no such bound the dies would do nearly twice as much.
    assert evaluate([placed()], chat(2.0), CALIBRATION)[0].metrics["saturation_requests_per_s"] > 1.5 * bound  # type: ignore[operator]


@pytest.mark.slow
def test_estimate_and_simulation_agree_on_the_shipped_design() -> None:
    estimated, simulated = evaluated((), 1.0, 400)
    for name, tolerance in (("ttft_mean_s", 0.2), ("tpot_mean_s", 0.02), ("e2e_mean_s", 0.08), ("power_w", 0.05)):
        assert estimated.metrics[name] == pytest.approx(simulated.metrics[name], rel=tolerance), name
    assert simulated.components is not None
    names = {part.name for part in simulated.components.parts}
    assert {"prefill port 0→decode port 0", "decode port 0→prefill port 0"} <= names


# -- packages as stages ----------------------------------------------------------------------------------------------


STAGES = """
packages:
  one: &grid
    topology: {kind: mesh, columns: fit, rows: 2, tile: [12 mm, 12 mm]}
    link: {class: hydra-noi, bandwidth: 512 GB/s}
  two: *grid
fabric: {class: c2c, bandwidth: 10 GB/s, latency: 1 ms}
dies:
  A: {chiplet: hydra-marca-decode-22nm, count: 3, package: one}
  B: {chiplet: hydra-marca-decode-22nm, count: 4, package: two}
memories:
  HA: {stack: hydra-hbm3, count: 1, package: one}
  HB: {stack: hydra-hbm3, count: 2, package: two}
mapping: {pipeline: 2}
policy: {serving: colocated, max_batch: 8, token_budget: 512}
"""


def stages(tmp_path: Path, model: str) -> Design:
    design, violations = place_design(written(tmp_path, STAGES), load_model(model), 0)
    assert not violations
    return design


def test_a_package_that_is_a_stage_holds_its_blocks_in_its_own_memory(tmp_path: Path) -> None:
    model = load_model("nemotron-h-4b")
    design = stages(tmp_path, model.name)
    assert [len(part.topology.slots) for part in design.package.parts] == [4, 6]
    mapped = map_design(design, model)
    # One stack, then two that share alike; both stages together hold all parameters.
    weights = mapped.memory.weight_bytes
    assert weights[1] == weights[2]
    assert weights.sum() == pytest.approx(operands_of(model).weight_bytes, rel=1e-3)
    for group, own in zip(mapped.pool("serve").groups, ([0], [1, 2]), strict=True):
        assert group.cache_fetch[own].sum() == pytest.approx(1.0)
        assert group.weight_fetch[own].sum() == pytest.approx(1.0)
    # 42 blocks: 21 in each stage, of them 2 with attention and 11 and 10 with a state (M*M-…), by the model's own list.
    halves = [replace(model, blocks=model.blocks[:21]), replace(model, blocks=model.blocks[21:])]
    shares = [
        max(
            kv_bytes_per_token(half, model.precision) / kv_bytes_per_token(model, model.precision),
            state_bytes_per_sequence(half, model.precision) / state_bytes_per_sequence(model, model.precision),
        )
        for half in halves
    ]
    room = [16e9 - weights[0], 2 * (16e9 - weights[1])]
    assert mapped.memory.cache_bytes == pytest.approx(min(r / s for r, s in zip(room, shares, strict=True)))


def test_stages_hand_the_residual_stream_over_the_fabric_in_both_evaluators(tmp_path: Path) -> None:
    model = load_model("nemotron-h-4b")
    design = stages(tmp_path, model.name)
    assert design.placement is not None
    tokens = 100.0
    batch = Batch(tokens, 1.0, tokens**2 / 2, tokens, 0.0, 0.0, 1.0)
    moved = traffic(map_design(design, model), "serve", batch, model.precision)
    load = LinkLoad(design.package, design.placement)
    crossing = load.loads(moved)[list(fabric_links(design.package))]
    assert crossing.tolist() == pytest.approx([tokens * model.hidden_size * 2, 0.0])
    # The time of an iteration holds the 1 ms of the fabric once.
    both = [design, place_design(written(tmp_path, STAGES.replace("1 ms", "0 s"), "near"), model, 0)[0]]
    times = [float(build_profile([on], model, CALIBRATION).pools["serve"].time_s(batch)[0, 0]) for on in both]
    assert times[0] - times[1] == pytest.approx(1e-3)
    simulated = []
    for on in both:
        hardware = PlacedHardware(on, map_design(on, model), CALIBRATION, model.precision)
        simulated.append(PackageCost(hardware, "serve").work(Composition(100, 1, 0, 1)).duration_s)
    assert simulated[0] - simulated[1] == pytest.approx(1e-3)


def test_a_package_too_small_for_its_stage_is_named(tmp_path: Path) -> None:
    design = stages(tmp_path, "nemotron-h-4b")
    violations = mapping_violations(design, load_model("nemotron-h-56b"))
    found = [violation.constraint for violation in violations]
    assert found == [
        "weights and one sequence of its stage exceed the memory of package 'one'",
        "weights and one sequence of its stage exceed the memory of package 'two'",
    ]


# -- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("package: two", "package: tow", r"no package called 'tow' \(did you mean 'two'\?\); known: one, two, three"),
        (", package: three}\nmemories", "}\nmemories", "is in no package; add package: with one of one, two, three"),
        ("fabric: {class: c2c", "fabric: {class: c2d", "no link called 'c2d' in the library"),
        ("fabric: {class: c2c, bandwidth: 100 GB/s, links: 2, topology: direct}", "", "need a fabric"),
        ("  two: *grid\n  three: *grid\n", "", "at least 2"),
    ],
)  # fmt: skip
def test_faults_of_packages_are_told_with_what_would_be_accepted(tmp_path: Path, old: str, new: str, text: str) -> None:
    plain = THREE.replace("TOPOLOGY", "direct")
    assert old in plain
    with pytest.raises(InputError, match=text):
        written(tmp_path, plain.replace(old, new))


def test_a_single_package_takes_no_keys_of_several() -> None:
    with pytest.raises(InputError, match="the design has one package; drop the key"):
        load_design("split-24-nemotron-chat", ["dies.P.package=left"])
    with pytest.raises(InputError, match="joins several packages"):
        load_design("split-24-nemotron-chat", ["fabric={class: c2c, bandwidth: 1 GB/s}"])


def test_what_several_packages_do_not_do_yet_is_refused() -> None:
    with pytest.raises(InputError, match="3 stages over 2 packages: each package is a stage; use pipeline: 2 or 1"):
        load_design(SHIPPED, ["mapping.memories={}", "mapping.pipeline=3"])
    with pytest.raises(InputError, match="write each as a design of its own"):
        layout_of(placed(), [load_model(MODEL)], 0, (), "")
    elastic = replace(placed(), policy=replace(placed().policy, task_map="elastic"))
    with pytest.raises(InputError, match="over several packages is not modelled"):
        role_plan(elastic)
    with pytest.raises(InputError, match="different memory_tiles"):
        load_design(SHIPPED, ["packages.decode.memory_tiles=routing"])


def test_a_package_without_dies_is_infeasible() -> None:
    design = load_design(SHIPPED, ["dies.D.count=0"])
    assert any(violation.constraint == "decode: dies" for violation in package_violations(design.package))


def test_links_of_the_simulator_have_the_capacity_of_their_class() -> None:
    design = placed("fabric.links=2")
    assert design.placement is not None
    links = PlacedLinks(design.package, design.placement.slots)
    values = sorted(set(links.capacity_bytes_per_s.tolist()))
    assert values == pytest.approx([0.9 * 256e9, 0.9 * 400e9, 0.9 * 512e9])
