"""Times of whole prefills and decode steps on one GPU, from kernel fits: a check on rows that no fit has seen.

Kernels run one after the other.  Element-wise passes (norms, residuals, gates, rotary embedding) stream their
activations at the share of the bandwidth that convolutions reach.  A scan without a table on the chip is lent by
another chip's fit; its share of the peak is corrected by what the other scans reach on both chips.  GEMMs of a prefill
run under the power limit that its own duration brings about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from hydra_dse.calibration.kernel_forms import KERNEL_FORMS
from hydra_dse.calibration.nouns import ChipFigures
from hydra_dse.calibration.records import FittedChips
from hydra_dse.errors import Fault, InputError

FORMS = {form.name: form for form in KERNEL_FORMS}
BF16 = 2.0


@dataclass(frozen=True)
class TransformerShape:
    """A decoder-only transformer with gated MLPs."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    feed_forward: int
    vocabulary: int


@dataclass(frozen=True)
class Mamba2Shape:
    """A model of Mamba-2 blocks alone."""

    layers: int
    hidden: int
    heads: int
    width: int
    state: int
    groups: int
    chunk: int
    vocabulary: int


LLAMA_8B = TransformerShape(32, 4096, 32, 8, 14336, 128_256)
CODESTRAL_MAMBA_7B = Mamba2Shape(64, 4096, 128, 64, 128, 8, 256, 32_768)


@dataclass(frozen=True)
class Kernels:
    """Kernel times on a chip from fitted forms; what the chip has no fit for comes from `lender`'s fit."""

    fits: FittedChips
    chip: ChipFigures
    lender: str = "b200"
    busy_s: float = 0.0

    def seconds(self, key: str, columns: Mapping[str, float]) -> float:
        """Time of one kernel.

        Raises:
            InputError: neither chip has a fit of that key.
        """
        own = self.fits.chips.get(self.chip.name, {}).get(key)
        fitted = own or self.fits.chips.get(self.lender, {}).get(key)
        if fitted is None:
            raise InputError(Fault(f"no fit of {key} on {self.chip.name} or {self.lender}"))
        form = FORMS[fitted.form]
        values = np.array([fitted.parameters[parameter.name].value for parameter in form.parameters])
        if own is None:
            shares = [parameter.name == "share" for parameter in form.parameters]
            values = np.where(shares, values * self.correction(fitted.operator_class), values)
        row = {name: np.array([float(columns[name])]) for name in form.columns}
        return float(form.predict(values, row, self.chip)[0])

    def correction(self, operator_class: str) -> float:
        """Share of the peak that operators of a class reach here, over what they reach on the lender.

        The geometric mean over fits that both have; 1 without any.
        """
        here, there = self.fits.chips.get(self.chip.name, {}), self.fits.chips.get(self.lender, {})
        ratios = [
            fitted.parameters["share"].value / there[key].parameters["share"].value
            for key, fitted in here.items()
            if key in there and fitted.operator_class == operator_class and "share" in fitted.parameters
        ]
        return float(np.exp(np.mean(np.log(ratios)))) if ratios else 1.0

    def gemm(self, rows: float, inner: float, outer: float) -> float:
        """Time of a 16-bit GEMM."""
        return self.seconds(
            "gemm-bf16", {"m": rows, "n": outer, "k": inner, "bytes": BF16, "speed": 1.0, "busy": self.busy_s}
        )

    def passes(self, elements: float) -> float:
        """Time to read and write `elements` 16-bit activations once, at the share of the bandwidth of a convolution."""
        fitted = self.fits.chips[self.chip.name]["convolution-gdn"].parameters
        traffic = 2.0 * BF16 * elements / (self.chip.memory_bytes_per_s * fitted["streamed"].value)
        return fitted["floor"].value + traffic


def transformer_prefill_s(shape: TransformerShape, kernels: Kernels, batch: int, length: int) -> float:
    """Time of a prefill of `batch` prompts of `length` tokens."""
    cold = _transformer_prefill_s(shape, kernels, batch, length)
    return _transformer_prefill_s(shape, replace(kernels, busy_s=cold), batch, length)


def _transformer_prefill_s(shape: TransformerShape, kernels: Kernels, batch: int, length: int) -> float:
    tokens, head = float(batch * length), shape.hidden / shape.heads
    attention = {"batch": batch, "length": length, "heads": shape.heads, "kv_heads": shape.kv_heads}
    layer = _transformer_gemms(shape, kernels, tokens, head) + kernels.seconds("prefill-attention", attention)
    return shape.layers * (layer + _transformer_passes(shape, kernels, tokens)) + kernels.gemm(
        float(batch), shape.hidden, shape.vocabulary
    )


def transformer_step_s(shape: TransformerShape, kernels: Kernels, batch: int, context: float) -> float:
    """Time of a decode step of `batch` sequences at `context` tokens each, host aside."""
    tokens, head = float(batch), shape.hidden / shape.heads
    attention = {"batch": batch, "context": context, "heads": shape.heads, "kv_heads": shape.kv_heads}
    layer = _transformer_gemms(shape, kernels, tokens, head) + kernels.seconds("decode-attention", attention)
    return shape.layers * (layer + _transformer_passes(shape, kernels, tokens)) + kernels.gemm(
        tokens, shape.hidden, shape.vocabulary
    )


def mamba_prefill_s(shape: Mamba2Shape, kernels: Kernels, batch: int, length: int) -> float:
    """Time of a prefill of `batch` prompts of `length` tokens."""
    cold = _mamba_prefill_s(shape, kernels, batch, length)
    return _mamba_prefill_s(shape, replace(kernels, busy_s=cold), batch, length)


def _mamba_prefill_s(shape: Mamba2Shape, kernels: Kernels, batch: int, length: int) -> float:
    tokens = float(batch * length)
    size = {"heads": shape.heads, "groups": shape.groups, "width": shape.width, "state": shape.state}
    size |= {"chunk": shape.chunk, "padded": 1}
    scan = kernels.seconds("chunk-scan-mamba2", {"batch": batch, "length": length, **size})
    window = kernels.seconds("convolution-mamba2", {"batch": batch, "length": length, "channels": _channels(shape)})
    layer = _mamba_gemms(shape, kernels, tokens) + scan + window + _mamba_passes(shape, kernels, tokens)
    return shape.layers * layer + kernels.gemm(float(batch), shape.hidden, shape.vocabulary)


def mamba_step_s(shape: Mamba2Shape, kernels: Kernels, batch: int) -> float:
    """Time of a decode step of `batch` sequences, host aside."""
    tokens = float(batch)
    update = {"batch": batch, "heads": shape.heads, "width": shape.width, "state": shape.state}
    layer = _mamba_gemms(shape, kernels, tokens) + kernels.seconds("state-update-gdn", update)
    layer += kernels.seconds("convolution-update-mamba2", {"batch": batch, "channels": _channels(shape)})
    layer += _mamba_passes(shape, kernels, tokens)
    return shape.layers * layer + kernels.gemm(tokens, shape.hidden, shape.vocabulary)


def crossover_tokens(kernels: Kernels, low: float = 256.0, high: float = 262_144.0) -> float:
    """Prompt length from which one prompt of Codestral-Mamba-7B takes less time than one of Llama-3.1-8B."""
    for _ in range(40):
        middle = float(np.sqrt(low * high))
        transformer = transformer_prefill_s(LLAMA_8B, kernels, 1, round(middle))
        recurrent = mamba_prefill_s(CODESTRAL_MAMBA_7B, kernels, 1, round(middle))
        low, high = (middle, high) if transformer < recurrent else (low, middle)
    return float(np.sqrt(low * high))


def _transformer_gemms(shape: TransformerShape, kernels: Kernels, tokens: float, head: float) -> float:
    cached = 2.0 * shape.kv_heads * head
    return (
        kernels.gemm(tokens, shape.hidden, shape.hidden + cached)
        + kernels.gemm(tokens, shape.hidden, shape.hidden)
        + 2.0 * kernels.gemm(tokens, shape.hidden, shape.feed_forward)
        + kernels.gemm(tokens, shape.feed_forward, shape.hidden)
    )


def _transformer_passes(shape: TransformerShape, kernels: Kernels, tokens: float) -> float:
    # Two norms and two residual additions; rotary embedding; gate times up (two reads, one write).
    return 4.0 * kernels.passes(tokens * shape.hidden * 1.25) + kernels.passes(tokens * 1.5 * shape.feed_forward)


def _mamba_gemms(shape: Mamba2Shape, kernels: Kernels, tokens: float) -> float:
    inner = shape.heads * shape.width
    projected = 2 * inner + 2 * shape.groups * shape.state + shape.heads
    return kernels.gemm(tokens, shape.hidden, projected) + kernels.gemm(tokens, inner, shape.hidden)


def _mamba_passes(shape: Mamba2Shape, kernels: Kernels, tokens: float) -> float:
    # A norm, a residual addition, and the gated norm over the inner width (two reads, one write).
    gated = kernels.passes(tokens * 1.5 * shape.heads * shape.width)
    return 2.0 * kernels.passes(tokens * shape.hidden * 1.25) + gated


def _channels(shape: Mamba2Shape) -> int:
    return shape.heads * shape.width + 2 * shape.groups * shape.state
