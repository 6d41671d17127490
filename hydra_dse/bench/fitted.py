"""A forward pass at the rates fitted to the chip, in place of those of the cost model.

The fit gives the time of a layer's FLOPs, `F / (peak · share / (1 + half_width/h))`, in the chip's own format.  What
that exceeds the cost model by (synchronisation, exchange between cores, idle cores) is kept when the format changes,
because it is not the multiplier's time; the cost model's own part follows the format, by the measured ratio where the
fit has one.
"""

from __future__ import annotations

import math
from dataclasses import replace

from hydra_dse.bench.blocks import Pass, batch_of, forward_pass
from hydra_dse.bench.flops import block_flops, kv_width
from hydra_dse.bench.modelled import Case, Machine
from hydra_dse.bench.roofline import format_of
from hydra_dse.hardware.machine_fit import MachineFit
from hydra_dse.model.operators import Batch

LAYER = ("mixer", "feed-forward")
HEAD_DIM_SERVED = 128
"""Elements of a head of the models that serving was fitted on."""


def fitted_pass(machine: Machine, case: Case, work: Pass, samples: float, split: int) -> Pass:
    """Return a pass with the times, launches and cores of the machine's fit; unchanged where there is none."""
    fit = machine.fit_of(case.mode, case.phase)
    if fit is None:
        return work
    cores = max(round(fit.value("cores", work.cores) * fit.value("allocated", 1.0)), 1)
    if case.phase != "decode":
        batch = batch_of(samples, float(case.sequence), case.phase, machine.counting.causal)
        work = _paced(machine, case, work, fit, batch, samples, split)
    launch = fit.value("launch") / _launches(case, work)
    memory = {**work.calibration.memory}
    if "stream" in fit.parameters:
        memory |= dict.fromkeys(("weights", "kv"), fit.value("stream"))
    calibration = replace(work.calibration, memory=memory)
    launches = {"mixer": launch, "feed-forward": launch, "embedding": 0.0, "head": 0.0}
    return replace(work, calibration=calibration, launches=launches, fit=fit, cores=cores)


def _paced(machine: Machine, case: Case, work: Pass, fit: MachineFit, batch: Batch, samples: float, split: int) -> Pass:
    shape, die = case.shape, machine.chiplet
    own = work
    if case.precision != die.matmul_format:
        own = forward_pass(die, machine.calibrations, shape, die.matmul_format, batch, split)
    given = fit.value("cores", die.cores) / max(die.cores, 1) * fit.value("allocated", 1.0)
    peak = die.matmul_flops_per_s * (given if "cores" in fit.parameters else 1.0)
    share = fit.value("share") / (1.0 + fit.value("half_width") / (shape.hidden or 1))
    layer = block_flops(shape, samples, case.sequence, machine.counting.causal) / split / (peak * share)
    alone, modelled = math.fsum(map(own.time_s, LAYER)), math.fsum(map(work.time_s, LAYER))
    measured = alone / fit.value("fp32") if _in_fp32(case, fit) else modelled
    factor = _factor(layer, alone, measured) * (measured / modelled if modelled > 0 else 1.0)
    factors = dict.fromkeys(LAYER, factor)
    head = 2.0 * samples * case.sequence * (shape.hidden or 0) * (shape.vocabulary or 0) / split
    if "head_share" in fit.parameters and head and case.phase == "training":
        factors["head"] = _factor(head / (peak * fit.value("head_share")), own.time_s("head"), work.time_s("head"))
    costs = tuple(replace(cost, time_s=cost.time_s * factors.get(cost.part, factor)) for cost in work.costs)
    return replace(work, costs=costs)


def _in_fp32(case: Case, fit: MachineFit) -> bool:
    """Whether the speed of the case's format is measured, which replaces the ratio of the peaks."""
    return format_of(case.precision) == "fp32" and "fp32" in fit.parameters


def _factor(fitted: float, own: float, modelled: float) -> float:
    """On modelled times in some format, from the fitted and the modelled time in the chip's own."""
    if own <= 0 or modelled <= 0:
        return 1.0
    return max(modelled + fitted - own, modelled * min(fitted / own, 1.0)) / modelled


def _launches(case: Case, work: Pass) -> float:
    """Launches of a layer in a step, as the mode counts them."""
    if case.mode == "kernels":
        return (3.0 if case.phase == "training" else 1.0) * sum(len(work.of(part)) for part in LAYER)
    if case.mode == "sections":
        return len(LAYER) * (2.0 if case.phase == "training" else 1.0)
    return 1.0


def streamed_layers_s(work: Pass, fit: MachineFit, batch: float, layers: int) -> float:
    """Layers in turn, each a power mean of its launch and its work: three forward passes of `batch` samples."""
    busy, launch = 3.0 * batch * math.fsum(map(work.time_s, LAYER)), fit.value("launch")
    power = fit.value("overlap", 1.0)
    longer, shorter = max(busy, launch), min(busy, launch)
    each: float = longer * (1.0 + (shorter / longer) ** power) ** (1.0 / power)
    return layers * each


def transport_factor(fit: MachineFit, layers: int) -> float:
    """How much slower than its kernels a deep resident stack runs, at least 1."""
    start = fit.value("transport_layers", math.inf)
    factor: float = max(layers / start, 1.0) ** fit.value("transport_exponent")
    return factor


def outside_s(fit: MachineFit, case: Case) -> tuple[float, float]:
    """Device and host time of a step that do not belong to its layers."""
    device = fit.value("fixed")
    if case.phase == "decode":
        heads = kv_width(case.shape) / HEAD_DIM_SERVED * (case.shape.layers or 0)
        device += case.batch * heads * fit.value("entry")
    return device, fit.value("host") + (case.shape.layers or 0) * fit.value("host_layer")


def basis_of(machine: Machine, case: Case, calibration: str) -> str:
    """What the modelled rate rests on."""
    fit = machine.fit_of(case.mode, case.phase)
    rest = f"calibration {calibration}"
    if fit is None:
        return f"{machine.chiplet.name}, {case.mode}, {case.phase}: {rest}, nothing fitted to this chip"
    return f"{fit.stated()}; the rest: {rest}"
