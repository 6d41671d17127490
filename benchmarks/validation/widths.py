"""Widths of the estimator's intervals from its errors on the tuning sets: what `hydra_dse.estimator.intervals` states.

The width of a metric is a sum: of a value at each of a few loads (interpolated, not falling), of one per unit of
burstiness `|c_a² − 1|` (arrivals in phases: of dispersion, apart), and of one for memory that is nearly full.  The
0.9-quantile regression of the measured widths `max(e/s, s/e) − 1` on these is a linear programme (Koenker and Bassett
1978).  Values of each set count alike in sum, so that the placed designs, which are few, are heard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from benchmarks.validation.cases import Case, cases
from benchmarks.validation.errors import compare
from benchmarks.validation.estimated import Estimated, estimated
from benchmarks.validation.placed import SEEDS as PLACED
from benchmarks.validation.placed import PlacedCase, estimated_placed, placed_cases
from benchmarks.validation.simulate import Simulated
from benchmarks.validation.store import load
from hydra_dse.estimator.arrivals import effective_scv
from hydra_dse.estimator.intervals import LOADS, pressure

FloatArray = NDArray[np.float64]
SETS = ("tuning", "few-tuning", "placed-tuning")
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


def fitted(sets: Sequence[str] = SETS) -> dict[str, Width]:
    """Widths of every compared metric."""
    features: list[FloatArray] = []
    measured: dict[str, list[tuple[int, float]]] = {}
    origin: list[int] = []
    for number, case, found, guess in ((n, *each) for n, which in enumerate(sets) for each in _known(which)):
        origin.append(number)
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
        name: _regression(
            table[[index for index, _ in pairs]],
            np.array([value for _, value in pairs]),
            _alike(np.array([origin[index] for index, _ in pairs])),
        )
        for name, pairs in measured.items()
    }


def _alike(origin: NDArray[np.int64]) -> FloatArray:
    """Weights with which values of each origin have the same sum."""
    return np.asarray(1.0 / np.bincount(origin)[origin])


def _known(which: str) -> Iterator[tuple[Case | PlacedCase, Simulated, Estimated]]:
    """Stored configurations of a set with their estimates."""
    known = load(which)
    for case in placed_cases(which) if which in PLACED else cases(which):
        if case.name in known:
            found = known[case.name][1]
            rate = found.values["saturation_requests_per_s"]
            yield case, found, estimated_placed(case, rate) if isinstance(case, PlacedCase) else estimated(case, rate)


def _features(at_load: float, burst: float, dispersion: float, memory: float) -> FloatArray:
    """What increments of the values at the loads, burstiness, dispersion and memory are multiplied with."""
    share = np.clip(np.interp(at_load, LOADS, np.arange(len(LOADS))) - np.arange(len(LOADS)) + 1.0, 0.0, 1.0)
    return np.array([*share, burst, dispersion, memory])


def _regression(features: FloatArray, widths: FloatArray, weights: FloatArray) -> Width:
    n, k = features.shape
    cost = np.concatenate((np.zeros(k), SHARE * weights, (1.0 - SHARE) * weights))
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
