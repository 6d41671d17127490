"""Forms of dataflow machines: sections of an RDU, pipelined IPUs, kernels on a wafer, tensor-parallel serving.

- RDU training step: a fixed part and a part per layer, at one width.
- RDU training over widths: layers cost a launch and their FLOPs; the head costs its width.
- IPU pipeline of a global batch: `fixed + samples · sample` (fill, drain, weight update and host in `fixed`).
- WSE-2 kernels: each layer is given processing elements at one rate; a kernel's utilisation saturates in its width.
- RDU serving, tensor parallel: prompts enter one after the other; a decode step streams weights and KV over the
  bandwidth of all chips, and pays launches and collectives (`step`), which the rows cannot tell apart.
"""

from __future__ import annotations

import numpy as np

from hydra_dse.calibration.nouns import ChipFigures, Columns, FloatArray, Form, Parameter

VOCABULARY = 50_257.0
WEIGHT_STREAM = 0.85


def _sections(values: FloatArray, columns: Columns, chip: ChipFigures) -> FloatArray:
    fixed, layer = values
    return np.asarray(fixed + columns["layers"] * layer)


RDU_LAYERS = Form(
    name="rdu-layers",
    operator_class="section",
    columns=("layers",),
    configuration=("layers",),
    parameters=(
        Parameter("fixed", "s", 0.2, 1e-4, 10.0, "time of the sections outside the layers: embedding, head, update"),
        Parameter("layer", "s", 0.05, 1e-5, 10.0, "time of one more layer: its sections, launches included"),
    ),
    predict=_sections,
    response="time_s",
    formula="fixed + layers · layer",
)


def training_flops(layers: FloatArray, width: FloatArray, tokens: FloatArray, length: FloatArray) -> FloatArray:
    """FLOPs of the decoder layers in one training step: three times the forward pass."""
    return np.asarray(3.0 * layers * (24.0 * width**2 * tokens + 4.0 * tokens * length * width))


def _widths(values: FloatArray, columns: Columns, chip: ChipFigures) -> FloatArray:
    fixed, head, launch, rate = values
    layers, width, tokens, length = (columns[name] for name in ("layers", "width", "tokens", "length"))
    flops = training_flops(layers, width, tokens, length)
    return np.asarray(fixed + head * width + layers * launch + flops / rate)


RDU_WIDTHS = Form(
    name="rdu-widths",
    operator_class="section",
    columns=("layers", "width", "tokens", "length"),
    configuration=("layers", "width"),
    parameters=(
        Parameter("fixed", "s", 0.1, 1e-4, 10.0, "time outside layers and head"),
        Parameter("head", "s", 5e-5, 1e-8, 1.0, "time of embedding and head per unit of width"),
        Parameter(
            "launch", "s", 5e-3, 1e-6, 1.0, "time of a layer that does not grow with its FLOPs: section launches"
        ),
        Parameter("rate", "FLOP/s", 5e13, 1e12, 1e16, "FLOP rate of the layers"),
    ),
    predict=_widths,
    response="time_s",
    formula="fixed + head · width + layers · launch + FLOPs / rate",
)


def _pipeline(values: FloatArray, columns: Columns, chip: ChipFigures) -> FloatArray:
    fixed, sample = values
    return np.asarray(fixed + columns["samples"] * sample)


IPU_PIPELINE = Form(
    name="ipu-pipeline",
    operator_class="pipeline",
    columns=("samples",),
    configuration=("samples",),
    parameters=(
        Parameter("fixed", "s", 0.5, 1e-5, 100.0, "time of a step without samples: fill, drain, update, host"),
        Parameter("sample", "s", 5e-3, 1e-7, 10.0, "time of one sample on the most loaded chip"),
    ),
    predict=_pipeline,
    response="time_s",
    formula="fixed + samples · sample",
)


def _elements(values: FloatArray, columns: Columns, chip: ChipFigures) -> FloatArray:
    base, layer = values
    return np.asarray(base + columns["layers"] * layer)


WSE_ELEMENTS = Form(
    name="wse-elements",
    operator_class="allocation",
    columns=("layers",),
    configuration=("layers",),
    parameters=(
        Parameter("base", "PE", 5e4, 1.0, 3e5, "elements of the kernels outside the layers, at the target rate"),
        Parameter("layer", "PE", 5e3, 1.0, 3e5, "elements of one layer at the target rate"),
    ),
    predict=_elements,
    response="elements",
    formula="base + layers · layer",
)


def _rates(values: FloatArray, columns: Columns, chip: ChipFigures) -> FloatArray:
    target, full = values
    return np.asarray(target * np.minimum(1.0, full / columns["layers"]))


WSE_RATES = Form(
    name="wse-rates",
    operator_class="allocation",
    columns=("layers",),
    configuration=("layers",),
    parameters=(
        Parameter("target", "1/s", 5e3, 1.0, 1e7, "rate of the slowest kernel outside the layers"),
        Parameter("full_layers", "layers", 40.0, 1.0, 1e3, "depth at which the elements run out"),
    ),
    predict=_rates,
    response="samples_per_s",
    formula="target · min(1, full_layers / layers)",
)


def _transmission(values: FloatArray, columns: Columns, chip: ChipFigures) -> FloatArray:
    rate, exponent = values
    return np.asarray(rate * (100.0 / columns["layers"]) ** exponent)


WSE_TRANSMISSION = Form(
    name="wse-transmission",
    operator_class="transport",
    columns=("layers",),
    configuration=("layers",),
    parameters=(
        Parameter("rate", "1/s", 1e3, 1.0, 1e6, "rate at 100 layers where transport between kernels limits it"),
        Parameter("exponent", "1", 3.0, 0.1, 20.0, "power of the depth with which it falls"),
    ),
    predict=_transmission,
    response="samples_per_s",
    formula="rate · (100 / layers)^exponent",
)


def _utilisation(values: FloatArray, columns: Columns, chip: ChipFigures) -> FloatArray:
    share, half = values
    return np.asarray(share / (1.0 + half / columns["width"]))


WSE_UTILISATION = Form(
    name="wse-utilisation",
    operator_class="mlp, projections",
    columns=("width", "elements"),
    configuration=("width",),
    parameters=(
        Parameter("share", "1", 0.9, 0.05, 1.0, "share of its elements' peak that a wide kernel reaches"),
        Parameter("half_width", "elements", 50.0, 0.1, 2e3, "width of the operator at which half of that is reached"),
    ),
    predict=_utilisation,
    response="share",
    formula="share / (1 + half_width / width)",
)


def _serving(values: FloatArray, columns: Columns, chip: ChipFigures) -> FloatArray:
    step, prompt, cached, share = values
    names = ("input", "output", "batch", "weight_bytes", "kv_bytes", "parameters", "layers", "width")
    inputs, outputs, batch, weights, kv, count, layers, width = (columns[name] for name in names)
    bandwidth = chip.memory_bytes_per_s * chip.chips
    flops = 2.0 * count * inputs + 2.0 * layers * width * inputs**2
    first = batch * (prompt + flops / (chip.peak_flops_per_s * chip.chips * share))
    context = inputs + outputs / 2.0
    each = step + weights / (bandwidth * WEIGHT_STREAM) + batch * kv * context / (bandwidth * cached)
    return np.asarray(first + (outputs - 1.0) * each)


RDU_SERVING = Form(
    name="rdu-serving",
    operator_class="decode step, collective",
    columns=("input", "output", "batch", "weight_bytes", "kv_bytes", "parameters", "layers", "width"),
    configuration=("input", "batch"),
    parameters=(
        Parameter("step", "s", 1e-4, 1e-6, 1e-2, "launches and collectives of one decode step, all layers"),
        Parameter("prompt", "s", 1.5e-2, 1e-5, 1.0, "fixed time of one prompt: launches and host"),
        Parameter("cached", "1", 0.3, 0.01, 1.0, "share of the bandwidth at which KV is read"),
        Parameter("share", "1", 0.1, 0.005, 1.0, "share of the matrix peak on prompts"),
    ),
    predict=_serving,
    response="time_s",
    formula=(
        "batch · (prompt + FLOPs / (peak · share)) + (output − 1) · (step + weights / (0.85 bandwidth)"
        " + KV / (bandwidth · cached))"
    ),
)

DATAFLOW_FORMS = (
    RDU_LAYERS,
    RDU_WIDTHS,
    IPU_PIPELINE,
    WSE_ELEMENTS,
    WSE_RATES,
    WSE_TRANSMISSION,
    WSE_UTILISATION,
    RDU_SERVING,
)
