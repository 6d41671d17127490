"""The Markov-chain estimator: saturation, latencies, occupancy and energy of thousands of designs a second."""

from __future__ import annotations

from hydra_dse.estimator.designs import estimate_designs, evaluate
from hydra_dse.estimator.estimate import ClassSlo, estimate
from hydra_dse.estimator.table import EstimateTable

__all__ = ["ClassSlo", "EstimateTable", "estimate", "estimate_designs", "evaluate"]
