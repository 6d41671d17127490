"""Contracts of the extension points as test classes.

Derive a class whose name begins with `Test`, give it the method that names what is tested, and let pytest collect it.
Every test of a contract says in its name what our own implementations keep to as well.
"""

from __future__ import annotations

from hydra_dse.extensions import registered
from hydra_dse.testing.arrivals import ArrivalContract
from hydra_dse.testing.chiplets import ChipletContract
from hydra_dse.testing.objectives import ObjectiveContract
from hydra_dse.testing.placements import PlacementContract
from hydra_dse.testing.simulators import SimulatorContract
from hydra_dse.testing.trace_metrics import TraceMetricContract

__all__ = [
    "ArrivalContract",
    "ChipletContract",
    "ObjectiveContract",
    "PlacementContract",
    "SimulatorContract",
    "TraceMetricContract",
    "registered",
]
