"""Why a design is as fast as its estimate says: memory, the decode batch, and its typical iterations taken apart.

A typical iteration is the mean over those that the estimator counts: of decode, `b` sequences at the mean context in
flight; of prefill, the mean of prompts alone and of prompts packed to the budget.  A colocated pool has both kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from hydra_dse.design.nouns import Design
from hydra_dse.estimator.designs import evaluate, reuses, solve_cached
from hydra_dse.estimator.elastic import Elastic
from hydra_dse.estimator.explain_handoff import HandoffRow, explain_handoff
from hydra_dse.estimator.explain_package import PackageRow, package_row
from hydra_dse.estimator.explain_reuse import PrefixPoint, prefix_point
from hydra_dse.estimator.explain_roles import RoleChangeRow, RoleStateRow, explain_roles
from hydra_dse.estimator.lengths import moments_of
from hydra_dse.estimator.outputs import metrics_of, starved
from hydra_dse.estimator.phases import phases_of, scv_beside
from hydra_dse.estimator.solution import Solution, Work
from hydra_dse.estimator.solvers import solver_of
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.mapping import MemoryPlan, map_design, role_plan
from hydra_dse.model.blocks import Model
from hydra_dse.model.operators import Batch
from hydra_dse.placement import place_design
from hydra_dse.profile import ReferencePool, build_profile
from hydra_dse.profile.compose import compose
from hydra_dse.profile.composition import Composition
from hydra_dse.profile.nouns import ServiceProfile
from hydra_dse.results.nouns import Evaluation
from hydra_dse.workload import Piece, pieces
from hydra_dse.workload.nouns import Workload

QUANTILES = {"p10": 0.1, "p50": 0.5, "p90": 0.9, "p99": 0.99}


@dataclass(frozen=True)
class StackMemory:
    """What fills one memory site.

    Attributes:
        site: name of the memory site: a stack, or the memory of a die.
        capacity_bytes: all of it.
        weight_bytes: the site's part of the one copy of the weights, and experts placed whole that lie there.
        kv_bytes: KV cache at the mean occupancy.
        state_bytes: recurrent state at the mean occupancy.
        left_bytes: the rest, the watermark included.
    """

    site: str
    capacity_bytes: float
    weight_bytes: float
    kv_bytes: float
    state_bytes: float
    left_bytes: float


@dataclass(frozen=True)
class DecodeBatch:
    """Sequences that a decode iteration advances, each iteration counted alike.

    Attributes:
        mean: mean number of sequences.
        p10: 10 % of the iterations advance at most so many; for a limit above 16, as exact as the chain's 16 nodes.
        p50: the same of 50 %.
        p90: the same of 90 %.
        p99: the same of 99 %.
    """

    mean: float
    p10: float
    p50: float
    p90: float
    p99: float


@dataclass(frozen=True)
class TypicalIteration:
    """The mean iteration of a pool in one phase.

    Attributes:
        phase: `prefill` (prompts, with the decoding sequences that ride along) or `decode`.
        iterations_per_s: how many run per second.
        composition: what it is made of.
    """

    phase: str
    iterations_per_s: float
    composition: Composition


@dataclass(frozen=True)
class Explanation:
    """What stands behind the estimate of one design.

    Attributes:
        rate_requests_per_s: arrival rate at which the iterations are taken; `null` where there are none.
        iterations: typical iterations by pool and phase; none of a design that cannot serve.
        memory: what fills each memory site; none of a design that cannot be mapped.
        decode_batch: distribution of the decode batch; `null` where nothing decodes.
        notes: what a reader must know of the load at which the iterations are taken.
        roles: role states of an elastic design; none of others.
        role_changes: what a change from one to the next costs.
        prefix: the prefix cache on its curve of hits over capacity; `null` where there is none, or nothing to find.
        package: area, cost, power and temperature; `null` of a design that cannot serve.
        handoff: between pools with memories of their own; `null` where pools share their memory.
    """

    rate_requests_per_s: float | None
    iterations: tuple[TypicalIteration, ...]
    memory: tuple[StackMemory, ...]
    decode_batch: DecodeBatch | None
    notes: tuple[str, ...]
    roles: tuple[RoleStateRow, ...] = ()
    role_changes: tuple[RoleChangeRow, ...] = ()
    prefix: PrefixPoint | None = None
    package: PackageRow | None = None
    handoff: HandoffRow | None = None


def explain(
    design: Design, workload: Workload, calibration: CalibrationSet, *, seed: int = 0
) -> tuple[Evaluation, Explanation]:
    """Estimate one design, placed or not, and take its typical iterations apart.

    Raises:
        InputError: as of `evaluate`.
    """
    [evaluation] = evaluate([design], workload, calibration, temperature=True)
    model = workload.models[workload.classes[0].model_index]
    placed, violations = (design, ()) if design.placement is not None else place_design(design, model, seed)
    if violations:
        return evaluation, _nothing()
    if not reuses(placed, workload):
        return evaluation, _explained(placed, model, pieces(workload), calibration)
    profile = build_profile([placed], model, calibration)
    if profile.violations[0]:
        return evaluation, _nothing()
    _, reused = solve_cached(profile, placed, workload, calibration, percentiles=False)
    explained = _explained(placed, model, reused.course, calibration)
    return evaluation, replace(explained, prefix=prefix_point(reused))


def _nothing(memory: tuple[StackMemory, ...] = ()) -> Explanation:
    return Explanation(None, (), memory, None, ("the design cannot serve: there is no iteration to explain",))


def _explained(design: Design, model: Model, course: Sequence[Piece], calibration: CalibrationSet) -> Explanation:
    profile = build_profile([design], model, calibration)
    if profile.violations[0]:
        return _nothing()
    mapped, busiest = map_design(design, model), max(course, key=lambda piece: piece.arrivals.rate_per_s)
    names = [site.name for site in mapped.sites]
    moments = moments_of(busiest.lengths, profile.emission)
    if starved(profile, moments)[0]:
        return _nothing(_memory(names, mapped.memory, 0.0, 0.0))
    rate = np.full(1, busiest.arrivals.rate_per_s)
    with np.errstate(all="ignore"):
        phases = phases_of(busiest.arrivals)
        scv = scv_beside(phases, busiest.arrivals)
        solver = solver_of(profile, moments)
        solution = solver.at(rate, scv, False, phases=phases)
        roles = explain_roles(solver, float(rate[0]), scv, phases) if isinstance(solver, Elastic) else ((), ())
        metrics = metrics_of(profile, solution, rate, moments, False)
    cache = float(profile.cache_bytes[0])
    kv, state = (cache * float(metrics[f"{name}_occupancy"][0]) for name in ("kv", "state"))
    return Explanation(
        rate_requests_per_s=float(solution.served_per_s[0]),
        iterations=_iterations(solution, _pools(design, model, calibration, profile)),
        memory=_memory(names, mapped.memory, kv, state),
        decode_batch=_decode_batch(solution),
        notes=_notes(float(rate[0]), float(solution.served_per_s[0]), len(course)),
        roles=roles[0],
        role_changes=roles[1],
        package=package_row(design, profile, solution),
        handoff=explain_handoff(design, mapped, profile, solution, moments),
    )


def _pools(
    design: Design, model: Model, calibration: CalibrationSet, profile: ServiceProfile
) -> dict[str, ReferencePool]:
    """The pools by the name they have in the profile; of an elastic design those of every role state."""
    if profile.roles is None:
        return {name: ReferencePool(design, model, calibration, name) for name in profile.pools}
    states = role_plan(design).states
    return {
        profile.roles.name(name, number): ReferencePool(state, model, calibration, name)
        for number, state in enumerate(states)
        for name in ("prefill", "decode")
    }


def _notes(offered: float, served: float, count: int) -> tuple[str, ...]:
    notes = []
    if count > 1:
        notes.append(
            f"the load changes in time: iterations are those of the busiest of {count} pieces, as if it lasted"
        )
    if served < offered:
        notes.append(f"the offered {offered:.4g} req/s cannot be served: iterations are those at {served:.4g} req/s")
    return tuple(notes)


def _memory(names: Sequence[str], plan: MemoryPlan, kv: float, state: float) -> tuple[StackMemory, ...]:
    """Weights and caches lie on all sites in the same proportion."""
    # Caches lie over all sites by bandwidth; weights too, but for experts placed whole.
    share = plan.cache_share if len(plan.cache_share) else np.zeros(len(names))
    return tuple(
        StackMemory(
            site=name,
            capacity_bytes=float(capacity),
            weight_bytes=float(weights),
            kv_bytes=float(kv * part),
            state_bytes=float(state * part),
            left_bytes=float(capacity - weights - (kv + state) * part),
        )
        for name, capacity, weights, part in zip(names, plan.capacity_bytes, plan.weight_bytes, share, strict=True)
    )


def _iterations(solution: Solution, pools: dict[str, ReferencePool]) -> tuple[TypicalIteration, ...]:
    found = []
    for name, pool in pools.items():
        for phase in ("prefill", "decode"):
            rows = _of_phase([work for work in solution.work if work.pool == name], phase)
            total = sum(rate for _, rate in rows)
            if total > 0:
                found.append(TypicalIteration(phase, total, compose(pool, _mean(rows))))
    return tuple(found)


def _of_phase(works: Sequence[Work], phase: str) -> list[tuple[Batch, float]]:
    """Batches of one design as plain numbers with iterations per second; those with prompt tokens are prefill."""
    rows = []
    for work in works:
        for column, rate in enumerate(work.rate_per_s[0]):
            batch = _column(work.batch, column, work.rate_per_s.shape)
            if rate > 0 and (phase == "prefill") == (batch.prefill_tokens > 0):
                rows.append((batch, float(rate)))
    return rows


def _column(batch: Batch, column: int, shape: tuple[int, ...]) -> Batch:
    values = {f.name: getattr(batch, f.name) for f in fields(Batch)}
    return Batch(**{name: float(np.broadcast_to(value, shape)[0, column]) for name, value in values.items()})


def _mean(rows: Sequence[tuple[Batch, float]]) -> Batch:
    total = sum(rate for _, rate in rows)
    return Batch(
        **{f.name: sum(float(getattr(batch, f.name)) * rate for batch, rate in rows) / total for f in fields(Batch)}
    )


def _decode_batch(solution: Solution) -> DecodeBatch | None:
    rows = sorted((float(batch.decode_sequences), rate) for batch, rate in _of_phase(solution.work, "decode"))
    total = sum(rate for _, rate in rows)
    if not total > 0:
        return None
    size = np.array([sequences for sequences, _ in rows])
    upto = np.cumsum([rate for _, rate in rows]) / total
    upto[-1] = 1.0
    # Nodes of the chain may lie between whole numbers of sequences.
    whole = np.ceil(size - 1e-9)
    at = {name: float(whole[np.searchsorted(upto, share)]) for name, share in QUANTILES.items()}
    return DecodeBatch(mean=sum(sequences * rate for sequences, rate in rows) / total, **at)
