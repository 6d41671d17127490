"""The calibration of modelled dies from fits: what is measured replaces what was assumed, the rest stays named.

Dies of a package are not GPUs and have not been built.  What transfers is stated by parameter:

- GEMM classes: share of peak of WSE-2 matrix kernels × the largest share of the wafer's elements that a compilation
  uses (*core allocation*), and the width at which half of it is reached.  Compiler estimates of a dataflow machine.
- Attention on prompts of 4,096 tokens, memory by access kind, and the start of an access to KV (in bytes that take as
  long, since it is about the same of both chips): GPU tables, so GPU memory controllers.
- Launch and collective: what a decode step of an 8-RDU server takes beyond its weights at 85 to 100 % of the
  bandwidth, over the operators and all-reduces of 32 layers.  Their sum is identified, the split is not: both get the
  same, half of the upper bound.
- Stages: Bow-2000 pods run the GPT of the GC200 pipeline at the ratio of clocks, but for this factor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hydra_dse.calibration.access import half_size_bytes
from hydra_dse.calibration.chips import chip_figures
from hydra_dse.calibration.dataflow_forms import STREAM
from hydra_dse.calibration.kernel_forms import KERNEL_FORMS
from hydra_dse.calibration.records import FitSection, FittedChips
from hydra_dse.calibration.wafer import TOTAL_ELEMENTS

GPUS = ("h100", "b200")
PROMPT = 4096.0
GEMM_ROWS, GEMM_WIDTH = 8192.0, 4096.0
# Operators and all-reduces of 32 layers in a decode step of a transformer.
OPERATORS, COLLECTIVES = 32 * 8, 32 * 2
# A Bow-2000 POD16 log (argonne-lcf/user-guides, GPT-2 117M, four replicas): samples/s after the first step; clocks.
BOW_SAMPLES_PER_S, BOW_REPLICAS, CLOCK_RATIO = 1058.8, 4, 1.85 / 1.33


@dataclass(frozen=True)
class Derived:
    """A parameter with its 90 % interval and what it rests on."""

    value: float
    low: float
    high: float
    basis: str


def derived(fits: FittedChips) -> dict[str, Derived]:
    """Parameters of dies that have not been built, by the names of `hydra_dse.hardware.calibration.PARAMETERS`."""
    gemm = _gemm(fits)
    found = {
        f"compute.{kind}": gemm for kind in ("attention_projection", "ssm_projection", "mlp", "experts", "lm_head")
    }
    found["compute.attention"] = _over([_prefill(fits, chip) for chip in GPUS])
    found["memory.weights"] = _over([_parameter(fits, chip, "gemm-bf16", "streamed") for chip in GPUS])
    found["memory.kv"] = _over([_parameter(fits, chip, "decode-attention", "streamed") for chip in GPUS])
    states = [(chip, key) for chip in GPUS for key in ("state-update-gdn", "state-update-kda")]
    found["memory.state"] = _over([_parameter(fits, chip, key, "moved") for chip, key in states])
    streams = [(chip, key) for chip in GPUS for key in ("convolution-gdn", "convolution-kda")]
    found["memory.activations"] = _over([_parameter(fits, chip, key, "streamed") for chip, key in streams])
    found["kv_access"] = _over([_access(fits, chip) for chip in GPUS], limit=np.inf)
    found |= _launches(fits)
    width = fits.chips["wse-2"]["wse-utilisation-fc"].parameters["half_width"]
    found["half_width"] = Derived(width.value, width.low, width.high, "transferred")
    found["stage_imbalance"] = _stages(fits)
    return found


def derived_gpu(fits: FittedChips) -> dict[str, Derived]:
    """Parameters of GPUs, at a GEMM of 8,192 rows on a board at its power limit and prompts of 4,096 tokens."""
    gemm = _over([_sustained(fits, chip) for chip in GPUS], "fitted")
    found = {f"compute.{kind}": gemm for kind in ("attention_projection", "ssm_projection", "mlp", "lm_head")}
    found["compute.attention"] = _over([_prefill(fits, chip) for chip in GPUS], "fitted")
    found["compute.ssm_scan"] = _over([_parameter(fits, "b200", "chunk-scan-mamba2", "share")], "fitted")
    transferred = derived(fits)
    for name in ("memory.weights", "memory.kv", "memory.state", "memory.activations", "kv_access"):
        memory = transferred[name]
        found[name] = Derived(memory.value, memory.low, memory.high, "fitted")
    floors = [_parameter(fits, chip, "gemm-bf16", "floor") for chip in GPUS]
    found["operator_overhead"] = _over(floors, "fitted", limit=np.inf)
    return found


def _parameter(fits: FittedChips, chip: str, key: str, name: str) -> tuple[float, float, float]:
    found = fits.chips[chip][key].parameters[name]
    return found.value, found.low, found.high


def _access(fits: FittedChips, chip: str) -> tuple[float, float, float]:
    """Bytes of KV that stream in the time that the start of one access takes."""
    parameters, figures = fits.chips[chip]["decode-attention"].parameters, chip_figures(chip)
    entry = parameters["entry"]
    value = half_size_bytes(parameters, figures.memory_bytes_per_s)
    return value, value * entry.low / entry.value, value * entry.high / entry.value


def _over(found: list[tuple[float, float, float]], basis: str = "transferred", limit: float = 1.0) -> Derived:
    """Geometric mean over tables; the interval spans theirs."""
    values = [value for value, _, _ in found]
    low, high = min(low for _, low, _ in found), max(high for _, _, high in found)
    value = float(np.exp(np.mean(np.log(values))))
    return Derived(min(value, limit), min(low, limit), min(high, limit), basis)


def _gemm(fits: FittedChips) -> Derived:
    wafer = fits.chips["wse-2"]
    share, full = (
        wafer["wse-utilisation-fc"].parameters["share"],
        wafer["wse-rates-width-256"].parameters["full_layers"],
    )
    elements = wafer["wse-elements-width-256"].parameters
    filled = [
        (elements["base"].value + n * elements["layer"].value) / TOTAL_ELEMENTS
        for n in (full.low, full.value, full.high)
    ]
    low, value, high = (min(part, 1.0) for part in filled)
    return Derived(share.value * value, share.low * low, share.high * high, "transferred")


def _prefill(fits: FittedChips, chip: str) -> tuple[float, float, float]:
    parameters = fits.chips[chip]["prefill-attention"].parameters
    share, half = parameters["share"], parameters["half_length"]
    return (
        share.value / (1.0 + half.value / PROMPT),
        share.low / (1.0 + half.high / PROMPT),
        share.high / (1.0 + half.low / PROMPT),
    )


def _sustained(fits: FittedChips, chip: str) -> tuple[float, float, float]:
    """Share of peak of a square-ish GEMM on a board that has multiplied for long."""
    fitted: FitSection = fits.chips[chip]["gemm-bf16"]
    form = next(form for form in KERNEL_FORMS if form.name == fitted.form)
    figures = chip_figures(chip)
    size = {"m": GEMM_ROWS, "n": GEMM_ROWS, "k": GEMM_WIDTH, "bytes": 2.0, "speed": 1.0, "busy": 1.0}
    row = {name: np.array([size[name]]) for name in form.columns}
    values = np.array([fitted.parameters[parameter.name].value for parameter in form.parameters])
    time = float(form.predict(values, row, figures)[0])
    share = 2.0 * GEMM_ROWS * GEMM_ROWS * GEMM_WIDTH / (figures.peak_flops_per_s * time)
    spread = fitted.held_out.p90 if fitted.held_out is not None else fitted.errors.p90
    return share, share / (1.0 + spread), share * (1.0 + spread)


def _launches(fits: FittedChips) -> dict[str, Derived]:
    """Launch and collective: the part of a decode step at batch 1 that RDU serving spends beyond its weights."""
    figures = chip_figures("sn40l")
    weights = fits.chips["sn40l"]["rdu-serving-meta-llama-3-8b"].ranges["weight_bytes"][0]
    bandwidth = figures.memory_bytes_per_s * figures.chips
    # Rows are met with weights at 85 % of the bandwidth; at all of it the rest of the step is launches and collectives.
    upper = weights / bandwidth * (1.0 / STREAM - 1.0)
    each = upper / (OPERATORS + COLLECTIVES)
    cost = Derived(each / 2.0, 0.0, each, "transferred")
    return {"operator_overhead": cost, "collective_overhead": cost}


def _stages(fits: FittedChips) -> Derived:
    sample = fits.chips["gc200"]["ipu-pipeline-gpt-117m"].parameters["sample"]
    measured = BOW_SAMPLES_PER_S / BOW_REPLICAS
    low, value, high = (max(CLOCK_RATIO / one / measured, 1.0) for one in (sample.high, sample.value, sample.low))
    # Which layers the GC200 run placed where is not stated: the factor may be none, or a stage of four in three.
    return Derived(value, min(low, 1.0), max(high, 2.0 * value - 1.0), "transferred")
