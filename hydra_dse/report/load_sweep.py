"""Designs over the arrival rate, by the estimator: what load sweeps and interactivity fronts are drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hydra_dse.errors import HydraError
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.report.charts import FloatArray
from hydra_dse.report.run import Run
from hydra_dse.report.served import Served
from hydra_dse.workload import pieces, served
from hydra_dse.workload.sampling import at_rate

LOADS = (0.05, 0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.88, 0.93, 0.97)
FEW_LOADS = (0.1, 0.4, 0.7, 0.9)
MOST_DESIGNS = 6
SATURATION = "saturation_requests_per_s"


@dataclass(frozen=True)
class LoadSweep:
    """Estimates of designs at several rates.

    Attributes:
        designs: rows of the run, the recommended one first.
        rates_per_s: ascending, shape (r,).
        metrics: by name, shape (designs, r); NaN where a design is overloaded.
    """

    designs: tuple[int, ...]
    rates_per_s: FloatArray
    metrics: Mapping[str, FloatArray]


def load_sweep(run: Run, load: Served) -> LoadSweep | str:
    """The sweep over the recommended design and some of the front, or why there is none."""
    calibration, workload = run.experiment.calibration, load.workload
    if len(served(workload)) > 1:
        return "a workload of several models has no estimate at other rates here"
    saturation = load.metrics.get(SATURATION, np.nan)
    if not np.isfinite(saturation):
        return "the run has no saturation of the recommended design under this one workload"
    steady = not np.isfinite(pieces(workload)[0].duration_s) and not workload.has_prefixes
    # The table of the run has no saturation of other designs under one of several scenarios.
    rows = _designs(run) if steady and not load.name else [run.recommended]
    rates = [share * saturation for share in (LOADS if steady else FEW_LOADS)]
    rates += [0.95 * run.estimate(SATURATION, row) for row in rows[1:]]
    rates = sorted(rate for rate in set(rates) if np.isfinite(rate) and rate > 0)
    try:
        return _estimated(run, load, calibration, rows, np.array(rates))
    except HydraError as error:
        return f"the estimator refuses other rates: {error}"


def _designs(run: Run) -> list[int]:
    """The recommended design, then designs spread evenly over the front."""
    others = [row for row in run.front if row != run.recommended]
    if not others:
        return [run.recommended]
    places = np.unique(np.linspace(0, len(others) - 1, MOST_DESIGNS - 1).round().astype(int)).tolist()
    return [run.recommended, *(others[place] for place in places)]


def _estimated(run: Run, load: Served, calibration: CalibrationSet, rows: list[int], rates: FloatArray) -> LoadSweep:
    from hydra_dse.estimator import estimate_designs
    from hydra_dse.placement import place_design
    from hydra_dse.search.estimating import PLACEMENT_SEED

    models = [kind.model for kind in served(load.workload)]
    designs = [place_design(run.design(row), models, PLACEMENT_SEED)[0] for row in rows]
    metrics: dict[str, FloatArray] = {}
    for column, rate in enumerate(rates.tolist()):
        table = estimate_designs(designs, at_rate(load.workload, rate), calibration)
        for name, values in table.metrics.items():
            metrics.setdefault(name, np.full((len(rows), len(rates)), np.nan))[:, column] = values
    return LoadSweep(tuple(rows), rates, metrics)
