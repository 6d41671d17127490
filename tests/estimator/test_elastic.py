"""Estimates of elastic designs in limits that are known, and as part of the whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.config import load_calibration, load_model, load_space, load_workload
from hydra_dse.design.nouns import Design
from hydra_dse.errors import InputError
from hydra_dse.estimator import estimate, estimate_designs
from hydra_dse.estimator.lengths import moments_of
from hydra_dse.estimator.solvers import solver_of
from hydra_dse.profile import RoleProfile, ServiceProfile
from hydra_dse.workload import at_rate
from hydra_dse.workload.nouns import ArrivalStatistics, LengthPoints
from tests.estimator.analytic import NoContention, System, profile_of

SLOW = {"prefill": System(tc=1e-4), "decode": System(tc=1e-6)}
FAST = {"prefill": System(tc=6e-5), "decode": System(tc=1e-6, tw=9e-3)}


def elastic(*states: dict[str, System], n: int = 1, up: float = 3.0, move_s: float = 0.01) -> ServiceProfile:
    """A profile of `n` equal designs with these role states, the first one native."""
    parts = [profile_of({name: [one] * n for name, one in state.items()}, shared=False) for state in states]
    size = len(states)
    roles = RoleProfile(
        native=0,
        pools=tuple(part.pools for part in parts),
        contention={(low, high): NoContention() for low in range(size) for high in range(low, size)},
        lowest=np.zeros(n, dtype=np.int64),
        highest=np.full(n, size - 1, dtype=np.int64),
        up=np.full(n, up),
        down=np.zeros(n),
        move_bytes=np.zeros((n, size - 1, 2)),
        move_s=np.full((n, size - 1, 2), move_s),
    )
    named = {roles.name(name, state): pool for state, part in enumerate(parts) for name, pool in part.pools.items()}
    return replace(parts[0], pools=named, task_map="elastic", roles=roles)


# How prompts that find an engine idle are packed is left out where engines change roles (about 1 % at most here).
PACKING = 0.02


def test_states_that_are_equal_give_the_estimate_of_a_static_design(chat: LengthPoints) -> None:
    still = profile_of({name: [one] for name, one in SLOW.items()}, shared=False)
    for rate in (1.0, 4.0, 7.0):
        one = estimate(still, ArrivalStatistics(rate), chat).metrics
        other = estimate(elastic(SLOW, SLOW), ArrivalStatistics(rate), chat).metrics
        for name in one:
            assert other[name] == pytest.approx(one[name], rel=PACKING, nan_ok=True), name


def test_lending_dies_raises_saturation_where_prefill_limits(chat: LengthPoints) -> None:
    moments = moments_of(chat)
    still = solver_of(profile_of({name: [one] for name, one in SLOW.items()}, shared=False), moments)
    crossing = solver_of(elastic(SLOW, FAST), moments)
    assert crossing.saturation_per_s[0] > 1.1 * still.saturation_per_s[0]
    assert crossing.intake.prompts_per_s[0] >= crossing.saturation_per_s[0]


def test_ttft_grows_with_the_rate_and_with_the_threshold(chat: LengthPoints) -> None:
    profile = elastic(SLOW, FAST)
    ttft = [estimate(profile, ArrivalStatistics(rate), chat).metrics["ttft_mean_s"][0] for rate in (1.0, 3.0, 6.0, 8.0)]
    assert ttft == sorted(ttft)
    waits = [
        estimate(elastic(SLOW, FAST, up=up), ArrivalStatistics(7.0), chat).metrics["ttft_mean_s"][0]
        for up in (1.0, 2.0, 4.0, 8.0)
    ]
    assert waits == sorted(waits)


def test_a_batch_of_designs_equals_each_by_itself(chat: LengthPoints) -> None:
    ups = (1.0, 2.0, 5.0, 9.0)
    together = elastic(SLOW, FAST, n=4)
    assert together.roles is not None
    together = replace(together, roles=replace(together.roles, up=np.array(ups)))
    whole = estimate(together, ArrivalStatistics(6.0), chat).metrics
    for row, up in enumerate(ups):
        one = estimate(elastic(SLOW, FAST, up=up), ArrivalStatistics(6.0), chat).metrics
        for name, values in whole.items():
            assert one[name][0] == pytest.approx(values[row], rel=1e-9, nan_ok=True), name


def test_no_load_gives_nan_where_there_is_something_to_compute(chat: LengthPoints) -> None:
    profile = elastic(SLOW, FAST)
    top = solver_of(profile, moments_of(chat)).saturation_per_s[0]
    for load in (0.01, 0.5, 0.9, 0.99, 1.2, 2.0):
        metrics = estimate(profile, ArrivalStatistics(load * top), chat).metrics
        assert np.isfinite(metrics["throughput_tokens_per_s"][0])
        assert np.isfinite(metrics["ttft_mean_s"][0]) == (load < 1.0)


# -- placed designs ----------------------------------------------------------------------------------------------


def design(**policy: object) -> Design:
    space = load_space("hydra-24")
    point = space.complete({"hbm": 6, "Ap": 3, "Ad": 5, "Mp": 3, "link_gb_per_s": 512, "max_batch": 32})
    assert point is not None
    built = space.build(point)
    return replace(built, policy=replace(built.policy, **policy))


def test_elastic_and_static_designs_are_estimated_side_by_side() -> None:
    load = replace(load_workload("azure-conversation"), models=(load_model("nemotron-h-4b"),))
    designs = [design(), design(task_map="elastic"), design(task_map="elastic", role_units_to_prefill=2), design()]
    table = estimate_designs(designs, at_rate(load, 4.0), load_calibration("default"))
    ttft = table.metrics["ttft_mean_s"]
    assert ttft[0] == ttft[3]
    assert ttft[1] < ttft[0]
    assert table.metrics["saturation_requests_per_s"][2] >= table.metrics["saturation_requests_per_s"][1]
    busy = table.metrics["utilization_Md"]
    assert np.all((busy > 0.0) & (busy <= 1.0))


def test_a_design_with_no_die_to_spare_is_the_static_one() -> None:
    load = replace(load_workload("hydra-chat"), models=(load_model("nemotron-h-4b"),))
    big = 20  # dies that no group has to spare
    table = estimate_designs(
        [design(), design(task_map="elastic", role_unit_dies=big)], at_rate(load, 4.0), load_calibration("default")
    )
    for name, values in table.metrics.items():
        assert values[1] == pytest.approx(values[0], rel=PACKING, nan_ok=True), name


@pytest.mark.parametrize("task_map", ["stealing", "fcfs"])
def test_task_maps_without_a_model_of_their_own_say_so(task_map: str) -> None:
    load = at_rate(replace(load_workload("hydra-chat"), models=(load_model("nemotron-h-4b"),)), 4.0)
    if task_map == "fcfs":
        with pytest.raises(InputError, match="simulate it"):
            estimate_designs([design(task_map=task_map)], load, load_calibration("default"))
        return
    table = estimate_designs([design(task_map=task_map), design()], load, load_calibration("default"))
    assert table.metrics["ttft_mean_s"][0] == table.metrics["ttft_mean_s"][1]
    assert any("stealing" in note for note in table.notes)
