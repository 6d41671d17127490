"""How chips execute a stack: operators in turn, sections in turn, all resident, streamed weights, a pipeline."""

from __future__ import annotations

import math
from dataclasses import replace

from hydra_dse.bench.blocks import PARTS, Cost, Pass, allocate
from hydra_dse.bench.fitted import streamed_layers_s, transport_factor
from hydra_dse.bench.flops import block_activations, optimizer_bytes, parameters
from hydra_dse.bench.layouts import best_partition
from hydra_dse.bench.modelled import (
    Case,
    Execute,
    Machine,
    Step,
    element_bytes,
    layer_parameters,
    no_room,
    parameter_bytes,
    passes,
    stored_bytes,
)
from hydra_dse.bench.record import Unit


def _bandwidths(machine: Machine, work: Pass) -> tuple[float, float, float]:
    """Seconds per byte of weights, activations and caches in the nearest memory off the chip."""
    peak = machine.near.bandwidth_bytes_per_s or math.inf
    share = work.calibration.memory
    return 1 / (peak * share["weights"]), 1 / (peak * share["activations"]), 1 / (peak * share["kv"])


def _update_s(machine: Machine, case: Case, work: Pass, split: int, seconds_per_byte: float) -> float:
    """The optimizer's pass over its state, weights and gradients; launches of a fit hold it."""
    if case.phase != "training" or work.fit is not None:
        return 0.0
    each = 2 * optimizer_bytes(case.precision) + 2 * element_bytes(case)
    return parameters(case.shape) / split * each * seconds_per_byte


def _outside(machine: Machine, case: Case) -> tuple[float, str]:
    """Bytes of a model, its training state and what waits in the nearest memory off the chip; why they do not fit."""
    split = case.chips if case.parallelism == "tensor" else 1
    copies = case.chips if case.parallelism == "data" else 1
    used = parameters(case.shape) * parameter_bytes(case) / split
    used += (case.shape.layers or 0) * stored_bytes(case, machine, case.batch / copies) / split
    return used, no_room(machine.near, used)


def kernels(machine: Machine, case: Case, work: Pass) -> Step:
    """Operators in turn; each is bound by compute or by the memory off the chip, and costs a launch."""
    used, failure = _outside(machine, case)
    if failure:
        return Step(None, machine.near, used, failure=failure)
    weights, activations, caches = _bandwidths(machine, work)
    rest = passes(case, machine) - 1
    units, total = [], 0.0
    for cost in work.costs:
        overhead = work.launch_s(cost.part)
        moved = cost.weight_bytes * weights + cost.activation_bytes * activations + cost.cache_bytes * caches
        forward = max(cost.time_s, moved) + overhead
        # Backward: the work of two forwards; operands are read again and gradients written.
        backward = max(rest * cost.time_s, 2 * moved) + 2 * overhead if rest else 0.0
        time = cost.count * (forward + backward)
        units.append(Unit(cost.name, cost.name, resources={"core": float(cost.units)}, time=time))
        total += time
    split = case.chips if case.parallelism == "tensor" else 1
    total += _update_s(machine, case, work, split, weights)
    return Step(total, machine.near, used, tuple(units), energy_j=_energy(case, machine, work), sections=len(units))


def sections(machine: Machine, case: Case, work: Pass) -> Step:
    """Parts of the model in turn, the operators of a part side by side on cores shared out by their work.

    A part (mixer or feed-forward) is a section forward and another backward; its weights come from and its operands go
    to the memory off the chip once a pass.
    """
    used, failure = _outside(machine, case)
    if failure:
        return Step(None, machine.near, used, failure=failure)
    weights, activations, caches = _bandwidths(machine, work)
    rest = passes(case, machine) - 1
    units: list[Unit] = []
    total, launched = 0.0, 0
    for part in PARTS:
        members = work.of(part)
        if not members:
            continue
        given = allocate([cost.time_s for cost in members], [cost.units for cost in members], work.cores)
        if given is None:
            return Step(None, machine.near, used, failure=f"{len(members)} operators for {work.cores} cores")
        alone = [cost.time_s * work.cores / cores for cost, cores in zip(members, given, strict=True)]
        kept = _boundary(members) if case.phase != "training" else sum(cost.activation_bytes for cost in members)
        moved = sum(cost.weight_bytes for cost in members) * weights + kept * activations
        moved += sum(cost.cache_bytes for cost in members) * caches
        for name, factor, traffic in (("forward", 1.0, moved), ("backward", rest, 2 * moved)):
            if not factor:
                continue
            time = max(factor * max(alone), traffic) + work.launch_s(part)
            count = members[0].count
            total += time * count
            launched += count
            units += _section_units(members, given, alone, f"{part} {name}", factor, time * count)
    split = case.chips if case.parallelism == "tensor" else 1
    total += _update_s(machine, case, work, split, weights)
    energy = _energy(case, machine, work)
    return Step(total, machine.near, used, tuple(units), energy_j=energy, sections=launched)


def _boundary(members: list[Cost]) -> float:
    """Bytes into and out of a section whose inner operands stay on the chip."""
    return members[0].activation_bytes / 2 + members[-1].activation_bytes / 2


def _section_units(
    members: list[Cost], given: list[int], alone: list[float], section: str, factor: float, time: float
) -> list[Unit]:
    return [
        Unit(
            cost.name,
            section,
            resources={"core": float(cores)},
            rate_per_s=1 / (factor * own) if own else None,
            time=time,
        )
        for cost, cores, own in zip(members, given, alone, strict=True)
    ]


def resident(machine: Machine, case: Case, work: Pass) -> Step:
    """All operators of all layers side by side, cores shared out by their work; samples stream through.

    Rows of a sample stream from operator to operator, but attention waits for all rows of it: a layer is a stage, and
    in training once more for its backward pass.  A step of b samples takes `(b + p − 1)` times the slowest operator,
    p = 2L; layer l keeps the operands of the `2(L − l) − 1` samples between its two passes (l from 0), or of all b.
    """
    layers = case.shape.layers or 0
    copies = case.chips if case.parallelism == "data" else 1
    batch = case.batch / copies
    waiting = math.fsum(min(batch, 2.0 * (layers - layer) - 1) for layer in range(layers))
    if case.phase != "training":
        waiting = batch * layers
    used = parameters(case.shape) * parameter_bytes(case) + waiting * stored_bytes(case, machine, 1.0)
    failure = no_room(machine.inside, used)
    if failure:
        return Step(None, machine.inside, used, failure=failure)
    placed = [(cost, index) for cost in work.costs for index in range(cost.count)]
    given = allocate([cost.time_s for cost, _ in placed], [cost.units for cost, _ in placed], work.cores)
    if given is None:
        return Step(None, machine.inside, used, failure=f"{len(placed)} operators for {work.cores} cores")
    factor = passes(case, machine)
    times = [factor * cost.time_s * work.cores / cores for (cost, _), cores in zip(placed, given, strict=True)]
    slowest = max(times) * (1.0 if work.fit is None else transport_factor(work.fit, layers))
    series = layers * (2 if case.phase == "training" else 1)
    units = tuple(
        Unit(f"{cost.name} {index}", resources={"core": float(cores)}, rate_per_s=1 / time if time else None)
        for (cost, index), cores, time in zip(placed, given, times, strict=True)
    )
    energy = _energy(case, machine, work) * case.batch
    return Step((batch + series - 1) * slowest, machine.inside, used, units, energy_j=energy)


def streaming(machine: Machine, case: Case, work: Pass) -> Step:
    """Layers in turn on the whole chip; their weights come from the far memory, and gradients go back.

    Chips take equal shares of the batch; one stream serves all of them and gradients are added up on their way.  A
    share whose operands do not fit the chip is cut into micro batches, and each streams the weights again, or its
    forward pass is run again for the backward pass: the faster of the two.
    """
    plain = _streamed(machine, case, work)
    if plain.micro_batches == 1 or case.phase != "training" or machine.counting.recompute:
        return plain
    again = _streamed(replace(machine, counting=replace(machine.counting, recompute=True)), case, work)
    return min((plain, again), key=lambda step: math.inf if step.time_s is None else step.time_s)


def _streamed(machine: Machine, case: Case, work: Pass) -> Step:
    layers, share = case.shape.layers or 0, case.batch / case.chips
    layer_bytes = layer_parameters(case) * element_bytes(case)
    each = layers * stored_bytes(case, machine, 1.0)
    if machine.counting.recompute:  # one layer at a time has all of its operands
        each += case.sequence * block_activations(case.shape) * element_bytes(case)
    room = ((machine.inside.capacity_bytes or math.inf) - 2 * layer_bytes) / each
    if room < min(share, 1.0):
        used = 2 * layer_bytes + each * min(share, 1.0)
        return Step(None, machine.inside, used, failure=no_room(machine.inside, used))
    micro_batches = math.ceil(share / max(math.floor(room), 1.0)) if math.isfinite(room) else 1
    batch = share / micro_batches
    used = 2 * layer_bytes + each * batch
    far = machine.levels[-1].bandwidth_bytes_per_s or math.inf
    pace = 1 / (far * work.calibration.memory["weights"])
    rest = passes(case, machine) - 1
    total, units = 0.0, []
    for part in PARTS:
        members = work.of(part)
        if not members:
            continue
        compute = batch * work.time_s(part)
        moved = sum(cost.weight_bytes for cost in members) * pace
        time = max(compute, moved) + (max(rest * compute, 2 * moved) if rest else 0.0)
        time += work.launch_s(part) * (2 if rest else 1)
        time *= members[0].count * micro_batches
        total += time
        cores = max(cost.units for cost in members)
        units.append(Unit(part, part, resources={"core": float(cores)}, time=time))
    if work.fit is not None:
        weights = math.fsum(cost.count * cost.weight_bytes for cost in work.costs)
        streamed = (3.0 if rest else 1.0) * weights * pace
        fitted = max(streamed_layers_s(work, work.fit, share, layers), streamed)
        total, units = _at_fitted_pace(total, units, fitted)
    energy = _energy(case, machine, work) * case.batch
    return Step(total, machine.inside, used, tuple(units), energy_j=energy, micro_batches=micro_batches)


def _at_fitted_pace(total: float, units: list[Unit], fitted: float) -> tuple[float, list[Unit]]:
    """Layers take what the fit says (embedding and head in it, recomputation too); shares of the parts stay."""
    scale = fitted / total if total else 1.0
    return fitted, [replace(unit, time=(unit.time or 0.0) * scale) for unit in units]


def pipelined(machine: Machine, case: Case, work: Pass) -> Step:
    """Layers over chips, cut so that the most loaded chip is loaded least; one sample is a micro batch.

    Chips keep the inputs of their layers for the samples in flight and run the forward pass again for the backward
    pass.  Weights and gradients stay on the chip, the optimizer's state too where there is no far memory.
    """
    replicas = case.chips if case.parallelism == "data" else 1
    chips = 1 if case.parallelism == "data" else case.chips
    training = case.phase == "training"
    micro_batches = max(round(case.batch / replicas), 1)
    layers, element = case.shape.layers or 0, element_bytes(case)
    far = machine.levels[-1] if not machine.levels[-1].on_chip else None
    per_parameter = parameter_bytes(case) - (optimizer_bytes(case.precision) if training and far else 0.0)
    table = parameters(case.shape) - layers * layer_parameters(case)
    row = float(case.sequence) * (case.shape.hidden or 0) * element
    flying = min(chips, micro_batches) * row if training else stored_bytes(case, machine, 1.0)
    factor = 4.0 if training else 1.0
    layer = factor * (work.time_s("mixer") + work.time_s("feed-forward"))
    ends = factor * (work.time_s("embedding") + work.time_s("head"))
    inside = machine.inside
    working = case.sequence * block_activations(case.shape) * element if training else 0.0
    sizes = [table * per_parameter, *[layer_parameters(case) * per_parameter + flying] * layers]
    room = (inside.capacity_bytes or math.inf) - working
    cut = best_partition([ends, *[layer] * layers], chips, sizes, room)
    if cut is None:
        return Step(
            None, inside, working + sum(sizes) / chips, failure=_no_cut(sizes, working, chips, inside.capacity_bytes)
        )
    transfer = row / machine.links_bytes_per_s if chips > 1 else 0.0
    loads = [max(load, transfer) for load in cut.loads]
    fixed = _pipeline_update_s(machine, case, work, max(cut.counts))
    time = (micro_batches + chips - 1) * max(loads) + fixed
    starts = [sum(cut.counts[:index]) for index in range(chips)]
    fullest = working + max(sum(sizes[a : a + n]) for a, n in zip(starts, cut.counts, strict=True))
    units = tuple(Unit(f"chip {index}", stage=index, time=load) for index, load in enumerate(loads))
    layout = (cut.counts[0] - 1, *cut.counts[1:])
    energy = _energy(case, machine, work) * case.batch
    return Step(time, inside, fullest, units, layout if chips > 1 else (), energy, micro_batches=micro_batches)


def _no_cut(sizes: list[float], working: float, chips: int, capacity: float | None) -> str:
    need = (sum(sizes) / chips + working) / 1e9
    return f"out of memory: no cut over {chips} chips fits {(capacity or 0.0) / 1e9:.3g} GB each (mean {need:.3g} GB)"


def _pipeline_update_s(machine: Machine, case: Case, work: Pass, most: int) -> float:
    """The optimizer at the end of a step, on the chip with most layers; its state passes the memory that holds it."""
    if case.phase != "training" or work.fit is not None:
        return 0.0
    pace = 1 / ((machine.levels[-1].bandwidth_bytes_per_s or math.inf) * work.calibration.memory["weights"])
    return most * layer_parameters(case) * 2 * optimizer_bytes(case.precision) * pace


def _energy(case: Case, machine: Machine, work: Pass) -> float:
    """Dynamic energy of all passes and of the bytes off the chip, for the samples that the pass holds, all chips."""
    factor = passes(case, machine)
    dies = case.chips if case.parallelism in ("tensor", "data") and case.mode in ("kernels", "sections") else 1
    own = math.fsum(cost.count * cost.energy_j for cost in work.costs)
    moved = math.fsum(cost.count * (cost.weight_bytes + cost.activation_bytes) for cost in work.costs)
    outside = machine.chiplet.joules_per_memory_byte or (machine.stack.joules_per_byte if machine.stack else 0.0)
    return dies * factor * (own + (moved * outside if case.mode in ("kernels", "sections") else 0.0))


EXECUTION: dict[str, Execute] = {
    "kernels": kernels,
    "sections": sections,
    "resident": resident,
    "streaming": streaming,
    "pipelined": pipelined,
}
