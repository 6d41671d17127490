"""Contract of objectives that are functions of metrics."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from hydra_dse import extensions
from hydra_dse.config import load_calibration, load_design, load_workload
from hydra_dse.results import Evaluation
from hydra_dse.results.derived import DerivedMetric, derived_metric, evaluation_with, values_of
from hydra_dse.results.metrics import MAXIMISE, MINIMISE

FACTORS = np.array([0.25, 0.5, 1.0, 2.0, 4.0])


class ObjectiveContract:
    """Tests of a `DerivedMetric`; override `objective`, and `evaluation` where h100 lacks what it needs."""

    def objective(self) -> DerivedMetric:
        """What is tested."""
        raise NotImplementedError

    def evaluation(self) -> Evaluation:
        """An evaluation of a design to compute it from."""
        from hydra_dse.estimator import evaluate

        load = load_workload("azure-conversation", ["arrivals.rate=1 req/s"])
        return evaluate([load_design("h100")], load, load_calibration("default"), temperature=True)[0]

    @cached_property
    def _evaluation(self) -> Evaluation:
        return self.evaluation()

    def _given(self) -> dict[str, np.ndarray]:
        metrics = self._evaluation.metrics
        known = {need: metrics.get(need) for need in self.objective().needs}
        assert all(value is not None for value in known.values()), f"{known}: override evaluation()"
        return {need: FACTORS * float(value or 0.0) for need, value in known.items()}

    def test_it_is_described_in_the_terms_of_the_registry(self) -> None:
        item = self.objective()
        assert item.metric.unit and item.metric.definition and item.metric.label
        assert item.metric.direction in (MINIMISE, MAXIMISE)
        with extensions.registered(extensions.OBJECTIVES, item.metric.name, item):
            assert derived_metric(item.metric.name) is item

    def test_it_has_a_finite_value_for_a_design(self) -> None:
        item = self.objective()
        value = evaluation_with([item], self._evaluation).metrics.get(item.metric.name)
        assert value is not None
        assert np.isfinite(value)

    def test_a_value_does_not_depend_on_the_company_of_its_design(self) -> None:
        item, given = self.objective(), self._given()
        whole = values_of(item, given)
        for place in range(len(FACTORS)):
            alone = values_of(item, {need: values[[place]] for need, values in given.items()})
            assert np.array_equal(alone, whole[[place]], equal_nan=True)

    def test_what_it_is_given_is_left_as_it_was(self) -> None:
        item, given = self.objective(), self._given()
        before = {need: values.copy() for need, values in given.items()}
        item.of(given)
        assert all(np.array_equal(given[need], before[need]) for need in given)
