"""A slower package in slower time: what is measured in seconds is scaled, and nothing else."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from hydra_dse.config import load_design, load_workload
from hydra_dse.results.metrics import METRICS, Metric
from hydra_dse.workload.nouns import Slo, Workload
from simulators.serving import throttle

CHAT = load_workload("hydra-chat")
DESIGN = load_design("hydra-24-nemotron-chat")


def power_of_seconds(unit: str) -> int:
    """Power of the second in a unit, e.g. −2 in tokens/s²."""
    over, *under = unit.split("/")
    found = {"s": 1, "s²": 2}
    return found.get(over, 0) - sum(found.get(part, 0) for part in under)


@pytest.mark.parametrize("known", [one for one in METRICS.values() if one.name not in throttle.ANEW], ids=str)
def test_every_metric_scales_with_the_power_of_the_second_in_its_unit(known: Metric) -> None:
    assert throttle.TIME_POWERS.get(known.unit, 0) == power_of_seconds(known.unit)


def test_what_power_takes_part_in_is_computed_anew() -> None:
    with_watts = {one.name for one in METRICS.values() if re.search(r"\b[WJ]\b", one.unit)}
    # Power with leakage, and leakage, are computed by the solution for heat.
    assert with_watts - {"hot_power_w", "leakage_w"} == set(throttle.ANEW)


def offered(**changes: object) -> Workload:
    return replace(CHAT, **changes)  # type: ignore[arg-type]


def test_only_what_has_no_clock_of_its_own_can_be_slowed() -> None:
    assert throttle.can_slow(DESIGN, CHAT)
    hosted = replace(
        DESIGN, policy=replace(DESIGN.policy, prefix_cache=True, host_cache_bytes=1e9, host_bytes_per_s=1e9)
    )
    ageing = replace(DESIGN, policy=replace(DESIGN.policy, ageing_s=2.0))
    assert not throttle.can_slow(hosted, CHAT)
    assert not throttle.can_slow(ageing, CHAT)
    assert not throttle.can_slow(DESIGN, load_workload("tool-sessions"))


def test_slower_time_offers_more_and_promises_less() -> None:
    kind = replace(CHAT.classes[0], slo=Slo(0.5, None, 90.0))
    found = throttle._faster(offered(classes=(kind,)), 2.5)
    rate = CHAT.arrivals.statistics().rate_per_s
    assert found.arrivals.statistics().rate_per_s == pytest.approx(2.5 * rate)
    assert found.classes[0].slo == Slo(pytest.approx(0.2), None, 90.0)
