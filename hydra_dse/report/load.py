"""What load costs: latencies of the recommended design over the rate, and interactivity against throughput."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hydra_dse.report.charts import (
    BLUE,
    GREEN,
    GREY,
    LINE,
    LINE_POINTS,
    ORANGE,
    POINTS,
    RED,
    XY,
    Axis,
    FloatArray,
    Plot,
    Rule,
    Series,
    axis_of,
    errors_of,
)
from hydra_dse.report.latency import bounds_of
from hydra_dse.report.load_sweep import SATURATION, LoadSweep, load_sweep
from hydra_dse.report.records import Section
from hydra_dse.report.run import Run
from hydra_dse.report.served import Served, sections_of
from hydra_dse.results import metric
from hydra_dse.search.pareto import nondominated

HEADING = "Load"
USER, TOKENS, WATT, TTFT = (
    "output_tokens_per_s_per_user", "throughput_tokens_per_s", "throughput_tokens_per_s_per_w", "ttft_mean_s",
)  # fmt: skip
UNIT_COST = "unit_cost_usd"
AXES = {
    USER: Axis("interactivity [tokens/s per user]"),
    TOKENS: Axis("throughput [tokens/s per package]"),
    WATT: Axis("throughput per watt [tokens/s/W]"),
    TTFT: axis_of(TTFT),
    "throughput_tokens_per_s_per_usd": Axis("throughput per package cost [tokens/s/USD]"),
}


def load_section(run: Run, loads: Sequence[Served]) -> Section:
    """Load sweep with service levels, and fronts over the load."""
    return sections_of(run, loads, HEADING, _section)


def _section(run: Run, served: Served) -> Section:
    found = load_sweep(run, served)
    if isinstance(found, str):
        return Section(HEADING, absent=found)
    identity = run.identity(run.recommended)
    others = f" and, in grey, of {len(found.designs) - 1} others of the front," if len(found.designs) > 1 else ""
    words = [
        f"Estimates of design {identity}{others} at rates from nearly idle to nearly saturated. Interactivity is the "
        "rate at which one user sees tokens; a point of a curve is one arrival rate."
    ]
    plots = [_sweep(run, served, found, kind) for kind in ("ttft", "tpot")]
    plots += [_against(run, served, found, USER, TOKENS), _against(run, served, found, USER, WATT)]
    cost = _per_usd(run, served, found)
    if cost is None:
        words.append("Throughput per USD is left out: the run has no cost of a package.")
    else:
        plots.append(cost)
    plots.append(_against(run, served, found, TTFT, TOKENS))
    return Section(HEADING, tuple(words), tuple(plot for plot in plots if plot is not None))


def _sweep(run: Run, served: Served, found: LoadSweep, kind: str) -> Plot | None:
    bounds = bounds_of(served.workload, kind)
    percentile = next(
        (p for p in ("p50", "p90", "p99") for _, _, share in bounds if share == float(f"0.{p[1:]}")), "p90"
    )
    names = [name for name in (f"{kind}_mean_s", f"{kind}_{percentile}_s") if name in found.metrics]
    if not names:
        return None
    series = [
        Series(f"{metric(name).label}, estimated", LINE_POINTS, colour, found.rates_per_s, found.metrics[name][0])
        for name, colour in zip(names, (BLUE, GREEN), strict=False)
    ]
    for name, colour in zip(names, (RED, ORANGE), strict=False):
        series += _simulated(run, name, colour) if served.simulated else []
    rules = [Rule(words, "y", bound) for words, bound, _ in bounds]
    rules.append(Rule("saturation", "x", served.metrics.get(SATURATION, np.nan)))
    best = served.metrics.get("max_rate_requests_per_s", np.nan)
    rules += [Rule("highest rate within the SLO", "x", best)] if np.isfinite(best) else []
    label = kind.upper()
    chart = XY(Axis("arrival rate [req/s]"), Axis(f"{label} [s]", log=True), tuple(series), tuple(rules))
    columns = ("rate_requests_per_s", *names)
    rows = list(zip(found.rates_per_s.tolist(), *(found.metrics[name][0].tolist() for name in names), strict=True))
    caption = f"{label} of the recommended design over the arrival rate; squares are simulated, with 95 % intervals."
    return Plot(served.stem(f"load_{kind}"), f"{label} over the load", caption, chart, columns, rows)


def _simulated(run: Run, name: str, colour: int) -> list[Series]:
    identity = run.identity(run.recommended)
    row, rate = run.validation.get((identity, name)), run.validation.get((identity, "offered_requests_per_s"))
    if row is None or rate is None:
        return []
    y = np.array([row.simulated])
    error = errors_of(y, np.array([row.ci_low]), np.array([row.ci_high]))
    label = f"{metric(name).label}, simulated"
    return [Series(label, POINTS, colour, np.array([rate.simulated]), y, None, error, square=True)]


def _against(run: Run, served: Served, found: LoadSweep, x_name: str, y_name: str) -> Plot | None:
    if x_name not in found.metrics or y_name not in found.metrics:
        return None
    return _curves(run, served, found, found.metrics[x_name], found.metrics[y_name], (x_name, y_name))


def _per_usd(run: Run, served: Served, found: LoadSweep) -> Plot | None:
    if UNIT_COST not in found.metrics or TOKENS not in found.metrics or USER not in found.metrics:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        y = found.metrics[TOKENS] / found.metrics[UNIT_COST]
    names = (USER, "throughput_tokens_per_s_per_usd")
    return _curves(run, served, found, found.metrics[USER], y, names)


def _curves(run: Run, served: Served, found: LoadSweep, x: FloatArray, y: FloatArray, names: tuple[str, str]) -> Plot:
    """A curve for each design over the rates, and the points that no other design and rate dominates."""
    series = [
        Series("other designs of the front" if place == 1 else "", LINE, GREY, x[place], y[place])
        for place in range(1, len(found.designs))
    ]
    series.append(Series(f"design {run.identity(run.recommended)}", LINE_POINTS, BLUE, x[0], y[0]))
    if len(found.designs) > 1:
        px, py = _front(x, y, larger=names[0] == USER)
        series.append(Series("best of these", LINE, ORANGE, px, py, dashed=True))
    rows: list[Sequence[object]] = [
        (run.identity(row), rate, x[place, column], y[place, column])
        for place, row in enumerate(found.designs)
        for column, rate in enumerate(found.rates_per_s.tolist())
        if np.isfinite(x[place, column]) and np.isfinite(y[place, column])
    ]
    axes = AXES[names[0]], AXES[names[1]]
    name, other = (axis.label.split(" [")[0] for axis in axes)
    title = f"{other[:1].upper()}{other[1:]} against {name}"
    best = "; dashed: what no other design and rate beats" if len(found.designs) > 1 else ""
    caption = f"{title}: each point is an arrival rate{best}."
    stem = served.stem(f"{'interactivity' if names[0] == USER else 'ttft'}_{names[1]}")
    return Plot(stem, title, caption, XY(*axes, tuple(series)), ("design", "rate_requests_per_s", *names), rows)


def _front(x: FloatArray, y: FloatArray, larger: bool) -> tuple[FloatArray, FloatArray]:
    """The points no other one dominates (large y, and large or small x), by x."""
    known = np.isfinite(x) & np.isfinite(y)
    px, py = x[known], y[known]
    if not len(px):
        return px, py
    best = nondominated(np.stack([-px if larger else px, -py], axis=1))
    order = np.argsort(px[best], kind="stable")
    return px[best][order], py[best][order]
