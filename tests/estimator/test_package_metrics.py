"""Costs of estimated designs: each bound of a cost of tokens from the bounds that make it so."""

from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.config import load_design
from hydra_dse.estimator.package_metrics import with_cost
from hydra_dse.estimator.table import EstimateTable
from hydra_dse.physical import package_cost, usd_per_million_tokens

DESIGN = load_design("hydra-24-nemotron-chat")
COST = "cost_usd_per_million_tokens"


def table(power: list[float], tokens: list[float], spread: float = 0.0) -> EstimateTable:
    values = {"power_w": np.array(power), "throughput_tokens_per_s": np.array(tokens)}
    low, high = ({name: part * (1.0 + sign * spread) for name, part in values.items()} for sign in (-1.0, 1.0))
    return EstimateTable(values, low, high, ((),) * len(power))


def test_tokens_cost_what_their_package_and_its_power_cost() -> None:
    unit = package_cost(DESIGN.package).unit
    found = with_cost(table([500.0, 300.0], [1000.0, 250.0]), [DESIGN, DESIGN]).metrics
    assert found["unit_cost_usd"] == pytest.approx([unit, unit])
    assert found[COST] == pytest.approx(
        [usd_per_million_tokens(DESIGN.package, unit, *pair) for pair in ((500.0, 1000.0), (300.0, 250.0))]
    )


def test_tokens_are_cheapest_at_little_power_and_many_tokens() -> None:
    unit = package_cost(DESIGN.package).unit
    found = with_cost(table([500.0], [1000.0], spread=0.2), [DESIGN])
    assert found.low[COST][0] == pytest.approx(usd_per_million_tokens(DESIGN.package, unit, 400.0, 1200.0))
    assert found.high[COST][0] == pytest.approx(usd_per_million_tokens(DESIGN.package, unit, 600.0, 800.0))


def test_where_nothing_is_known_of_the_spread_the_value_stands_for_its_bounds() -> None:
    plain = table([500.0], [1000.0])
    unknown = {"power_w": np.array([np.nan])}
    found = with_cost(EstimateTable(plain.metrics, unknown, {}, ((),)), [DESIGN])
    assert found.low[COST][0] == found.high[COST][0] == found.metrics[COST][0]


def test_designs_that_serve_nothing_have_a_unit_cost_and_no_cost_of_tokens() -> None:
    found = with_cost(EstimateTable({}, {}, {}, ((),)), [DESIGN]).metrics
    assert set(found) == {"unit_cost_usd"}
