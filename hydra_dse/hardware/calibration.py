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
        half_width: width of a GEMM's slice on a die at which half of its share of peak is reached; 0 = no effect.
        collective_overhead_s: further fixed cost of an operator that gathers from or reduces over several dies.
        stage_imbalance: factor on the work of dies that form stages of a pipeline.
        kv_access_bytes: bytes of traffic that the start of one access to KV (of one sequence and head) costs in time.
        intervals: 90 % interval by parameter: `"compute.mlp"`, `"memory.kv"`, `"operator_overhead"`, ….
        basis: what a parameter rests on, by the same names (`BASES`); `"assumption"` where it is not named.
        ranges: lowest and highest value measured, by what it is: `"rows"`, `"context"`, `"prompt"`.
    """

    name: str
    compute: Mapping[OperatorClass, float]
    memory: Mapping[str, float]
    operator_overhead_s: float
    iteration_overhead_s: float
    relative_error: float = 0.2
    source: str = ""
    half_width: float = 0.0
    collective_overhead_s: float = 0.0
    stage_imbalance: float = 1.0
    kv_access_bytes: float = 0.0
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    basis: Mapping[str, str] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)


ACCESS_KINDS = ("weights", "kv", "state", "activations")
BASES = ("measured", "fitted", "transferred", "assumption")
"""Measured on this kind of die; fitted to tables of it; fitted on another kind of chip; assumed (a bare roofline)."""


FIXED = ("operator_overhead", "iteration_overhead", "half_width", "collective_overhead", "stage_imbalance", "kv_access")
PARAMETERS = (
    *(f"compute.{kind.value}" for kind in OperatorClass),
    *(f"memory.{kind}" for kind in ACCESS_KINDS),
    *FIXED,
)
"""Names of all parameters of a calibration."""


@dataclass(frozen=True)
class CalibrationSet:
    """Calibrations by chiplet style, with a default for styles not named."""

    default: Calibration
    by_style: Mapping[str, Calibration] = field(default_factory=dict)

    def of(self, style: str) -> Calibration:
        """Return the calibration of a chiplet style."""
        return self.by_style.get(style, self.default)
