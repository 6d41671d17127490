"""The metric names of every JSON, CSV and plot, with unit, direction and definition."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hydra_dse.errors import Fault, InputError, did_you_mean
from hydra_dse.results.aggregates import Aggregate, aggregate_of

MINIMISE, MAXIMISE, NEITHER = "minimise", "maximise", "neither"


@dataclass(frozen=True)
class Metric:
    """A metric: its name carries the unit; `direction` says which way is better; `label` is short, for tables."""

    name: str
    unit: str
    direction: str
    definition: str
    label: str


_LATENCIES = {
    "ttft": "first token − arrival, queueing included",
    "ttft_scheduled": "first token − first scheduling (without queueing)",
    "tpot": "(last token − first token) / (output tokens − 1) per request",
    "tbt": "gap between successive tokens, pooled over requests",
    "e2e": "last token − arrival",
}
_STATISTICS = ("mean", "p50", "p90", "p99")

_OTHERS = (
    Metric("offered_requests_per_s", "req/s", NEITHER, "mean arrival rate", "offered rate"),
    Metric("load", "1", MINIMISE, "offered rate / saturation rate", "load"),
    Metric("throughput_tokens_per_s", "tokens/s", MAXIMISE, "output tokens per second", "throughput"),
    Metric("throughput_requests_per_s", "req/s", MAXIMISE, "completed requests per second", "throughput"),
    Metric("saturation_requests_per_s", "req/s", MAXIMISE, "highest sustainable completion rate", "saturation"),
    Metric("saturation_tokens_per_s", "tokens/s", MAXIMISE, "output tokens per second at saturation", "saturation"),
    Metric(
        "goodput_requests_per_s", "req/s", MAXIMISE, "completed requests that met the SLO of their class", "goodput"
    ),
    Metric(
        "max_rate_requests_per_s",
        "req/s",
        MAXIMISE,
        "highest arrival rate at which the SLO percentile holds",
        "max rate",
    ),
    Metric("slo_attainment", "1", MAXIMISE, "share of requests that met the SLO of their class", "SLO attainment"),
    Metric("output_tokens_per_s_per_user", "tokens/s", MAXIMISE, "1 / mean TPOT", "per user"),
    Metric("throughput_tokens_per_s_per_w", "tokens/s/W", MAXIMISE, "output tokens per second per watt", "per watt"),
    Metric("throughput_per_ttft_tokens_per_s2", "tokens/s²", MAXIMISE, "throughput / mean TTFT (HYDRA's B*)", "B*"),
    Metric(
        "saturation_per_ttft_tokens_per_s2",
        "tokens/s²",
        MAXIMISE,
        "output tokens per second at saturation / mean TTFT at the offered rate",
        "saturation / TTFT",
    ),
    Metric("batch_mean", "1", NEITHER, "time-weighted mean number of decoding sequences", "decode batch"),
    Metric("hbm_utilization", "1", NEITHER, "busy share of memory bandwidth", "HBM busy"),
    Metric("noi_utilization_max", "1", NEITHER, "busy share of the most loaded link", "NoI busy"),
    Metric("kv_occupancy", "1", NEITHER, "share of cache memory held by KV, time-weighted", "KV share"),
    Metric(
        "state_occupancy", "1", NEITHER, "share of cache memory held by recurrent state, time-weighted", "state share"
    ),
    Metric(
        "prefix_hit_share", "1", MAXIMISE, "prompt tokens found in the prefix cache / all prompt tokens", "prefix hits"
    ),
    Metric(
        "prefix_occupancy", "1", NEITHER, "share of cache memory held for later requests, time-weighted", "prefix share"
    ),
    Metric(
        "session_e2e_mean_s",
        "s",
        MINIMISE,
        "last token of a session's last turn − arrival of its first, think times included; mean",
        "session mean",
    ),
    Metric("preemptions_per_request", "1", MINIMISE, "recompute preemptions per request", "preemptions"),
    Metric("rejected_share", "1", MINIMISE, "share of requests refused", "rejected"),
    Metric("energy_j_per_token", "J/token", MINIMISE, "energy per output token", "energy"),
    Metric("power_w", "W", MINIMISE, "mean power of the package", "power"),
    Metric(
        "hot_power_w", "W", MINIMISE, "power with leakage and refresh at the temperatures of the package", "hot power"
    ),
    Metric("leakage_w", "W", MINIMISE, "leakage of the dies at their temperatures", "leakage"),
    Metric("peak_temperature_c", "°C", MINIMISE, "hottest die or memory stack", "peak temperature"),
    Metric("area_mm2", "mm²", MINIMISE, "silicon area of dies", "silicon"),
    Metric("interposer_mm2", "mm²", MINIMISE, "interposer area", "interposer"),
    Metric(
        "unit_cost_usd",
        "USD",
        MINIMISE,
        "cost of making a package, with its share of non-recurring cost",
        "unit cost",
    ),
    Metric(
        "cost_usd_per_million_tokens",
        "USD/Mtoken",
        MINIMISE,
        "unit cost over the time it serves plus electricity, per million output tokens",
        "cost of tokens",
    ),
)


def _registry() -> dict[str, Metric]:
    metrics = {
        f"{kind}_{statistic}_s": Metric(
            f"{kind}_{statistic}_s",
            "s",
            MINIMISE,
            f"{definition}; {statistic}",
            f"{kind.replace('_', ' ').upper()} {statistic}",
        )
        for kind, definition in _LATENCIES.items()
        for statistic in _STATISTICS
    }
    return metrics | {other.name: other for other in _OTHERS}


METRICS: dict[str, Metric] = _registry()
SIMULATED_ONLY = (*(f"ttft_scheduled_{share}_s" for share in ("p50", "p90", "p99")), "prefix_occupancy")
"""Metrics that only a simulation knows: the estimator has no distribution of them."""
SCENARIOS_ONLY = ("saturation_per_ttft_tokens_per_s2",)
"""Metrics that are computed where an experiment has scenarios, whose rates are shares of what can be sustained."""
THERMAL = ("hot_power_w", "leakage_w", "peak_temperature_c")
"""Metrics that take a solution for heat: computed where they are asked for."""
NEEDS_SLO = ("goodput_requests_per_s", "max_rate_requests_per_s", "slo_attainment")
"""Metrics that exist where the workload states an SLO."""
NEEDS_PREFIXES = ("prefix_hit_share",)
"""Metrics that exist where requests say what they share."""
NEEDS_SESSIONS = ("session_e2e_mean_s",)
"""Metrics that exist where requests are turns of sessions."""
UTILIZATION = "utilization_"
"""What the metrics of die groups begin with."""
OF_MODEL = "@"
"""What stands between a metric and the model it is of, where a workload has several."""
OF_EACH_MODEL = (
    *(f"{kind}_{statistic}_s" for kind in ("ttft", "tpot", "tbt", "e2e") for statistic in _STATISTICS),
    "ttft_scheduled_mean_s",
    "output_tokens_per_s_per_user",
    "throughput_requests_per_s",
    "throughput_tokens_per_s",
    "slo_attainment",
    "goodput_requests_per_s",
    "batch_mean",
    "rejected_share",
    "preemptions_per_request",
)
"""Metrics that estimate and simulation tell of each model of a workload that has several."""


def metric(name: str) -> Metric:
    """Return the metric called `name`; `utilization_<die group>` exists for every group name.

    Those that other packages add stand in the group `hydra_dse.objectives` (see `hydra_dse.results.derived`).
    `<metric>@<model>` is that of the requests of one of several models; `worst(<metric>)` and its kin are over
    scenarios.

    Raises:
        InputError: no such metric.
    """
    over = aggregate_of(name)
    if over is not None:
        return _aggregated(metric(over.metric), over)
    base, at, model = name.partition(OF_MODEL)
    if at and model:
        whole = metric(base)
        definition = f"{whole.definition}; requests of {model} alone"
        return replace(whole, name=name, definition=definition, label=f"{whole.label} {model}")
    if name.startswith(UTILIZATION):
        return Metric(name, "1", NEITHER, "busy share of the dies of a group", name.replace(UTILIZATION, "busy "))
    if name not in METRICS:
        from hydra_dse.results.derived import derived_metric

        found = derived_metric(name)
        if found is not None:
            return found.metric
        raise InputError(Fault(f"unknown metric {name!r}{did_you_mean(name, METRICS)}"))
    return METRICS[name]


def _aggregated(inner: Metric, over: Aggregate) -> Metric:
    form = over.name.split("(")[0]
    text = f"{form.replace('_', ' ')} over the scenarios: {inner.definition}"
    label = f"{form.replace('_', ' ')} of {inner.label}"
    if over.of_shares:
        return Metric(over.name, "1", MAXIMISE, text, label)
    return replace(inner, name=over.name, definition=text, label=label)
