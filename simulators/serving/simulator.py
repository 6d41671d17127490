"""`ServingSimulator`: placed designs under a workload, at the request level on their packages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.design.nouns import Design
from hydra_dse.errors import Fault, InputError, InvariantBroken
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.mapping import residents_violations
from hydra_dse.physical import package_violations, static_power_w
from hydra_dse.policy import Policy
from hydra_dse.records import RecordSink, SpanSink
from hydra_dse.results.nouns import Evaluation, Violation
from hydra_dse.rng import derive
from hydra_dse.workload import at_rate, check_order, check_reuse
from hydra_dse.workload.nouns import Requests, Workload
from hydra_dse.workload.periods import part_of_period
from simulators.package import Ledger, PackageCost, ledger_of
from simulators.package.components import check_capacity, components_of
from simulators.package.handoff import Handoff
from simulators.package.shares import busy_shares
from simulators.package.tally import Counts
from simulators.serving.build import build_mix
from simulators.serving.distributions import distributions
from simulators.serving.elastic import RoleMoves, merged_shares, role_parts
from simulators.serving.inputs import Inputs
from simulators.serving.metrics import (
    Summary,
    add_derived,
    add_latencies,
    add_models,
    add_rates,
    add_saturation,
    add_service_levels,
)
from simulators.serving.mix import Mix, MixOutcome, serve
from simulators.serving.package_metrics import add_heat, add_package
from simulators.serving.reuse_metrics import add_reuse
from simulators.serving.run import Outcome
from simulators.serving.target import next_replications, target_note
from simulators.serving.throttle import throttled
from simulators.serving.tracing import Tracer

SHORT_RUN = 1000
"""Requests per replication below which a run is called short."""


class ServingSimulator:
    """Evaluates placed designs by simulation of every engine iteration (see `simulators.serving`).

    Records of the first replication of each design go to the sink.
    """

    def evaluate(
        self,
        designs: Sequence[Design],
        workload: Workload,
        calibration: CalibrationSet,
        options: EvaluationOptions,
        seed: int,
        sink: RecordSink | None = None,
    ) -> list[Evaluation]:
        """Return one evaluation per design, in order.

        Raises:
            InputError: a design without placement, a mapping that names a model the workload lacks, a bad rate.
        """
        if options.rate_per_s is not None:
            workload = at_rate(workload, options.rate_per_s)
        runs = Inputs(workload, options, seed)
        return [_within_limits(design, runs, calibration, sink) for design in designs]


def _within_limits(design: Design, inputs: Inputs, calibration: CalibrationSet, sink: RecordSink | None) -> Evaluation:
    """Evaluate at full speed; where limits of temperature or power break, as slow as they ask (without records)."""
    found = _until_narrow(design, inputs, calibration, sink)

    def again(workload: Workload) -> Evaluation:
        return _evaluate(design, Inputs(workload, inputs.options, inputs.seed), calibration, None)

    return throttled(design, inputs.workload, found, again)


def _until_narrow(design: Design, inputs: Inputs, calibration: CalibrationSet, sink: RecordSink | None) -> Evaluation:
    """Evaluate with more and more replications until intervals are as narrow as the options ask for."""
    found = _evaluate(design, inputs, calibration, sink)
    more = next_replications(found, inputs.options)
    while more is not None:
        inputs = Inputs(inputs.workload, replace(inputs.options, replications=more), inputs.seed)
        found = _evaluate(design, inputs, calibration, None)
        more = next_replications(found, inputs.options)
    note = target_note(found, inputs.options)
    return found if note is None else replace(found, notes=(*found.notes, note))


def _evaluate(design: Design, inputs: Inputs, calibration: CalibrationSet, sink: RecordSink | None) -> Evaluation:
    if design.placement is None:
        raise InputError(Fault(f"design {design.name or design.identity} has no placement: place it first"))
    models = [kind.model for kind in inputs.served]
    violations = (*package_violations(design.package), *residents_violations(design, models))
    if violations:
        return Evaluation("simulated", {}, violations=violations)
    check_order(design.policy, inputs.workload)
    check_reuse(design.policy, inputs.workload)
    mix = build_mix(design, inputs.workload, calibration, inputs.options.detail)
    parts = role_parts(design)
    queued = inputs.queued(design) if inputs.options.saturate else []
    violation = _oversize(mix, [*inputs.offered, *queued])
    if violation is not None:
        return Evaluation("simulated", {}, violations=(violation,))
    if isinstance(sink, SpanSink):
        sink = Tracer(sink, tuple(model.name for model in models), static_power_w(design.package))
    runs = [
        _checked(
            mix,
            serve(
                _seeded(mix, inputs.seed, number), requests, inputs.options.warmup_share, sink if number == 0 else None
            ),
        )
        for number, requests in enumerate(inputs.offered)
    ]
    outcomes = [run.whole for run in runs]
    summary = Summary()
    add_latencies(summary, outcomes)
    add_rates(summary, outcomes)
    add_reuse(summary, outcomes)
    add_service_levels(summary, outcomes, inputs.workload.classes)
    windows = [outcome for outcome in outcomes if outcome.window_s > 0.0]
    ledgers = [_ledgers(mix, outcome) for outcome in windows]
    shares = [
        merged_shares(busy_shares(found, outcome.window_s), parts)
        for found, outcome in zip(ledgers, windows, strict=True)
    ]
    if queued:
        _add_saturated(summary, design.policy, mix, inputs.seed, queued)
    add_derived(summary, static_power_w(design.package), shares, [outcome.window_s for outcome in windows])
    add_package(summary, design.package)
    if len(models) > 1:
        add_models(
            summary, [kind.label for kind in inputs.served], [run.parts for run in runs], inputs.workload.classes
        )
    components = components_of(
        design, [ledger for run in ledgers for ledger in run], sum(outcome.window_s for outcome in windows), parts
    )
    hot = add_heat(summary, design, components)
    notes = tuple(_notes(summary, outcomes, inputs))
    return Evaluation("simulated", summary.metrics, summary.intervals, hot, notes, components, distributions(outcomes))


def _add_saturated(summary: Summary, policy: Policy, mix: Mix, seed: int, queued: Sequence[Requests]) -> None:
    """What the mix sustains of requests that all wait from the start."""
    # The order of the queue does not change what is sustainable, only who waits: first come, first served.
    waiting = _in_order(mix)
    saturated = [
        serve(_seeded(waiting, seed, -1 - number), requests, saturate=True).whole.visits
        for number, requests in enumerate(queued)
    ]
    closed = policy.batching == "static" and policy.serving == "colocated" and policy.batches_in_flight == 1
    add_saturation(summary, saturated, policy.max_batch, closed and len(mix.systems) == 1)


def _in_order(mix: Mix) -> Mix:
    policy = replace(mix.systems[0].policy, scheduling="fcfs", max_waiting=None, class_preemption=False)
    return replace(mix, systems=tuple(replace(system, policy=policy, classes=()) for system in mix.systems))


def _seeded(mix: Mix, seed: int, number: int) -> Mix:
    """The mix with draws of its own for a run: a replication, or one that saturates (numbered below zero)."""
    drawn = int(derive(seed, "tokens per step", number).integers(1 << 62))
    return replace(mix, systems=tuple(replace(system, seed=drawn) for system in mix.systems))


def _checked(mix: Mix, run: MixOutcome) -> MixOutcome:
    """The run that ended just now, if its package had the time for it."""
    costs = [cost for system in mix.systems for cost in system.costs.values()]
    ledgers = [ledger_of(cost, cost.snapshot()) for cost in costs if isinstance(cost, PackageCost)]
    check_capacity(ledgers, float(run.whole.visits.served.last_token_s.max(initial=0.0)))
    return run


def _ledgers(mix: Mix, outcome: Outcome) -> list[Ledger]:
    """What every pool did in the measured window, what was handed over between them, and what changed roles."""
    costs = [cost for system in mix.systems for cost in system.costs.values()]
    ledgers = []
    for cost, before, after in zip(costs, outcome.start.counts, outcome.end.counts, strict=True):
        if not isinstance(cost, PackageCost) or not isinstance(before, Counts) or not isinstance(after, Counts):
            raise InvariantBroken("a package cost counts something else")
        ledgers.append(ledger_of(cost, after.since(before)))
    for system in mix.systems:
        if isinstance(system.handoff, Handoff):
            (tokens, moves), (before_tokens, before_moves) = outcome.end.handed_over, outcome.start.handed_over
            ledgers.append(system.handoff.ledger(tokens - before_tokens, moves - before_moves))
        if system.roles is not None and isinstance(system.roles.move, RoleMoves):
            earlier = dict(outcome.start.role_changes)
            changes = {change: count - earlier.get(change, 0) for change, count in outcome.end.role_changes}
            ledgers.append(system.roles.move.ledger(changes))
    return ledgers


def _oversize(mix: Mix, drawn: Iterable[Requests]) -> Violation | None:
    """The largest request, if its caches do not fit below the watermark even when it is alone."""
    largest = [0] * len(mix.systems)
    for requests in drawn:
        lengths, models = requests.prompt_tokens + requests.output_tokens, mix.models(requests)
        for number in range(len(mix.systems)):
            largest[number] = max(largest[number], int(lengths[models == number].max(initial=0)))
    for system, tokens in zip(mix.systems, largest, strict=True):
        caches = [system.cache] if system.source is None else [system.source, system.cache]
        cache = min(caches, key=lambda found: found.admission_bytes)
        needed = cache.bytes_of(tokens - 1) if tokens else 0.0
        if needed > cache.admission_bytes:
            levers = ["more memory stacks", "larger stacks", "KV of fewer bits", "shorter requests"]
            if needed <= cache.capacity_bytes:
                levers.append("a lower memory_watermark")
            return Violation(
                "a request exceeds the cache memory", needed, cache.admission_bytes, "bytes", tuple(levers)
            )
    return None


def _notes(summary: Summary, outcomes: Sequence[Outcome], inputs: Inputs) -> Iterable[str]:
    """What a reader must know of these runs."""
    options = inputs.options
    if options.detail != "ledger":
        yield f"iteration times from the operator level ({options.detail})"
    times = "replication" if options.replications == 1 else "replications"
    yield f"{options.replications} {times} of {options.requests} requests, seed {inputs.seed}"
    if options.requests < SHORT_RUN or options.replications < 2:
        yield "short run: intervals rest on few batches and replications; percentiles beyond p90 are rough"
    lasting_s = min(float(requests.arrival_s[-1]) for requests in inputs.offered)
    part = part_of_period(inputs.workload, lasting_s)
    if part is not None:
        yield part
    load = summary.metrics.get("load")
    rejected = summary.metrics.get("rejected_share") or 0.0
    if rejected > 0.0:
        yield f"{100 * rejected:.3g} % of the requests were refused; latencies are of those served"
    if load is not None and load >= 1.0 and rejected == 0.0:
        yield f"overloaded: load {load:.2f}; waiting times grow with the length of the run and are reported as measured"
    if outcomes and not any(outcome.end.completed > outcome.start.completed for outcome in outcomes):
        seconds = max(outcome.window_s for outcome in outcomes)
        yield (
            f"no request ends between the first counted arrival and the last ({seconds:.3g} s): served rates, power "
            "and energy are not those of a busy system; see saturation, or simulate more requests"
        )
    longest = max(int((outcome.visits.prompt_tokens + outcome.visits.output_tokens).max()) for outcome in outcomes)
    limits = [kind.model.max_position_embeddings for kind in inputs.served]
    limit = min((limit for limit in limits if limit is not None), default=None)
    if limit is not None and longest > limit:
        yield f"the longest request has {longest} tokens, the model is made for {limit}"
