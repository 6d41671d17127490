"""The system or systems that a placed design makes of the models of a workload."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import simpy

from hydra_dse.design.evaluator import DETAILS
from hydra_dse.design.nouns import Design
from hydra_dse.errors import Fault, InputError
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.mapping import (
    MappedDesign,
    Resident,
    block_names,
    map_design,
    pool_names,
    precision_of,
    residents_of,
    swapped,
)
from hydra_dse.model.blocks import Model
from hydra_dse.workload import served
from hydra_dse.workload.nouns import Workload
from simulators.iteration import IterationCost
from simulators.noi import Processor
from simulators.noi.flows import FlowNetwork
from simulators.package import PackageCost, PlacedHardware
from simulators.package.handoff import Handoff
from simulators.package.operators import MemoCost, MemoProcessor, OperatorCost, OperatorProcessor
from simulators.package.program import PoolProgram
from simulators.package.usage import Contended, keep_contended
from simulators.serving.elastic import elastic_costs
from simulators.serving.memory import CacheShape
from simulators.serving.mix import Mix
from simulators.serving.roles import Roles
from simulators.serving.system import System
from simulators.serving.waiting import ClassRules

EXCHANGED = "other "
"""Marks costs of work that dies do for the other pool."""


def build_system(
    design: Design, model: Model, calibration: CalibrationSet, detail: str = "ledger"
) -> tuple[dict[str, PackageCost], System]:
    """Return the iteration costs of a placed design by pool, and the system that they serve, for one model.

    `detail`: where iteration times come from, see `EvaluationOptions`.
    """
    [resident] = residents_of(design, [model])
    costs, system, tables = _system(resident, calibration, detail, FlowNetwork())
    keep_contended(tables)
    return costs, system


def build_mix(design: Design, workload: Workload, calibration: CalibrationSet, detail: str = "ledger") -> Mix:
    """Return the systems of all models of a workload on a placed design."""
    kinds = served(workload)
    residents = residents_of(design, [kind.model for kind in kinds])
    if len(residents) > 1 and design.policy.task_map != "static":
        names = ", ".join(resident.model.name for resident in residents)
        raise InputError(
            Fault(
                f"task_map: {design.policy.task_map!r} serves one model at a time, the workload has {names}; "
                "use task_map: static, or give each model a workload of its own"
            )
        )
    network = FlowNetwork()
    built = [_system(resident, calibration, detail, network) for resident in residents]
    keep_contended([table for _, _, tables in built for table in tables])
    rules = tuple(ClassRules(kind.priority, kind.slo.ttft_s) for kind in workload.classes)
    return Mix(
        systems=tuple(replace(system, classes=rules) for _, system, _ in built),
        turns=_turns(residents),
        shared_cache=residents[0].shared,
        model_of_class=tuple(
            next(number for number, kind in enumerate(kinds) if index in kind.classes)
            for index in range(len(workload.classes))
        ),
    )


def _system(
    resident: Resident, calibration: CalibrationSet, detail: str, network: FlowNetwork
) -> tuple[dict[str, PackageCost], System, list[Contended]]:
    """Costs by pool, the system, and the tables of all that shares the package."""
    design, model = resident.design, resident.model
    mapped = map_design(design, model)
    hardware = PlacedHardware(design, mapped, calibration, design.precision or model.precision)
    if detail != "ledger":
        _check_detail(detail, design, mapped)
    roles: Roles | None = None
    if design.policy.task_map == "elastic":
        costs, roles, moves = elastic_costs(design, model, calibration)
        tables: list[Contended] = [*(cost.usages for cost in costs.values()), moves]
    else:
        costs = {name: _cost(hardware, name, model, detail, network) for name in pool_names(design)}
        if design.policy.task_map != "static":
            costs |= _exchanged(design, model, calibration)
        tables = [cost.usages for cost in costs.values()]
    memory, policy = mapped.memory, design.policy
    cache = CacheShape(
        resident.cache_bytes,
        memory.kv_bytes_per_token,
        memory.state_bytes_per_sequence,
        policy.block_tokens,
        policy.memory_watermark,
    )
    handoff: Handoff | None = None
    if mapped.handoff.size:
        handoff = Handoff(hardware)
        tables = [*tables, handoff]
        source = replace(cache, capacity_bytes=memory.source_cache_bytes)
    other_phase: dict[str, IterationCost] = {
        name.removeprefix(EXCHANGED): cost for name, cost in costs.items() if name.startswith(EXCHANGED)
    }
    processor: Callable[[simpy.Environment], Processor] | None = None
    if detail != "ledger":
        processor = partial(OperatorProcessor if detail == "operators" else MemoProcessor, network=network)
    system = System(
        policy,
        cache,
        dict(costs),
        handoff,
        source=None if handoff is None else source,
        handoff_latency_s=0.0 if handoff is None else handoff.latency_s,
        roles=roles,
        swapped=other_phase,
        processor=processor,
        leaps=detail != "operators",
        programs={
            name: partial(_program, costs[name], name, model, network) for name in pool_names(design) if name in costs
        },
    )
    return costs, system, tables


def _check_detail(detail: str, design: Design, mapped: MappedDesign) -> None:
    """Refuse what only the ledger knows."""
    what = None
    if design.package.parts:
        what = "several packages"
    elif design.policy.task_map != "static":
        what = f"task_map: {design.policy.task_map}"
    elif mapped.handoff.size:
        what = "pools with memories of their own"
    if what is not None:
        raise InputError(Fault(f"detail {detail!r} is not modelled for {what}; use ledger"))


def _program(cost: PackageCost, pool: str, model: Model, network: FlowNetwork) -> PoolProgram:
    """The operators of the iterations of a pool: those that are executed where they are."""
    if isinstance(cost, OperatorCost):
        return cost.programs
    return PoolProgram(cost.hardware, pool, block_names(model, cost.hardware.pipeline), network)


def _exchanged(design: Design, model: Model, calibration: CalibrationSet) -> dict[str, PackageCost]:
    """Costs of prompts on the decode dies and of decode steps on the prefill dies."""
    other = swapped(design)
    hardware = PlacedHardware(other, map_design(other, model), calibration, precision_of(design, model))
    return {f"{EXCHANGED}{name}": PackageCost(hardware, name) for name in pool_names(other)}


def _cost(hardware: PlacedHardware, pool: str, model: Model, detail: str, network: FlowNetwork) -> PackageCost:
    if detail == "ledger":
        return PackageCost(hardware, pool)
    blocks = block_names(model, hardware.pipeline)
    if detail == "memo":
        return MemoCost(hardware, pool, blocks, network)
    if detail == "operators":
        return OperatorCost(hardware, pool, blocks, network)
    raise InputError(Fault(f"detail {detail!r} is none of {', '.join(DETAILS)}"))


def _turns(residents: Sequence[Resident]) -> tuple[dict[str, int], ...]:
    """Number the sets of dies on which engines of one pool take turns: pools that share any die, directly or not."""
    numbers: list[dict[str, int]] = [{} for _ in residents]
    used = 0
    for pool in residents[0].dies:
        for at, resident in enumerate(residents):
            joined = {numbers[other][pool] for other in range(at) if resident.meets(pool, residents[other], pool)}
            number = min(joined, default=used)
            used = max(used, number + 1)
            numbers[at][pool] = number
            for other in range(at):
                if numbers[other][pool] in joined:
                    numbers[other][pool] = number
    return tuple(numbers)
