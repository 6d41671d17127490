"""Fits of single chips as parameters of the way they execute a stack, for the benchmarks of accelerators.

- SN30: sections (compile mode O3) and operators in turn (O0): rate, launch and fixed part over widths, the host, and
  the units that the busiest section uses.  SN40L takes sections from it; its serving rows give prompts and decode.
- GC200: a GPT of 117 M parameters over four IPUs; the layers on each are not stated, so the published layout of the
  same model on Bow, four on the fullest, is assumed.  Bow takes share and fixed part: its clock is in its peak.
- WSE-2: kernels of compile reports (resident), of which a compilation fills a share, at the FLOPs that GPT-2's kernels
  do while they are busy; published steps (streaming).
"""

from __future__ import annotations

from collections.abc import Mapping

from hydra_dse.calibration.chips import chip_figures
from hydra_dse.calibration.dataflow_forms import STREAM, VOCABULARY, training_flops
from hydra_dse.calibration.nouns import FloatArray
from hydra_dse.calibration.records import FittedChips, ParameterSection
from hydra_dse.calibration.wafer import TOTAL_ELEMENTS
from hydra_dse.hardware.machine_fit import FittedValue, MachineFit

GPT2_WIDTH, GPT2_LENGTH = 768.0, 1024.0
FULLEST = 4.0
"""Layers on the fullest of four IPUs (argonne-lcf/user-guides, GPT-2 117M: 0/4/4/4)."""
PIPELINE_CHIPS = 4
GEMM_FP32, GEMM_FP16 = 2.55, 6.0
"""Throughput of GEMM on GC200 over a V100's in fp32, geometric mean over sizes (Peng et al., doi
10.1145/3629527.3651428, table 3): the ratio of peaks is 4."""
SERVING = "rdu-serving-meta-llama-3-8b"
Fits = Mapping[str, ParameterSection]


def machine_fits(fits: FittedChips) -> list[MachineFit]:
    """Every mode and phase of the dataflow chips that tables were fitted for."""
    sections, kernels = _rdu(fits, "o3"), _rdu(fits, "o0")
    pipeline = _pipeline(fits)
    return [
        MachineFit("sn30", "sections", "training", sections),
        MachineFit("sn30", "kernels", "training", kernels),
        MachineFit("sn40l", "sections", "training", _carried(sections, "SN30, ")),
        MachineFit("sn40l", "sections", "prefill", _prompts(fits)),
        MachineFit("sn40l", "sections", "decode", _decode(fits)),
        MachineFit("gc200", "pipelined", "training", pipeline),
        MachineFit("bow-ipu", "pipelined", "training", _carried(pipeline, "GC200, ")),
        MachineFit("wse-2", "resident", "training", _resident(fits)),
        MachineFit("wse-2", "streaming", "training", _streaming(fits)),
    ]


def _parameters(fits: FittedChips, chip: str, key: str) -> Fits:
    return fits.chips[chip][key].parameters


def _same(found: Fits, name: str, source: str, basis: str = "fitted") -> FittedValue:
    part = found[name]
    return FittedValue(part.value, part.low, part.high, basis, source)


def _scaled(part: ParameterSection, factor: float, source: str, basis: str = "fitted") -> FittedValue:
    return FittedValue(part.value * factor, part.low * factor, part.high * factor, basis, source)


def _product(one: ParameterSection, two: ParameterSection, source: str) -> FittedValue:
    """Two factors; their intervals are multiplied, an upper bound of the width."""
    return FittedValue(one.value * two.value, one.low * two.low, one.high * two.high, "fitted", source)


def _inverse(part: ParameterSection, factor: float, source: str) -> FittedValue:
    return FittedValue(factor / part.value, factor / part.high, factor / part.low, "fitted", source)


def _carried(found: Mapping[str, FittedValue], whose: str) -> dict[str, FittedValue]:
    return {
        name: FittedValue(each.value, each.low, each.high, "transferred", whose + each.source)
        for name, each in found.items()
    }


def _rdu(fits: FittedChips, compile_mode: str) -> dict[str, FittedValue]:
    key, host = f"rdu-widths-{compile_mode}", f"rdu-host-{compile_mode}"
    widths, hosts = _parameters(fits, "sn30", key), _parameters(fits, "sn30", host)
    peak = chip_figures("sn30").peak_flops_per_s
    found = {
        "share": _scaled(widths["rate"], 1.0 / peak, key),
        "launch": _same(widths, "launch", key),
        "fixed": _same(widths, "fixed", key),
        "host": _same(hosts, "fixed", host),
        "host_layer": _same(hosts, "layer", host),
    }
    tokens = fits.chips["sn30"][key].ranges["tokens"][0]
    per_width = 3.0 * 2.0 * tokens * VOCABULARY / peak
    if widths["head"].value > 1e-6:
        found["head_share"] = _limited(_inverse(widths["head"], per_width, key))
    used = f"rdu-allocation-{compile_mode}"
    if used in fits.chips["sn30"]:
        found["allocated"] = _same(_parameters(fits, "sn30", used), "share", used)
    return found


def _limited(found: FittedValue) -> FittedValue:
    """No share of a peak exceeds it."""
    return FittedValue(min(found.value, 1.0), min(found.low, 1.0), min(found.high, 1.0), found.basis, found.source)


def _prompts(fits: FittedChips) -> dict[str, FittedValue]:
    found = _parameters(fits, "sn40l", SERVING)
    return {"share": _same(found, "share", SERVING), "fixed": _same(found, "first", SERVING)}


def _decode(fits: FittedChips) -> dict[str, FittedValue]:
    held = FittedValue(STREAM, STREAM, 1.0, "assumption", "held in the fit")
    found = _parameters(fits, "sn40l", SERVING)
    return {"stream": held, "entry": _same(found, "entry", SERVING)}


def _pipeline(fits: FittedChips) -> dict[str, FittedValue]:
    key = "ipu-pipeline-gpt-117m"
    found = _parameters(fits, "gc200", key)
    sample, fixed = found["sample"], found["fixed"]
    # Four forward passes: the forward one is run again for the backward one.
    flops = FULLEST * 4.0 / 3.0 * _layer_flops(GPT2_WIDTH, GPT2_LENGTH)
    fill = (PIPELINE_CHIPS - 1) * sample.value
    slower = GEMM_FP32 / GEMM_FP16
    return {
        "fp32": FittedValue(slower, slower, slower, "measured", "GEMM of GC200, doi 10.1145/3629527.3651428"),
        "share": _inverse(sample, flops / chip_figures("gc200").peak_flops_per_s, key),
        "fixed": FittedValue(fixed.value - fill, fixed.low - fill, fixed.high - fill, "fitted", key),
    }


def _layer_flops(width: float, tokens: float) -> float:
    one, w, t = (_array(value) for value in (1.0, width, tokens))
    return float(training_flops(one, w, t, t)[0])


def _array(value: float) -> FloatArray:
    import numpy as np

    return np.array([value])


def _resident(fits: FittedChips) -> dict[str, FittedValue]:
    kernels = _parameters(fits, "wse-2", "wse-utilisation-fc")
    rates, elements = (_parameters(fits, "wse-2", f"wse-{name}-width-256") for name in ("rates", "elements"))
    base, layer, full = elements["base"].value, elements["layer"].value, rates["full_layers"]
    low, value, high = (min((base + n * layer) / TOTAL_ELEMENTS, 1.0) for n in (full.low, full.value, full.high))
    busy = _parameters(fits, "wse-2", "wse-busy-gpt-2")["busy"]
    found = {
        "share": _product(kernels["share"], busy, "wse-utilisation-fc and wse-busy-gpt-2"),
        "half_width": _same(kernels, "half_width", "wse-utilisation-fc"),
        "cores": FittedValue(TOTAL_ELEMENTS, TOTAL_ELEMENTS, TOTAL_ELEMENTS, "measured", "compile reports"),
        "allocated": FittedValue(value, low, high, "fitted", "wse-elements and wse-rates, width 256"),
    }
    deep = fits.chips["wse-2"].get("wse-transmission-width-256")
    if deep is not None:
        # Where the power law crosses the rate of kernels that share the elements, target · full / layers.
        exponent = deep.parameters["exponent"].value - 1.0
        crossing = deep.parameters["rate"].value * 100.0 ** (exponent + 1.0) / (rates["target"].value * full.value)
        depth = crossing ** (1.0 / exponent)
        source = "wse-transmission, width 256, two points"
        found["transport_layers"] = FittedValue(depth, depth, depth, "fitted", source)
        found["transport_exponent"] = FittedValue(exponent, exponent, exponent, "fitted", source)
    return found


def _streaming(fits: FittedChips) -> dict[str, FittedValue]:
    key = "wse-streaming-training"
    found = _parameters(fits, "wse-2", key)
    return {name: _same(found, name, key) for name in ("share", "half_width", "launch", "overlap")}


def machines_yaml(fits: FittedChips) -> str:
    """The text of `hydra_dse/library/machines.yaml`."""
    lines = ["# Written by benchmarks/derive_calibrations.py from fits.yaml; do not edit.\nmachines:\n"]
    chip = ""
    for fit in machine_fits(fits):
        if fit.chip != chip:
            chip = fit.chip
            lines.append(f"  {chip}:\n")
        lines.append(f"    - mode: {fit.mode}\n      phase: {fit.phase}\n      parameters:\n")
        for name, each in fit.parameters.items():
            figures = ", ".join(f"{key}: {_short(getattr(each, key))}" for key in ("value", "low", "high"))
            lines.append(f"        {name}: {{{figures}, basis: {each.basis}, source: {each.source!r}}}\n")
    return "".join(lines)


def _short(value: float) -> str:
    return f"{float(f'{value:.6g}'):.12f}".rstrip("0").rstrip(".")
