"""Forms of dataflow machines: sections of an RDU, pipelined IPUs, kernels on a wafer, tensor-parallel serving.

- RDU training step: a fixed part and a part per layer, at one width.
- RDU training over widths: layers cost a launch and their FLOPs; the head costs its width.  The host beside it costs a
  fixed part and a part per layer.
- IPU pipeline of a global batch: `fixed + samples · sample` (fill, drain, weight update and host in `fixed`).
- WSE-2 kernels: each layer is given processing elements at one rate; a kernel's utilisation saturates in its width;
  a busy element does a share of its peak's FLOPs.
- WSE-2 training with streamed weights: layers in turn; a layer costs its launch and its FLOPs, which overlap in part.
- RDU serving, tensor parallel: prompts of a batch enter together; a decode step streams weights and KV over the
  bandwidth of all chips and pays for each sequence and KV head of a layer, as in decode attention on GPUs; launches
  and collectives hide in the rest of the bandwidth.
"""

from __future__ import annotations

import numpy as np

from hydra_dse.calibration.nouns import ChipFigures, Columns, FloatArray, Form, Parameter

VOCABULARY = 50_257.0
STREAM = 0.85
KV_HEAD_BYTES = 4.0 * 128.0
"""Key and value of one token and head of 128 elements in 16 bits."""


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


RDU_HOST = Form(
    name="rdu-host",
    operator_class="host",
    columns=("layers", "width"),
    configuration=("layers", "width"),
    parameters=(
        Parameter("fixed", "s", 1.0, 1e-4, 100.0, "host time of a step"),
        Parameter("layer", "s", 5e-3, 1e-7, 1.0, "host time of one more layer"),
    ),
    predict=_sections,
    response="time_s",
    formula="fixed + layers · layer",
)


def _streaming(values: FloatArray, columns: Columns, chip: ChipFigures) -> FloatArray:
    launch, share, half, overlap = values
    layers, width, tokens, length = (columns[name] for name in ("layers", "width", "tokens", "length"))
    rate = chip.peak_flops_per_s * share / (1.0 + half / width)
    busy = training_flops(np.ones_like(layers), width, tokens, length) / rate
    return np.asarray(layers * (launch**overlap + busy**overlap) ** (1.0 / overlap))


WSE_STREAMING = Form(
    name="wse-streaming",
    operator_class="layer of streamed weights",
    columns=("layers", "width", "tokens", "length"),
    configuration=("layers", "width"),
    parameters=(
        Parameter("launch", "s", 4e-3, 1e-6, 1.0, "time of a layer that does not grow with the batch"),
        Parameter(
            "share", "1", 0.3, 0.01, 1.0, "share of the matrix peak that three forward passes of a wide layer reach"
        ),
        Parameter("half_width", "elements", 500.0, 0.1, 2e4, "width at which half of that share is reached"),
        Parameter("overlap", "1", 2.0, 1.0, 20.0, "power mean of launch and work: 1 in turn, large side by side"),
    ),
    predict=_streaming,
    response="time_s",
    formula="layers · mean_p(launch, FLOPs / (peak · share / (1 + half_width / width)))",
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


def _busy(values: FloatArray, columns: Columns, chip: ChipFigures) -> FloatArray:
    peak = chip.peak_flops_per_s / chip.processors
    return np.asarray(values[0] * columns["elements"] * columns["utilisation"] * peak / columns["flops"])


WSE_BUSY = Form(
    name="wse-busy",
    operator_class="mlp, projections, lm_head",
    columns=("flops", "elements", "utilisation"),
    configuration=("flops",),
    parameters=(
        Parameter("busy", "1", 0.5, 0.01, 1.0, "share of its peak's FLOPs that an element does while it is busy"),
    ),
    predict=_busy,
    response="samples_per_s",
    formula="busy · elements · utilisation · peak of an element / FLOPs of a sample",
)


def _serving(values: FloatArray, columns: Columns, chip: ChipFigures) -> FloatArray:
    first, entry, share = values
    names = ("input", "output", "batch", "weight_bytes", "kv_bytes", "parameters", "layers", "width")
    inputs, outputs, batch, weights, kv, count, layers, width = (columns[name] for name in names)
    bandwidth = chip.memory_bytes_per_s * chip.chips * STREAM
    flops = 2.0 * count * inputs + 2.0 * layers * width * inputs**2
    prompts = first + batch * flops / (chip.peak_flops_per_s * chip.chips * share)
    context = inputs + outputs / 2.0
    each = batch * kv / KV_HEAD_BYTES * entry + (weights + batch * kv * context) / bandwidth
    return np.asarray(prompts + (outputs - 1.0) * each)


RDU_SERVING = Form(
    name="rdu-serving",
    operator_class="decode step, collective",
    columns=("input", "output", "batch", "weight_bytes", "kv_bytes", "parameters", "layers", "width"),
    configuration=("input", "batch"),
    parameters=(
        Parameter("first", "s", 1.5e-2, 1e-5, 1.0, "fixed time of a batch of prompts: launches and host"),
        Parameter("entry", "s", 2e-7, 1e-10, 1e-4, "time of one more sequence and KV head of a layer in a decode step"),
        Parameter("share", "1", 0.1, 0.005, 1.0, "share of the matrix peak on prompts"),
    ),
    predict=_serving,
    response="time_s",
    formula=(
        "first + batch · FLOPs / (peak · share) + (output − 1) · (batch · layers · KV heads · entry"
        " + (weights + batch · KV) / (0.85 bandwidth)); a time to the first token is a row with one token of output"
    ),
)


def _constant(values: FloatArray, columns: Columns, chip: ChipFigures) -> FloatArray:
    return np.full(len(columns["layers"]), values[0])


RDU_ALLOCATION = Form(
    name="rdu-allocation",
    operator_class="allocation",
    columns=("layers", "width"),
    configuration=("layers", "width"),
    parameters=(Parameter("share", "1", 0.7, 0.01, 1.0, "share of the compute units that the busiest section uses"),),
    predict=_constant,
    response="share",
    formula="share",
)

DATAFLOW_FORMS = (
    RDU_LAYERS,
    RDU_WIDTHS,
    RDU_HOST,
    RDU_ALLOCATION,
    WSE_STREAMING,
    IPU_PIPELINE,
    WSE_ELEMENTS,
    WSE_RATES,
    WSE_TRANSMISSION,
    WSE_UTILISATION,
    WSE_BUSY,
    RDU_SERVING,
)
