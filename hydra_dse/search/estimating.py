"""The scorer of a sweep: points of a space to designs, and designs through the Markov-chain estimator."""

from __future__ import annotations

from collections.abc import Sequence

from hydra_dse.design.experiment import Experiment
from hydra_dse.design.space import Point
from hydra_dse.results.derived import derived_among, with_needs
from hydra_dse.results.metrics import THERMAL
from hydra_dse.search.scores import ScoreTable, with_derived

PLACEMENT_SEED = 0
MAX_RATE = "max_rate_requests_per_s"


class EstimatorScorer:
    """Scores points with the estimator under the experiment's workload."""

    def __init__(self, experiment: Experiment) -> None:
        self._space = experiment.space
        self._workload = experiment.workload
        self._calibration = experiment.calibration
        named = (*experiment.objectives, *(bound.metric for bound in experiment.bounds))
        self._derived = derived_among(named)
        wanted = with_needs(named)
        self._temperature = any(name in wanted for name in THERMAL)
        self._max_rate = MAX_RATE in wanted  # a bisection of about 12 solutions: only where it is asked for

    def score(self, points: Sequence[Point]) -> ScoreTable:
        """Place and estimate the designs of the points."""
        from hydra_dse.estimator import estimate_designs

        designs = [self._space.build(point) for point in points]
        table = estimate_designs(
            designs, self._workload, self._calibration, max_rate=self._max_rate, temperature=self._temperature
        )
        identities = tuple(design.identity for design in designs)
        scores = ScoreTable(identities, table.metrics, table.violations, table.low, table.high)
        return with_derived(scores, self._derived) if self._derived else scores
