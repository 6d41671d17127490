"""All metrics of a bundle, each with its value or the reason why it has none, and what is implausible about them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from hydra_dse.bundle.metrics.measured import Measured
from hydra_dse.bundle.metrics.registry import TraceMetric, Unavailable, Value, is_ours, metrics
from hydra_dse.bundle.metrics.serving import cut_requests
from hydra_dse.errors import Fault, InputError, did_you_mean


@dataclass(frozen=True)
class Measurement:
    """What was computed of one bundle.

    Attributes:
        values: name → value; a metric of several things has a name for each, `name@thing`.
        units: name → unit.
        unavailable: name → why there is no value.
        sources: name → kind of trace it comes from.
        warnings: what is implausible, or was left out of the traces.
    """

    values: dict[str, float] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """The shape of `trace metrics --json`."""
        return {
            "metrics": {**self.values, **dict.fromkeys(self.unavailable)},
            "units": self.units,
            "unavailable": self.unavailable,
            "sources": self.sources,
            "warnings": list(self.warnings),
        }


def evaluate(bundle: Measured, only: tuple[str, ...] = ()) -> Measurement:
    """Compute metrics: all, or those named.

    Raises:
        InputError: a name that is no metric, or a trace that cannot be read.
    """
    known = metrics()
    unknown = [name for name in only if name not in known]
    if unknown:
        raise InputError([Fault(f"no metric {name!r}{did_you_mean(name, known)}") for name in unknown])
    result = Measurement()
    for name in only or known:
        _compute(bundle, known[name], result)
    return Measurement(
        result.values, result.units, result.unavailable, result.sources, tuple(_warnings(bundle, result.values))
    )


def _compute(bundle: Measured, metric: TraceMetric, result: Measurement) -> None:
    result.units[metric.name] = metric.unit
    source, reason = _source(bundle, metric)
    if source is None:
        result.unavailable[metric.name] = reason
        return
    try:
        value = metric.functions[source](bundle)
    except Unavailable as error:
        result.unavailable[metric.name] = str(error)
        return
    except Exception as error:
        if is_ours(metric):
            raise
        result.unavailable[metric.name] = f"failed: {type(error).__name__}: {error}"
        return
    for name, each in _named(metric.name, value).items():
        if isinstance(each, (int, float)) and math.isfinite(each):
            result.values[name], result.units[name], result.sources[name] = float(each), metric.unit, source
        else:
            result.unavailable[name] = f"the definition gives no finite number on this trace ({each!r})"


def _named(name: str, value: Value) -> dict[str, float]:
    """The value under its name, or each of several values under `name@thing`."""
    if isinstance(value, Mapping):
        return {f"{name}@{key}": each for key, each in value.items()}
    return {name: value}


def _source(bundle: Measured, metric: TraceMetric) -> tuple[str | None, str]:
    """The kind of trace to compute from, or why there is none."""
    if metric.missing:
        return None, metric.missing
    if "card" in metric.functions:
        return "card", ""
    kinds = bundle.kinds
    for kind in metric.functions:
        if kind in kinds:
            return kind, ""
    defined = " or ".join(metric.functions)
    if not kinds:
        named = bundle.folder.card.trace_kinds if bundle.folder.card is not None else ()
        said = f"; the card names {', '.join(named)}" if named else ""
        return None, f"no trace of kind {defined} in the folder{said}"
    return None, f"is defined for {defined}; the bundle has {', '.join(kinds)}"


def _warnings(bundle: Measured, values: Mapping[str, float]) -> list[str]:
    found = []
    for name in ("implied_mfu", "implied_mfu_of_compute_time", "recorded_flops_utilization"):
        value = values.get(name)
        if value is not None and value > 1.0:
            found.append(
                f"{name} is {value:.3g}: card and trace contradict each other (batch, lengths, parameters or devices)"
            )
    value = values.get("mfu")
    if value is not None and value > 100.0:
        found.append(f"mfu is {value:.4g} %: the card claims more work than the devices can do in the time")
    for rank in bundle.read:
        found += [f"{rank.label}: {count} events left out: {reason}" for reason, count in sorted(rank.skipped.items())]
        if rank.truncated:
            found.append(f"{rank.label}: {rank.truncated}; what came before it counts")
    cut = cut_requests(bundle.read)
    if cut:
        found.append(f"{cut} requests lie only partly in the trace and count in no latency, SLO or throughput")
    return found
