"""A decoder stack on modelled chips, in the way the chip executes: a profile like that of a measured run.

Training is a forward pass and a backward pass of twice its work (three forwards; four where the forward pass is run
again).  What runs in turn adds up; what runs side by side goes at the pace of the slowest; a step that does not fit
its memory is a row with `failure` and no rate.  Formulas and assumptions: docs/concepts/dabench.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from hydra_dse.bench.blocks import Pass, batch_of, forward_pass, supports
from hydra_dse.bench.flops import Counting, block_activations, block_parameters, optimizer_bytes, parameters
from hydra_dse.bench.record import MemoryLevel, ModelShape, Profile, Unit
from hydra_dse.bench.roofline import format_of, levels_of
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.hardware.components import Chiplet, MemoryStack
from hydra_dse.hardware.machine_fit import MachineFit
from hydra_dse.model.precision import BYTES_PER_ELEMENT

LINK_LATENCY_S = 1e-6
"""Assumption: one message between chips, links and software."""


@dataclass(frozen=True)
class Case:
    """What runs, and how it is split.

    Attributes:
        batch: samples of a step over all chips.
        chips: of the machine.
        parallelism: `""`, `"data"`, `"tensor"`, `"pipeline"` or `"weight-streaming"`.
        mode: execution mode; empty = the chip's own.
    """

    shape: ModelShape
    batch: float
    sequence: int
    precision: str
    phase: str = "training"
    chips: int = 1
    parallelism: str = ""
    mode: str = ""


@dataclass(frozen=True)
class Machine:
    """A die, its memory levels, its calibration and what is fitted to this very chip."""

    chiplet: Chiplet
    calibrations: CalibrationSet
    stack: MemoryStack | None
    counting: Counting
    fits: tuple[MachineFit, ...] = ()

    def fit_of(self, mode: str, phase: str) -> MachineFit | None:
        """What is fitted to the chip in a mode and phase."""
        return next((fit for fit in self.fits if (fit.mode, fit.phase) == (mode, phase)), None)

    @property
    def levels(self) -> tuple[MemoryLevel, ...]:
        """Memory levels of one chip."""
        return levels_of(self.chiplet, self.stack)

    @property
    def inside(self) -> MemoryLevel:
        """The memory on the chip that holds a resident model."""
        return next((level for level in self.levels if level.on_chip), self.levels[0])

    @property
    def near(self) -> MemoryLevel:
        """The nearest memory off the chip; that on it where there is none."""
        return next((level for level in self.levels if not level.on_chip), self.levels[0])

    @property
    def links_bytes_per_s(self) -> float:
        """Bandwidth of all links of a chip, per direction."""
        return self.chiplet.ports * self.chiplet.link_bandwidth_bytes_per_s


@dataclass(frozen=True)
class Step:
    """A modelled step.

    Attributes:
        time_s: of the whole step; None where it does not fit.
        used_bytes: of the memory that holds it (`held_by`).
        units, layout: as in a profile.
        energy_j: dynamic, of all chips.
    """

    time_s: float | None
    held_by: MemoryLevel
    used_bytes: float
    units: tuple[Unit, ...] = ()
    layout: tuple[int, ...] = ()
    energy_j: float = 0.0
    sections: int | None = None
    micro_batches: int | None = None
    failure: str = ""


Execute = Callable[["Machine", Case, Pass], Step]


def element_bytes(case: Case) -> float:
    """Bytes of a weight or an activation."""
    return BYTES_PER_ELEMENT[format_of(case.precision)]


def passes(case: Case, machine: Machine) -> float:
    """Forward passes that a step is worth."""
    return (4.0 if machine.counting.recompute else 3.0) if case.phase == "training" else 1.0


def parameter_bytes(case: Case) -> float:
    """Bytes of a parameter with its gradient and the optimizer's state where they are needed."""
    weight = element_bytes(case)
    return 2 * weight + optimizer_bytes(case.precision) if case.phase == "training" else weight


def stored_bytes(case: Case, machine: Machine, samples: float) -> float:
    """Bytes of one layer that wait for the backward pass (its caches, when serving)."""
    if case.phase == "training":
        tokens = samples * case.sequence
        return tokens * block_activations(case.shape, machine.counting.recompute) * element_bytes(case)
    width = case.shape.kv_width or case.shape.hidden or 0
    return samples * case.sequence * 2.0 * width * element_bytes(case)


def no_room(level: MemoryLevel, used: float) -> str:
    """Why a step does not fit a level; empty where it does."""
    capacity = level.capacity_bytes or math.inf
    return f"out of memory: {used / 1e9:.3g} GB for {capacity / 1e9:.3g} GB of {level.name}" if used > capacity else ""


def all_reduce_s(machine: Machine, size: float, chips: int) -> float:
    """Ring all-reduce over all links of every chip: `2(n − 1)(α + V/(n·β))`."""
    return 2 * (chips - 1) * (LINK_LATENCY_S + size / (chips * machine.links_bytes_per_s))


def modelled(machine: Machine, case: Case) -> Profile:
    """Return the profile of a case on a machine; failures are profiles too."""
    from hydra_dse.bench.execution import EXECUTION
    from hydra_dse.bench.fitted import basis_of, fitted_pass, outside_s

    mode = case.mode or ("streaming" if case.parallelism == "weight-streaming" else machine.chiplet.execution)
    case = replace(case, mode=mode)
    base = replace(_base(machine, case), basis=basis_of(machine, case, machine.calibrations.default.name))
    if not supports(machine.chiplet, case.precision):
        return replace(base, failure=f"the chip does not multiply in {format_of(case.precision)}")
    samples = case.batch if mode in ("kernels", "sections") else 1.0
    if case.parallelism == "data":
        samples = samples / case.chips if mode in ("kernels", "sections") else samples
    split = case.chips if case.parallelism == "tensor" else 1
    batch = batch_of(samples, float(case.sequence), case.phase, machine.counting.causal)
    work = forward_pass(machine.chiplet, machine.calibrations, case.shape, case.precision, batch, split)
    usable = work.cores
    work = fitted_pass(machine, case, work, samples, split)
    step = EXECUTION[mode](machine, case, work)
    if step.time_s is None or step.failure:
        return replace(base, failure=step.failure, memory=_memory(machine, step))
    device = step.time_s + _exchange_s(machine, case)
    host = work.calibration.iteration_overhead_s
    if work.fit is not None:
        fixed, host = outside_s(work.fit, case)
        device += fixed
        usable = round(work.fit.value("cores", usable))
    time = device + host
    static = machine.chiplet.static_power_w * case.chips * time
    return replace(
        base,
        samples_per_s=case.batch / time,
        step_s=time,
        host_s=host,
        device_s=device,
        units=step.units,
        layout=step.layout,
        sections=step.sections,
        micro_batches=step.micro_batches,
        totals={"core": float(usable)} if usable > 1 else {},
        memory=_memory(machine, step),
        energy_j=step.energy_j + static,
    )


def _base(machine: Machine, case: Case) -> Profile:
    shape = case.shape
    split = f", {case.chips} chips {case.parallelism}".rstrip() if case.chips > 1 else ""
    return Profile(
        f"{shape.layers} layers, width {shape.hidden}, batch {case.batch:g}, {case.precision}{split}",
        machine.chiplet.name,
        case.chips,
        case.mode,
        case.phase,
        "modelled",
        shape,
        case.precision,
        case.batch,
        case.sequence,
        parallelism=case.parallelism,
    )


def _memory(machine: Machine, step: Step) -> tuple[MemoryLevel, ...]:
    return tuple(
        replace(level, used_bytes=step.used_bytes if level.name == step.held_by.name else None)
        for level in machine.levels
    )


def _exchange_s(machine: Machine, case: Case) -> float:
    """Collectives of a step, none of them hidden behind computation (an upper bound)."""
    if case.chips == 1:
        return 0.0
    layers, training = case.shape.layers or 0, case.phase == "training"
    if case.parallelism == "tensor":
        tokens = case.batch * (1.0 if case.phase == "decode" else case.sequence)
        size = tokens * (case.shape.hidden or 0) * element_bytes(case)
        return (4 if training else 2) * layers * all_reduce_s(machine, size, case.chips)
    if case.parallelism == "data" and training:
        return all_reduce_s(machine, parameters(case.shape) * element_bytes(case), case.chips)
    return 0.0


def layer_parameters(case: Case) -> float:
    """Parameters of a block."""
    return block_parameters(case.shape)
