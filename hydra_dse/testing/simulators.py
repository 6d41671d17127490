"""Contract of simulators: order, reproducibility, names, and what no queue can break."""

from __future__ import annotations

from functools import cached_property

from hydra_dse.config import load_calibration, load_design, load_model, load_workload
from hydra_dse.design.evaluator import EvaluationOptions, Evaluator
from hydra_dse.design.nouns import Design
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.placement import place_design
from hydra_dse.results import Evaluation, metric
from hydra_dse.workload.nouns import Workload

ROUNDING = 1e-9


class SimulatorContract:
    """Tests of an `Evaluator`; override `simulator`, and `design`, `workload` or `options` to test on others.

    The load should be below what the design sustains.
    """

    def simulator(self) -> Evaluator:
        """What is tested."""
        raise NotImplementedError

    def design(self) -> Design:
        """A design, placed before it is simulated."""
        return load_design("h100")

    def workload(self) -> Workload:
        """What it serves."""
        return load_workload("azure-conversation", ["arrivals.rate=0.5 req/s"])

    def options(self) -> EvaluationOptions:
        """How long and how often."""
        return EvaluationOptions(requests=120, replications=2, saturate=False)

    def calibration(self) -> CalibrationSet:
        """Efficiencies of the dies."""
        return load_calibration("default")

    @cached_property
    def _placed(self) -> Design:
        model = self.workload().models[0] if self.workload().models else load_model("nemotron-h-8b")
        return place_design(self.design(), model, 0)[0]

    def _run(self, designs: int = 1, seed: int = 0) -> list[Evaluation]:
        given = [self._placed] * designs
        return self.simulator().evaluate(given, self.workload(), self.calibration(), self.options(), seed)

    @cached_property
    def _found(self) -> Evaluation:
        return self._run()[0]

    def _value(self, name: str) -> float:
        value = self._found.metrics.get(name)
        assert value is not None, f"{name} is missing"
        return float(value)

    def test_there_is_one_evaluation_for_each_design_whatever_its_company(self) -> None:
        assert self._run(designs=2) == [self._found, self._found]
        assert self.simulator().evaluate([], self.workload(), self.calibration(), self.options(), 0) == []

    def test_the_seed_decides_the_result(self) -> None:
        assert self._run(seed=0)[0] == self._found
        assert self._run(seed=1)[0].metrics != self._found.metrics

    def test_metrics_have_names_of_the_registry_and_the_source_is_told(self) -> None:
        assert self._found.source == "simulated"
        assert self._found.feasible
        assert [metric(name).name for name in self._found.metrics] == list(self._found.metrics)

    def test_an_interval_holds_its_value(self) -> None:
        for name, (low, high) in self._found.intervals.items():
            value = self._value(name)
            slack = ROUNDING * abs(value)
            assert low - slack <= value <= high + slack, name

    def test_latencies_are_in_order(self) -> None:
        ttft = [self._value(f"ttft_{part}_s") for part in ("p50", "p90", "p99")]
        assert 0 < ttft[0] <= ttft[1] <= ttft[2]
        assert self._value("ttft_mean_s") < self._value("e2e_mean_s")
        assert self._value("tpot_mean_s") > 0

    def test_what_arrives_is_served_below_saturation(self) -> None:
        offered, served = self._value("offered_requests_per_s"), self._value("throughput_requests_per_s")
        assert abs(served - offered) <= 0.25 * offered
        assert self._value("throughput_tokens_per_s") >= served
