"""The metric toolkit on traces: the CCL-Bench catalogue and what it lacks, as small registered functions."""

from __future__ import annotations

from hydra_dse.bundle.metrics.evaluate import Measurement, evaluate
from hydra_dse.bundle.metrics.measured import Measured, RankTimes, measure
from hydra_dse.bundle.metrics.registry import TraceMetric, Unavailable, metrics

__all__ = ["Measured", "Measurement", "RankTimes", "TraceMetric", "Unavailable", "evaluate", "measure", "metrics"]
