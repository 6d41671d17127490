"""Latency distributions of the recommended design: estimated CDFs, and the percentiles of the simulation."""

from __future__ import annotations

import numpy as np

from hydra_dse.errors import HydraError
from hydra_dse.estimator.distributions import latency_quantiles
from hydra_dse.report.charts import BLUE, LINE, POINTS, RED, XY, Axis, FloatArray, Plot, Rule, Series, errors_of
from hydra_dse.report.records import Section, Table
from hydra_dse.report.run import Run
from hydra_dse.report.texts import estimate_text
from hydra_dse.results.text import number
from hydra_dse.workload.nouns import Slo

HEADING = "Latencies"
KINDS = {"ttft": "TTFT", "tpot": "TPOT", "tbt": "TBT", "e2e": "E2E"}
STATISTICS = ("mean", "p50", "p90", "p99")
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
SHARES = (*np.linspace(0.01, 0.99, 99).round(2).tolist(), 0.995)


def latency_section(run: Run) -> Section:
    """CDFs and the table of percentiles."""
    row = run.recommended
    if row < 0:
        return Section(HEADING, absent="no design is feasible")
    table = Table(f"Latencies of design {run.identity(row)}", *_latencies(run, row), text_columns=2)
    curves = _curves(run, row)
    plots = tuple(plot for kind in KINDS for plot in _cdf(run, row, kind, curves.get(kind)))
    return Section(HEADING, (), plots, (table,))


def slos_of(run: Run) -> list[tuple[str, Slo]]:
    """The service levels of the request classes that have one, with the class's name where there are several."""
    classes = run.experiment.workload.classes
    return [
        (kind.name if len(classes) > 1 else "", kind.slo)
        for kind in classes
        if kind.slo.ttft_s is not None or kind.slo.tpot_s is not None
    ]


def bounds_of(run: Run, kind: str) -> list[tuple[str, float, float]]:
    """Name, bound in s and percentile of the service levels for `"ttft"` or `"tpot"`."""
    found = []
    for name, slo in slos_of(run):
        bound = {"ttft": slo.ttft_s, "tpot": slo.tpot_s}.get(kind)
        if bound is not None:
            words = f"SLO {name}: {bound:g} s at {100 * slo.percentile:g} %".replace("SLO :", "SLO")
            found.append((words, bound, slo.percentile))
    return found


def _curves(run: Run, row: int) -> dict[str, FloatArray]:
    experiment = run.experiment
    if experiment.calibration is None:
        return {}
    try:
        return latency_quantiles(run.design(row), experiment.workload, experiment.calibration, SHARES)
    except HydraError:  # a policy without an estimate: the percentiles of the run remain
        return {}


def _cdf(run: Run, row: int, kind: str, curve: FloatArray | None) -> list[Plot]:
    identity = run.identity(row)
    shares = np.array(SHARES)
    names = [f"{kind}_{percentile}_s" for percentile in PERCENTILES]
    estimate = np.array([run.estimate(name, row) for name in names])
    if curve is None or not np.isfinite(curve).any():
        curve, shares = estimate, np.array(list(PERCENTILES.values()))
    series = [Series("estimated", LINE, BLUE, curve, shares)] if np.isfinite(curve).any() else []
    data: list[tuple[object, ...]] = [("estimated", share, x, "", "") for share, x in zip(shares, curve, strict=True)]
    found = [(share, run.validation.get((identity, f"{kind}_{name}_s"))) for name, share in PERCENTILES.items()]
    simulated = [(share, item) for share, item in found if item is not None and np.isfinite(item.simulated)]
    if simulated:
        x = np.array([item.simulated for _, item in simulated])
        error = errors_of(
            x, np.array([item.ci_low for _, item in simulated]), np.array([item.ci_high for _, item in simulated])
        )
        y = np.array([share for share, _ in simulated])
        series.append(Series("simulated p50, p90, p99, 95 % CI", POINTS, RED, x, y, error, square=True))
        data += [("simulated", share, item.simulated, item.ci_low, item.ci_high) for share, item in simulated]
    if not series:
        return []
    name = KINDS[kind]
    rules = tuple(Rule(words, "x", bound) for words, bound, _ in bounds_of(run, kind))
    chart = XY(Axis(f"{name} [s]", log=True), Axis("share of requests within [1]"), tuple(series), rules)
    caption = f"Distribution of {name} of design {identity} under {run.experiment.workload.name} at the offered load."
    columns = ("source", "share", f"{kind}_s", "ci_low", "ci_high")
    return [Plot(f"cdf_{kind}", f"{name} distribution", caption, chart, columns, data)]


def _latencies(run: Run, row: int) -> tuple[list[str], list[list[str]]]:
    """Latencies in seconds: one row per kind and source, one column per statistic."""
    identity = run.identity(row)
    rows = []
    for kind in KINDS:
        names = [f"{kind}_{statistic}_s" for statistic in STATISTICS]
        rows.append([kind.upper(), "estimated", *(estimate_text(run, name, row, False) for name in names)])
        found = [run.validation.get((identity, name)) for name in names]
        if any(found):
            rows.append(
                [kind.upper(), "simulated", *("" if item is None else number(item.simulated) for item in found)]
            )
    return ["latency [s]", "source", *STATISTICS], rows
