"""Our own implementations keep to the contracts that we ask of others, and a broken one does not."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from hydra_dse.design.evaluator import Evaluator
from hydra_dse.placement.baselines import round_robin, two_step
from hydra_dse.results import METRICS, Evaluation
from hydra_dse.results.derived import DerivedMetric
from hydra_dse.results.metrics import MAXIMISE, Metric
from hydra_dse.testing import (
    ArrivalContract,
    ChipletContract,
    ObjectiveContract,
    PlacementContract,
    SimulatorContract,
)
from hydra_dse.workload.arrivals import Deterministic, Mmpp, Renewal
from simulators.serving import ServingSimulator


class TestRegularArrivals(ArrivalContract):
    def process(self):
        return Deterministic(3.0)


class TestGammaArrivals(ArrivalContract):
    def process(self):
        return Renewal(0.7, 1.8)


class TestArrivalsInPhases(ArrivalContract):
    def process(self):
        return Mmpp((8.0, 1.0), (2.0, 5.0))


class TestDealtPlacement(PlacementContract):
    def algorithm(self):
        return round_robin


class TestHydraPlacement(PlacementContract):
    def algorithm(self):
        return two_step


class TestSystolicDie(ChipletContract):
    def file(self):
        return "hydra-tscs-prefill-22nm"


class TestVectorDie(ChipletContract):
    def file(self):
        return "vector-decode-7nm"


class TestServingSimulator(SimulatorContract):
    def simulator(self):
        return ServingSimulator()


PER_DOLLAR = DerivedMetric(
    Metric("saturation_tokens_per_s_per_usd", "tokens/s/USD", MAXIMISE, "saturation per unit cost", "per dollar"),
    ("saturation_tokens_per_s", "unit_cost_usd"),
    lambda known: known["saturation_tokens_per_s"] / known["unit_cost_usd"],
)


class TestObjective(ObjectiveContract):
    def objective(self):
        return PER_DOLLAR


# What is broken fails the test that is about it ----------------------------------------------------------------


class Hasty(ArrivalContract):
    """States 10 % more than it brings, and Poisson gaps where they are regular."""

    def process(self):
        @dataclass(frozen=True)
        class Wrong(Deterministic):
            def statistics(self):
                return replace(super().statistics(), rate_per_s=1.1 * self.rate_per_s, cv=1.0)

        return Wrong(2.0)


class Heaped(PlacementContract):
    def algorithm(self):
        return lambda problem: np.zeros(problem.count, dtype=np.int64)


class Averaged(ObjectiveContract):
    def objective(self):
        return replace(PER_DOLLAR, of=lambda known: known["unit_cost_usd"] * 0 + known["unit_cost_usd"].mean())


class Forgetful(SimulatorContract):
    def simulator(self) -> Evaluator:
        class Counts:
            calls = 0

            def evaluate(self, designs, workload, calibration, options, seed, sink=None):
                Counts.calls += 1
                value = dict.fromkeys(METRICS, 1.0) | {"ttft_mean_s": float(Counts.calls)}
                return [Evaluation("simulated", value) for _ in designs]

        return Counts()


class Wafer(ChipletContract):
    def file(self):
        return "wse-2"


@pytest.mark.parametrize(
    ("contract", "test"),
    [
        (Hasty, "test_the_mean_gap_is_that_of_the_stated_rate"),
        (Hasty, "test_the_variation_of_the_gaps_is_the_stated_one"),
        (Averaged, "test_a_value_does_not_depend_on_the_company_of_its_design"),
        (Forgetful, "test_the_seed_decides_the_result"),
        (Wafer, "test_it_has_a_source_and_an_area_that_can_be_exposed"),
    ],
)
def test_a_broken_implementation_fails(contract, test):
    with pytest.raises(AssertionError):
        getattr(contract(), test)()


def test_slots_that_are_no_placement_are_told():
    from hydra_dse.errors import InputError

    with pytest.raises(InputError, match="not distinct slots"):
        Heaped().test_every_component_gets_a_slot_of_its_own()
