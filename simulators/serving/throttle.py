"""Packages beyond their limits of temperature and power, simulated as slow as the limits ask.

A package whose iterations all take `k` times as long lives in a time that passes `k` times slower: it is simulated at
`k` times the rate and `1/k` of the promised times, and all that is measured in seconds becomes `k` times as long.
Energy stays, so that dynamic power falls to `1/k`.  This holds where nothing but iterations and arrivals takes time:
stationary arrivals, no sessions, no ageing, no host behind a cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hydra_dse.design.nouns import Design
from hydra_dse.hardware.components import Package
from hydra_dse.physical import static_power_w, technology_of
from hydra_dse.physical.thermal import influence_of, slot_power, sustained_share
from hydra_dse.results import Components, Evaluation, metric
from hydra_dse.workload import at_rate
from hydra_dse.workload.arrivals import Deterministic, Renewal
from hydra_dse.workload.nouns import Slo, Workload
from simulators.serving.metrics import Summary
from simulators.serving.package_metrics import add_heat, add_package, dynamic_w

DOUBLINGS = 6
"""Of the step by which iterations are made longer until limits hold."""
BISECTIONS = 4
"""Between the last that broke a limit and the first that did not."""
# Power of time in the units that a slower clock changes; all others stay or are computed anew.
TIME_POWERS = {"s": 1, "req/s": -1, "tokens/s": -1, "tokens/s²": -2}
ANEW = ("power_w", "energy_j_per_token", "throughput_tokens_per_s_per_w")

Simulate = Callable[[Workload], Evaluation]


def can_slow(design: Design, workload: Workload) -> bool:
    """Whether a slower package is the same package in slower time."""
    policy = design.policy
    steady = isinstance(workload.arrivals, Deterministic | Renewal)
    plain = steady and workload.replay is None and not workload.shifts
    return plain and not workload.has_sessions and policy.ageing_s is None and policy.host_cache_bytes <= 0


def throttled(design: Design, workload: Workload, found: Evaluation, simulate: Simulate) -> Evaluation:
    """Return the evaluation as slow as its limits ask; `found` itself where they hold, or nothing can be done."""
    if not found.violations or found.components is None or not can_slow(design, workload):
        return found
    share = _sustained(design, found.components)
    if not 0.0 < share < 1.0:
        return found
    # Below saturation a slower package works longer, so that its power falls by less than its speed, through fuller
    # batches alone: widen until limits hold.
    low, step = 1.0, 1.0 / share - 1.0
    best = _slowed(design, workload, low + step, simulate)
    for _ in range(DOUBLINGS):
        if not best.violations:
            break
        low, step = 1.0 + step, 2.0 * step
        best = _slowed(design, workload, 1.0 + step, simulate)
    if best.violations:
        return best
    high = 1.0 + step
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        tried = _slowed(design, workload, middle, simulate)
        if tried.violations:
            low = middle
        else:
            best, high = tried, middle
    note = f"slowed to {100 / high:.0f} % of its speed by its limits of temperature and power"
    return replace(best, notes=(*best.notes, note))


def _sustained(design: Design, components: Components) -> float:
    package = design.package
    slots = design.placement.slots if design.placement is not None else ()
    technology, limit = technology_of(package), package.limits.power_w
    power = slot_power(package, slots, dynamic_w(package, slots, components))
    influence = influence_of(package.topology, technology.cooling)
    return float(sustained_share(power, influence, technology, np.array([np.inf if limit is None else limit]))[0])


def _slowed(design: Design, workload: Workload, stretch: float, simulate: Simulate) -> Evaluation:
    """The evaluation of iterations that take `stretch` times as long."""
    found = simulate(_faster(workload, stretch))
    if found.components is None:
        return found
    summary, package = Summary(), design.package
    for name, value in found.metrics.items():
        if name in ANEW:
            continue
        factor = stretch ** TIME_POWERS.get(metric(name).unit, 0)
        interval = found.intervals.get(name)
        bounds = None if interval is None else (interval[0] * factor, interval[1] * factor)
        summary.put(name, None if value is None else value * factor, bounds)
    _add_power(summary, package, found, stretch)
    components = _components(found.components, stretch)
    add_package(summary, package)
    hot = add_heat(summary, design, components)
    slow = {
        kind: tuple(replace(each, seconds=tuple(stretch * value for value in each.seconds)) for each in tables)
        for kind, tables in found.distributions.items()
    }
    changed = replace(found, metrics=summary.metrics, intervals=summary.intervals, distributions=slow)
    return replace(changed, violations=hot, components=components)


def _add_power(summary: Summary, package: Package, found: Evaluation, stretch: float) -> None:
    power, tokens = found.metrics.get("power_w"), summary.metrics.get("throughput_tokens_per_s")
    if power is None:
        return
    static = static_power_w(package)
    slow = static + (power - static) / stretch
    summary.put("power_w", slow)
    if tokens:
        summary.put("energy_j_per_token", slow / tokens)
        summary.put("throughput_tokens_per_s_per_w", tokens / slow)


def _components(found: Components, stretch: float) -> Components:
    parts = tuple(replace(part, dynamic_w=part.dynamic_w / stretch) for part in found.parts)
    causes = {cause: watts if cause == "static" else watts / stretch for cause, watts in found.power_w.items()}
    return Components(found.seconds * stretch, parts, causes)


def _faster(workload: Workload, stretch: float) -> Workload:
    """The workload as a clock sees it that is `stretch` times slower."""
    rate = workload.arrivals.statistics().rate_per_s * stretch
    kinds = tuple(replace(kind, slo=_sooner(kind.slo, stretch)) for kind in workload.classes)
    return at_rate(replace(workload, classes=kinds), rate)


def _sooner(slo: Slo, stretch: float) -> Slo:
    ttft, tpot = (None if bound is None else bound / stretch for bound in (slo.ttft_s, slo.tpot_s))
    return Slo(ttft, tpot, slo.percentile)
