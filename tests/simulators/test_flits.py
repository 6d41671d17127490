"""The flit model against a published simulation and theory; the flow model against the flit model."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from hydra_dse.routing import RouteTable, build_topology, route
from simulators.noi.flits import FlitNetwork
from simulators.noi.flows import ARBITRATION, saturation_share
from simulators.noi.routers import FlitParameters, FlitRun, zero_load_cycles

NODES = 24
STACKS = (0, 5, 6, 11, 12, 17, 18, 23)
DIES = tuple(slot for slot in range(NODES) if slot not in STACKS)

# Five cycles a hop (the bundled link of hydra-24 at 1 GHz), packets of eight flits.
HYDRA = FlitParameters(vcs=4, buffer_flits=16, router_cycles=1, link_cycles=4, packet_flits=8)


@cache
def _mesh() -> RouteTable:
    return route(build_topology("mesh", 6, 4, 66.6, 44.4), (True,) * NODES)


def _uniform() -> np.ndarray:
    rates = np.full((NODES, NODES), 1.0 / (NODES - 1))
    np.fill_diagonal(rates, 0.0)
    return rates


def _hotspot() -> np.ndarray:
    rates = 0.5 * _uniform()
    rates[:, [8, 15]] += 0.25
    np.fill_diagonal(rates, 0.0)
    return rates


def _memory_aligned() -> np.ndarray:
    rates = np.zeros((NODES, NODES))
    for number, stack in enumerate(STACKS):
        rates[stack, DIES[2 * number : 2 * number + 2]] = 0.5
    return rates


def _memory_interleaved() -> np.ndarray:
    rates = np.zeros((NODES, NODES))
    rates[np.ix_(STACKS, DIES)] = 1.0 / len(DIES)
    return rates


def _all_reduce() -> np.ndarray:
    group = DIES[:8]
    rates = np.zeros((NODES, NODES))
    rates[np.ix_(group, group)] = 1.0 / 7.0
    np.fill_diagonal(rates, 0.0)
    return rates


def _hand_off() -> np.ndarray:
    """From every prefill die most to its own decode die, the rest to all of them."""
    rates = np.zeros((NODES, NODES))
    for source, target in zip(DIES[:8], DIES[8:], strict=True):
        rates[source, list(DIES[8:])] += 0.3 / 8.0
        rates[source, target] += 0.7
    return rates


CASES = {
    "uniform": _uniform(),
    "hotspot": _hotspot(),
    "memory aligned": _memory_aligned(),
    "memory interleaved": _memory_interleaved(),
    "all-reduce": _all_reduce(),
    "hand-off": _hand_off(),
}


def _run(
    parameters: FlitParameters, rates: np.ndarray, cycles: int, warmup: int, drain: int, seed: int = 1
) -> tuple[FlitNetwork, FlitRun]:
    network = FlitNetwork(_mesh(), parameters, rates, cycles, np.random.default_rng(seed))
    return network, network.run(warmup, drain)


def _mean_hops(rates: np.ndarray) -> float:
    return float((rates * _mesh().hops).sum() / rates.sum())


# -- the flit model itself ---------------------------------------------------------------------------------------------


def test_every_packet_alone_takes_the_latency_of_its_way() -> None:
    parameters = FlitParameters(packet_flits=5, ports=2)
    network, _ = _run(parameters, 1e-5 * _uniform()[None], 40_000, 0, 400)
    there = network.arrived_at <= network.cycles
    assert there.sum() > 3
    hops = _mesh().hops[network.source_node[there], network.target_node[there]]
    assert (network.arrived_at - network.created)[there].tolist() == zero_load_cycles(hops, parameters).tolist()


@pytest.mark.slow
def test_the_published_booksim_latency_of_a_4_by_6_mesh_is_met_within_three_per_cent() -> None:
    """BookSim: 100.1 cycles, uniform traffic between chiplets of eight units at 0.001 flits per cycle and unit.

    RapidChiplet's published inputs: 12 cycles a PHY, two on every link; 0.25 cycles per mm, so 1 cycle for the 1.4 mm
    between PHYs of neighbours; routers of 3 cycles; 4 VCs of 16 flits; packets of one flit; three cycles at the ends.
    """
    parameters = FlitParameters(4, 16, router_cycles=3, link_cycles=12 + 1 + 12, endpoint_cycles=3, ports=8)
    _, run = _run(parameters, np.array([_uniform() * 8 * 0.001] * 4), 5000, 300, 600)
    measured = float(run.latency_cycles.mean())
    assert measured == pytest.approx(100.1, rel=0.03)
    assert measured == pytest.approx(zero_load_cycles(_mean_hops(_uniform()), parameters), rel=0.01)


def test_latency_rises_with_load_and_what_is_accepted_never_exceeds_the_links() -> None:
    bound = saturation_share(_mesh(), _uniform() * HYDRA.packet_flits) / ARBITRATION
    _, run = _run(HYDRA, np.array([_uniform() * bound * load for load in (0.1, 0.5, 0.8, 1.3)]), 1500, 500, 300)
    assert (np.diff(run.latency_cycles) > 0).all()
    assert run.accepted[3] <= bound * NODES * HYDRA.packet_flits


@pytest.mark.slow
def test_more_virtual_channels_carry_more_of_the_same_overload() -> None:
    offered = _uniform()[None] * 1.2 * saturation_share(_mesh(), _uniform() * HYDRA.packet_flits) / ARBITRATION
    narrow, wide = (
        _run(FlitParameters(vcs, 8, 1, 4, packet_flits=8), offered, 1500, 500, 300)[1].accepted for vcs in (1, 4)
    )
    assert wide[0] > 1.1 * narrow[0]


def test_a_run_is_reproducible_and_more_copies_change_none_of_the_totals() -> None:
    rates = np.array([_uniform() * 0.02] * 2)
    one, two = (_run(HYDRA, rates, 800, 100, 300)[1] for _ in range(2))
    assert one.latency_cycles.tolist() == two.latency_cycles.tolist()


# -- the flow model against it -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_tiles_without_load_take_what_the_flow_model_says_within_five_per_cent(case: str) -> None:
    """A tile of 64 flits; the package level takes five cycles a hop and a cycle a flit, and no endpoints."""
    tile = FlitParameters(4, 16, HYDRA.router_cycles, HYDRA.link_cycles, packet_flits=64)
    rates = CASES[case]
    network, _ = _run(tile, np.array([rates * 3e-5 / rates.sum(axis=1).max()] * 10), 6000, 0, 400)
    there = network.arrived_at <= network.cycles
    assert there.sum() > 5
    hops = _mesh().hops[network.source_node[there], network.target_node[there]]
    flow = hops * (tile.router_cycles + tile.link_cycles) + tile.packet_flits
    assert float(flow.mean()) == pytest.approx(float((network.arrived_at - network.created)[there].mean()), rel=0.05)


@pytest.mark.slow
def test_saturation_of_the_flow_model_is_within_a_tenth_of_the_flit_model_in_every_case() -> None:
    """Saturated is where the latency is five times that without load (the rule of RapidChiplet's BookSim runs)."""
    loads = np.array([0.8, 0.85, 0.9, 0.95, 1.0])
    bounds = {case: saturation_share(_mesh(), rates * HYDRA.packet_flits) for case, rates in CASES.items()}
    offered = [rates * bounds[case] / ARBITRATION * load for case, rates in CASES.items() for load in loads]
    _, run = _run(HYDRA, np.array(offered), 8000, 1000, 800, seed=11)
    latency = run.latency_cycles.reshape(len(CASES), len(loads))
    errors = {}
    for (case, rates), measured in zip(CASES.items(), latency, strict=True):
        limit = 5.0 * float(zero_load_cycles(_mean_hops(rates), HYDRA))
        saturated = float(np.interp(limit, np.maximum.accumulate(measured), loads))
        errors[case] = ARBITRATION / saturated - 1.0
    assert max(abs(error) for error in errors.values()) <= 0.10, errors
