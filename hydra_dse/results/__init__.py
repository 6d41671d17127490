"""Metric names with units, and the result of evaluating designs."""

from __future__ import annotations

from hydra_dse.results.metrics import METRICS, Metric, metric
from hydra_dse.results.nouns import Component, Components, Evaluation, Violation

__all__ = ["METRICS", "Component", "Components", "Evaluation", "Metric", "Violation", "metric"]
