"""What the uncertainty of a calibration does to an estimate: parameters drawn from their intervals, the rest again.

A parameter with a 90 % interval is drawn log-normally (uniformly where the interval begins at 0), cut to what is
physical; one that was assumed is drawn within a stated factor.  All designs meet the same draws, so a comparison of two
designs is paired: it is decided where its sign holds in nine of ten draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import erf, sqrt

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.nouns import Design
from hydra_dse.estimator.designs import estimate_designs
from hydra_dse.estimator.intervals import NORMAL_90
from hydra_dse.estimator.table import EstimateTable
from hydra_dse.hardware.calibration import Calibration, CalibrationSet
from hydra_dse.rng import derive
from hydra_dse.workload.nouns import Workload

FloatArray = NDArray[np.float64]
ASSUMED_FACTOR = 1.6
"""90 % range of an assumed share, as a factor either way (assumption)."""
DECIDED = 0.9
"""Share of draws that must agree on which of two designs is better (a convention)."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """Estimates of n designs under each drawn calibration.

    Attributes:
        table: under the calibration itself; its intervals hold surrogate and calibration error.
        draws: metric name → values, shape (draws, n).
    """

    table: EstimateTable
    draws: dict[str, FloatArray]

    def decided(self, metric: str, first: int, second: int) -> bool:
        """Whether the sign of `first − second` in a metric is the same in nine of ten draws."""
        difference = self.draws[metric][:, first] - self.draws[metric][:, second]
        above = float(np.mean(difference > 0))
        return max(above, float(np.mean(difference < 0))) >= DECIDED


def posterior(
    designs: Sequence[Design], workload: Workload, calibration: CalibrationSet, draws: int, seed: int = 0
) -> Posterior:
    """Estimate designs under a calibration and under `draws` drawn ones.

    Args:
        designs: placed or not.
        workload: as for `estimate_designs`.
        calibration: with intervals by parameter.
        draws: how many; 20 resolve a 90 % interval coarsely.
        seed: of the draws.
    """
    exact = _without_error(calibration)
    table = estimate_designs(designs, workload, exact)
    parts = []
    for number in range(draws):
        one = drawn(exact, derive(seed, "calibration draw", number))
        parts.append(estimate_designs(designs, workload, one).metrics)
    values = {name: np.array([part[name] for part in parts]) for name in table.metrics}
    return Posterior(_widened(table, values), values)


@dataclass(frozen=True, eq=False)
class IntervalParts:
    """90 % intervals of n designs by cause; each a mapping from metric to values of shape (n,).

    Attributes:
        estimates: under the calibration itself.
        surrogate_low, surrogate_high: with operator times taken as exact.
        calibration_low, calibration_high: under the calibration's uncertainty alone.
    """

    estimates: Mapping[str, FloatArray]
    surrogate_low: Mapping[str, FloatArray]
    surrogate_high: Mapping[str, FloatArray]
    calibration_low: Mapping[str, FloatArray]
    calibration_high: Mapping[str, FloatArray]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics with an interval."""
        return tuple(self.surrogate_low)

    def columns(self) -> tuple[Mapping[str, FloatArray], ...]:
        """Estimates, then the bounds in the order of the fields."""
        return (
            self.estimates, self.surrogate_low, self.surrogate_high, self.calibration_low, self.calibration_high,
        )  # fmt: skip


def interval_parts(
    designs: Sequence[Design], workload: Workload, calibration: CalibrationSet, draws: int, seed: int = 0
) -> IntervalParts:
    """Tell the surrogate's interval from the calibration's; as `posterior`.

    Without draws the calibration's part is what its one relative error adds to the interval, in squares of log widths.
    """
    alone = estimate_designs(designs, workload, _without_error(calibration))
    low, high = {}, {}
    if draws:
        values = posterior(designs, workload, calibration, draws, seed).draws
        for name in alone.low:
            low[name], high[name] = np.quantile(values[name], [0.05, 0.95], axis=0)
    else:
        both = estimate_designs(designs, workload, calibration)
        for name in alone.low:
            low[name] = alone.metrics[name] * np.exp(-_rest(both.low[name], alone.low[name], alone.metrics[name]))
            high[name] = alone.metrics[name] * np.exp(_rest(both.high[name], alone.high[name], alone.metrics[name]))
    return IntervalParts(alone.metrics, alone.low, alone.high, low, high)


def _rest(whole: FloatArray, part: FloatArray, value: FloatArray) -> FloatArray:
    """Log width that is left of the whole without a part."""
    with np.errstate(all="ignore"):
        return np.asarray(np.sqrt(np.maximum(np.log(whole / value) ** 2 - np.log(part / value) ** 2, 0.0)))


def drawn(calibrations: CalibrationSet, rng: np.random.Generator) -> CalibrationSet:
    """A calibration drawn from the intervals; styles share the draw of a parameter, as they share its measurement."""
    names = sorted({name for part in _parts(calibrations) for name in (*part.intervals, *part.basis)})
    quantiles = {name: float(rng.standard_normal()) for name in names}
    styles = {style: _moved(part, quantiles) for style, part in calibrations.by_style.items()}
    return CalibrationSet(_moved(calibrations.default, quantiles), styles)


def _parts(calibrations: CalibrationSet) -> list[Calibration]:
    return [calibrations.default, *calibrations.by_style.values()]


def _moved(part: Calibration, quantiles: dict[str, float]) -> Calibration:
    def at(name: str, value: float, most: float = np.inf) -> float:
        if name not in quantiles:
            return value
        return float(min(_drawn_value(part, name, value, quantiles[name]), most))

    return replace(
        part,
        compute={kind: at(f"compute.{kind.value}", value, 1.0) for kind, value in part.compute.items()},
        memory={kind: at(f"memory.{kind}", value, 1.0) for kind, value in part.memory.items()},
        operator_overhead_s=at("operator_overhead", part.operator_overhead_s),
        iteration_overhead_s=at("iteration_overhead", part.iteration_overhead_s),
        half_width=at("half_width", part.half_width),
        collective_overhead_s=at("collective_overhead", part.collective_overhead_s),
        stage_imbalance=max(at("stage_imbalance", part.stage_imbalance), 1.0),
        kv_access_bytes=at("kv_access", part.kv_access_bytes),
    )


def _drawn_value(part: Calibration, name: str, value: float, normal: float) -> float:
    """The value at a normal quantile of its interval."""
    if name not in part.intervals:
        assumed = part.basis.get(name) == "assumption"
        return value * ASSUMED_FACTOR ** (normal / NORMAL_90) if assumed else value
    low, high = part.intervals[name]
    if low <= 0.0:
        return float(high * 0.5 * (1.0 + erf(normal / sqrt(2.0))))
    below, above = np.log(value / low), np.log(high / value)
    return float(value * np.exp((above if normal > 0 else below) * normal / NORMAL_90))


def _without_error(calibrations: CalibrationSet) -> CalibrationSet:
    return CalibrationSet(
        replace(calibrations.default, relative_error=0.0),
        {style: replace(part, relative_error=0.0) for style, part in calibrations.by_style.items()},
    )


def _widened(table: EstimateTable, draws: dict[str, FloatArray]) -> EstimateTable:
    """The table with calibration error beside the surrogate's, added in squares of log widths."""
    low, high = dict(table.low), dict(table.high)
    with np.errstate(all="ignore"):
        for name in table.low:
            value = table.metrics[name]
            under, over = np.quantile(draws[name], [0.05, 0.95], axis=0) if len(draws[name]) else (value, value)
            down = np.hypot(np.log(value / low[name]), np.maximum(np.log(value / under), 0.0))
            up = np.hypot(np.log(high[name] / value), np.maximum(np.log(over / value), 0.0))
            known = np.isfinite(down) & np.isfinite(up)
            low[name] = np.where(known, value * np.exp(-down), low[name])
            high[name] = np.where(known, value * np.exp(up), high[name])
    return replace(table, low=low, high=high)
