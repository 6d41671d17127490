"""What a run would gain from a faster resource."""

from __future__ import annotations

from hydra_dse.bundle.whatif.replay import LIMITS, graph_of, recorded, replay
from hydra_dse.bundle.whatif.scaling import RESOURCES, Scale, parse_scale, scaled
from hydra_dse.bundle.whatif.sensitivity import GAINS, Gain, Sensitivity, WhatIf, what_if

__all__ = [
    "GAINS",
    "LIMITS",
    "RESOURCES",
    "Gain",
    "Scale",
    "Sensitivity",
    "WhatIf",
    "graph_of",
    "parse_scale",
    "recorded",
    "replay",
    "scaled",
    "what_if",
]
