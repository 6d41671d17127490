"""Latency distributions of the recommended design: CDFs as estimated and as simulated, and their percentiles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hydra_dse.errors import HydraError
from hydra_dse.estimator.distributions import latency_quantiles
from hydra_dse.report.charts import BAND, BLUE, LINE, POINTS, RED, XY, Axis, FloatArray, Plot, Rule, Series, errors_of
from hydra_dse.report.records import Section, Table
from hydra_dse.report.run import Run
from hydra_dse.report.served import Served, sections_of
from hydra_dse.results.quantiles import SHARES as SIMULATED_SHARES
from hydra_dse.results.quantiles import Quantiles, pooled
from hydra_dse.results.text import number
from hydra_dse.studies.validation_table import ValidationRow
from hydra_dse.workload.nouns import Slo, Workload

HEADING = "Latencies"
KINDS = {"ttft": "TTFT", "tpot": "TPOT", "tbt": "TBT", "e2e": "E2E"}
STATISTICS = ("mean", "p50", "p90", "p99")
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
SHARES = (*np.linspace(0.01, 0.99, 99).round(2).tolist(), 0.995)
LEAST_BEYOND = 10
"""Samples that a replication has beyond the last quantile that is drawn of it."""
COLUMNS = ("ci_low", "ci_high", "least", "most")
Rows = list[tuple[object, ...]]


def latency_section(run: Run, loads: Sequence[Served]) -> Section:
    """CDFs and the table of percentiles."""
    return sections_of(run, loads, HEADING, _section)


def _section(run: Run, served: Served) -> Section:
    table = Table(f"Latencies of design {run.identity(run.recommended)}", *_latencies(run, served), text_columns=2)
    curves = _curves(run, served)
    plots = tuple(plot for kind in KINDS for plot in _cdf(run, served, kind, curves.get(kind)))
    return Section(HEADING, (), plots, (table,))


def slos_of(workload: Workload) -> list[tuple[str, Slo]]:
    """The service levels of the request classes that have one, with the class's name where there are several."""
    classes = workload.classes
    return [
        (kind.name if len(classes) > 1 else "", kind.slo)
        for kind in classes
        if kind.slo.ttft_s is not None or kind.slo.tpot_s is not None
    ]


def bounds_of(workload: Workload, kind: str) -> list[tuple[str, float, float]]:
    """Name, bound in s and percentile of the service levels for `"ttft"` or `"tpot"`."""
    found = []
    for name, slo in slos_of(workload):
        bound = {"ttft": slo.ttft_s, "tpot": slo.tpot_s}.get(kind)
        if bound is not None:
            words = f"SLO {name}: {bound:g} s at {100 * slo.percentile:g} %".replace("SLO :", "SLO")
            found.append((words, bound, slo.percentile))
    return found


def _curves(run: Run, served: Served) -> dict[str, FloatArray]:
    calibration = run.experiment.calibration
    try:
        return latency_quantiles(run.design(run.recommended), served.workload, calibration, SHARES)
    except HydraError:  # a policy without an estimate: the percentiles of the run remain
        return {}


def _cdf(run: Run, served: Served, kind: str, curve: FloatArray | None) -> list[Plot]:
    identity, name = run.identity(run.recommended), KINDS[kind]
    parts = (
        _estimated(served, kind, curve),
        _simulated(run.latencies.get(identity, {}).get(kind, ()) if served.simulated else ()),
        _percentiles(_validated(run, served, identity, kind)),
    )
    series = [each for found, _ in parts for each in found]
    if not series:
        return []
    bounds = bounds_of(served.workload, kind)
    rules = tuple(Rule(words, "x", bound) for words, bound, _ in bounds)
    rules += tuple(Rule("", "y", share) for share in dict.fromkeys(share for _, _, share in bounds))
    chart = XY(Axis(f"{name} [s]", log=True), Axis("share of requests within [1]"), tuple(series), rules)
    caption = f"Distribution of {name} of design {identity} under {served.workload.name} at the offered load."
    if parts[1][0]:
        caption += " Shaded: from the fastest to the slowest replication."
    data = [row for _, rows in parts for row in rows]
    columns = ("source", "share", f"{kind}_s", *COLUMNS)
    return [Plot(served.stem(f"cdf_{kind}"), f"{name} distribution", caption, chart, columns, data)]


def _estimated(served: Served, kind: str, curve: FloatArray | None) -> tuple[list[Series], Rows]:
    """The estimated curve; its percentiles alone where there is no curve."""
    if curve is not None and np.isfinite(curve).any():
        series, shares, x = Series("estimated", LINE, BLUE, curve, np.array(SHARES)), np.array(SHARES), curve
    else:
        x = np.array([served.metrics.get(f"{kind}_{name}_s", np.nan) for name in PERCENTILES])
        shares = np.array(list(PERCENTILES.values()))
        series = Series("estimated p50, p90, p99", POINTS, BLUE, x, shares)
    if not np.isfinite(x).any():
        return [], []
    return [series], [("estimated", share, value, *("",) * 4) for share, value in zip(shares, x, strict=True)]


def _simulated(tables: Sequence[Quantiles]) -> tuple[list[Series], Rows]:
    """All replications together, and the range over them, as far up as the samples reach."""
    if not tables:
        return [], []
    last = 1.0 - LEAST_BEYOND / min(table.samples for table in tables)
    kept = [place for place, share in enumerate(SIMULATED_SHARES) if share <= last]
    if not kept:
        return [], []
    shares = np.array(SIMULATED_SHARES)[kept]
    each = np.array([table.seconds for table in tables])[:, kept]
    x, least, most = pooled(tables, shares), each.min(axis=0), each.max(axis=0)
    series = [Series("simulated", LINE, RED, x, shares)]
    if len(tables) > 1:
        band = Series("range of replications", BAND, RED, x, shares, errors_of(x, least, most))
        series = [band, *series]
    rows: Rows = [("simulated", *row[:2], "", "", *row[2:]) for row in zip(shares, x, least, most, strict=True)]
    return series, rows


def _validated(run: Run, served: Served, identity: str, kind: str) -> list[tuple[float, ValidationRow]]:
    if not served.simulated:
        return []
    found = [(share, run.validation.get((identity, f"{kind}_{name}_s"))) for name, share in PERCENTILES.items()]
    return [(share, item) for share, item in found if item is not None and np.isfinite(item.simulated)]


def _percentiles(found: Sequence[tuple[float, ValidationRow]]) -> tuple[list[Series], Rows]:
    """Simulated percentiles with their intervals."""
    if not found:
        return [], []
    x, low, high = np.array([(item.simulated, item.ci_low, item.ci_high) for _, item in found]).T
    y = np.array([share for share, _ in found])
    label = "simulated p50, p90, p99, 95 % CI"
    series = Series(label, POINTS, RED, x, y, errors_of(x, low, high), square=True)
    rows: Rows = [("simulated percentile", y, i.simulated, i.ci_low, i.ci_high, "", "") for y, i in found]
    return [series], rows


def _latencies(run: Run, served: Served) -> tuple[list[str], list[list[str]]]:
    """Latencies in seconds: one row per kind and source, one column per statistic."""
    identity = run.identity(run.recommended)
    rows = []
    for kind in KINDS:
        names = [f"{kind}_{statistic}_s" for statistic in STATISTICS]
        rows.append([KINDS[kind], "estimated", *(number(served.metrics.get(name, np.nan)) for name in names)])
        found = [run.validation.get((identity, name)) if served.simulated else None for name in names]
        if any(found):
            rows.append([KINDS[kind], "simulated", *("" if item is None else number(item.simulated) for item in found)])
    return ["latency [s]", "source", *STATISTICS], rows
