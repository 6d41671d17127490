"""What a die can do at a precision and under a calibration: peaks × efficiencies, as numbers or arrays over designs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.errors import Fault, InputError
from hydra_dse.hardware.calibration import ACCESS_KINDS, CalibrationSet
from hydra_dse.hardware.components import Chiplet
from hydra_dse.mapping import speed_of
from hydra_dse.model.operators import Number, Operator, OperatorClass
from hydra_dse.model.precision import Precision


@dataclass(frozen=True, eq=False)
class DieRates:
    """Rates of one die type; every number broadcasts with the fields of a batch.

    Attributes:
        style: `"systolic"`, `"mac-array"` or `"vector"` (which multiplies on its vector lanes).
        matmul_flops_per_s: peak in the format of the activations; 0 where that format is not supported.
        vector_flops_per_s: element-wise peak.
        sram_bytes_per_s: on-die bandwidth; infinite where the die states none.
        array_rows, array_columns, cores: tiles of the matrix cores.
        joules_per_flop, joules_per_vector_flop, joules_per_sram_byte: dynamic energy.
        operator_overhead_s, iteration_overhead_s: fixed costs of an operator instance and of an iteration.
        weight_bytes: bytes of one weight at the precision.
        compute: achievable share of the peak by operator class, at full array utilisation.
        memory: achievable share of a stack's bandwidth by access kind.
        shape_efficiency: pairs (rows, share of peak) that replace the tile rule where given.
        half_width: width of a GEMM's slice at which half of its share of peak is reached; 0 = no effect.
        collective_overhead_s: further fixed cost of an operator that gathers or reduces over several dies.
        kv_access_bytes: bytes of traffic that the start of an access to KV costs in time.
    """

    style: str
    matmul_flops_per_s: Number
    vector_flops_per_s: Number
    sram_bytes_per_s: Number
    array_rows: Number
    array_columns: Number
    cores: Number
    joules_per_flop: Number
    joules_per_vector_flop: Number
    joules_per_sram_byte: Number
    operator_overhead_s: Number
    iteration_overhead_s: Number
    weight_bytes: Number
    compute: Mapping[OperatorClass, Number]
    memory: Mapping[str, Number]
    shape_efficiency: tuple[tuple[float, float], ...] = ()
    half_width: float = 0.0
    collective_overhead_s: float = 0.0
    kv_access_bytes: float = 0.0

    @property
    def shape(self) -> tuple[object, ...]:
        """What must be equal for two rates to be stacked into one."""
        return self.style, self.shape_efficiency, self.half_width, self.collective_overhead_s, self.kv_access_bytes

    def faster(self, factor: float) -> DieRates:
        """The rates of a die whose compute and SRAM run `factor` times as fast."""
        if factor == 1.0:
            return self
        names = ("matmul_flops_per_s", "vector_flops_per_s", "sram_bytes_per_s")
        return replace(self, **{name: getattr(self, name) * factor for name in names})


def die_rates(chiplet: Chiplet, calibrations: CalibrationSet, precision: Precision, stages: int = 1) -> DieRates:
    """Return the rates of a die type, in a pipeline slower by the imbalance of its stages.

    Energy per FLOP is divided by the speed of the format: the multipliers of an array are split, not added
    (assumption).

    Raises:
        InputError: the calibration lacks an operator class or an access kind.
    """
    calibration = calibrations.of(chiplet.style)
    missing = [kind.value for kind in OperatorClass if kind not in calibration.compute]
    missing += [kind for kind in ACCESS_KINDS if kind not in calibration.memory]
    if missing:
        raise InputError(Fault(f"calibration {calibration.name!r} has no efficiency for {', '.join(missing)}"))
    speed = speed_of(chiplet, precision.activations) or 0.0
    multiplies = chiplet.matmul_flops_per_s > 0
    return DieRates(
        style=chiplet.style if multiplies else "vector",
        matmul_flops_per_s=chiplet.matmul_flops_per_s * speed if multiplies else chiplet.vector_flops_per_s,
        vector_flops_per_s=chiplet.vector_flops_per_s,
        sram_bytes_per_s=chiplet.sram_bandwidth_bytes_per_s if chiplet.sram_bandwidth_bytes_per_s > 0 else np.inf,
        array_rows=float(chiplet.array_rows),
        array_columns=float(chiplet.array_columns),
        cores=float(chiplet.cores),
        joules_per_flop=chiplet.joules_per_flop / (speed or 1.0) if multiplies else chiplet.joules_per_vector_flop,
        joules_per_vector_flop=chiplet.joules_per_vector_flop,
        joules_per_sram_byte=chiplet.joules_per_sram_byte,
        operator_overhead_s=calibration.operator_overhead_s,
        iteration_overhead_s=calibration.iteration_overhead_s,
        weight_bytes=precision.weight_bytes,
        compute=dict(calibration.compute),
        memory=dict(calibration.memory),
        shape_efficiency=chiplet.shape_efficiency,
        half_width=calibration.half_width,
        collective_overhead_s=calibration.collective_overhead_s,
        kv_access_bytes=calibration.kv_access_bytes,
    ).faster(1.0 / calibration.stage_imbalance if stages > 1 else 1.0)


_NUMBERS = (
    "matmul_flops_per_s",
    "vector_flops_per_s",
    "sram_bytes_per_s",
    "array_rows",
    "array_columns",
    "cores",
    "joules_per_flop",
    "joules_per_vector_flop",
    "joules_per_sram_byte",
    "operator_overhead_s",
    "iteration_overhead_s",
    "weight_bytes",
)


def stack_rates(rates: Sequence[DieRates]) -> DieRates:
    """Return the rates of `n` dies of equal `shape`, each of shape (n,), for batches of shape (k, n).

    Designs lie on the last axis, so that what differs by design alone meets whole rows of a batch.
    """
    first = rates[0]
    numbers = np.array([[getattr(rate, name) for rate in rates] for name in _NUMBERS], dtype=np.float64)
    columns = dict(zip(_NUMBERS, numbers, strict=True))
    return DieRates(
        style=first.style,
        shape_efficiency=first.shape_efficiency,
        half_width=first.half_width,
        collective_overhead_s=first.collective_overhead_s,
        kv_access_bytes=first.kv_access_bytes,
        compute={kind: _column(rate.compute[kind] for rate in rates) for kind in first.compute},
        memory={kind: _column(rate.memory[kind] for rate in rates) for kind in first.memory},
        **columns,
    )


def _column(values: Iterable[Number]) -> NDArray[np.float64]:
    return np.array(list(values), dtype=np.float64)


def launch_s(operator: Operator, rates: DieRates, dies: Number) -> Number:
    """Fixed seconds of one instance of an operator on a group of dies: its launch, and its collective if it has one."""
    moves = operator.gather_elements_per_token > 0 or operator.reduce_elements_per_token > 0
    if not moves or rates.collective_overhead_s <= 0:
        return rates.operator_overhead_s
    return np.asarray(
        rates.operator_overhead_s + rates.collective_overhead_s * (np.asarray(dies) > 1), dtype=np.float64
    )


def rows_of(rates: DieRates, rows: slice | NDArray[np.int64]) -> DieRates:
    """Return some rows of stacked rates."""
    return DieRates(
        style=rates.style,
        shape_efficiency=rates.shape_efficiency,
        half_width=rates.half_width,
        collective_overhead_s=rates.collective_overhead_s,
        kv_access_bytes=rates.kv_access_bytes,
        compute={kind: np.asarray(value)[rows] for kind, value in rates.compute.items()},
        memory={kind: np.asarray(value)[rows] for kind, value in rates.memory.items()},
        **{name: np.asarray(getattr(rates, name))[rows] for name in _NUMBERS},
    )
