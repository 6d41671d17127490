"""Widths of the estimator's intervals from its errors on the tuning set: what `hydra_dse.estimator.intervals` states.

The width of a metric is a sum: of a value at each of a few loads (interpolated, not falling), of one per unit of
burstiness `|c_a² − 1|` (arrivals in phases: of dispersion, apart), and of one for memory that is nearly full.  The
0.9-quantile regression of the measured widths `max(e/s, s/e) − 1` on these is a linear programme (Koenker and Bassett
1978).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from benchmarks.validation.cases import cases
from benchmarks.validation.errors import compare
from benchmarks.validation.estimated import estimated
from benchmarks.validation.store import load
from hydra_dse.estimator.arrivals import effective_scv
from hydra_dse.estimator.intervals import LOADS, pressure

FloatArray = NDArray[np.float64]
SHARE = 0.9
LEAST = 0.01
"""No width is less: simulations that agree better are chance."""


@dataclass(frozen=True)
class Width:
    """Fitted widths of one metric: at `LOADS`, per unit of burstiness and of dispersion, with full memory."""

    at_loads: tuple[float, ...]
    per_burstiness: float
    per_dispersion: float
    full_memory: float


def fitted(which: str = "tuning") -> dict[str, Width]:
    """Widths of every compared metric."""
    known = load(which)
    features: list[FloatArray] = []
    measured: dict[str, list[tuple[int, float]]] = {}
    for case in cases(which):
        if case.name not in known:
            continue
        found = known[case.name][1]
        guess = estimated(case, found.values["saturation_requests_per_s"])
        metrics = {name: np.array([value]) for name, value in guess.values.items()}
        burst = abs(effective_scv(case.arrivals.statistics()) - 1.0)
        phased = float(case.arrival_kind == "phases")
        features.append(
            _features(guess.values["load"], burst * (1.0 - phased), burst * phased, float(pressure(metrics)[0]))
        )
        for row in compare(case.name, ("", "", case.load, False), found, guess):
            if not row.left_out:
                ratio = row.estimate / row.simulation
                measured.setdefault(row.metric, []).append((len(features) - 1, max(ratio, 1.0 / ratio) - 1.0))
    table = np.array(features)
    return {
        name: _regression(table[[index for index, _ in pairs]], np.array([value for _, value in pairs]))
        for name, pairs in measured.items()
    }


def _features(at_load: float, burst: float, dispersion: float, memory: float) -> FloatArray:
    """What increments of the values at the loads, burstiness, dispersion and memory are multiplied with."""
    share = np.clip(np.interp(at_load, LOADS, np.arange(len(LOADS))) - np.arange(len(LOADS)) + 1.0, 0.0, 1.0)
    return np.array([*share, burst, dispersion, memory])


def _regression(features: FloatArray, widths: FloatArray) -> Width:
    n, k = features.shape
    cost = np.concatenate((np.zeros(k), np.full(n, SHARE), np.full(n, 1.0 - SHARE)))
    equal = np.hstack((features, np.eye(n), -np.eye(n)))
    found = linprog(cost, A_eq=equal, b_eq=widths, bounds=(0.0, None), method="highs").x[:k]
    return Width(tuple(np.maximum(np.cumsum(found[: len(LOADS)]), LEAST).tolist()), *found[-3:].tolist())


def lines() -> list[str]:
    """The widths as they are written in `hydra_dse.estimator.intervals`."""
    return [
        f'    "{name}": ErrorModel(({", ".join(f"{value:.3f}" for value in width.at_loads)}), '
        f"{width.per_burstiness:.3f}, {width.per_dispersion:.3f}, {width.full_memory:.2f}),"
        for name, width in fitted().items()
    ]
