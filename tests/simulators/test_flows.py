"""Fair rates of concurrent flows: against arithmetic and against the definition of fairness."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulators.noi.flows import FlowNetwork, Route, fair_rates


def _of_paths(paths: list[list[int]], links: int, capacity: float = 1.0) -> np.ndarray:
    """Rates of single-stripe flows over links of one capacity."""
    on = np.zeros((len(paths), links))
    for flow, path in enumerate(paths):
        on[flow, path] = 1.0
    return fair_rates(on / capacity, on)


def test_the_textbook_line_of_links_gives_max_min_rates() -> None:
    # Bertsekas and Gallager, 2nd ed., §6.5.2: one long flow and short ones; links 0 and 1 have one and two short flows.
    rates = _of_paths([[0, 1, 2], [0], [1], [1], [2]], 3)
    # Link 1 is the tightest: three flows at 1/3; links 0 and 2 leave 2/3 to their short flow.
    assert rates == pytest.approx([1 / 3, 2 / 3, 1 / 3, 1 / 3, 2 / 3])


def test_a_flow_of_three_stripes_takes_three_quarters_beside_a_flow_of_one() -> None:
    busy, stripes = np.array([[1.0], [1.0]]), np.array([[3.0], [1.0]])
    assert fair_rates(busy, stripes) == pytest.approx([0.75, 0.25])


def test_a_flow_alone_runs_at_its_slowest_resource() -> None:
    assert fair_rates(np.array([[0.2, 0.5, 0.0]]), np.array([[1.0, 2.0, 0.0]])) == pytest.approx([2.0])


def test_what_a_held_back_flow_leaves_goes_to_the_other() -> None:
    # Flow 1 gets 1/2 on resource 1 whatever happens, and with half a second per byte takes 1/4 of resource 0.
    busy = np.array([[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.0, 1.0, 0.0]])
    assert fair_rates(busy, np.ones((3, 3)) * (busy > 0)) == pytest.approx([0.75, 0.5, 0.5])


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.integers(2, 6), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_no_resource_is_above_capacity_and_every_flow_has_a_full_resource(flows: int, links: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    busy = rng.uniform(0.1, 1.0, (flows, links)) * (rng.random((flows, links)) < 0.6)
    busy[np.arange(flows), rng.integers(0, links, flows)] += 0.1
    stripes = np.where(busy > 0, rng.integers(1, 5, busy.shape), 0).astype(float)
    rates = fair_rates(busy, stripes)
    load = rates @ busy
    assert (load <= 1.0 + 1e-9).all()
    assert (rates > 0.0).all()
    full = load >= 1.0 - 1e-6
    assert all((full & (busy[flow] > 0.0)).any() for flow in range(flows))


def test_rates_of_a_set_of_routes_are_found_once() -> None:
    network = FlowNetwork()
    numbers = tuple(network.add(Route(f"r{n}", np.array([1.0, float(n)]), np.ones(2), 1, 1)) for n in range(2))
    assert network.rates(numbers) is network.rates(numbers)
