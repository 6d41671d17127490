"""Placed designs as inputs of other tools, read back by the rules of their formats."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hydra_dse.config import load_design, load_model
from hydra_dse.errors import InputError
from hydra_dse.hardware.technology import Solid
from hydra_dse.interchange import FORMATS, Layout, layout_of
from hydra_dse.network_load import link_capacity
from hydra_dse.physical import technology_of
from hydra_dse.physical.area import interposer_size_mm

POWERS = np.linspace(1.0, 20.0, 24)


@pytest.fixture(scope="module")
def layout() -> Layout:
    design = load_design("hydra-24-nemotron-chat")
    return layout_of(design, [load_model("nemotron-h-8b")], 0, POWERS.tolist(), "made up")


def untupled(key: str) -> Any:
    """Undo RapidChiplet's text form of tuples."""
    if isinstance(key, str) and key.startswith("__tuple__:"):
        return tuple(untupled(item) for item in json.loads(key.removeprefix("__tuple__:")))
    return key


def test_a_hotspot_floorplan_covers_its_rectangle_once(layout: Layout) -> None:
    files = FORMATS["hotspot"](layout)
    blocks = {}
    for line in files["package.flp"].splitlines():
        name, *numbers = line.split("\t")
        width, height, left, bottom = map(float, numbers)
        blocks[name] = (left, left + width, bottom, bottom + height)
    area = sum((r - x) * (t - b) for x, r, b, t in blocks.values())
    whole = max(r for _, r, _, _ in blocks.values()) * max(t for *_, t in blocks.values())
    assert area == pytest.approx(whole, rel=1e-9)
    boxes = list(blocks.values())
    for index, (x, r, b, t) in enumerate(boxes):
        for xx, rr, bb, tt in boxes[:index]:
            assert min(r, rr) - max(x, xx) < 1e-9 or min(t, tt) - max(b, bb) < 1e-9


def test_a_hotspot_power_trace_holds_all_of_the_power(layout: Layout) -> None:
    files = FORMATS["hotspot"](layout)
    names, values = files["package.ptrace"].splitlines()
    assert names.split("\t") == [line.split("\t")[0] for line in files["package.flp"].splitlines()]
    assert sum(map(float, values.split("\t"))) == pytest.approx(POWERS.sum(), rel=1e-5)


def test_hotspot_is_told_the_layers_sink_and_ambient_of_the_package(layout: Layout) -> None:
    thick = replace(cooling := technology_of(layout.package).cooling, die=Solid(0.5, 120.0), ambient_c=20.0)
    technology = replace(technology_of(layout.package), cooling=thick)
    warm = replace(layout, package=replace(layout.package, technology=technology))
    plain, changed = hotspot_options(layout), hotspot_options(warm)
    assert plain["ambient"] == plain["init_temp"] == pytest.approx(cooling.ambient_c + 273.15)
    assert (changed["t_chip"], changed["k_chip"], changed["ambient"]) == pytest.approx((0.5e-3, 120.0, 293.15))
    assert plain["r_convec"] == pytest.approx(cooling.sink_k_per_w)
    assert [plain[f"t_{name}"] for name in ("interface", "spreader", "sink")] == pytest.approx(
        [layer.thickness_mm * 1e-3 for layer in (cooling.tim, cooling.spreader, cooling.sink)]
    )
    wide_m = max(interposer_size_mm(layout.package.topology)) * 1e-3
    assert plain["s_spreader"] == plain["s_sink"] == pytest.approx(wide_m + 2e-3 * cooling.overhang_mm, rel=1e-5)


def hotspot_options(layout: Layout) -> dict[str, float]:
    lines = FORMATS["hotspot"](layout)["hotspot.config"].splitlines()
    return {name.removeprefix("-"): float(value) for name, value in (line.split() for line in lines)}


def test_a_booksim_network_has_every_link_from_both_sides(layout: Layout) -> None:
    files = FORMATS["booksim"](layout)
    seen = set()
    for line in files["package.anynet"].splitlines():
        words = line.split()
        assert words[0] == "router"
        assert words[2:4] == ["node", words[1]]
        for kind, other, cycles in zip(words[4::3], words[5::3], words[6::3], strict=True):
            assert kind == "router"
            assert int(cycles) == layout.hop_cycles
            seen.add((int(words[1]), int(other)))
    assert seen == {pair for a, b in layout.edges for pair in ((a, b), (b, a))}


def test_booksim_sends_to_each_node_in_proportion_to_its_bytes(layout: Layout) -> None:
    text = FORMATS["booksim"](layout)["package.config"]
    found = re.search(r"traffic = hotspot\(\{\{([\d,]+)\},\{([\d,]+)\}\}\);", text)
    assert found
    nodes, weights = (np.array([int(word) for word in group.split(",")]) for group in found.groups())
    received = layout.traffic.sum(axis=0)
    shares = received[nodes] / received.sum()
    assert weights / weights.sum() == pytest.approx(shares, abs=0.01)


def test_booksim_is_given_no_network_without_traffic(layout: Layout) -> None:
    with pytest.raises(InputError, match="has no traffic between its parts"):
        FORMATS["booksim"](replace(layout, traffic=np.zeros_like(layout.traffic)))


def test_rapidchiplet_links_have_our_bandwidth_and_latency(layout: Layout) -> None:
    files = {name: json.loads(text) for name, text in FORMATS["rapidchiplet"](layout).items() if name.endswith(".json")}
    packaging, chiplets = files["packaging.json"], files["chiplets.json"]
    for chiplet in chiplets.values():
        area = chiplet["dimensions"]["x"] * chiplet["dimensions"]["y"]
        assert sum(phy["fraction_bump_area"] for phy in chiplet["phys"]) <= 1.0
        for phy in chiplet["phys"]:
            bumps = (
                area * (1 - chiplet["fraction_power_bumps"]) * phy["fraction_bump_area"] / packaging["bump_pitch"] ** 2
            )
            bits_per_cycle = math.floor(bumps - packaging["non_data_wires"]) / 2
            assert bits_per_cycle * 1e9 / 8 == pytest.approx(link_capacity(layout.package), rel=2e-3)
    phy = files["technologies.json"]["logic"]["phy_latency"]
    hop = phy + packaging["link_latency"] + phy + 1
    assert hop == pytest.approx(layout.package.link.latency_s * 1e9, abs=2)


def test_rapidchiplet_routes_reach_every_part_and_never_pass_memory(layout: Layout) -> None:
    files = {name: json.loads(text) for name, text in FORMATS["rapidchiplet"](layout).items() if name.endswith(".json")}
    chiplets, placed = files["chiplets.json"], files["placement.json"]["chiplets"]
    table = {
        untupled(here): {untupled(target): tuple(step["items"]) for target, step in row.items()}
        for here, row in files["routing_table.json"]["table"].items()
    }
    joined = {
        (one["outer_id"], other["outer_id"])
        for link in files["topology.json"]
        for one, other in ((link["ep1"], link["ep2"]), (link["ep2"], link["ep1"]))
    }
    for source in range(len(placed)):
        for target in range(len(placed)):
            here = source
            for _ in range(len(placed)):
                if here == target:
                    break
                following = table["chiplet", here]["chiplet", target][1]
                assert (here, following) in joined
                assert following == target or chiplets[placed[following]["name"]]["relay"]
                here = following
            assert here == target


def test_rapidchiplet_dies_neither_overlap_nor_leave_their_slots(layout: Layout) -> None:
    files = {name: json.loads(text) for name, text in FORMATS["rapidchiplet"](layout).items() if name.endswith(".json")}
    boxes = []
    for one in files["placement.json"]["chiplets"]:
        size = files["chiplets.json"][one["name"]]["dimensions"]
        left, bottom = one["position"]["x"], one["position"]["y"]
        boxes.append((left, left + size["x"], bottom, bottom + size["y"]))
    for index, (x, r, b, t) in enumerate(boxes):
        assert all(r <= xx or rr <= x or t <= bb or tt <= b for xx, rr, bb, tt in boxes[:index])
    for link in files["topology.json"]:
        for end in (link["ep1"], link["ep2"]):
            chiplet = files["chiplets.json"][files["placement.json"]["chiplets"][end["outer_id"]]["name"]]
            phy = chiplet["phys"][end["inner_id"]]
            assert 0 <= phy["x"] <= chiplet["dimensions"]["x"]
            assert 0 <= phy["y"] <= chiplet["dimensions"]["y"]


def test_rapidchiplet_traffic_sums_to_one_and_units_agree_with_chiplets(layout: Layout) -> None:
    files = FORMATS["rapidchiplet"](layout)
    by_chiplet = {untupled(key): share for key, share in json.loads(files["traffic_by_chiplet.json"]).items()}
    by_unit = {untupled(key): share for key, share in json.loads(files["traffic_by_unit.json"]).items()}
    assert sum(by_chiplet.values()) == pytest.approx(1.0)
    assert {(one[0], other[0]): share for (one, other), share in by_unit.items()} == by_chiplet
