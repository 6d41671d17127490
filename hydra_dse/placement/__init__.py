"""Where components sit: communication-aware placement and baselines."""

from __future__ import annotations

from hydra_dse.placement.legality import placement_violations
from hydra_dse.placement.place import Outcome, forget_placements, place, place_design, place_designs
from hydra_dse.placement.problem import WORST_LINK_WEIGHT, Problem

__all__ = [
    "WORST_LINK_WEIGHT",
    "Outcome",
    "Problem",
    "forget_placements",
    "place",
    "place_design",
    "place_designs",
    "placement_violations",
]
