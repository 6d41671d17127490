"""The Calibration record: how far real kernels stay below the peak, by operator class and access kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hydra_dse.model.operators import OperatorClass


@dataclass(frozen=True)
class Calibration:
    """Achievable shares of peak and fixed costs.

    Attributes:
        name: library name.
        compute: share of the matrix (or vector) peak by operator class, at full array utilisation.
        memory: share of a stack's bandwidth by access kind: `"weights"`, `"kv"`, `"state"`, `"activations"`.
        operator_overhead_s: launch or section cost of one operator instance on a die.
        iteration_overhead_s: host cost of one engine iteration.
        relative_error: one standard deviation of an operator's time around the model, as a share.
        source: data and command it was fitted from, or `"assumption: …"`.
    """

    name: str
    compute: Mapping[OperatorClass, float]
    memory: Mapping[str, float]
    operator_overhead_s: float
    iteration_overhead_s: float
    relative_error: float = 0.2
    source: str = ""


ACCESS_KINDS = ("weights", "kv", "state", "activations")


@dataclass(frozen=True)
class CalibrationSet:
    """Calibrations by chiplet style, with a default for styles not named."""

    default: Calibration
    by_style: Mapping[str, Calibration] = field(default_factory=dict)

    def of(self, style: str) -> Calibration:
        """Return the calibration of a chiplet style."""
        return self.by_style.get(style, self.default)
