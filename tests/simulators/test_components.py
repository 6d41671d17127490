"""Utilisation and power by component: they agree with the metrics, add up, and lie where they should."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from placed_pieces import placed

from hydra_dse.config import load_calibration, load_design, load_model, load_workload
from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.design.nouns import Design
from hydra_dse.placement import place_design
from hydra_dse.results import Component, Components, Evaluation
from hydra_dse.workload import Workload, poisson
from simulators.serving import ServingSimulator

DESIGNS = ("disaggregated", "colocated", "elastic", "h100")


def workload() -> Workload:
    chat = load_workload("azure-conversation")
    return replace(chat, models=(load_model("nemotron-h-4b"),), replay=None, arrivals=poisson(4.0))


def design(name: str) -> Design:
    if name == "h100":
        return place_design(load_design("h100"), load_model("nemotron-h-4b"), 0)[0]
    return placed(task_map="elastic") if name == "elastic" else placed(serving=name)


@cache
def evaluated(name: str) -> Evaluation:
    options = EvaluationOptions(requests=120, replications=2, saturate=False)
    [found] = ServingSimulator().evaluate([design(name)], workload(), load_calibration("default"), options, 1)
    return found


def components(name: str) -> Components:
    found = evaluated(name).components
    assert found is not None
    return found


def parts(name: str, kind: str) -> list[Component]:
    return [part for part in components(name).parts if part.kind == kind]


@pytest.mark.parametrize("name", DESIGNS)
def test_there_is_a_row_for_every_die_stack_and_direction_of_a_link(name: str) -> None:
    package = design(name).package
    assert len(parts(name, "die")) == package.die_count
    assert len(parts(name, "memory")) == (package.stack_count or package.die_count)
    assert len(parts(name, "link")) == 2 * len(package.topology.edges)
    assert all(0.0 <= part.utilization <= 1.0 for part in components(name).parts)


@pytest.mark.parametrize("name", DESIGNS)
def test_power_of_all_components_and_of_all_causes_is_the_power_of_the_package(name: str) -> None:
    found, power = components(name), evaluated(name).metrics["power_w"]
    assert sum(part.dynamic_w + part.static_w for part in found.parts) == pytest.approx(power, rel=1e-9)
    assert sum(found.power_w.values()) == pytest.approx(power, rel=1e-9)
    tokens = evaluated(name).metrics["throughput_tokens_per_s"]
    assert tokens is not None
    energy = evaluated(name).metrics["energy_j_per_token"]
    assert energy == pytest.approx(sum(found.power_w.values()) / tokens, rel=1e-9)


@pytest.mark.parametrize("name", DESIGNS)
def test_power_of_memory_and_links_is_what_their_components_draw(name: str) -> None:
    power = components(name).power_w
    assert sum(part.dynamic_w for part in parts(name, "memory")) == pytest.approx(power["memory"])
    assert sum(part.dynamic_w for part in parts(name, "link")) == pytest.approx(power["noi"])
    assert sum(part.dynamic_w for part in parts(name, "die")) == pytest.approx(power["compute"] + power["sram"])
    assert sum(part.static_w for part in components(name).parts) == pytest.approx(power["static"])


@pytest.mark.parametrize("name", ["disaggregated", "colocated"])
def test_the_busiest_stack_and_link_are_those_of_the_metrics(name: str) -> None:
    metrics = evaluated(name).metrics
    # Weighted with time over both replications, as the metrics; those take the busiest of each replication.
    assert max(part.utilization for part in parts(name, "memory")) == pytest.approx(
        metrics["hbm_utilization"], rel=1e-3
    )
    assert max(part.utilization for part in parts(name, "link")) == pytest.approx(
        metrics["noi_utilization_max"], rel=1e-3
    )
    for part in parts(name, "die"):
        assert part.utilization == pytest.approx(metrics[f"utilization_{part.name.split('[')[0]}"], rel=1e-9)


def test_a_package_without_links_in_use_spends_nothing_on_them() -> None:
    assert components("h100").power_w["noi"] == 0.0
    assert {part.utilization for part in parts("h100", "link")} <= {0.0}


def test_links_are_named_by_what_they_join_and_lie_between_neighbours() -> None:
    edges = set(design("disaggregated").package.topology.edges)
    for part in parts("disaggregated", "link"):
        start, end = (int(slot) for slot in part.place.removeprefix("slots ").split("→"))
        assert (min(start, end), max(start, end)) in edges
        assert "→" in part.name


def test_an_infeasible_design_has_no_components() -> None:
    heavy = replace(workload(), models=(load_model("nemotron-h-56b"),))
    options = EvaluationOptions(requests=20, replications=1)
    [found] = ServingSimulator().evaluate([design("h100")], heavy, load_calibration("default"), options, 1)
    assert found.components is None
