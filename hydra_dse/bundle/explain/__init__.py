"""Why one bundle beats another."""

from __future__ import annotations

from hydra_dse.bundle.explain.breakdown import Breakdown, Phase, read_breakdown
from hydra_dse.bundle.explain.compare import Comparison, EqualWork, Lever, Row, compare

__all__ = ["Breakdown", "Comparison", "EqualWork", "Lever", "Phase", "Row", "compare", "read_breakdown"]
